//! The world between door and engine: what connections hand over, what the engine replies, what acquirers read.

use std::time::Duration;

use cardswitch_engine::command::Command;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::reply::Reply;
use cardswitch_engine::directory::exchanged_key::{ExchangedKeyCommand, NewExchangedKey};
use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_zone::MacAlgorithm;
use sha2::Digest as _;

use super::SocketWorld;
use super::acquirer::AcquirerMessage;
use super::answer::AnswerContent;
use super::chip::ChipProof;
use super::gate::Passage;
use super::keys::Cipher;
use super::line::{LineVerdict, Sending};
use super::oddities::note_oddities;
use super::question::{Question, QuestionKind};
use super::site::{Coding, Site};
use super::spelling::Spelling;
use super::treatment::Treatment;
use super::zone_book::{KeyUse, OVERLAP, Span};
use crate::marks::{Mark, Marks};

impl SocketWorld {
    /// Compares what connections handed over with what was sent, and replies with the model's.
    pub(super) fn take_replies(&mut self) {
        if self.machine.is_quiet() {
            return;
        }
        let context = self.context();
        let (news, refused) = self.machine.take_news();
        for passage in news {
            self.take_passage(&passage, &context);
            let line = self.lines.get_mut(&passage.line).unwrap();
            line.with_engine += 1;
            let is_in_bounds = line.with_engine <= self.bounds.in_flight;
            assert!(is_in_bounds, "{context}: {} requests of one connection", line.with_engine);
        }
        for passage in refused {
            let number = self.take_passage(&passage, &context);
            self.marks.pass(Mark::MessageNotTaken);
            let line = self.lines.get_mut(&passage.line).unwrap();
            line.expect(number, None);
        }
        for (passage, reply) in self.machine.take_replies(&context) {
            let (number, acquirer) = self.sender_of(&passage.command, &context);
            self.note_reply(number, acquirer, &reply);
            // An answer to a connection that is gone is nobody's.
            let Some(line) = self.lines.get_mut(&passage.line) else {
                self.marks.pass(Mark::AnswerToNobody);
                continue;
            };
            line.with_engine -= 1;
            line.expect(number, Some(reply));
        }
    }

    fn note_reply(&mut self, number: u64, acquirer: usize, reply: &Reply) {
        let message = &mut self.messages[number as usize - 1];
        message.is_replied = true;
        let reverses = message.reverses;
        if let (Treatment::Exchanged(of, generation), Reply::Done(_)) = (&message.treatment, reply)
        {
            let book = self.sites[acquirer].book.as_mut().unwrap();
            book.history_mut(*of).unwrap().take(*generation, self.now);
            self.marks.pass(Mark::KeyExchanged);
        }
        let is_first =
            reverses.is_some_and(|original| !self.messages[original as usize - 1].is_replied);
        self.marks.pass_if(Mark::ReversalFirst, is_first);
    }

    /// The number of the message that a command was made of, and its acquirer.
    fn sender_of(&self, command: &Command, context: &str) -> (u64, usize) {
        let found = match new_key_of(command) {
            Some(new) => self.key_message_of(new),
            None => self.keys.get(&Question::of(command).fingerprint.key).copied(),
        };
        let number = found.unwrap_or_else(|| panic!("{context}: nobody sent {command:?}"));
        (number, self.messages[number as usize - 1].acquirer)
    }

    /// The number of the message that brought a key.
    fn key_message_of(&self, new: &NewExchangedKey) -> Option<u64> {
        let site = self.sites.iter().find(|site| site.name == new.door)?;
        let book = site.book.as_ref()?;
        let (of, generation) = book.generation_of(new, &self.secrets)?;
        Some(book.history(of)?.generations[generation].number)
    }

    /// Compares a command with the message that it was made of. It has to be that message, whole, and with a
    /// code that counts. Returns the message's number.
    fn take_passage(&mut self, passage: &Passage, context: &str) -> u64 {
        let (number, acquirer) = self.sender_of(&passage.command, context);
        let line = self.lines.get_mut(&passage.line).unwrap();
        let (message, site) = (&self.messages[number as usize - 1], &self.sites[acquirer]);
        let owed = line.owed.get_mut(&number);
        let owed = owed.unwrap_or_else(|| panic!("{context}: {number} was not sent whole"));
        let (command, now) = (&passage.command, self.now);
        let new = new_key_of(command);
        let asked = new.is_none().then(|| Question::of(command));
        let is_of = |sending: &Sending| {
            !sending.has_passed && sending.may_be_right(site, now) && {
                let span = Span { from: sending.at, to: now };
                let sent = (sending, span, site);
                let is_asked = |asked: &Question| message.may_become(asked, sent, &self.secrets);
                asked.as_ref().is_some_and(is_asked)
                    || new
                        .is_some_and(|new| is_exchange_of(message, new, (site, self.clock.wall())))
            }
        };
        // Of several that it may be of, one whose key counts by now.
        let place =
            owed.iter().position(|sending| is_of(sending) && sending.is_right_at(site, now));
        let place = place.or_else(|| owed.iter().position(is_of)).unwrap_or_else(|| {
            let treatment = &message.treatment;
            panic!("{context}: {command:?}, {asked:?} for {number}, {treatment:?}")
        });
        owed[place].has_passed = true;
        if let Some(asked) = &asked {
            let is_pin_read = message.is_pin_read(asked, &self.secrets);
            note_question(&mut self.marks, (message, asked), is_pin_read, site);
        }
        number
    }

    /// Reads so many bytes, and compares the answers that are whole then.
    pub(super) fn read_from(&mut self, number: u64, count: usize) {
        let context = self.context();
        let mut undecided = Vec::new();
        let line = self.lines.get_mut(&number).unwrap();
        let acquirer = line.acquirer;
        for body in line.read(count) {
            self.trace.update(&body);
            let site = &self.sites[acquirer];
            let read = site.read(&body, &context);
            let answer = |fields| AnswerContent::of(site.spelling, fields);
            let read = read.and_then(|(fields, maker)| Some((answer(fields)?, maker)));
            // Anything may be answered to garbage.
            let Some((answer, maker)) = read else {
                assert!(line.is_spoilt(), "{context}: an answer is no message: {body:x?}");
                continue;
            };
            let message = self.messages.get_mut(answer.number as usize - 1);
            let message = message.unwrap_or_else(|| panic!("{context}: {answer:?} is of nothing"));
            let verdict =
                LineVerdict { answer: &answer, maker, now: self.now, wall: self.clock.wall() };
            let sending = line.take_answer(message, &verdict, (site, &context));
            if let Some(words) = &self.words {
                let (code, number) = (String::from_utf8_lossy(&answer.code), answer.number);
                words.lock().push(format!("    acquirer {acquirer} hears {code} for {number}"));
            }
            note_answer(&mut self.marks, message, &answer, (site, sending, self.now));
            learn(&mut self.sites[acquirer], message, &answer, maker);
            if !answer.is_decision() {
                undecided.push(answer.number);
                continue;
            }
            match &message.heard {
                Some(first)
                    if !matches!(message.treatment, Treatment::Exchanged(..))
                        && message.is_remembered() =>
                {
                    assert!(
                        first.is_same_decision(&answer),
                        "{context}: {first:?}, then {answer:?}"
                    );
                    self.marks.pass(Mark::SameAnswerAgain);
                }
                Some(_) => {}
                None => message.heard = Some(answer),
            }
        }
        undecided.into_iter().for_each(|number| self.keep_in_mind(number));
    }
}

/// The key that a command brings.
fn new_key_of(command: &Command) -> Option<&NewExchangedKey> {
    let Command::Noted(noted) = command else { return None };
    match &noted.change {
        AdminCommand::ExchangedKey(ExchangedKeyCommand::Exchange(new)) => Some(new),
        _ => None,
    }
}

fn is_exchange_of(message: &AcquirerMessage, new: &NewExchangedKey, at: (&Site, i64)) -> bool {
    let (site, wall) = at;
    let Treatment::Exchanged(of, generation) = message.treatment else { return false };
    let history = site.book.as_ref().and_then(|book| book.history(of)).unwrap();
    let until = Timestamp(wall + OVERLAP.as_micros() as i64);
    let sent_at = Timestamp(history.generations[generation].sent_at);
    (new.sent_at, new.overlap_until) == (sent_at, until)
}

/// Passes the marks of a question to the engine.
fn note_question(
    marks: &mut Marks,
    (message, asked): (&AcquirerMessage, &Question),
    is_pin_read: Option<bool>,
    site: &Site,
) {
    let cipher = |of| Some(site.book.as_ref()?.history(of)?.cipher);
    let mac = site.book.as_ref().and_then(|book| book.mac.as_ref());
    let is_cmac = mac.is_some_and(|(algorithm, _)| *algorithm == MacAlgorithm::Cmac);
    let is_tdes = cipher(KeyUse::Mac) == Some(Cipher::Tdes);
    marks.pass_if(Mark::TdesCmacTaken, is_cmac && is_tdes);
    let is_of_aes = cipher(KeyUse::Pin) == Some(Cipher::Aes);
    marks.pass_if(Mark::LongPinRead, is_of_aes && is_pin_read == Some(true));
    marks.pass_if(Mark::PinUnread, is_pin_read == Some(false));
    let has_chip_data = message.content.has(55);
    marks.pass_if(Mark::ChipDataUnread, has_chip_data && site.issuer().is_none());
    marks.pass_if(Mark::ChipDoubted, message.chip == ChipProof::Wrong);
    note_oddities(marks, &message.content);
    marks.pass_if(Mark::TrackRead, message.content.has(35));
    marks.pass_if(Mark::ForeignAsked, asked.is_foreign());
    marks.pass_if(Mark::IncreaseAsked, matches!(asked.kind, QuestionKind::Increment(_)));
    let is_partial = message.content.has(95);
    let is_of_1993 = site.spelling == Spelling::Of1993;
    marks.pass_if(Mark::PartReversed, is_partial && !is_of_1993);
    marks.pass_if(Mark::PartReversed1993, is_partial && is_of_1993);
}

/// Passes the marks of an answer.
fn note_answer(
    marks: &mut Marks,
    message: &AcquirerMessage,
    answer: &AnswerContent,
    (site, sending, now): (&Site, Sending, Duration),
) {
    marks.pass(match site.spelling {
        Spelling::Ascii => Mark::AsciiSpoken,
        Spelling::AsciiHex => Mark::HexSpoken,
        Spelling::Ebcdic => Mark::EbcdicSpoken,
        Spelling::Packed => Mark::PackedSpoken,
        Spelling::Of1993 => Mark::Spoken1993,
    });
    marks.pass_if(Mark::ChipAnswered, message.owed_to_chip().is_some());
    marks.pass_if(Mark::TpduTurned, site.header.addresses.is_some());
    marks.pass_if(Mark::UnknownOutcomeHeard, answer.code == *b"96");
    marks.pass_if(Mark::LateAnswerHeard, message.is_given_up && answer.is_decision());
    marks.pass_if(Mark::KeyReplayRefused, answer.fault() == Some("key_replayed"));
    let is_refused = matches!(answer.fault(), Some("mac_wrong" | "mac_missing"));
    let is_on_track = message.content.has(35) && !message.content.has(2);
    marks.pass_if(Mark::OddTrackRefused, is_on_track && answer.code == *b"30");
    let is_again = sending.is_repeat && message.heard.is_some();
    marks.pass_if(Mark::UntracedRepeated, is_again && !message.is_remembered());
    match sending.coding {
        Coding::Wrong | Coding::Missing => marks.pass(Mark::WrongCodeRefused),
        Coding::Key(_) if is_refused => marks.pass(Mark::OldKeyRefused),
        Coding::Key(generation) => {
            let book = site.book.as_ref().and_then(|book| book.history(KeyUse::Mac));
            let span = Span { from: sending.at, to: now };
            let is_old = !book.unwrap().may_be_newest(generation, span);
            marks.pass_if(Mark::OldKeyTaken, is_old);
        }
        Coding::Needless => {}
    }
}

/// An acquirer learns from an answer which keys count.
fn learn(site: &mut Site, message: &AcquirerMessage, answer: &AnswerContent, maker: Coding) {
    let Some(book) = &mut site.book else { return };
    let is_refused = answer.fault().is_some_and(|fault| fault.starts_with("mac_"));
    // A refusal is under the newest key.
    if let (true, Coding::Key(newest), Some(history)) =
        (is_refused, maker, book.history_mut(KeyUse::Mac))
    {
        history.confirmed = newest;
    }
    if let (Treatment::Exchanged(of, generation), b"00") = (&message.treatment, &answer.code) {
        let history = book.history_mut(*of).unwrap();
        let sent_at = |generation: usize| history.generations[generation].sent_at;
        if sent_at(*generation) > sent_at(history.confirmed) {
            history.confirmed = *generation;
        }
    }
}
