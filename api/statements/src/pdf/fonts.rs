//! The fonts of a document, and which of them has a letter.
//!
//! All are compiled in, so that the same lines look the same wherever they are drawn. The first
//! that has a letter draws it; only what is used is embedded.

use std::cell::OnceCell;
use std::sync::LazyLock;

use harfrust::{ShaperData, UnicodeBuffer};
use miniz_oxide::inflate::decompress_to_vec_zlib;
use read_fonts::tables::cmap::CmapSubtable;
use read_fonts::tables::hmtx::Hmtx;
use read_fonts::types::{GlyphId, NameId};
use read_fonts::{FontRef, ReadError, TableProvider};

use crate::StatementError;

/// How heavy letters are. Other scripts than Latin, Greek and Cyrillic have one weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weight {
    Regular,
    Bold,
}

macro_rules! font {
    ($file:literal) => {
        include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/fonts/", $file, ".ttf.zlib"))
    };
}

const REGULAR: usize = 0;
const BOLD: usize = 1;
/// In the order in which they are asked for a letter, but for the weight that is not wanted.
const PACKED_FILES: [&[u8]; 22] = [
    font!("NotoSans-Regular"),
    font!("NotoSans-Bold"),
    font!("NotoSansArabic-Regular"),
    font!("NotoSansHebrew-Regular"),
    font!("NotoSansArmenian-Regular"),
    font!("NotoSansGeorgian-Regular"),
    font!("NotoSansEthiopic-Regular"),
    font!("NotoSansDevanagari-Regular"),
    font!("NotoSansBengali-Regular"),
    font!("NotoSansGurmukhi-Regular"),
    font!("NotoSansGujarati-Regular"),
    font!("NotoSansOriya-Regular"),
    font!("NotoSansTamil-Regular"),
    font!("NotoSansTelugu-Regular"),
    font!("NotoSansKannada-Regular"),
    font!("NotoSansMalayalam-Regular"),
    font!("NotoSansSinhala-Regular"),
    font!("NotoSansThai-Regular"),
    font!("NotoSansLao-Regular"),
    font!("NotoSansKhmer-Regular"),
    font!("NotoSansMyanmar-Regular"),
    font!("DroidSansFallback"),
];
/// Unpacked when the first document is drawn. A font that cannot be unpacked is empty, so no font.
static FILES: LazyLock<[Vec<u8>; PACKED_FILES.len()]> =
    LazyLock::new(|| PACKED_FILES.map(|packed| decompress_to_vec_zlib(packed).unwrap_or_default()));
/// The glyph of letters that a font does not have.
pub(super) const NO_GLYPH: u16 = 0;
/// Letters below this one stand for themselves: left to right, unjoined, at most one mark.
const PLAIN_END: u32 = 0x0300;

/// The place of a font among those of the document.
pub(super) type FaceIndex = usize;

pub(super) struct Fonts {
    faces: Vec<Face>,
    /// The plain letters of either weight, where the font has them.
    plain: [Vec<Option<FontLetter>>; 2],
}

/// A font as it is measured and shaped, and as it is embedded.
pub(super) struct Face {
    font: FontRef<'static>,
    charmap: CmapSubtable<'static>,
    widths: Hmtx<'static>,
    /// How many units of the font make an em.
    pub(super) units_per_em: f32,
    shaper: OnceCell<ShaperData>,
    /// The font's file.
    pub(super) file: &'static [u8],
}

/// How large the letters of a font are. Units: thousandths of an em.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measures {
    /// Left, bottom, right, top.
    pub(super) bounds: [f32; 4],
    pub(super) ascent: f32,
    /// Below zero.
    pub(super) descent: f32,
    pub(super) cap_height: f32,
    pub(super) stem_width: f32,
}

/// A letter of a font. Units: ems.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct FontLetter {
    pub(super) glyph: u16,
    pub(super) advance: f32,
}

impl Fonts {
    /// Opens the fonts.
    /// Errors: a file is no font.
    pub(super) fn open() -> Result<Self, StatementError> {
        let faces: Vec<Face> =
            FILES.iter().map(|file| Face::open(file)).collect::<Result<_, _>>()?;
        let plain = [REGULAR, BOLD].map(|face| plain_letters(&faces[face]));
        Ok(Self { faces, plain })
    }

    pub(super) fn face(&self, index: FaceIndex) -> &Face {
        &self.faces[index]
    }

    /// The font of plain letters.
    pub(super) const fn plain_face(weight: Weight) -> FaceIndex {
        match weight {
            Weight::Regular => REGULAR,
            Weight::Bold => BOLD,
        }
    }

    /// A letter that stands for itself; none for all that need more thought.
    pub(super) fn plain_letter(&self, char: char, weight: Weight) -> Option<FontLetter> {
        self.plain[Self::plain_face(weight)].get(char as usize).copied().flatten()
    }

    /// The first font that has a letter. Marks and joiners stay with the letter before them.
    pub(super) fn face_of(
        &self,
        char: char,
        before: Option<FaceIndex>,
        weight: Weight,
    ) -> FaceIndex {
        let has = |face: FaceIndex| self.faces[face].letter(char).is_some();
        let plain = Self::plain_face(weight);
        if let Some(before) = before
            && is_attached(char)
            && has(before)
        {
            return before;
        }
        let others = BOLD + 1..self.faces.len();
        // A letter that no font has shows as the box that the plain font has for it.
        std::iter::once(plain).chain(others).find(|face| has(*face)).unwrap_or(plain)
    }

    /// How wide a letter is by itself. Units: ems.
    pub(super) fn advance_of(&self, char: char, weight: Weight) -> f32 {
        if let Some(letter) = self.plain_letter(char, weight) {
            return letter.advance;
        }
        let face = self.face(self.face_of(char, None, weight));
        face.letter(char).unwrap_or_else(|| face.missing()).advance
    }
}

cardswitch_engine::opaque!(Fonts);

impl Face {
    fn open(file: &'static [u8]) -> Result<Self, StatementError> {
        let font = FontRef::new(file)?;
        let cmap = font.cmap()?;
        let (_, _, charmap) = cmap.best_subtable().ok_or(ReadError::MalformedData("no letters"))?;
        Ok(Self {
            charmap,
            widths: font.hmtx()?,
            units_per_em: f32::from(font.head()?.units_per_em()),
            font,
            shaper: OnceCell::new(),
            file,
        })
    }

    /// The name that PDF calls a font by.
    /// Errors: the file has none.
    pub(super) fn name(&self) -> Result<String, StatementError> {
        let names = self.font.name()?;
        let mut records = names.name_record().iter();
        let record = records.find(|record| record.name_id() == NameId::POSTSCRIPT_NAME);
        let record = record.ok_or(ReadError::MalformedData("no name"))?;
        Ok(record.string(names.string_data())?.to_string())
    }

    /// How large its letters are.
    /// Errors: the file does not say so.
    pub(super) fn measures(&self) -> Result<Measures, StatementError> {
        let head = self.font.head()?;
        let os2 = self.font.os2()?;
        let scaled = |units: i16| 1_000.0 * f32::from(units) / self.units_per_em;
        Ok(Measures {
            bounds: [head.x_min(), head.y_min(), head.x_max(), head.y_max()].map(scaled),
            ascent: scaled(os2.s_typo_ascender()),
            descent: scaled(os2.s_typo_descender()),
            cap_height: scaled(os2.s_cap_height().unwrap_or_else(|| os2.s_typo_ascender())),
            // No font says it; a guess by weight that other writers of PDF make too.
            stem_width: 10.0 + 0.244 * (f32::from(os2.us_weight_class()) - 50.0),
        })
    }

    /// How far the next glyph stands from this one. Units: ems.
    pub(super) fn advance(&self, glyph: u16) -> f32 {
        let units = self.widths.advance(GlyphId::from(glyph)).unwrap_or_default();
        f32::from(units) / self.units_per_em
    }

    /// Joins, orders and places the letters of a text in one script.
    pub(super) fn shape(&self, buffer: UnicodeBuffer) -> harfrust::GlyphBuffer {
        let shaper = self.shaper.get_or_init(|| ShaperData::new(&self.font));
        shaper.shaper(&self.font).build().shape(buffer, harfrust::ShapeOptions::new())
    }

    fn letter(&self, char: char) -> Option<FontLetter> {
        let glyph = u16::try_from(self.charmap.map_codepoint(char)?.to_u32()).ok()?;
        Some(self.letter_of(glyph))
    }

    fn missing(&self) -> FontLetter {
        self.letter_of(NO_GLYPH)
    }

    fn letter_of(&self, glyph: u16) -> FontLetter {
        FontLetter { glyph, advance: self.advance(glyph) }
    }
}

impl From<ReadError> for StatementError {
    fn from(error: ReadError) -> Self {
        Self::Pdf { what: format!("a font: {error}") }
    }
}

fn plain_letters(face: &Face) -> Vec<Option<FontLetter>> {
    (0..PLAIN_END).map(|code| face.letter(char::from_u32(code)?)).collect()
}

/// Marks, variation selectors and joiners that scripts share.
const fn is_attached(char: char) -> bool {
    matches!(char, '\u{300}'..='\u{36f}' | '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}')
}
