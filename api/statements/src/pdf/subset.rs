//! A font as a document embeds it: the glyphs that it shows, their widths, and the text of each.
//!
//! The code of a glyph is its place in the subset.
//! Source: ISO 32000-1, 9.7 (composite fonts), 9.8 (font descriptors), 9.10.3 (ToUnicode).

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use pdf_writer::types::{CidFontType, FontFlags, SystemInfo, UnicodeCmap};
use pdf_writer::{Filter, Name, Pdf, Rect, Ref, Str};
use siphasher::sip::SipHasher13;
use subsetter::GlyphRemapper;

use super::fonts::{Face, NO_GLYPH};
use super::text::Glyph;
use crate::StatementError;

const IDENTITY: SystemInfo =
    SystemInfo { registry: Str(b"Adobe"), ordering: Str(b"Identity"), supplement: 0 };
/// Letters before the name of a font of which a file has a part.
const TAG_LEN: usize = 6;
/// The default level of zlib.
const COMPRESSION_LEVEL: u8 = 6;

/// The glyphs of a font that were shown.
#[derive(Debug, Default)]
pub(super) struct Subset {
    codes: GlyphRemapper,
    /// The text of a code.
    texts: BTreeMap<u16, String>,
}

impl Subset {
    pub(super) fn code(&mut self, glyph: u16) -> u16 {
        self.codes.remap(glyph)
    }

    /// How many of the first glyphs their codes alone give the text of; none where the first cluster
    /// needs its text beside it.
    pub(super) fn plain_len(&mut self, glyphs: &[Glyph], text: &str, is_reversed: bool) -> usize {
        let mut len = 0;
        for cluster in glyphs.chunk_by(Glyph::is_of_cluster) {
            let [first, others @ ..] = cluster else { break };
            if len > 0 && !others.is_empty() {
                break;
            }
            // Readers that ignore `ActualText` find the text of a cluster at its first glyph.
            let text = &text[first.text_range.clone()];
            if !self.reads_as(first.id, text) || !others.is_empty() {
                break;
            }
            len += 1;
            // Source: ISO 32000-1, 14.8.2.3.3: text in reverse has no spaces within.
            if is_reversed && len > 1 && text == " " {
                break;
            }
        }
        len
    }

    /// Whether the code of a glyph has this text; one that had none gets it.
    fn reads_as(&mut self, glyph: u16, text: &str) -> bool {
        // The box for letters that no font has stands for any of them.
        glyph != NO_GLYPH
            && self.texts.entry(self.codes.remap(glyph)).or_insert_with(|| text.to_owned()) == text
    }

    /// Writes the font; pages refer to it by what it returns.
    /// Errors: the file of the font cannot be read.
    pub(super) fn embed(
        &self,
        face: &Face,
        pdf: &mut Pdf,
        next_ref: &mut Ref,
    ) -> Result<Ref, StatementError> {
        let [font, cid_font, descriptor, program, to_unicode] =
            std::array::from_fn(|_| next_ref.bump());
        let name = format!("{}+{}", self.tag(), face.name()?);
        let name = Name(name.as_bytes());
        pdf.type0_font(font)
            .base_font(name)
            .encoding_predefined(Name(b"Identity-H"))
            .descendant_font(cid_font)
            .to_unicode(to_unicode);
        let widths = self.codes.remapped_gids().map(|glyph| 1_000.0 * face.advance(glyph));
        pdf.cid_font(cid_font)
            .subtype(CidFontType::Type2)
            .base_font(name)
            .system_info(IDENTITY)
            .font_descriptor(descriptor)
            .cid_to_gid_map_predefined(Name(b"Identity"))
            .widths()
            .consecutive(0, widths);
        let shape = face.measures()?;
        let [left, bottom, right, top] = shape.bounds;
        pdf.font_descriptor(descriptor)
            .name(name)
            .flags(FontFlags::SYMBOLIC)
            .bbox(Rect::new(left, bottom, right, top))
            .italic_angle(0.0)
            .ascent(shape.ascent)
            .descent(shape.descent)
            .cap_height(shape.cap_height)
            .stem_v(shape.stem_width)
            .font_file2(program);
        self.write_program(face, pdf, program)?;
        let mut texts = UnicodeCmap::new(Name(b"Custom"), IDENTITY);
        for (code, text) in &self.texts {
            texts.pair_with_multiple(*code, text.chars());
        }
        let texts = compress(texts.finish().as_slice());
        pdf.stream(to_unicode, &texts).filter(Filter::FlateDecode);
        Ok(font)
    }

    fn write_program(&self, face: &Face, pdf: &mut Pdf, id: Ref) -> Result<(), StatementError> {
        let program = subsetter::subset(face.file, 0, &self.codes).map_err(|error| {
            StatementError::Pdf { what: format!("a font cannot be embedded: {error}") }
        })?;
        let compressed = compress(&program);
        pdf.stream(id, &compressed)
            .filter(Filter::FlateDecode)
            .pair(Name(b"Length1"), i32::try_from(program.len()).unwrap_or(i32::MAX));
        Ok(())
    }

    /// Six letters that differ for each subset: programs that join documents tell fonts by them.
    fn tag(&self) -> String {
        let mut hasher = SipHasher13::new();
        self.codes.hash(&mut hasher);
        let bytes = hasher.finish().to_be_bytes();
        bytes.into_iter().take(TAG_LEN).map(|byte| char::from(b'A' + byte % 26)).collect()
    }
}

/// The bytes as `FlateDecode` reads them.
pub(super) fn compress(bytes: &[u8]) -> Vec<u8> {
    miniz_oxide::deflate::compress_to_vec_zlib(bytes, COMPRESSION_LEVEL)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A glyph and the place of its letter.
    type GlyphPlace = (u16, usize);

    #[test]
    fn text_stands_beside_glyphs_whose_codes_cannot_say_it() {
        let text = "abcde f";
        let row = |glyphs: &[GlyphPlace]| -> Vec<Glyph> {
            let place = |&(id, at)| Glyph {
                id,
                x_advance: 1.0,
                x_offset: 0.0,
                y_offset: 0.0,
                text_range: at..at + 1,
            };
            glyphs.iter().map(place).collect()
        };
        let mut subset = Subset::default();
        let rows: [(&str, &[GlyphPlace], usize); 8] = [
            ("each glyph has a text", &[(11, 0), (12, 1)], 2),
            ("the same again", &[(12, 1), (11, 0)], 2),
            ("the second had another text", &[(11, 0), (12, 2)], 1),
            ("the first had another text", &[(12, 2), (11, 0)], 0),
            ("two glyphs of a cluster", &[(13, 3), (14, 3), (11, 0)], 0),
            ("a cluster behind a glyph", &[(11, 0), (13, 3), (14, 3)], 1),
            ("the second glyph of a cluster has no text yet", &[(14, 4)], 1),
            ("the box for what no font has", &[(NO_GLYPH, 0)], 0),
        ];
        for (name, glyphs, expected) in rows {
            assert_eq!(subset.plain_len(&row(glyphs), text, false), expected, "{name}");
        }
        let reversed = row(&[(16, 6), (15, 5), (14, 4)]);
        assert_eq!(subset.plain_len(&reversed, text, true), 2, "a space ends what is reversed");
        assert_eq!(subset.texts.values().collect::<Vec<_>>(), ["a", "b", "d", "e", "f", " "]);
        let codes = [11, 12, 13, 14, 16, 15].map(|glyph| subset.code(glyph));
        assert_eq!(codes, [1, 2, 3, 4, 5, 6], "in the order in which they were shown");
    }
}
