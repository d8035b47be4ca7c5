//! The acquirers of a world: they connect, send, send again, give up, and bring new keys.

use std::sync::Arc;
use std::time::Duration;

use cardswitch_acquiring::counters::Counters;
use cardswitch_acquiring::door_parts::DoorParts;

use super::acquirer::{AcquirerMessage, Maker};
use super::gate::Gate;
use super::line::{Sending, SocketLine};
use super::site::Coding;
use super::treatment::Treatment;
use super::zone_book::KeyUse;
use super::{ACQUIRERS, SocketWorld};
use crate::marks::Mark;

impl SocketWorld {
    /// Connects, and sends what was not answered again.
    pub(super) fn connect(&mut self, acquirer: usize) -> u64 {
        let number = self.next_line;
        self.next_line += 1;
        let engine = Arc::clone(self.machine.engine());
        let gate = Gate { line: number, engine, book: Arc::clone(&self.machine.book) };
        let site = &self.sites[acquirer];
        let shared = DoorParts {
            door: site.name.clone(),
            engine: Arc::new(gate),
            secrets: Arc::clone(&self.secrets),
            dialect: site.dialect.clone(),
            zone: site.zone.clone(),
            faults: None,
            idle_limit: self.idle_limit,
            bounds: self.bounds,
            slow_bytes: Arc::clone(&self.slow_bytes),
            counters: Arc::new(Counters::default()),
        };
        let seed = self.rng.number();
        let mut line = SocketLine::new(
            (number, acquirer),
            Arc::new(shared),
            (&self.board, site.door),
            (self.now, seed, site.header),
        );
        if self.is_hurried {
            line.hurry();
        }
        self.lines.insert(number, line);
        self.tell(|| format!("acquirer {acquirer} connects: connection {number}"));
        self.resend(acquirer, number);
        number
    }

    /// Sends what was not answered again.
    pub(super) fn resend(&mut self, acquirer: usize, line: u64) {
        for number in std::mem::take(&mut self.unanswered[acquirer]) {
            self.marks.pass(Mark::RepeatedOnAnotherLine);
            self.send_on(line, number, true);
        }
    }

    /// Keeps in mind that a message will be sent again, unless its decision was heard.
    pub(super) fn keep_in_mind(&mut self, number: u64) {
        let message = &self.messages[number as usize - 1];
        let unanswered = &mut self.unanswered[message.acquirer];
        let is_open = message.treatment != Treatment::Ignored
            && message.heard.is_none()
            && !message.is_given_up;
        if is_open && !unanswered.contains(&number) {
            unanswered.push(number);
        }
    }

    pub(super) fn maker(&self, acquirer: usize) -> Maker<'_> {
        Maker {
            acquirer,
            spelling: self.sites[acquirer].spelling,
            issuer: self.sites[acquirer].issuer().map(<[u8]>::to_vec),
            at: self.clock.wall(),
            earlier: &self.messages,
            pans: &self.pans,
            secrets: &self.secrets,
        }
    }

    fn add(&mut self, message: AcquirerMessage) -> u64 {
        let number = message.number;
        if let Treatment::Decided(question) = &message.treatment {
            self.keys.insert(question.fingerprint.key, number);
        }
        self.messages.push(message);
        number
    }

    pub(super) fn send(&mut self) {
        let acquirer = self.rng.below(ACQUIRERS as u64) as usize;
        let count = 1 + self.rng.below(4);
        let mut rng = self.rng.clone();
        let drawn: Vec<_> = (0..count)
            .map(|_| {
                let message = self.maker(acquirer).draw(&mut rng);
                self.add(message)
            })
            .collect();
        self.rng = rng;
        let line = self.line_of(acquirer).number;
        drawn.into_iter().for_each(|number| self.send_on(line, number, false));
    }

    /// A message that was answered is sent again: here, or on a connection beside this.
    pub(super) fn repeat(&mut self) {
        let answered = self.messages.iter().filter(|message| message.heard.is_some());
        let answered: Vec<_> = answered.map(|message| (message.number, message.acquirer)).collect();
        if answered.is_empty() {
            return;
        }
        let (number, acquirer) = self.rng.pick(&answered);
        let line = self.any_line(acquirer);
        self.send_on(line, number, true);
    }

    /// The connection of an acquirer, or one more.
    fn any_line(&mut self, acquirer: usize) -> u64 {
        match self.rng.chance(50) {
            true => self.connect(acquirer),
            false => self.line_of(acquirer).number,
        }
    }

    /// An acquirer with a zone brings a new key.
    pub(super) fn change_key(&mut self) {
        let acquirer = self.rng.below(ACQUIRERS as u64) as usize;
        let of = self.rng.pick(&[KeyUse::Mac, KeyUse::Mac, KeyUse::Pin]);
        // A door takes new keys where its messages have codes.
        if [KeyUse::Mac, of].iter().any(|of| self.sites[acquirer].confirmed(*of).is_none()) {
            return;
        }
        let maker = Maker {
            acquirer,
            spelling: self.sites[acquirer].spelling,
            issuer: None,
            at: self.clock.wall(),
            earlier: &self.messages,
            pans: &self.pans,
            secrets: &self.secrets,
        };
        let message = maker.key_change(of, &mut self.sites[acquirer], &mut self.rng);
        let number = self.add(message);
        let line = self.line_of(acquirer).number;
        self.send_on(line, number, false);
    }

    /// The time of an acquirer is over before it heard an answer: it takes its message back, or sends it again.
    pub(super) fn give_up(&mut self) {
        let is_late = |message: &&AcquirerMessage| {
            message.is_reversible() && message.heard.is_none() && !message.is_given_up
        };
        let late: Vec<_> = self.messages.iter().filter(is_late).map(|late| late.number).collect();
        if late.is_empty() {
            return;
        }
        let number = self.rng.pick(&late);
        let acquirer = self.messages[number as usize - 1].acquirer;
        let limit = Duration::from_secs(5 + self.rng.below(25));
        self.tell(|| format!("acquirer {acquirer} has waited {} s for {number}", limit.as_secs()));
        self.pass_time(limit);
        if self.rng.chance(20) {
            let line = self.any_line(acquirer);
            return self.send_on(line, number, true);
        }
        self.marks.pass(Mark::GivenUp);
        self.messages[number as usize - 1].is_given_up = true;
        self.unanswered[acquirer].retain(|unanswered| *unanswered != number);
        let mut rng = self.rng.clone();
        let reversal = self.maker(acquirer).reversal(&mut rng, number);
        self.rng = rng;
        let reversal = self.add(reversal);
        let line = self.any_line(acquirer);
        self.send_on(line, reversal, false);
    }

    /// Sends a message on a connection, under keys of the moment, and now and then under others.
    pub(super) fn send_on(&mut self, line: u64, number: u64, is_repeat: bool) {
        let sending = self.draw_sending(number, is_repeat);
        let message = &self.messages[number as usize - 1];
        let site = &self.sites[message.acquirer];
        let content = message.content_of(is_repeat, sending.pin, site);
        let frame = site.frame(&content, sending.coding);
        self.tell(|| {
            let (acquirer, words) = (message.acquirer, message.words(is_repeat));
            let code = sending.coding.words();
            format!("acquirer {acquirer} sends {words}{code} into connection {line}")
        });
        self.lines.get_mut(&line).unwrap().send(&frame, message, sending);
    }

    fn draw_sending(&mut self, number: u64, is_repeat: bool) -> Sending {
        let message = &self.messages[number as usize - 1];
        let (acquirer, has_pin) = (message.acquirer, message.pin.is_some());
        let coding = match self.draw_key(acquirer, KeyUse::Mac) {
            None => Coding::Needless,
            Some(_) if !self.is_hurried && self.rng.chance(3) => Coding::Wrong,
            Some(_) if !self.is_hurried && self.rng.chance(2) => Coding::Missing,
            Some(generation) => Coding::Key(generation),
        };
        let pin = if has_pin { self.draw_key(acquirer, KeyUse::Pin) } else { None };
        Sending { coding, pin, is_repeat, at: self.now, has_passed: false }
    }

    /// The newest key that an acquirer knows to count; now and then an older one, or one that it waits for.
    fn draw_key(&mut self, acquirer: usize, of: KeyUse) -> Option<usize> {
        let confirmed = self.sites[acquirer].confirmed(of)?;
        if self.is_hurried {
            return Some(confirmed);
        }
        Some(match self.rng.below(100) {
            0..8 => self.rng.below(confirmed as u64 + 1) as usize,
            8..11 => {
                let history = self.sites[acquirer].book.as_ref().and_then(|book| book.history(of));
                history.unwrap().generations.len() - 1
            }
            _ => confirmed,
        })
    }

    pub(super) fn send_half(&mut self) {
        let Some(number) = self.pick_line() else { return };
        let line = self.lines.get_mut(&number).unwrap();
        let acquirer = line.acquirer;
        let own: Vec<_> =
            self.messages.iter().filter(|message| message.acquirer == acquirer).collect();
        if own.is_empty() {
            return;
        }
        let message = own[self.rng.below(own.len() as u64) as usize];
        let site = &self.sites[acquirer];
        let frame = site.frame(&message.content, Coding::Needless);
        let half = 1 + self.rng.below(frame.len() as u64 - 1) as usize;
        line.spoil(&frame[..half]);
        self.tell(|| format!("{half} bytes of a message go into connection {number}"));
    }
}
