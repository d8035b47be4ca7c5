//! Text of any script, set in one line: its letters in the order in which they stand on paper.
//! Source: Unicode Standard Annex 9 (bidirectional text).

use std::ops::Range;

use harfrust::{Direction, UnicodeBuffer};
use unicode_bidi::{BidiInfo, Level};

use super::fonts::{FaceIndex, Fonts, NO_GLYPH, Weight};

/// The mark at the end of a text that was cut.
const ELLIPSIS: &str = "…";

/// A text whose letters have their places. Units: ems.
#[derive(Debug)]
pub(super) struct SetText {
    pub(super) text: String,
    /// From left to right.
    pub(super) runs: Vec<Run>,
    pub(super) width: f32,
}

/// Letters of one font.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) face: FaceIndex,
    pub(super) glyphs: Vec<Glyph>,
    pub(super) width: f32,
}

/// A glyph in its place. Units: ems.
#[derive(Debug)]
pub(super) struct Glyph {
    /// Its number in the font.
    pub(super) id: u16,
    pub(super) x_advance: f32,
    pub(super) x_offset: f32,
    pub(super) y_offset: f32,
    /// The letters of its cluster.
    pub(super) text_range: Range<usize>,
}

impl Fonts {
    /// Sets a text in one line.
    pub(super) fn set(&self, text: &str, weight: Weight) -> SetText {
        let text = text.replace(char::is_control, " ");
        let runs = match self.plain_run(&text, weight) {
            Some(run) => vec![run],
            None => self.runs(&text, weight),
        };
        let width = runs.iter().map(|run| run.width).sum();
        SetText { text, runs, width }
    }

    /// Breaks a text into lines, at spaces where there are any; the rest that does not fit is cut.
    /// Units: ems.
    pub(super) fn wrap(&self, text: &str, width: f32, lines_max: usize) -> Vec<String> {
        let mut lines = Vec::new();
        let mut rest = text.trim();
        while !rest.is_empty() {
            let fitting = self.fitting(rest, width);
            if fitting == rest.len() {
                lines.push(rest.to_owned());
                break;
            }
            if lines.len() + 1 == lines_max {
                let room = width - self.advance_of('…', Weight::Regular);
                let kept = &rest[..self.fitting(rest, room)];
                lines.push(format!("{}{ELLIPSIS}", kept.trim_end()));
                break;
            }
            let (line, left) = rest.split_at(break_at(rest, fitting));
            lines.push(line.trim_end().to_owned());
            rest = left.trim_start();
        }
        lines
    }

    /// How many bytes of a text fit, but one letter at least.
    fn fitting(&self, text: &str, width: f32) -> usize {
        let mut used = 0.0;
        let mut previous_end = 0;
        for (at, char) in text.char_indices() {
            let advance = self.advance_of(char, Weight::Regular);
            used += advance;
            // A mark without a width of its own is never parted from its letter.
            if used > width && advance > 0.0 && at > 0 {
                return at;
            }
            previous_end = at + char.len_utf8();
        }
        previous_end
    }

    /// The text as one run, where each letter stands for itself.
    fn plain_run(&self, text: &str, weight: Weight) -> Option<Run> {
        let mut glyphs = Vec::with_capacity(text.len());
        let mut width = 0.0;
        for (at, char) in text.char_indices() {
            let letter = self.plain_letter(char, weight)?;
            glyphs.push(Glyph {
                id: letter.glyph,
                x_advance: letter.advance,
                x_offset: 0.0,
                y_offset: 0.0,
                text_range: at..at + char.len_utf8(),
            });
            width += letter.advance;
        }
        Some(Run { face: Self::plain_face(weight), glyphs, width })
    }

    fn runs(&self, text: &str, weight: Weight) -> Vec<Run> {
        // The document reads from left to right, whatever script a description starts with.
        let bidi = BidiInfo::new(text, Some(Level::ltr()));
        let mut runs = Vec::new();
        for paragraph in &bidi.paragraphs {
            let (levels, ranges) = bidi.visual_runs(paragraph, paragraph.range.clone());
            for range in ranges {
                let is_rtl = levels.get(range.start).is_some_and(|level| level.is_rtl());
                let mut parts = self.parts(text, range, weight);
                if is_rtl {
                    parts.reverse();
                }
                let shape = |(face, part)| self.shape(text, part, face, is_rtl);
                runs.extend(parts.into_iter().map(shape));
            }
        }
        runs
    }

    /// A piece of a text, parted by font.
    fn parts(
        &self,
        text: &str,
        range: Range<usize>,
        weight: Weight,
    ) -> Vec<(FaceIndex, Range<usize>)> {
        let mut parts: Vec<(FaceIndex, Range<usize>)> = Vec::new();
        for (at, char) in text[range.clone()].char_indices() {
            let (start, end) = (range.start + at, range.start + at + char.len_utf8());
            let face = self.face_of(char, parts.last().map(|part| part.0), weight);
            match parts.last_mut() {
                Some((last, part)) if *last == face => part.end = end,
                _ => parts.push((face, start..end)),
            }
        }
        parts
    }

    fn shape(&self, text: &str, part: Range<usize>, index: FaceIndex, is_rtl: bool) -> Run {
        let face = self.face(index);
        let mut buffer = UnicodeBuffer::new();
        buffer.push_str(&text[part.clone()]);
        buffer.set_direction(if is_rtl { Direction::RightToLeft } else { Direction::LeftToRight });
        buffer.guess_segment_properties();
        let shaped = face.shape(buffer);
        let clusters = clusters(shaped.glyph_infos().iter().map(|info| info.cluster), part.len());
        let em = face.units_per_em;
        let mut run = Run { face: index, glyphs: Vec::with_capacity(shaped.len()), width: 0.0 };
        for (info, place) in shaped.glyph_infos().iter().zip(shaped.glyph_positions()) {
            let [x_advance, x_offset, y_offset] =
                [place.x_advance, place.x_offset, place.y_offset].map(|units| units as f32 / em);
            let start = info.cluster as usize;
            let end = clusters[clusters.partition_point(|cluster| *cluster <= start)];
            run.width += x_advance;
            let id = u16::try_from(info.glyph_id).unwrap_or(NO_GLYPH);
            let text_range = part.start + start..part.start + end;
            run.glyphs.push(Glyph { id, x_advance, x_offset, y_offset, text_range });
        }
        run
    }
}

impl Run {
    /// Whether the letters stand in the reverse of their order in the text.
    pub(super) fn is_reversed(&self) -> bool {
        let is_before = |pair: &[Glyph]| pair[0].text_range.start >= pair[1].text_range.end;
        self.glyphs.len() > 1 && self.glyphs.windows(2).all(is_before)
    }
}

impl Glyph {
    /// Whether both stand for the same letters.
    pub(super) fn is_of_cluster(&self, other: &Self) -> bool {
        self.text_range == other.text_range
    }
}

/// The starts of letters that belong together, and behind them the end of the text.
fn clusters(starts: impl Iterator<Item = u32>, end: usize) -> Vec<usize> {
    let mut clusters: Vec<usize> = starts.map(|start| start as usize).collect();
    clusters.push(end);
    clusters.sort_unstable();
    clusters.dedup();
    clusters
}

/// The end of a line: behind its last space, or where it is full.
fn break_at(text: &str, fitting: usize) -> usize {
    let next_is_space = text[fitting..].starts_with(' ');
    let space = text[..fitting].rfind(' ').map(|at| at + 1);
    if next_is_space { fitting } else { space.unwrap_or(fitting) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fonts() -> Fonts {
        Fonts::open().unwrap()
    }

    fn glyphs(set: &SetText) -> Vec<u16> {
        set.runs.iter().flat_map(|run| run.glyphs.iter().map(|glyph| glyph.id)).collect()
    }

    #[test]
    fn names_in_every_script_have_letters() {
        let fonts = fonts();
        let names = [
            "Ada Lovelace",
            "Łukasz Żółć",
            "Nguyễn Thị Ánh",
            "Γιώργος",
            "Дмитрий",
            "Ђорђе",
            "محمد علي",
            "שלמה כהן",
            "Արամ",
            "გიორგი",
            "አበበ ቢቂላ",
            "प्रिया शर्मा",
            "রবীন্দ্রনাথ",
            "ਗੁਰਪ੍ਰੀਤ",
            "ગાંધી",
            "ଓଡ଼ିଆ",
            "தமிழ்ச்செல்வி",
            "వేంకటేశ్వర",
            "ಕನ್ನಡ",
            "മലയാളം",
            "ශ්‍රී ලංකා",
            "สมชาย ใจดี",
            "ລາວ",
            "សុខា",
            "အောင်ဆန်း",
            "山田太郎",
            "やまだ",
            "王小明",
            "김철수",
        ];
        for name in names {
            for weight in [Weight::Regular, Weight::Bold] {
                let set = fonts.set(name, weight);
                assert!(!glyphs(&set).contains(&NO_GLYPH), "{name} misses a letter");
                assert!(set.width > 0.5, "{name}");
            }
        }
    }

    #[test]
    fn every_letter_of_the_text_is_in_one_cluster_of_a_run() {
        let fonts = fonts();
        for text in ["Café 12", "mixed שלום and محمد 42", "प्रिया e\u{301}", "a\u{1f600}b"]
        {
            let set = fonts.set(text, Weight::Regular);
            let mut seen = vec![false; text.len()];
            for glyph in set.runs.iter().flat_map(|run| &run.glyphs) {
                seen[glyph.text_range.clone()].fill(true);
            }
            assert!(seen.iter().all(|seen| *seen), "{text}: {set:?}");
        }
    }

    #[test]
    fn text_from_right_to_left_is_turned_around() {
        let fonts = fonts();
        let set = fonts.set("אב", Weight::Regular);
        let starts: Vec<usize> =
            set.runs[0].glyphs.iter().map(|glyph| glyph.text_range.start).collect();
        assert_eq!(starts, [2, 0], "the last letter stands on the left");
        let mixed = fonts.set("ab אב", Weight::Regular);
        assert_eq!(mixed.runs[0].glyphs[0].text_range, 0..1);
    }

    #[test]
    fn lines_break_at_spaces_and_end_in_dots_where_there_is_no_room() {
        let fonts = fonts();
        let of = |text: &str, letters: f32, lines_max| {
            let em = fonts.advance_of('a', Weight::Regular);
            fonts.wrap(text, em * letters + 0.01, lines_max)
        };
        assert_eq!(of("aaa aaa", 9.0, 2), ["aaa aaa"]);
        assert_eq!(of("aaa aaa", 5.0, 2), ["aaa", "aaa"]);
        assert_eq!(of("aaa aaa", 3.0, 2), ["aaa", "aaa"]);
        assert_eq!(of("aaaaaa", 4.0, 2), ["aaaa", "aa"]);
        assert_eq!(of("aaa aaa aaa", 4.5, 2), ["aaa", "aaa…"]);
        assert_eq!(of("", 4.0, 2), [""; 0]);
        assert_eq!(of("aaa", 0.1, 5), ["a", "a", "a"], "a letter a line at least");
    }

    #[test]
    fn control_characters_become_spaces() {
        let set = fonts().set("a\nb\u{0}", Weight::Regular);
        assert_eq!(set.text, "a b ");
    }
}
