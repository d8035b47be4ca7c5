//! The messages of simulated acquirers, and what they show of cards and their holders.

use cardswitch_engine::domain::credential::{Cvv, PinVerifier};
use cardswitch_engine::domain::network_key::DuplicateWindow;
use cardswitch_secrets::Secrets;
use cardswitch_secrets::pan::Pan;
use chrono::DateTime;

use super::answer::AnswerContent;
use super::chip::{ChipProof, OwedAnswer};
use super::draft::Draft;
use super::keys::{Cipher, PinEntry, enciphered_block};
use super::line::Sending;
use super::question::{Question, ShownCvv};
use super::site::Site;
use super::spelling::{Content, Spelling};
use super::treatment::{Reader, Treatment};
use super::zone_book::{KeyUse, Span};
use crate::rng::Rng;

/// DE7 of a message that has none, where another message names it.
pub(super) const NO_TIME: &str = "0000000000";
/// The PIN of every card.
pub(super) const PIN: &str = "1234";

/// A message of an acquirer.
pub(super) struct AcquirerMessage {
    /// Its number among all, which is its STAN.
    pub(super) number: u64,
    pub(super) acquirer: usize,
    pub(super) treatment: Treatment,
    /// As ISO 8583:1987 has it, without its code and the PIN.
    pub(super) content: Content,
    pub(super) pan: String,
    pub(super) pin: Option<PinEntry>,
    /// The proof that DE55 gives at this acquirer's door.
    pub(super) chip: ChipProof,
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
    pub(super) spelling: Spelling,
    /// The key that those of chips derive from, where the door has it.
    pub(super) issuer: Option<Vec<u8>>,
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
            message.acquirer == self.acquirer && matches!(message.treatment, Treatment::Decided(_))
        };
        let own: Vec<_> = self.earlier.iter().filter(own).collect();
        let original = (!own.is_empty()).then(|| own[rng.below(own.len() as u64) as usize]);
        self.make(Draft::draw(rng, self, original))
    }

    /// A purchase of this acquirer that it knows to be approved.
    pub(super) fn draw_approved(&self, rng: &mut Rng) -> Option<(&str, &str)> {
        let own = self.earlier.iter().filter(|message| message.acquirer == self.acquirer);
        let approved = own.filter_map(|message| Some((message.pan.as_str(), message.id()?)));
        let approved: Vec<_> = approved.collect();
        (!approved.is_empty()).then(|| rng.pick(&approved))
    }

    /// The message with which an acquirer takes back one that it waits for no longer.
    pub(super) fn reversal(&self, rng: &mut Rng, original: u64) -> AcquirerMessage {
        let original = &self.earlier[original as usize - 1];
        let mti = if rng.chance(75) { "0420" } else { "0400" };
        let mut content = Content::new(mti).with(2, original.pan.clone());
        for element in [3, 4] {
            content = content.with(element, original.content.elements[&element].clone());
        }
        let content = content.with(90, original.original_data(self.spelling));
        let mut draft = Draft::of(content);
        if self.spelling == Spelling::Of1993 {
            draft.set_times(self.at);
        }
        AcquirerMessage { reverses: Some(original.number), ..self.make(draft) }
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
        let key = (history.cipher, history.generations[generation].key.as_slice());
        let block = super::keys::key_block(history.usage, key, &master, filling);
        let content = Content::new("0800").with(48, block).with(70, "101");
        let mut message = self.make(Draft::of(content));
        message.content.elements.insert(7, moment(sent_at).into_bytes());
        message.treatment = Treatment::Exchanged(use_of, generation);
        message
    }

    fn make(&self, draft: Draft) -> AcquirerMessage {
        let Draft { content, pan, pin, chip, has_zeros, lacks_time, lacks_reference } = draft;
        let number = self.earlier.len() as u64 + 1;
        let acquirer = (1_000 + self.acquirer).to_string();
        let acquirer = if has_zeros { format!("{acquirer:0>8}") } else { acquirer };
        let mut content = content.with(11, format!("{number:06}")).with(32, acquirer);
        if !lacks_time {
            content = content.with(7, moment(self.at));
        }
        if content.mti[1] != b'8' && !lacks_reference {
            content.elements.entry(37).or_insert_with(|| format!("{number:012}").into());
        }
        if content.mti[1] != b'8' {
            content = content.with(41, "TERM0001");
        }
        let reader = Reader { secrets: self.secrets, spelling: self.spelling };
        let mut treatment = reader.treatment_of(&content);
        let is_proven =
            matches!(&treatment, Treatment::Decided(asked) if asked.credentials.is_some());
        if is_proven && chip == ChipProof::Unreadable {
            treatment = Treatment::Answered(*b"30");
        }
        AcquirerMessage {
            number,
            acquirer: self.acquirer,
            treatment,
            content,
            pan,
            pin,
            chip: if is_proven { chip } else { ChipProof::None },
            reverses: None,
            is_given_up: false,
            is_replied: false,
            heard: None,
        }
    }
}

/// DE7. Units: microseconds since 1970.
pub(super) fn moment(at: i64) -> String {
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
        is_request && is_purchase && matches!(self.treatment, Treatment::Decided(_))
    }

    /// Its content at a time, with the PIN under a key of this generation; a repeat has another type.
    pub(super) fn content_of(&self, is_repeat: bool, pin: Option<usize>, site: &Site) -> Content {
        let mut content = self.content.clone();
        if is_repeat {
            content.mti[3] = b'1';
        }
        let Some(entry) = &self.pin else { return content };
        let history = site.book.as_ref().and_then(|book| book.history(KeyUse::Pin));
        let clear = || entry.clear_block(&self.pan);
        let Some((history, generation)) = history.zip(pin).filter(|_| !entry.is_misplaced) else {
            return content.with(52, clear());
        };
        let key = &history.generations[generation].key;
        if history.cipher == Cipher::Tdes {
            return content.with(52, enciphered_block(key, clear()));
        }
        let block = u128::from_be_bytes(entry.block_of_format_4(key, &self.pan));
        let others = content.text(48).unwrap_or_default();
        let tags = format!("{others}5232{block:032X}");
        content.with(48, tags)
    }

    /// Whether this may be what the engine is asked for a sending of it, with these keys.
    pub(super) fn may_become(
        &self,
        asked: &Question,
        (sending, span, site): (&Sending, Span, &Site),
        secrets: &Secrets,
    ) -> bool {
        let Treatment::Decided(expected) = &self.treatment else { return false };
        let (asked, cvv, verifier) = asked.clone().split();
        let (mut expected, own_cvv, _) = (**expected).clone().split();
        if let DuplicateWindow::RepeatsOnly { is_repeat } = &mut expected.fingerprint.window {
            *is_repeat = sending.is_repeat;
        }
        let unproven = ShownCvv { shown: Cvv::NONE, own: Cvv::NONE };
        let own_cvv = if self.chip == ChipProof::Wrong { Some(unproven) } else { own_cvv };
        let has_credentials = expected.credentials.is_some();
        let is_pin_right = match has_credentials {
            true => self.may_have_pin(verifier, (sending.pin, span, site), secrets),
            false => verifier.is_none(),
        };
        asked == expected && cvv == own_cvv && is_pin_right
    }

    /// Whether this may be the value of its PIN: that of its digits, or of none where its key does not count.
    fn may_have_pin(
        &self,
        verifier: Option<PinVerifier>,
        (pin, span, site): (Option<usize>, Span, &Site),
        secrets: &Secrets,
    ) -> bool {
        let (Some(entry), Some(verifier)) = (&self.pin, verifier) else {
            return self.pin.is_none() && verifier.is_none();
        };
        let [shown, own] = [entry.digits, PIN].map(|digits| self.pin_value(digits, secrets));
        let history = site.book.as_ref().and_then(|book| book.history(KeyUse::Pin));
        let (may_be_read, may_be_unread) = match history.zip(pin) {
            None => (true, false),
            Some(_) if entry.is_misplaced => (false, true),
            Some((history, pin)) => {
                (history.may_count(pin, span), history.may_not_count(pin, span))
            }
        };
        let is_unread = verifier != shown && verifier != own;
        (verifier == shown && may_be_read) || (is_unread && may_be_unread)
    }

    fn pin_value(&self, digits: &str, secrets: &Secrets) -> PinVerifier {
        secrets.pin_verifier(&Pan::parse(self.pan.as_bytes()).unwrap(), digits.as_bytes())
    }

    /// Whether the door has read the PIN, by what the engine is asked; none if it is asked about none.
    pub(super) fn is_pin_read(&self, asked: &Question, secrets: &Secrets) -> Option<bool> {
        let value = asked.credentials.as_ref()?.pin?;
        Some(value == self.pin_value(self.pin.as_ref()?.digits, secrets))
    }

    /// The authorization id that its acquirer has heard.
    pub(super) fn id(&self) -> Option<&str> {
        self.heard.as_ref()?.authorization_id()
    }

    /// Whether a repeat gets the first answer for a day, and not only for some minutes.
    pub(super) fn is_remembered(&self) -> bool {
        self.content.has(7) || self.content.has(37)
    }

    /// The answer that the chip of its card awaits.
    pub(super) fn owed_to_chip(&self) -> Option<&OwedAnswer> {
        match &self.chip {
            ChipProof::Right(owed) => Some(owed),
            _ => None,
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

    /// DE90 of a message about it, with the time that its version names it by.
    pub(super) fn original_data(&self, spelling: Spelling) -> String {
        let text = |element| self.content.text(element).unwrap();
        let mti = std::str::from_utf8(&self.content.mti).unwrap();
        let moment = match spelling {
            Spelling::Of1993 => format!("{}{}", text(13), text(12)),
            // Zeros name a message without a time.
            _ => self.content.text(7).unwrap_or(NO_TIME).to_owned(),
        };
        format!("{mti}{}{moment}{:0>11}{:011}", text(11), text(32), 0)
    }
}
