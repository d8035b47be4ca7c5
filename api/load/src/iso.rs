//! ISO 8583 as cheap as it gets: authorizations (0100) are copies of a template with card, amount,
//! trace number, reference and time patched in; answers are walked only as far as DE11 and DE39.
//!
//! Templates come from the codec, and where their elements lie is asked of the codec, so that this
//! file knows no layout. The dialect is the default one. A message takes its slot as trace number,
//! and a reference (DE37) that no other message of the day has, so that none is taken for a repeat.

use std::iter::once;

use cardswitch_feed::Card;
use cardswitch_iso8583::number::parse_number;
use cardswitch_iso8583::{
    EncodeError, Frame, Framing, Length, MerchantLocation, MessageBuilder, Mti, PrivateUseWriter,
    decode, field, next_frame, write_frame,
};
use chrono::DateTime;

use crate::BoxError;
use crate::cards::{PAN_DIGITS_MAX, SplitMix64, patch_digits};
use crate::clock::{SECOND_NS, unix_ns};
use crate::wire::{AnswerCode, BadAnswer, Wire, WireAnswer};

const CVV_DIGITS_MAX: usize = 4;
/// The reference has twelve digits. Source: ISO DE37.
pub(crate) const REFERENCES: u64 = 1_000_000_000_000;
/// Shapes of answers that are remembered; a switch has a handful.
const SHAPES_MAX: usize = 64;
/// The offsets of a message's elements: after the type and the first bitmap, and after the second.
const ELEMENTS_AT: [usize; 2] = [12, 20];

/// The common settings of all requests of a run.
#[derive(Debug, Clone, Copy)]
pub struct PurchaseSettings {
    /// The smallest amount. Units: minor units.
    pub amount_min: u64,
    /// The largest amount. Units: minor units.
    pub amount_max: u64,
    /// ISO 4217 number.
    pub currency: u64,
    /// The first reference number.
    pub first_reference: u64,
    /// Seed of cards and amounts.
    pub seed: u64,
}

/// Small amounts in dollars. No load repeats a message of one before.
impl Default for PurchaseSettings {
    fn default() -> Self {
        let first_reference = unix_ns() / 1_000 % REFERENCES;
        Self { amount_min: 100, amount_max: 199, currency: 840, first_reference, seed: 1 }
    }
}

/// The ISO 8583 side of a client.
#[derive(Debug)]
pub struct Iso {
    templates: Vec<Template>,
    cards: Vec<PackedCard>,
    purchases: PurchaseSettings,
    draws: SplitMix64,
    reference: u64,
    second: u64,
    shapes: Vec<MessageShape>,
}

impl Iso {
    /// A client's side for these cards, of which there is at least one.
    /// Errors: a card does not fit its elements.
    pub fn new(cards: &[Card], purchases: PurchaseSettings) -> Result<Self, BoxError> {
        assert!(!cards.is_empty(), "requests need cards");
        let mut templates = Vec::new();
        let cards = cards
            .iter()
            .map(|card| PackedCard::new(card, &mut templates, purchases.currency))
            .collect::<Result<Vec<_>, _>>()?;
        let (draws, reference) = (SplitMix64::new(purchases.seed), purchases.first_reference);
        Ok(Self { templates, cards, purchases, draws, reference, second: 0, shapes: Vec::new() })
    }

    /// The shape of messages with these elements.
    fn shape(&mut self, bitmap: u64) -> &MessageShape {
        let known = self.shapes.iter().position(|shape| shape.bitmap == bitmap);
        let at = known.unwrap_or_else(|| {
            if self.shapes.len() == SHAPES_MAX {
                self.shapes.clear();
            }
            self.shapes.push(MessageShape::new(bitmap));
            self.shapes.len() - 1
        });
        &self.shapes[at]
    }
}

impl Wire for Iso {
    const IN_ORDER: bool = false;

    fn set_time(&mut self, unix_ns: u64) {
        let second = unix_ns / SECOND_NS;
        if second != self.second {
            self.second = second;
            let time = transmission_time(second);
            self.templates.iter_mut().for_each(|template| template.set_time(&time));
        }
    }

    fn write(&mut self, out: &mut Vec<u8>, slot: u32) {
        let card = &self.cards[self.draws.place(self.cards.len())];
        let template = &self.templates[usize::from(card.template)];
        let PurchaseSettings { amount_min, amount_max, .. } = self.purchases;
        let amount = amount_min + self.draws.below(amount_max.saturating_sub(amount_min) + 1);
        let start = out.len();
        out.extend_from_slice(&template.bytes);
        let frame = &mut out[start..];
        card.patch(frame, template);
        patch_digits(&mut frame[template.amount..][..12], amount);
        patch_digits(&mut frame[template.stan..][..6], slot.into());
        patch_digits(&mut frame[template.reference..][..12], self.reference);
        self.reference = (self.reference + 1) % REFERENCES;
    }

    fn read(&mut self, bytes: &[u8]) -> Result<Option<WireAnswer>, BadAnswer> {
        let (body, consumed) = match next_frame(bytes, &Framing::default()) {
            Frame::Complete { body, consumed, .. } => (&bytes[body], consumed),
            Frame::Incomplete { .. } => return Ok(None),
            _ => return Err(BadAnswer),
        };
        let bitmap = body.get(4..12).and_then(|bytes| bytes.try_into().ok());
        let bitmap = u64::from_be_bytes(bitmap.ok_or(BadAnswer)?);
        let (slot, code) = self.shape(bitmap).read(body).ok_or(BadAnswer)?;
        Ok(Some(WireAnswer { bytes: consumed, slot: Some(slot), code }))
    }
}

/// A framed authorization, and where what changes lies in it.
#[derive(Debug)]
struct Template {
    bytes: Vec<u8>,
    pan_digits: usize,
    cvv_digits: usize,
    pan: usize,
    expiry: usize,
    cvv: usize,
    amount: usize,
    stan: usize,
    reference: usize,
    time: usize,
    time_of_day: usize,
    date: usize,
}

impl Template {
    /// Errors: the card does not fit its elements.
    fn new(card: &Card, currency: u64) -> Result<Self, BoxError> {
        let mut bytes = Vec::new();
        let framing = Framing::default();
        write_frame(&mut bytes, &framing, None, |out| encode(card, currency, out))
            .map_err(|error| format!("a card does not fit a message: {error:?}"))?;
        let Frame::Complete { body, .. } = next_frame(&bytes, &framing) else {
            return Err("a message is not framed as it should be".into());
        };
        let message = decode(&bytes[body]).map_err(|error| format!("{error:?}"))?;
        // An element is a part of the frame, so its address says where.
        let place = |de: u8| -> Result<usize, BoxError> {
            let content = message.get(de).ok_or("a message lacks an element")?;
            Ok(content.as_ptr().addr() - bytes.as_ptr().addr())
        };
        let cvv = card.cvv.as_deref().unwrap_or_default();
        let cvv_at = match message.get(48) {
            Some(content) => place(48)? + content.len() - cvv.len(),
            None => 0,
        };
        Ok(Self {
            pan_digits: card.pan.len(),
            cvv_digits: cvv.len(),
            pan: place(2)?,
            expiry: place(14)?,
            cvv: cvv_at,
            amount: place(4)?,
            stan: place(11)?,
            reference: place(37)?,
            time: place(7)?,
            time_of_day: place(12)?,
            date: place(13)?,
            bytes,
        })
    }

    fn set_time(&mut self, time: &[u8; 10]) {
        self.bytes[self.time..][..10].copy_from_slice(time);
        self.bytes[self.date..][..4].copy_from_slice(&time[..4]);
        self.bytes[self.time_of_day..][..6].copy_from_slice(&time[4..]);
    }
}

fn encode(card: &Card, currency: u64, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let merchant = MerchantLocation {
        name: "Load generator",
        city: "San Francisco",
        state: "CA",
        country: "US",
    };
    let private_use = card.cvv.as_deref().map(|cvv| PrivateUseWriter::new().cvv(cvv));
    MessageBuilder::new(Mti::AUTHORIZATION_REQUEST)
        .set_text(2, &card.pan)
        .set_text(3, "000000")
        .set_number(4, 0)
        .set_text(7, "0101000000")
        .set_number(11, 0)
        .set_text(12, "000000")
        .set_text(13, "0101")
        .set_text(14, &card.expiry_yymm())
        .set_number(18, 5812)
        .set_number(22, 51)
        .set_text(25, "00")
        .set_text(32, "400101")
        .set_number(37, 0)
        .set_text(41, "LOAD0001")
        .set_text(42, "000000000445566")
        .set(43, &merchant.to_content())
        .set_optional(48, private_use.as_ref().map(PrivateUseWriter::as_bytes))
        .set_number(49, currency)
        .encode(out)
}

/// MMDDhhmmss, UTC. Source: ISO DE7.
fn transmission_time(unix_second: u64) -> [u8; 10] {
    let time = i64::try_from(unix_second).ok().and_then(|at| DateTime::from_timestamp(at, 0));
    let text = time.unwrap_or_default().format("%m%d%H%M%S").to_string();
    text.as_bytes().try_into().unwrap_or(*b"0101000000")
}

/// The digits of a card that are patched into a template.
#[derive(Clone, Copy)]
struct PackedCard {
    pan: [u8; PAN_DIGITS_MAX],
    expiry: [u8; 4],
    cvv: [u8; CVV_DIGITS_MAX],
    template: u8,
}

/// Shows no card data.
impl std::fmt::Debug for PackedCard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PackedCard").field("template", &self.template).finish_non_exhaustive()
    }
}

impl PackedCard {
    /// Packs a card; if none of the templates fits it, one is added.
    fn new(card: &Card, templates: &mut Vec<Template>, currency: u64) -> Result<Self, BoxError> {
        let cvv = card.cvv.as_deref().unwrap_or_default();
        let fits = |template: &Template| {
            template.pan_digits == card.pan.len() && template.cvv_digits == cvv.len()
        };
        let template = match templates.iter().position(fits) {
            Some(template) => template,
            None => {
                templates.push(Template::new(card, currency)?);
                templates.len() - 1
            }
        };
        Ok(Self {
            pan: filled(&card.pan)?,
            expiry: filled(&card.expiry_yymm())?,
            cvv: filled(cvv)?,
            template: u8::try_from(template)?,
        })
    }

    fn patch(&self, frame: &mut [u8], template: &Template) {
        let (pan, cvv) = (template.pan_digits, template.cvv_digits);
        frame[template.pan..][..pan].copy_from_slice(&self.pan[..pan]);
        frame[template.expiry..][..4].copy_from_slice(&self.expiry);
        frame[template.cvv..][..cvv].copy_from_slice(&self.cvv[..cvv]);
    }
}

fn filled<const LEN: usize>(text: &str) -> Result<[u8; LEN], BoxError> {
    let mut bytes = [0; LEN];
    let place = bytes.get_mut(..text.len()).ok_or("a card does not fit a message")?;
    place.copy_from_slice(text.as_bytes());
    Ok(bytes)
}

/// The way to DE11 and from there to DE39 in all messages that have the same elements.
#[derive(Debug)]
struct MessageShape {
    bitmap: u64,
    to_stan: Vec<ElementStep>,
    /// None where messages of this shape have no DE39, such as those of an echo server.
    from_stan_to_code: Option<Vec<ElementStep>>,
    elements_at: usize,
}

/// A stretch of fixed elements, and the length of what follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ElementStep {
    skip: usize,
    prefix_digits: usize,
}

impl MessageShape {
    fn new(bitmap: u64) -> Self {
        let has_second = bitmap >> 63 == 1;
        let has = |de: u8| (bitmap >> (64 - u32::from(de))) & 1 == 1;
        Self {
            bitmap,
            to_stan: steps((2..11).filter(|de| has(*de))),
            from_stan_to_code: has(39)
                .then(|| steps(once(11).chain((12..39).filter(|de| has(*de))))),
            elements_at: ELEMENTS_AT[usize::from(has_second)],
        }
    }

    /// The slot and the code of an answer; none where it has no such elements.
    fn read(&self, body: &[u8]) -> Option<(u32, AnswerCode)> {
        let stan_at = walk(body, self.elements_at, &self.to_stan)?;
        let stan = parse_number(body.get(stan_at..stan_at + 6)?)?;
        let code = match &self.from_stan_to_code {
            Some(steps) => {
                let code_at = walk(body, stan_at, steps)?;
                AnswerCode::new(body.get(code_at..code_at + 2)?)
            }
            None => AnswerCode::ECHO,
        };
        Some((u32::try_from(stan).ok()?, code))
    }
}

/// The steps past these elements; the last one has no length to read.
fn steps(elements: impl Iterator<Item = u8>) -> Vec<ElementStep> {
    let mut steps = vec![ElementStep { skip: 0, prefix_digits: 0 }];
    for spec in elements.filter_map(field) {
        if let (Length::Fixed, Some(last)) = (spec.length, steps.last_mut()) {
            last.skip += usize::from(spec.len_max);
        } else if let Some(last) = steps.last_mut() {
            last.prefix_digits = usize::from(spec.length.prefix_digits());
            steps.push(ElementStep { skip: 0, prefix_digits: 0 });
        }
    }
    steps
}

/// The place that the steps lead to from another.
fn walk(body: &[u8], from: usize, steps: &[ElementStep]) -> Option<usize> {
    let mut at = from;
    for step in steps {
        at += step.skip;
        if step.prefix_digits > 0 {
            let content_at = at + step.prefix_digits;
            let len = parse_number(body.get(at..content_at)?)?;
            at = content_at + usize::try_from(len).ok()?;
        }
    }
    Some(at)
}

#[cfg(test)]
#[path = "iso_tests.rs"]
mod tests;
