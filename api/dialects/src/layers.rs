//! A dialect file over the one it is based on, down to the default dialect, which is the table of the codec.

use std::collections::BTreeMap;

use cardswitch_iso8583::{FIELDS, Length, line_of};
use toml::Spanned;

use crate::file::{
    BytesName, CountedName, DialectFile, DigitsName, FieldEntry, FieldTable, FillerName,
    PrefixName, TextName, Version, read,
};
use crate::{DialectError, shipped};

/// The value of `base` in a file that is based on nothing.
const NOTHING: &str = "none";
/// The longest chain of shipped files, each based on the next.
const BASES_MAX: usize = 4;

/// The settings of a file together with those below it.
#[derive(PartialEq, Eq)]
pub(crate) struct LayeredSettings {
    pub(crate) version: Version,
    pub(crate) text: TextName,
    pub(crate) mti: DigitsName,
    pub(crate) digits: DigitsName,
    pub(crate) prefix: PrefixName,
    pub(crate) bitmap: BytesName,
    pub(crate) bytes: BytesName,
    pub(crate) filler: FillerName,
    pub(crate) counted: CountedName,
    pub(crate) length: String,
    pub(crate) tpdu: bool,
    pub(crate) types: BTreeMap<String, String>,
    /// By number, each with its line where it stands in the file itself.
    pub(crate) fields: BTreeMap<u8, (Option<usize>, FieldTable)>,
}

impl LayeredSettings {
    /// The settings of a file's text.
    /// Errors: a setting that a file cannot have, or a missing base.
    pub(crate) fn of(file: &str, text: &str) -> Result<Self, DialectError> {
        Self::within(file, text, BASES_MAX)
    }

    fn within(file: &str, text: &str, bases_left: usize) -> Result<Self, DialectError> {
        let said = read(file, text)?;
        let refuse = |line: Option<usize>, reason: String| DialectError {
            file: file.to_owned(),
            line,
            reason,
        };
        let base = said.base.as_ref().map_or("default", |base| base.get_ref().as_str());
        let mut layered = match (base, shipped(base)) {
            (NOTHING, _) => Self { fields: BTreeMap::new(), ..Self::of_the_codec() },
            ("default", _) => Self::of_the_codec(),
            (name, Some(text)) if bases_left > 0 => {
                let mut below = Self::within(name, text, bases_left - 1)?;
                below.fields.values_mut().for_each(|(line, _)| *line = None);
                below
            }
            _ => {
                let line = said.base.as_ref().map(|base| line_of(text, base.span().start));
                return Err(refuse(
                    line,
                    format!("base `{base}` is no shipped dialect, nor `none`"),
                ));
            }
        };
        layered.put_over(said, text).map_err(|(line, reason)| refuse(Some(line), reason))?;
        Ok(layered)
    }

    fn put_over(&mut self, said: DialectFile, text: &str) -> Result<(), (usize, String)> {
        let DialectFile { version, mti, digits, prefix, bitmap, bytes, .. } = said;
        self.version = version.unwrap_or(self.version);
        self.text = said.text.unwrap_or(self.text);
        self.mti = mti.unwrap_or(self.mti);
        self.digits = digits.unwrap_or(self.digits);
        self.prefix = prefix.unwrap_or(self.prefix);
        self.bitmap = bitmap.unwrap_or(self.bitmap);
        self.bytes = bytes.unwrap_or(self.bytes);
        self.filler = said.filler.unwrap_or(self.filler);
        self.counted = said.counted.unwrap_or(self.counted);
        self.tpdu = said.tpdu.unwrap_or(self.tpdu);
        if let Some(length) = said.length {
            self.length = length.into_inner();
        }
        if let Some(types) = said.types {
            self.types = types.into_iter().map(|(key, own)| (key, own.into_inner())).collect();
        }
        for (number, entry) in said.fields {
            let (line, field) = entry_of(&number, entry, text)?;
            self.fields.insert(field, line);
        }
        Ok(())
    }

    /// Whether all is spelled as the switch itself does, whatever the framing.
    pub(crate) fn is_default_spelling(&self) -> bool {
        let (length, tpdu) = (self.length.clone(), self.tpdu);
        *self == Self { length, tpdu, ..Self::of_the_codec() }
    }

    /// The default spelling, from the codec's own table.
    fn of_the_codec() -> Self {
        let fields = FIELDS.iter().skip(2).map(|spec| {
            let dots = match spec.length {
                Length::Fixed => "",
                Length::LlVar => "..",
                Length::LllVar => "...",
            };
            let format = format!("{} {dots}{}", spec.class.code(), spec.len_max);
            (spec.number, (None, FieldTable { format, ..FieldTable::default() }))
        });
        Self {
            version: Version::Of1987,
            text: TextName::Ascii,
            mti: DigitsName::Text,
            digits: DigitsName::Text,
            prefix: PrefixName::Text,
            bitmap: BytesName::Binary,
            bytes: BytesName::Binary,
            filler: FillerName::Left,
            counted: CountedName::Characters,
            length: "binary2".to_owned(),
            tpdu: false,
            types: BTreeMap::new(),
            fields: fields.collect(),
        }
    }
}

type NumberedField = (Option<usize>, FieldTable);

/// A field with its line, and its number.
fn entry_of(
    number: &str,
    entry: Spanned<FieldEntry>,
    text: &str,
) -> Result<(NumberedField, u8), (usize, String)> {
    let line = line_of(text, entry.span().start);
    let parsed = number.parse().ok().filter(|number| (2..=128).contains(number));
    let field =
        parsed.ok_or((line, format!("field {number}: fields have numbers from 2 to 128")))?;
    Ok(((Some(line), entry.into_inner().0), field))
}
