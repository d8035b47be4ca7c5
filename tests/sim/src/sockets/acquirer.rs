//! The messages of simulated acquirers, and the treatment that each has to get.

use cardswitch_acquiring::mapping::{MessageAction, map_message};
use cardswitch_engine::command::Command;
use cardswitch_engine::domain::network_key::DuplicateKey;
use cardswitch_iso8583::{MessageBuilder, Mti, decode};
use cardswitch_secrets::Secrets;
use chrono::DateTime;

use super::answer::AnswerContent;
use super::keys::{clear_pin_block, enciphered_block};
use super::site::Site;
use super::spelling::Content;
use super::zone_book::KeyUse;
use crate::rng::Rng;

/// The PIN of every card.
pub(super) const PIN: &str = "1234";

/// The treatment that a message has to get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Treatment {
    /// The engine is asked, in these words where the PIN can be read.
    Decided(DuplicateKey, String),
    /// The engine is asked to keep a key.
    Exchanged(KeyUse, usize),
    /// It is answered by the door, with this code.
    Answered([u8; 2]),
    /// It is never answered.
    Ignored,
}

/// A message of an acquirer.
pub(super) struct AcquirerMessage {
    /// Its number among all, which is its STAN.
    pub(super) number: u64,
    pub(super) acquirer: usize,
    pub(super) treatment: Treatment,
    /// Without its code. A PIN block is clear.
    pub(super) content: Content,
    /// The number of the message that it reverses, after the acquirer gave up waiting.
    pub(super) reverses: Option<u64>,
    /// Whether the acquirer has given up waiting for its answer.
    pub(super) is_given_up: bool,
    /// Whether the engine has replied to it.
    pub(super) is_replied: bool,
    /// The answer that was heard first, if it was a decision.
    pub(super) heard: Option<AnswerContent>,
}

/// The circumstances of an acquirer that makes a message.
pub(super) struct Maker<'a> {
    pub(super) acquirer: usize,
    /// Units: microseconds since 1970.
    pub(super) at: i64,
    pub(super) earlier: &'a [AcquirerMessage],
    pub(super) pans: &'a [String],
    pub(super) secrets: &'a Secrets,
}

impl Maker<'_> {
    /// Draws the next message.
    pub(super) fn draw(&self, rng: &mut Rng) -> AcquirerMessage {
        let own = |message: &&AcquirerMessage| {
            message.acquirer == self.acquirer && matches!(message.treatment, Treatment::Decided(..))
        };
        let own: Vec<_> = self.earlier.iter().filter(own).collect();
        let original = (!own.is_empty()).then(|| own[rng.below(own.len() as u64) as usize]);
        self.make(draw_kind(rng, original, self.pans))
    }

    /// The message with which an acquirer takes back one that it waits for no longer.
    pub(super) fn reversal(&self, rng: &mut Rng, original: u64) -> AcquirerMessage {
        let original = &self.earlier[original as usize - 1];
        let mti = if rng.chance(75) { "0420" } else { "0400" };
        let mut content = Content::new(mti).with(90, original.original_data());
        for element in [2, 3, 4] {
            content = content.with(element, original.content.elements[&element].clone());
        }
        AcquirerMessage { reverses: Some(original.number), ..self.make(content) }
    }

    /// The message with a new key.
    pub(super) fn key_change(
        &self,
        use_of: KeyUse,
        site: &mut Site,
        rng: &mut Rng,
    ) -> AcquirerMessage {
        let number = self.earlier.len() as u64 + 1;
        // An acquirer's clock is ahead by some seconds, or far.
        let ahead = if rng.chance(4) { 700 } else { 1 + rng.below(5) as i64 };
        let sent_at = (self.at / 1_000_000 + ahead) * 1_000_000;
        let book = site.book.as_mut().unwrap();
        let filling = rng.below(256) as u8;
        let master = book.master.clone();
        let history = book.history_mut(use_of).unwrap();
        let generation = history.add(rng, sent_at, number);
        let key = &history.generations[generation].key;
        let block = super::keys::key_block(history.usage, key, &master, filling);
        let content = Content::new("0800").with(48, block).with(70, "101");
        let mut message = self.make(content);
        message.content.elements.insert(7, moment(sent_at).into_bytes());
        message.treatment = Treatment::Exchanged(use_of, generation);
        message
    }

    fn make(&self, content: Content) -> AcquirerMessage {
        let number = self.earlier.len() as u64 + 1;
        let mut content = content
            .with(11, format!("{number:06}"))
            .with(7, moment(self.at))
            .with(32, (1_000 + self.acquirer).to_string());
        if content.mti[1] != b'8' {
            content = content.with(37, format!("{number:012}")).with(41, "TERM0001");
        }
        AcquirerMessage {
            number,
            acquirer: self.acquirer,
            treatment: treatment_of(&content, self.secrets),
            content,
            reverses: None,
            is_given_up: false,
            is_replied: false,
            heard: None,
        }
    }
}

/// DE7. Units: microseconds since 1970.
fn moment(at: i64) -> String {
    DateTime::from_timestamp_micros(at).unwrap().format("%m%d%H%M%S").to_string()
}

impl AcquirerMessage {
    pub(super) fn is_advice(&self) -> bool {
        self.content.mti[2] == b'2'
    }

    /// Whether an acquirer that hears nothing takes it back.
    pub(super) fn is_reversible(&self) -> bool {
        let is_request = matches!(&self.content.mti, b"0100" | b"0200");
        let is_purchase = self.content.text(3) == Some("000000") && self.reverses.is_none();
        is_request && is_purchase && matches!(self.treatment, Treatment::Decided(..))
    }

    /// Its content at a time, with the PIN under a key of this generation; a repeat has another type.
    pub(super) fn content_of(&self, is_repeat: bool, pin: Option<usize>, site: &Site) -> Content {
        let mut content = self.content.clone();
        if is_repeat {
            content.mti[3] = b'1';
        }
        if let Some(block) = self.pin_block(pin, site) {
            content.elements.insert(52, block.to_vec());
        }
        content
    }

    /// The PIN block on the wire.
    fn pin_block(&self, pin: Option<usize>, site: &Site) -> Option<[u8; 8]> {
        let clear = self.content.elements.get(&52)?.as_slice().try_into().unwrap();
        let history = site.book.as_ref()?.history(KeyUse::Pin)?;
        Some(enciphered_block(&history.generations[pin?].key, clear))
    }

    pub(super) fn has_pin(&self) -> bool {
        self.content.elements.contains_key(&52)
    }

    /// The words of the command where the PIN was under a key that does not count.
    pub(super) fn words_with_wrong_pin(
        &self,
        pin: usize,
        site: &Site,
        secrets: &Secrets,
    ) -> String {
        let content = self.content_of(false, Some(pin), site);
        match treatment_of(&content, secrets) {
            Treatment::Decided(_, words) => words,
            other => panic!("{other:?}"),
        }
    }

    /// Its type, number and amount.
    pub(super) fn words(&self, is_repeat: bool) -> String {
        let mti = String::from_utf8_lossy(&self.content.mti);
        let amount = self.content.number(4).map(|amount| format!(" for {amount}"));
        let reverses = self.reverses.map(|original| format!(" to take back {original}"));
        let again = if is_repeat { " again" } else { "" };
        let key = matches!(self.treatment, Treatment::Exchanged(..)).then_some(" with a new key");
        let [amount, reverses] = [amount, reverses].map(Option::unwrap_or_default);
        format!("{mti} {}{amount}{reverses}{}{again}", self.number, key.unwrap_or_default())
    }

    /// DE90 of a message about it.
    fn original_data(&self) -> String {
        let text = |element| self.content.text(element).unwrap();
        let mti = std::str::from_utf8(&self.content.mti).unwrap();
        format!("{mti}{}{}{:0>11}{:011}", text(11), text(7), text(32), 0)
    }

    fn pan(&self) -> String {
        self.content.text(2).unwrap_or_default().to_owned()
    }
}

/// The elements that make the kind of a message.
fn draw_kind(rng: &mut Rng, original: Option<&AcquirerMessage>, pans: &[String]) -> Content {
    let pan = match original.filter(|_| rng.chance(90)) {
        // A message about another names its card.
        Some(original) if rng.chance(30) => original.pan(),
        _ if rng.chance(5) => "4999990000000002".to_owned(),
        _ => pans[rng.below(pans.len() as u64) as usize].clone(),
    };
    let amount = if rng.chance(90) { rng.below(40_000) } else { rng.below(100_000_000) };
    let made = |mti: &str, processing: &str, pan: &str| {
        Content::new(mti).with(2, pan).with(3, processing).with(4, format!("{amount:012}"))
    };
    match (rng.below(100), original) {
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
        (30..45, Some(original)) => {
            made("0220", "000000", &original.pan()).with(90, original.original_data())
        }
        (45..60, Some(original)) => {
            let mti = rng.pick(&["0400", "0420"]);
            made(mti, "000000", &original.pan()).with(90, original.original_data())
        }
        _ => draw_purchase(rng, made("0100", "000000", &pan), &pan),
    }
}

fn draw_purchase(rng: &mut Rng, purchase: Content, pan: &str) -> Content {
    let purchase = match rng.chance(30) {
        // The terminal takes a part of the amount.
        true => purchase.with(48, "61011"),
        false => purchase,
    };
    match rng.below(100) {
        0..25 => purchase.with(52, clear_pin_block(PIN, pan)),
        25..28 => purchase.with(52, clear_pin_block("4321", pan)),
        _ => purchase,
    }
}

/// The words of the product's mapping for a message in the default spelling.
fn treatment_of(content: &Content, secrets: &Secrets) -> Treatment {
    let mut builder = MessageBuilder::new(Mti::parse(&content.mti).unwrap());
    for (element, value) in &content.elements {
        builder = builder.set(*element, value);
    }
    let mut body = Vec::new();
    builder.encode(&mut body).unwrap();
    match map_message(&decode(&body).unwrap(), secrets) {
        MessageAction::Ask(asked) => {
            Treatment::Decided(key_of(&asked.command), format!("{:?}", asked.command))
        }
        MessageAction::Answer(code) => Treatment::Answered(code.0),
        MessageAction::Refuse(refusal) => Treatment::Answered(refusal.de39().0),
        MessageAction::Ignore => Treatment::Ignored,
        MessageAction::Exchange(_) => panic!("a zone takes keys, and nobody else"),
    }
}

/// The key by which the message of a command is found again.
pub(super) fn key_of(command: &Command) -> DuplicateKey {
    let Command::Network(request) = command else { panic!("{command:?} is of no message") };
    request.fingerprint.unwrap().key
}
