//! The fonts of a document, and which of them has a letter.
//!
//! All are compiled in, so that the same lines look the same wherever they are drawn. The first
//! that has a letter draws it; only what is used is embedded.

use std::cell::OnceCell;

use harfrust::{ShaperData, UnicodeBuffer};
use krilla::text::Font;
use skrifa::charmap::Charmap;
use skrifa::instance::{LocationRef, Size};
use skrifa::metrics::GlyphMetrics;
use skrifa::{FontRef, GlyphId, MetadataProvider};

use crate::StatementError;

/// How heavy letters are. Other scripts than Latin, Greek and Cyrillic have one weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weight {
    Regular,
    Bold,
}

macro_rules! font {
    ($file:literal) => {
        include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/fonts/", $file))
    };
}

const REGULAR: usize = 0;
const BOLD: usize = 1;
/// In the order in which they are asked for a letter, but for the weight that is not wanted.
const FILES: [&[u8]; 22] = [
    font!("NotoSans-Regular.ttf"),
    font!("NotoSans-Bold.ttf"),
    font!("NotoSansArabic-Regular.ttf"),
    font!("NotoSansHebrew-Regular.ttf"),
    font!("NotoSansArmenian-Regular.ttf"),
    font!("NotoSansGeorgian-Regular.ttf"),
    font!("NotoSansEthiopic-Regular.ttf"),
    font!("NotoSansDevanagari-Regular.ttf"),
    font!("NotoSansBengali-Regular.ttf"),
    font!("NotoSansGurmukhi-Regular.ttf"),
    font!("NotoSansGujarati-Regular.ttf"),
    font!("NotoSansOriya-Regular.ttf"),
    font!("NotoSansTamil-Regular.ttf"),
    font!("NotoSansTelugu-Regular.ttf"),
    font!("NotoSansKannada-Regular.ttf"),
    font!("NotoSansMalayalam-Regular.ttf"),
    font!("NotoSansSinhala-Regular.ttf"),
    font!("NotoSansThai-Regular.ttf"),
    font!("NotoSansLao-Regular.ttf"),
    font!("NotoSansKhmer-Regular.ttf"),
    font!("NotoSansMyanmar-Regular.ttf"),
    font!("DroidSansFallback.ttf"),
];
/// Letters below this one stand for themselves: left to right, unjoined, at most one mark.
const PLAIN_END: u32 = 0x0300;

/// The place of a font among those of the document.
pub(super) type FaceIndex = usize;

/// All fonts.
pub(super) struct Fonts {
    faces: Vec<Face>,
    /// The plain letters of either weight, where the font has them.
    plain: [Vec<Option<Letter>>; 2],
}

/// A font as it is measured and shaped, and as it is embedded.
pub(super) struct Face {
    font: FontRef<'static>,
    charmap: Charmap<'static>,
    metrics: GlyphMetrics<'static>,
    units_per_em: f32,
    shaper: OnceCell<ShaperData>,
    embedded: OnceCell<Option<Font>>,
    file: &'static [u8],
}

/// A letter of a font. Units: ems.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Letter {
    pub(super) glyph: GlyphId,
    pub(super) advance: f32,
}

impl Fonts {
    /// Opens the fonts.
    /// Errors: a file is no font.
    pub(super) fn open() -> Result<Self, StatementError> {
        let faces: Vec<Face> = FILES.into_iter().map(Face::open).collect::<Result<_, _>>()?;
        let plain = [REGULAR, BOLD].map(|face| plain_letters(&faces[face]));
        Ok(Self { faces, plain })
    }

    /// A font by its place.
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
    pub(super) fn plain_letter(&self, char: char, weight: Weight) -> Option<Letter> {
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
        // What no font has shows as the box that the plain one has for it.
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

impl std::fmt::Debug for Fonts {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Fonts").field("faces", &self.faces.len()).finish()
    }
}

impl Face {
    fn open(file: &'static [u8]) -> Result<Self, StatementError> {
        let font = FontRef::new(file)
            .map_err(|error| StatementError::Pdf { what: format!("a font: {error}") })?;
        let (size, location) = (Size::unscaled(), LocationRef::default());
        Ok(Self {
            charmap: font.charmap(),
            metrics: font.glyph_metrics(size, location),
            units_per_em: f32::from(font.metrics(size, location).units_per_em),
            font,
            shaper: OnceCell::new(),
            embedded: OnceCell::new(),
            file,
        })
    }

    /// The font as the document embeds it.
    /// Errors: the file is no font that can be embedded.
    pub(super) fn embedded(&self) -> Result<Font, StatementError> {
        let font = self.embedded.get_or_init(|| Font::new(self.file.into(), 0));
        let what = || StatementError::Pdf { what: "a font cannot be embedded".to_owned() };
        font.clone().ok_or_else(what)
    }

    /// Joins, orders and places the letters of a text in one script.
    pub(super) fn shape(&self, buffer: UnicodeBuffer) -> harfrust::GlyphBuffer {
        let shaper = self.shaper.get_or_init(|| ShaperData::new(&self.font));
        shaper.shaper(&self.font).build().shape(buffer, harfrust::ShapeOptions::new())
    }

    /// How many units of the font make an em.
    pub(super) const fn units_per_em(&self) -> f32 {
        self.units_per_em
    }

    fn letter(&self, char: char) -> Option<Letter> {
        self.charmap.map(char).map(|glyph| self.letter_of(glyph))
    }

    fn missing(&self) -> Letter {
        self.letter_of(GlyphId::NOTDEF)
    }

    fn letter_of(&self, glyph: GlyphId) -> Letter {
        let advance = self.metrics.advance_width(glyph).unwrap_or_default();
        Letter { glyph, advance: advance / self.units_per_em }
    }
}

fn plain_letters(face: &Face) -> Vec<Option<Letter>> {
    (0..PLAIN_END).map(|code| face.letter(char::from_u32(code)?)).collect()
}

/// Marks, variation selectors and joiners that scripts share.
const fn is_attached(char: char) -> bool {
    matches!(char, '\u{300}'..='\u{36f}' | '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}')
}
