//! The PDF file of a statement: its pages, what is drawn on them, what the file says of itself.
//!
//! Glyphs are shown by their codes in an embedded font. The font's table gives the text of a code;
//! where it cannot (a cluster of several glyphs, a glyph of several texts), `ActualText` gives the
//! text beside the glyphs. So text of every script can be copied and searched.
//! INVARIANT: the same drawing makes the same bytes.
//! Source: ISO 32000-1, 9.4 (text), 9.10 (extraction of text), 14.9.4 (ActualText).

use std::collections::BTreeMap;

use chrono::{DateTime, Datelike, Timelike, Utc};
use pdf_writer::{Content, Date, Filter, Finish, Name, Pdf, Rect, Ref, Settings, Str, TextStr};
use siphasher::sip128::SipHasher13;
use xmp_writer::{LangId, Timezone, XmpWriter};

use super::fonts::{Face, FaceIndex, Fonts};
use super::layout::{SHEET_HEIGHT, SHEET_WIDTH};
use super::subset::{Subset, compress};
use super::text::{Glyph, Run};
use crate::StatementError;

/// Pages refer to their tree before it is written.
const PAGE_TREE: Ref = Ref::new(1);
/// Smaller differences between two places are left out. Units: ems.
const SHIFT_MIN: f32 = 0.000_001;
const COMPACT: Settings = Settings { pretty: false };
const CREATOR: &str = "cardswitch";
const LANGUAGE: &str = "en";

/// The file as far as it is written.
pub(super) struct PdfFile<'f> {
    pdf: Pdf,
    next_ref: Ref,
    pages: Vec<Ref>,
    /// The drawing on the page at hand.
    content: Content,
    fonts: &'f Fonts,
    subsets: BTreeMap<FaceIndex, Subset>,
}

/// The metadata that viewers show and libraries index.
#[derive(Debug)]
pub(super) struct FileInfo {
    pub(super) title: String,
    pub(super) author: String,
    pub(super) created_at: DateTime<Utc>,
}

impl<'f> PdfFile<'f> {
    /// A file without pages.
    pub(super) fn new(fonts: &'f Fonts) -> Self {
        Self {
            pdf: Pdf::with_settings(COMPACT),
            next_ref: Ref::new(PAGE_TREE.get() + 1),
            pages: Vec::new(),
            content: Content::with_settings(COMPACT),
            fonts,
            subsets: BTreeMap::new(),
        }
    }

    /// Sets the grey of all that is drawn next, between 0 (black) and 255 (white).
    pub(super) fn set_grey(&mut self, shade: u8) {
        self.content.set_fill_gray(f32::from(shade) / 255.0);
    }

    /// Fills a rectangle. Units: points, from the upper left corner of the page.
    pub(super) fn fill_rect(&mut self, x: f32, y: f32, width: f32, height: f32) {
        self.content.rect(x, SHEET_HEIGHT - y - height, width, height).fill_nonzero();
    }

    /// Shows letters of a text. Units: points, from the upper left corner of the page.
    pub(super) fn show(&mut self, text: &str, run: &Run, (x, y): (f32, f32), size: f32) {
        let subset = self.subsets.entry(run.face).or_default();
        let mut line = ShownLine {
            content: &mut self.content,
            face: self.fonts.face(run.face),
            size,
            x,
            y: SHEET_HEIGHT - y,
        };
        line.content.begin_text().set_font(Name(resource_name(run.face).as_bytes()), size);
        let is_reversed = run.is_reversed();
        let mut rest = run.glyphs.as_slice();
        while let Some(first) = rest.first() {
            let plain = subset.plain_len(rest, text, is_reversed);
            let actual_text = (plain == 0).then(|| &text[first.text_range.clone()]);
            let len = if plain == 0 { cluster_len(rest) } else { plain };
            let (piece, others) = rest.split_at(len);
            line.show_marked(piece, subset, actual_text, is_reversed);
            rest = others;
        }
        line.content.end_text();
    }

    /// Ends the page at hand; later drawing goes to another page.
    pub(super) fn end_page(&mut self) {
        let content = std::mem::replace(&mut self.content, Content::with_settings(COMPACT));
        let (page, contents) = (self.next_ref.bump(), self.next_ref.bump());
        self.pdf.page(page).parent(PAGE_TREE).contents(contents);
        let bytes = compress(content.finish().as_slice());
        self.pdf.stream(contents, &bytes).filter(Filter::FlateDecode);
        self.pages.push(page);
    }

    /// The bytes of the file.
    /// Errors: a font cannot be embedded.
    pub(super) fn finish(mut self, info: &FileInfo) -> Result<Vec<u8>, StatementError> {
        let mut embedded = Vec::with_capacity(self.subsets.len());
        for (face, subset) in &self.subsets {
            let font = subset.embed(self.fonts.face(*face), &mut self.pdf, &mut self.next_ref)?;
            embedded.push((resource_name(*face), font));
        }
        let mut tree = self.pdf.pages(PAGE_TREE);
        tree.count(i32::try_from(self.pages.len()).unwrap_or(i32::MAX));
        tree.kids(self.pages.iter().copied());
        tree.media_box(Rect::new(0.0, 0.0, SHEET_WIDTH, SHEET_HEIGHT));
        let fonts = embedded.iter().map(|(name, font)| (Name(name.as_bytes()), *font));
        tree.resources().fonts().pairs(fonts);
        tree.finish();
        let metadata = self.describe(info);
        let mut catalog = self.pdf.catalog(self.next_ref.bump());
        catalog.pages(PAGE_TREE).metadata(metadata).lang(TextStr(LANGUAGE));
        catalog.finish();
        let id = SipHasher13::new().hash(self.pdf.as_bytes()).as_bytes().to_vec();
        self.pdf.set_file_id((id.clone(), id));
        Ok(self.pdf.finish())
    }

    /// Document information and XMP say the same: programs read one or the other.
    fn describe(&mut self, info: &FileInfo) -> Ref {
        let at = info.created_at;
        let small = |number: u32| u8::try_from(number).unwrap_or_default();
        let year = u16::try_from(at.year()).unwrap_or_default();
        let [month, day] = [at.month(), at.day()].map(small);
        let [hour, minute, second] = [at.hour(), at.minute(), at.second()].map(small);
        let date = Date::new(year).month(month).day(day).hour(hour).minute(minute).second(second);
        let date = date.utc_offset_hour(0).utc_offset_minute(0);
        let mut document_info = self.pdf.document_info(self.next_ref.bump());
        document_info.title(TextStr(&info.title)).author(TextStr(&info.author));
        document_info.creator(TextStr(CREATOR)).creation_date(date).modified_date(date);
        document_info.finish();
        let date = xmp_writer::DateTime {
            year,
            month: Some(month),
            day: Some(day),
            hour: Some(hour),
            minute: Some(minute),
            second: Some(second),
            timezone: Some(Timezone::Utc),
        };
        let mut xmp = XmpWriter::new();
        xmp.title([(None, info.title.as_str())]).creator([info.author.as_str()]);
        xmp.creator_tool(CREATOR).language([LangId(LANGUAGE)]);
        xmp.create_date(date).modify_date(date).format("application/pdf").pdf_version("1.7");
        let metadata = self.next_ref.bump();
        self.pdf.metadata(metadata, xmp.finish(None).as_bytes());
        metadata
    }
}

/// A line of glyphs of one font, as far as it is shown. Units: points, from the lower left corner.
struct ShownLine<'c> {
    content: &'c mut Content,
    face: &'c Face,
    size: f32,
    x: f32,
    y: f32,
}

impl ShownLine<'_> {
    fn show_marked(
        &mut self,
        piece: &[Glyph],
        subset: &mut Subset,
        actual_text: Option<&str>,
        is_reversed: bool,
    ) {
        if let Some(text) = actual_text {
            let mut span = self.content.begin_marked_content_with_properties(Name(b"Span"));
            span.properties().actual_text(TextStr(text));
        }
        if is_reversed {
            self.content.begin_marked_content(Name(b"ReversedChars"));
        }
        for level in piece.chunk_by(|one, next| one.y_offset == next.y_offset) {
            self.show_level(level, subset);
        }
        for _ in 0..u8::from(actual_text.is_some()) + u8::from(is_reversed) {
            self.content.end_marked_content();
        }
    }

    /// Shows glyphs that stand on one height.
    fn show_level(&mut self, level: &[Glyph], subset: &mut Subset) {
        let raised = level.first().map_or(0.0, |glyph| glyph.y_offset * self.size);
        self.content.set_text_matrix([1.0, 0.0, 0.0, 1.0, self.x, self.y + raised]);
        self.x += level.iter().map(|glyph| glyph.x_advance).sum::<f32>() * self.size;
        // Acrobat loses text at the end of a line where one glyph is shown as a list.
        if let [glyph] = level
            && glyph.x_offset.abs() < SHIFT_MIN
        {
            self.content.show(Str(&subset.code(glyph.id).to_be_bytes()));
            return;
        }
        let mut list = self.content.show_positioned();
        let mut items = list.items();
        let (mut codes, mut shift) = (Vec::new(), 0.0);
        for glyph in level {
            shift += glyph.x_offset;
            if shift.abs() > SHIFT_MIN {
                if !codes.is_empty() {
                    items.show(Str(&codes));
                    codes.clear();
                }
                items.adjust(-1_000.0 * shift);
                shift = 0.0;
            }
            codes.extend(subset.code(glyph.id).to_be_bytes());
            shift += glyph.x_advance - self.face.advance(glyph.id) - glyph.x_offset;
        }
        items.show(Str(&codes));
    }
}

/// How many glyphs the first cluster has.
fn cluster_len(glyphs: &[Glyph]) -> usize {
    glyphs.chunk_by(Glyph::is_of_cluster).next().map_or(0, <[Glyph]>::len)
}

/// The name of a font on pages.
fn resource_name(face: FaceIndex) -> String {
    format!("F{face}")
}

#[cfg(test)]
mod tests {
    use super::super::fonts::Weight;
    use super::*;

    #[test]
    fn same_drawing_makes_the_same_bytes() {
        let draw = || {
            let fonts = Fonts::open().unwrap();
            let mut file = PdfFile::new(&fonts);
            for text in ["Café 12", "שלום, محمد 42", "प्रिया", "山田"] {
                let set = fonts.set(text, Weight::Regular);
                for run in &set.runs {
                    file.show(&set.text, run, (10.0, 20.0), 9.0);
                }
                file.end_page();
            }
            let (title, author) = ("A title".to_owned(), "An author".to_owned());
            let created_at = DateTime::UNIX_EPOCH;
            file.finish(&FileInfo { title, author, created_at }).unwrap()
        };
        let bytes = draw();
        assert!(bytes.starts_with(b"%PDF-1.7") && bytes.len() < 100_000, "{}", bytes.len());
        assert!(bytes == draw());
    }
}
