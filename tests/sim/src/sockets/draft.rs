//! The draws of a message: its kind, what it is about, and what it says besides.
//!
//! The kind is of the event's own stream, all else of one beside it.

use cardswitch_secrets::pan::Pan;

use super::acquirer::{AcquirerMessage, Maker, PIN, moment};
use super::chip::{ChipData, ChipProof};
use super::keys::PinEntry;
use super::spelling::{Content, Spelling};
use crate::rng::Rng;

/// The expiry of every card.
pub(super) const EXPIRY: &str = "2906";
/// The local time of acquirers is so far behind. Units: microseconds.
const ZONE: i64 = 8 * 3_600_000_000;

/// A message that has no number yet.
pub(super) struct Draft {
    pub(super) content: Content,
    pub(super) pan: String,
    pub(super) pin: Option<PinEntry>,
    pub(super) chip: ChipProof,
    /// Whether the acquirer's number has zeros in front.
    pub(super) has_zeros: bool,
    /// Whether it has no DE7.
    pub(super) lacks_time: bool,
    /// Whether it has no DE37 of its own.
    pub(super) lacks_reference: bool,
}

impl Draft {
    /// A message of nothing but this.
    pub(super) fn of(content: Content) -> Self {
        let pan = content.text(2).unwrap_or_default().to_owned();
        Self {
            content,
            pan,
            pin: None,
            chip: ChipProof::None,
            has_zeros: false,
            lacks_time: false,
            lacks_reference: false,
        }
    }

    /// Draws a message that may be about an original.
    pub(super) fn draw(
        rng: &mut Rng,
        maker: &Maker<'_>,
        original: Option<&AcquirerMessage>,
    ) -> Self {
        let mut more = Rng::new(rng.clone().number() ^ 0x51DE_E1E3);
        let (content, pin) = draw_kind(rng, original, maker);
        let mut draft = Self::of(content);
        if draft.content.mti[1] == b'8' {
            return draft;
        }
        let pin = pin.or_else(|| draw_pin(&mut more, &draft.content));
        draft.pin = pin.map(|digits| PinEntry {
            digits,
            filling: more.number(),
            is_filled: more.chance(30),
            is_misplaced: more.chance(6),
        });
        draft.has_zeros = more.chance(10);
        draft.vary(&mut more, maker, original);
        draft.add_times(&mut more, maker);
        draft.add_money(&mut more);
        draft.add_merchant(&mut more);
        draft.add_card(&mut more, maker);
        draft.add_others(&mut more);
        draft.put_on_track(&mut more);
        draft.make_odd(&mut Rng::new(more.number() ^ 0x0DD_17E5));
        draft
    }

    pub(super) fn set(&mut self, element: u8, content: impl Into<Vec<u8>>) {
        self.content.elements.insert(element, content.into());
    }

    /// Makes other kinds of it: the elements that say so.
    fn vary(&mut self, rng: &mut Rng, maker: &Maker<'_>, original: Option<&AcquirerMessage>) {
        let is_purchase = self.content.text(3) == Some("000000") && self.content.has(4);
        let kind = rng.below(100);
        match (&self.content.mti, original) {
            (b"0400" | b"0420", Some(original)) => {
                self.name(rng, original);
                if kind < 35 {
                    self.keep_part(rng, original);
                }
            }
            (b"0220", Some(original)) => {
                self.name(rng, original);
                self.vary_posting(rng, original);
            }
            (b"0120", original) => self.vary_advice(rng, original),
            (b"0100", _) if is_purchase && kind < 12 => self.increase(rng, maker),
            // With a name, but no increase.
            (b"0100", _) if is_purchase && kind < 14 => {
                self.increase(rng, maker);
                self.set(4, "000000000000");
            }
            (b"0100", _) if is_purchase && kind < 18 => self.set(4, "000000000000"),
            (b"0100", _) if is_purchase && kind < 24 => {
                self.set(3, rng.pick(&["010000", "093000", "200000", "400000"]));
            }
            (b"0200", Some(original)) if kind < 25 => {
                self.set(3, "200000");
                self.set(2, original.pan.clone());
                self.pan = original.pan.clone();
                self.name(rng, original);
            }
            (b"0200", _) if kind < 35 => self.set(3, rng.pick(&["010000", "300000"])),
            (b"0200", _) if kind < 45 => self.increase(rng, maker),
            _ => {}
        }
    }

    /// Names another message: by 38, by 90, by 37, or by several of them.
    fn name(&mut self, rng: &mut Rng, original: &AcquirerMessage) {
        match (rng.below(100), original.id()) {
            (0..22, Some(id)) => {
                self.content.elements.remove(&90);
                self.set(38, id);
            }
            (22..30, Some(id)) => self.set(38, id),
            (30..34, _) => self.set(38, "ZZ9999"),
            (34..50, _) if original.content.has(37) => {
                self.content.elements.remove(&90);
                self.set(37, original.content.elements[&37].clone());
            }
            _ => {}
        }
    }

    /// A reversal of a part: DE4 is the original's, DE95 what stays.
    fn keep_part(&mut self, rng: &mut Rng, original: &AcquirerMessage) {
        let Some(before) = original.content.number(4).filter(|before| *before > 0) else { return };
        let stays = if rng.chance(85) { rng.below(before) } else { before + rng.below(500) };
        self.set(4, format!("{before:012}"));
        self.set(95, format!("{stays:012}000000000000C00000000C00000000"));
    }

    /// A presentment of about the amount, or of several; or a refund.
    fn vary_posting(&mut self, rng: &mut Rng, original: &AcquirerMessage) {
        if rng.chance(50) {
            let before = original.content.number(4).unwrap_or(0);
            self.set(4, format!("{:012}", before - before / 10 * rng.below(3)));
        }
        match rng.below(100) {
            0..15 => self.set(3, "200000"),
            15..20 => self.set(3, "010000"),
            20..45 => self.add_tag("11", rng.pick(&["0101", "0102", "0202", "0102", "0301"])),
            _ => {}
        }
    }

    /// An advice of a decision, or the completion of a purchase.
    fn vary_advice(&mut self, rng: &mut Rng, original: Option<&AcquirerMessage>) {
        if let Some(original) = original.filter(|_| rng.chance(50)) {
            self.set(2, original.pan.clone());
            self.pan = original.pan.clone();
            self.name(rng, original);
        }
        match rng.below(100) {
            0..30 => self.set(39, rng.pick(&["00", "10", "05", "51"])),
            30..36 => self.set(3, "010000"),
            _ => {}
        }
    }

    /// Names a purchase that was approved: a 0100 for an amount asks for more of it.
    fn increase(&mut self, rng: &mut Rng, maker: &Maker<'_>) {
        let Some((pan, id)) = maker.draw_approved(rng) else { return };
        self.set(2, pan);
        self.set(38, id);
        self.pan = pan.to_owned();
    }

    /// The local time, which ISO 8583:1993 always has.
    fn add_times(&mut self, rng: &mut Rng, maker: &Maker<'_>) {
        if maker.spelling == Spelling::Of1993 || rng.chance(60) {
            self.set_times(maker.at);
        }
    }

    /// Units: microseconds since 1970.
    pub(super) fn set_times(&mut self, at: i64) {
        let local = moment(at - ZONE);
        let (date, time) = local.split_at(4);
        self.set(12, time);
        self.set(13, date);
    }

    /// The currency, and the amount in that of the account.
    fn add_money(&mut self, rng: &mut Rng) {
        match rng.below(100) {
            0..45 => self.set(49, "840"),
            45..55 => {
                self.set(49, rng.pick(&["978", "392"]));
                let amount = self.content.number(4).unwrap_or(0);
                if rng.chance(85) {
                    self.set(6, format!("{:012}", amount + amount / 8));
                    self.set(51, "840");
                }
            }
            55..58 => {
                let amount = self.content.number(4).unwrap_or(0) + rng.below(2);
                self.set(6, format!("{amount:012}"));
            }
            58..61 => self.set(51, rng.pick(&["840", "978"])),
            61..63 => {
                self.set(49, "840");
                self.set(51, rng.pick(&["840", "978"]));
            }
            _ => {}
        }
    }

    fn add_merchant(&mut self, rng: &mut Rng) {
        if rng.chance(50) {
            self.set(18, rng.pick(&["5812", "5411", "7011", "5541", "6011"]));
        }
        if rng.chance(40) {
            self.set(42, rng.pick(&["000000000012345", "MERCHANT0000001", "12            "]));
            let id = self.content.text(42).map(|id| format!("{id:<15}"));
            self.set(42, id.unwrap_or_default());
        }
        if rng.chance(40) {
            let places =
                [("Blue Bottle", "Oakland", "CA"), ("A House of Many Stores", "Newcastle", "NSW")];
            let (name, city, region) = rng.pick(&places);
            self.set(43, format!("{name:<22}{city:<13}{region:<5}"));
        }
    }

    /// What the card and its holder prove.
    fn add_card(&mut self, rng: &mut Rng, maker: &Maker<'_>) {
        let is_right = rng.chance(90);
        match rng.below(100) {
            0..12 => self.set(14, if is_right { EXPIRY } else { "2907" }),
            12..20 => self.add_tag("80", if is_right { "94105" } else { "10001" }),
            20..28 => {
                let pan = Pan::parse(self.pan.as_bytes()).unwrap();
                let mut cvv = maker.secrets.cvv(&pan);
                cvv[2] ^= u8::from(!is_right);
                self.add_tag("92", std::str::from_utf8(&cvv).unwrap());
            }
            _ => {}
        }
        let number = rng.below(3) as u8;
        let has_number = rng.chance(20);
        if has_number {
            self.set(23, format!("{number:03}"));
        }
        if rng.chance(30) {
            let key = maker.issuer.clone().unwrap_or_else(|| vec![7; 16]);
            let number = if has_number { number } else { 0 };
            let data = ChipData::draw(rng, &key, &self.pan, number);
            self.set(55, data.content);
            // Without a key, nobody looks at it.
            self.chip = maker.issuer.as_ref().map_or(ChipProof::None, |_| data.proof);
        }
    }

    /// Elements that answers repeat, and some that are of no use to the switch.
    fn add_others(&mut self, rng: &mut Rng) {
        if rng.chance(30) {
            self.set(22, "051");
        }
        if rng.chance(10) {
            self.set(60, "RESERVED FOR THE NATION");
        }
        if rng.chance(6) {
            self.set(102, "ACCOUNT 1");
        }
        if rng.chance(4) && !self.content.has(48) && self.pin.is_none() {
            self.set(48, "of no known form");
        }
    }

    /// The card by its track, and not by its number.
    fn put_on_track(&mut self, rng: &mut Rng) {
        if rng.chance(12) && self.content.mti[1] != b'4' {
            let expiry = self.content.text(14).unwrap_or(EXPIRY).to_owned();
            self.content.elements.remove(&14);
            self.content.elements.remove(&2);
            self.set(35, format!("{}={expiry}2010000", self.pan));
        }
    }

    /// Adds a sub-element to DE48.
    pub(super) fn add_tag(&mut self, tag: &str, value: &str) {
        let others = self.content.text(48).unwrap_or_default();
        let all = format!("{others}{tag}{:02}{value}", value.len());
        self.set(48, all);
    }
}

/// A PIN on a message that has none yet.
fn draw_pin(rng: &mut Rng, content: &Content) -> Option<&'static str> {
    let may_have_pin = matches!(content.mti[1], b'1' | b'2');
    (may_have_pin && rng.chance(10)).then_some(PIN)
}

/// The elements that make the kind of a message, and the digits of a PIN.
fn draw_kind(
    rng: &mut Rng,
    original: Option<&AcquirerMessage>,
    maker: &Maker<'_>,
) -> (Content, Option<&'static str>) {
    let pans = maker.pans;
    let pan = match original.filter(|_| rng.chance(90)) {
        // A message about another names its card.
        Some(original) if rng.chance(30) => original.pan.clone(),
        _ if rng.chance(5) => "4999990000000002".to_owned(),
        _ => pans[rng.below(pans.len() as u64) as usize].clone(),
    };
    let amount = if rng.chance(90) { rng.below(40_000) } else { rng.below(100_000_000) };
    let made = |mti: &str, processing: &str, pan: &str| {
        Content::new(mti).with(2, pan).with(3, processing).with(4, format!("{amount:012}"))
    };
    let about = |mti: &str, original: &AcquirerMessage| {
        made(mti, "000000", &original.pan).with(90, original.original_data(maker.spelling))
    };
    let content = match (rng.below(100), original) {
        (0..6, _) => Content::new("0800").with(70, rng.pick(&["001", "002", "301"])),
        (6..8, _) => {
            let mut lacking = made("0100", "000000", &pan);
            lacking.elements.remove(&4);
            lacking
        }
        (8..10, _) => made("0110", "000000", &pan),
        (10..14, _) => made("0100", "300000", &pan),
        (14..24, _) => made("0200", "000000", &pan),
        (24..30, _) => made("0120", "000000", &pan),
        (30..45, Some(original)) => about("0220", original),
        (45..60, Some(original)) => about(rng.pick(&["0400", "0420"]), original),
        _ => return draw_purchase(rng, made("0100", "000000", &pan)),
    };
    (content, None)
}

fn draw_purchase(rng: &mut Rng, purchase: Content) -> (Content, Option<&'static str>) {
    let purchase = match rng.chance(30) {
        // The terminal takes a part of the amount.
        true => purchase.with(48, "61011"),
        false => purchase,
    };
    let pin = match rng.below(100) {
        0..25 => Some(PIN),
        25..28 => Some("4321"),
        _ => None,
    };
    (purchase, pin)
}
