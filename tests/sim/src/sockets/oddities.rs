//! What messages of real acquirers have now and then: no time or no reference, tracks that are none, private data that
//! nobody here knows.

use super::draft::{Draft, EXPIRY};
use super::spelling::Content;
use super::treatment::{sub_elements, track_of};
use crate::marks::{Mark, Marks};
use crate::rng::Rng;

/// Elements of private use, in both versions.
const PRIVATE: [u8; 4] = [47, 61, 62, 63];

/// Passes the marks of a message that the engine was asked about.
pub(super) fn note_oddities(marks: &mut Marks, content: &Content) {
    marks.pass_if(Mark::UntimedTaken, !content.has(7));
    marks.pass_if(Mark::UntracedTaken, !content.has(7) && !content.has(37));
    let track = content.text(35);
    let is_plain = |track: &str| track.bytes().all(|byte| byte.is_ascii_digit() || byte == b'=');
    let is_read = track.is_some_and(|track| !is_plain(track) && track_of(track).is_some());
    marks.pass_if(Mark::OddTrackRead, is_read);
    marks.pass_if(Mark::OddTrackIgnored, track.is_some_and(|track| track_of(track).is_none()));
    marks.pass_if(Mark::PrivateDataIgnored, PRIVATE.iter().any(|private| content.has(*private)));
    let tags = content.text(48).map(sub_elements);
    marks.pass_if(Mark::OpaqueDataIgnored, tags == Some(None));
    let has_time = tags.flatten().is_some_and(|tags| tags.contains_key("99"));
    marks.pass_if(Mark::SuppliedTimeIgnored, has_time);
}

impl Draft {
    pub(super) fn make_odd(&mut self, rng: &mut Rng) {
        let is_clear = self.pin.is_none();
        self.lacks_time = rng.chance(6);
        self.lacks_reference = rng.chance(if self.lacks_time { 60 } else { 3 });
        if rng.chance(6) {
            self.spoil_track(rng);
        }
        if rng.chance(2) {
            let lost = rng.pick(&[2, 3, 35]);
            self.content.elements.remove(&lost);
        }
        if rng.chance(6) {
            let text = rng.pick(&["A1B2C3", "01029900000000000000", " "]);
            self.set(rng.pick(&PRIVATE), text);
        }
        match rng.below(100) {
            0..4 => {
                let times = ["1771581600000000", "0", "soon", "99999999999999999999", ""];
                self.add_tag("99", rng.pick(&times));
            }
            4..7 => self.add_tag(rng.pick(&["00", "47", "77", "80"]), rng.pick(&["", "  ", "X-1"])),
            // All of the element is of no known form then.
            7..9 if is_clear => self.append("80109410"),
            9..10 if is_clear => self.append("6"),
            10..12 => self.add_tag("92", rng.pick(&["12", "12a", "1234"])),
            12..14 if self.content.mti[1] == b'2' => {
                self.add_tag("11", rng.pick(&["", "01", "0x02", "01023", "0000"]));
            }
            14..16 => self.set(14, rng.pick(&["0000", "2913", "9999"])),
            _ => {}
        }
    }

    /// A track as readers pass it on, whole or not, beside the number or in place of it.
    fn spoil_track(&mut self, rng: &mut Rng) {
        if self.content.mti[1] == b'4' {
            return;
        }
        if rng.chance(60) {
            self.content.elements.remove(&2);
        }
        let (pan, expiry) = (&self.pan, self.content.text(14).unwrap_or(EXPIRY));
        let track = match rng.below(10) {
            0 | 1 => format!(";{pan}={expiry}2010000?"),
            2 => format!("{pan}D{expiry}201"),
            3 => format!("{pan}={expiry}"),
            4 => format!("{pan}="),
            5 => pan.clone(),
            6 => format!("{pan}={}", &expiry[..2]),
            7 => format!("={expiry}201"),
            8 => format!("{pan}123456={expiry}"),
            _ => format!("{pan}=2?06201"),
        };
        self.set(35, track);
    }

    /// Adds to DE48 what need not be a sub-element.
    fn append(&mut self, text: &str) {
        let all = format!("{}{text}", self.content.text(48).unwrap_or_default());
        self.set(48, all);
    }
}
