//! The ends of a world of sockets: of a connection, of the machine, and of the whole.

use super::line::LineEnd;
use super::treatment::Treatment;
use super::zone_book::KeyUse;
use super::{ACQUIRERS, SocketWorld};
use crate::marks::Mark;
use sha2::Digest as _;

impl SocketWorld {
    /// A connection is over: the acquirer reads what there is, and keeps in mind what is missing.
    pub(super) fn bury(&mut self, number: u64, end: Option<LineEnd>) {
        let context = self.context();
        self.read_from(number, usize::MAX);
        let line = self.lines.remove(&number).unwrap();
        if let Some(end) = end {
            let mark = line.prove_end(end, (self.now, self.idle_limit, self.is_roomy), &context);
            mark.into_iter().for_each(|mark| self.marks.pass(mark));
        }
        self.marks.pass_if(Mark::LineLostInFlight, line.with_engine > 0);
        let owed: Vec<_> = line.owed.keys().copied().collect();
        owed.into_iter().for_each(|number| self.keep_in_mind(number));
    }

    /// The machine goes down with every connection. All that acquirers had read by then is durable.
    pub(super) fn crash(&mut self) {
        let context = self.context();
        self.tell(|| "the machine goes down, and comes back".to_owned());
        if self.machine.has_failed() && self.rng.chance(50) {
            // Everybody hears what a switch says whose journal has failed.
            self.settle();
        }
        for number in self.lines.keys().copied().collect::<Vec<_>>() {
            self.bury(number, None);
        }
        self.machine.crash(&mut self.rng, &context);
        self.reopen_zones(&context);
        self.marks.pass(Mark::CrashUnderSockets);
        self.trace.update(b"crash");
    }

    /// All goes well from now on: every message is answered, and model and switch agree.
    pub(super) fn end(&mut self) {
        self.machine.mend_disk();
        self.is_hurried = true;
        self.lines.values_mut().for_each(|line| line.hurry());
        loop {
            if self.machine.has_failed() {
                self.crash();
            }
            self.settle();
            if self.unanswered.iter().all(Vec::is_empty) {
                break;
            }
            for acquirer in 0..ACQUIRERS {
                let line = self.line_of(acquirer).number;
                self.resend(acquirer, line);
            }
            let context = self.context();
            assert!(self.next_line < 1_000, "{context}: somebody is never answered");
        }
        let context = self.context();
        for message in &self.messages {
            let is_answered = message.heard.is_some()
                || message.is_given_up
                || message.treatment == Treatment::Ignored;
            assert!(is_answered, "{context}: {} is not answered", message.number);
        }
        self.stop_door();
        self.settle();
        assert!(self.lines.is_empty(), "{context}: a connection outlives its door");
        let seen = self.board.seen();
        assert!(seen.iter().flat_map(|door| &door.peers).all(|(_, peer)| peer.open == 0));
        self.machine.prove(&context);
    }

    /// Everything arrives, is decided, answered and read, until nothing moves any more.
    fn settle(&mut self) {
        loop {
            let mut has_moved = self.machine.step_all();
            self.take_replies();
            for number in self.lines.keys().copied().collect::<Vec<_>>() {
                let line = self.lines.get_mut(&number).unwrap();
                has_moved |= line.arrive(usize::MAX, self.now);
                has_moved |= self.run_line(number);
                if self.lines.contains_key(&number) {
                    self.read_from(number, usize::MAX);
                    // Its acquirer may have made room for more.
                    has_moved |= self.lines[&number].is_due(self.now);
                }
            }
            if !has_moved {
                break;
            }
        }
        let context = self.context();
        for number in self.lines.keys().copied().collect::<Vec<_>>() {
            let line = &self.lines[&number];
            if line.is_in_step() {
                line.prove_answered(&self.messages, &context);
            } else {
                assert!(!line.has_to_end(), "{context}: a connection does not end");
                // Its acquirer is out of step, and waits.
                self.bury(number, None);
            }
        }
    }

    /// The doors open again, with the keys that are durable.
    fn reopen_zones(&mut self, context: &str) {
        if self.sites.iter().all(|site| site.book.is_none()) {
            return;
        }
        let tables = self.machine.tables();
        let (now, wall) = (self.now, self.clock.wall());
        for site in &mut self.sites {
            site.open_zone(&self.clock);
            let Some(zone) = &site.zone else { continue };
            zone.resume(&tables, &self.secrets).unwrap();
            let Some(book) = &mut site.book else { continue };
            for of in [KeyUse::Mac, KeyUse::Pin] {
                let Some(history) = book.history(of) else { continue };
                let kept = self.machine.exchanged_keys(&site.name, history.usage);
                let generation_of = |new| book.generation_of(new, &self.secrets);
                let generations: Option<Vec<_>> =
                    kept.iter().map(|new| generation_of(new).map(|(_, number)| number)).collect();
                let generations =
                    generations.unwrap_or_else(|| panic!("{context}: a key of nobody is kept"));
                self.marks.pass_if(Mark::KeyKeptOverCrash, !generations.is_empty());
                let until = kept.last().map(|new| new.overlap_until).unwrap_or_default();
                book.history_mut(of).unwrap().reopen(&generations, until, (now, wall));
            }
        }
    }
}
