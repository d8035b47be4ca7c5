//! The shard's open questions to the tables, and the commands that wait for their answers.
//!
//! Answers come in the order of the questions, so a queue on either side matches them. Questions for
//! commands and for timers ahead are asked in passing; where the shard cannot go on without an
//! answer, it waits.

use std::collections::VecDeque;
use std::sync::Arc;

use crossbeam_channel::{Receiver, RecvError, Sender, TryRecvError, unbounded};

use super::recall::{LoadedRows, RecallRequest};
use super::state::ShardState;
use super::timers::Timer;
use crate::command::TimedCommand;
use crate::domain::ids::{RecordSeq, Timestamp, TransactionSeq};
use crate::limits;
use crate::loader::{Loader, LoaderAnswer, LoaderEnds, LoaderQuestion, RecallError};
use crate::steps::{StepOutcome, Steps};
use crate::store::query::DueHolds;
use crate::store::{LateHolds, Watermark};
use crate::submission::Envelope;

/// The shard's connections to the tables.
#[derive(Debug)]
pub struct RecallWiring {
    /// The reader of the tables, and the ends that reach it.
    pub loader: (Loader, LoaderEnds),
    /// The newest record that the tables show.
    pub watermark: Arc<Watermark>,
    /// The note about late holds.
    pub late_holds: Arc<LateHolds>,
    /// Whether holds end late where the tables cannot be read. The leader of a cluster stops instead:
    /// the tables of another node can be.
    pub ends_holds_late: bool,
}

/// The time ahead for which ends of holds are kept in memory. Units: microseconds.
const TIMERS_AHEAD: i64 = 2 * Timestamp::HOUR;
/// The rest of that time at which the next ends are asked for. Units: microseconds.
const TIMERS_LEFT_MIN: i64 = Timestamp::HOUR;
/// The time before timers ahead are asked for again after tables that could not be read. Units: microseconds.
const ASKED_AGAIN_AFTER: i64 = Timestamp::SECOND;
/// The rows of a timer are loaded together with those of timers up to this time behind it.
/// Units: microseconds.
const LOADED_AHEAD: i64 = Timestamp::SECOND;

/// An answer, and the newest record that the tables had when it was asked for.
type TableAnswer<T> = (RecordSeq, Result<T, RecallError>);

pub(super) struct Questions {
    questions: Option<Sender<LoaderQuestion>>,
    answers: Receiver<Result<LoaderAnswer, RecallError>>,
    watermark: Option<Arc<Watermark>>,
    ends_holds_late: bool,
    late_holds: Arc<LateHolds>,
    /// Whether what it says is to be looked at again.
    is_noted: bool,
    /// Whether what was put off before this start was not tried again yet.
    is_untried: bool,
    /// The purpose of each open question, the oldest first.
    open: VecDeque<(Purpose, RecordSeq)>,
    /// Commands whose questions are open or answered, in order.
    aside: VecDeque<Envelope>,
    /// The answers for the first of them.
    answered: VecDeque<TableAnswer<LoadedRows>>,
    /// Ends of holds that were asked for in passing.
    holds: Option<TableAnswer<DueHolds>>,
    /// Before this instant they are not asked for again in passing.
    ask_from: Timestamp,
    /// The answer that the shard waited for.
    waited: Option<Result<LoaderAnswer, RecallError>>,
    /// The loader, until a thread of its own has it.
    loader: Option<Loader>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// The next command aside.
    Command,
    /// Timers behind those that are known.
    TimersAhead,
    /// An answer that the shard waits for.
    Wait,
}

impl Questions {
    pub(super) fn new(wiring: Option<RecallWiring>) -> Self {
        let ends_holds_late = wiring.as_ref().is_none_or(|wiring| wiring.ends_holds_late);
        let (questions, answers, watermark, loader, late_holds) = match wiring {
            Some(RecallWiring { loader, watermark, late_holds, .. }) => {
                let (loader, LoaderEnds { questions, answers }) = loader;
                (Some(questions), answers, Some(watermark), Some(loader), late_holds)
            }
            // A state that holds everything asks nothing: the receiver stays empty.
            None => (None, unbounded().1, None, None, Arc::default()),
        };
        Self {
            questions,
            answers,
            watermark,
            ends_holds_late,
            is_noted: true,
            is_untried: true,
            late_holds,
            open: VecDeque::new(),
            aside: VecDeque::new(),
            answered: VecDeque::new(),
            holds: None,
            ask_from: Timestamp::MIN,
            waited: None,
            loader,
        }
    }

    fn ask(&mut self, purpose: Purpose, question: LoaderQuestion) -> RecordSeq {
        let as_of = self.watermark.as_ref().map_or(RecordSeq(0), |watermark| watermark.applied());
        if let Some(questions) = &self.questions {
            // A loader that is gone shows when its answer is taken.
            let _ = questions.send(question);
        }
        self.open.push_back((purpose, as_of));
        as_of
    }

    /// Asks what a command needs; it is put aside next.
    pub(super) fn ask_for_command(&mut self, wanted: RecallRequest) {
        self.ask(Purpose::Command, LoaderQuestion::Command(wanted));
    }

    /// Keeps a command whose question was asked, in the order of the questions.
    pub(super) fn put_aside(&mut self, envelope: Envelope) {
        self.aside.push_back(envelope);
    }

    /// The first command aside, once the tables have answered for it.
    pub(super) fn first_answered(&self) -> Option<&TimedCommand> {
        self.answered.front()?;
        self.aside.front().map(|envelope| &envelope.command)
    }

    /// Takes it, and what they answered.
    pub(super) fn take_answered(&mut self) -> Option<(Envelope, Result<LoadedRows, RecallError>)> {
        let (_, answer) = self.answered.pop_front()?;
        Some((self.aside.pop_front()?, answer))
    }

    pub(super) fn is_any_aside(&self) -> bool {
        !self.aside.is_empty()
    }

    /// Whether so many commands are aside that none must come after them.
    pub(super) fn are_too_many(&self) -> bool {
        self.aside.len() >= limits::COMMANDS_ASIDE_MAX && self.answered.is_empty()
    }

    fn are_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Takes what has been answered; returns whether there is anything to do for it. A loader that is
    /// gone answers that the tables cannot be read.
    pub(super) fn take_answers(&mut self) -> bool {
        while self.are_open() {
            match self.answers.try_recv() {
                Ok(answer) => self.note(Ok(answer)),
                Err(TryRecvError::Disconnected) => self.note(Err(RecvError)),
                Err(TryRecvError::Empty) => break,
            }
        }
        !self.answered.is_empty() || self.holds.is_some()
    }

    pub(super) fn give_out_loader(&mut self) -> Option<Loader> {
        self.loader.take()
    }

    pub(super) fn step_loader(&mut self) -> StepOutcome {
        self.loader.as_mut().map_or(StepOutcome::Idle, Steps::step)
    }

    /// Waits for the next answer.
    fn wait(&mut self) {
        if self.are_open() {
            if self.answers.is_empty() {
                self.step_loader();
            }
            let answer = self.answers.recv();
            self.note(answer);
        }
    }

    /// Gives an answer to the oldest open question.
    fn note(&mut self, answer: Result<Result<LoaderAnswer, RecallError>, RecvError>) {
        let answer = answer.unwrap_or_else(|_| Err(RecallError("the loader has ended".to_owned())));
        let Some((purpose, as_of)) = self.open.pop_front() else { return };
        match purpose {
            Purpose::Command => {
                self.answered.push_back((as_of, answer.map(LoaderAnswer::into_loaded)))
            }
            Purpose::TimersAhead => {
                self.holds = Some((as_of, answer.map(LoaderAnswer::into_holds)))
            }
            Purpose::Wait => self.waited = Some(answer),
        }
    }

    /// Asks and waits; answers to questions before are kept for their turn.
    pub(super) fn ask_and_wait(
        &mut self,
        question: LoaderQuestion,
    ) -> Result<LoaderAnswer, RecallError> {
        self.ask(Purpose::Wait, question);
        loop {
            self.wait();
            if let Some(answer) = self.waited.take() {
                return answer;
            }
        }
    }

    /// Takes in the timers that were asked for, and asks for the next ones well before the time
    /// `reached` comes to them.
    pub(super) fn keep_timers_ahead(&mut self, state: &mut ShardState, reached: Timestamp) {
        if !self.take_in_holds(state) {
            self.ask_from = reached.plus(ASKED_AGAIN_AFTER);
        }
        if reached >= self.ask_by(state) {
            let question =
                LoaderQuestion::Holds(state.timers_known_until(), reached.plus(TIMERS_AHEAD));
            self.ask(Purpose::TimersAhead, question);
        }
    }

    /// The instant by which timers behind the known ones must be asked for.
    pub(super) fn ask_by(&self, state: &ShardState) -> Timestamp {
        let known_until = state.timers_known_until();
        if known_until == Timestamp::MAX || self.are_timers_asked() {
            Timestamp::MAX
        } else {
            known_until.plus(-TIMERS_LEFT_MIN).max(self.ask_from)
        }
    }

    fn are_timers_asked(&self) -> bool {
        self.open.iter().any(|open| open.0 == Purpose::TimersAhead)
    }

    /// Takes in what was asked for in passing; false where the tables could not be read. They are asked
    /// again after `ASKED_AGAIN_AFTER`; holds that end meanwhile end late.
    fn take_in_holds(&mut self, state: &mut ShardState) -> bool {
        match self.holds.take() {
            None => true,
            Some((as_of, Ok(due))) => {
                self.learn(state, &due, as_of);
                true
            }
            Some((_, Err(_))) => false,
        }
    }

    /// Learns the timers behind those that are known, on the way to the instant `at`. Returns false where the
    /// tables cannot be read: holds that end meanwhile end late, once they can.
    pub(super) fn learn_timers(&mut self, state: &mut ShardState, at: Timestamp) -> bool {
        if at < self.ask_from {
            self.note_failure(state);
            return false;
        }
        while self.are_timers_asked() {
            self.wait();
        }
        self.take_in_holds(state);
        if state.timers_known_until() >= at {
            return true;
        }
        let as_of = self.watermark.as_ref().map_or(RecordSeq(0), |watermark| watermark.applied());
        let question = LoaderQuestion::Holds(state.timers_known_until(), at.plus(TIMERS_AHEAD));
        let Ok(due) = self.ask_and_wait(question).map(LoaderAnswer::into_holds) else {
            self.note_failure(state);
            self.ask_from = at.plus(ASKED_AGAIN_AFTER);
            return false;
        };
        assert!(due.until > state.timers_known_until(), "the tables tell of some time at least");
        self.learn(state, &due, as_of);
        true
    }

    fn note_failure(&mut self, state: &ShardState) {
        assert!(self.ends_holds_late, "the tables tell a leader which holds end");
        self.late_holds.note(state.timers_known_until());
        self.is_noted = true;
    }

    /// Takes in the timers behind those that are known. Those whose rows cannot be read are put off.
    fn learn(&mut self, state: &mut ShardState, due: &DueHolds, as_of: RecordSeq) {
        state.learn_timers(due, as_of);
        self.put_off(state, due.unreadable.iter().copied());
        if std::mem::take(&mut self.is_untried) {
            self.try_again(state, due.until);
        }
    }

    /// Learns the timers that were put off before this start, as far as their rows can be read now.
    fn try_again(&mut self, state: &mut ShardState, until: Timestamp) {
        let put_off = self.late_holds.transactions();
        if put_off.is_empty() {
            return;
        }
        state.put_off_timers(put_off.iter().copied());
        let as_of = self.watermark.as_ref().map_or(RecordSeq(0), |watermark| watermark.applied());
        let question = LoaderQuestion::Transactions(put_off.into_iter().collect());
        if let Ok(answer) = self.ask_and_wait(question) {
            state.take_back_timers(&answer.into_loaded(), until, as_of);
        }
    }

    fn put_off(
        &mut self,
        state: &mut ShardState,
        wanted: impl IntoIterator<Item = TransactionSeq>,
    ) {
        let put_off = state.put_off_timers(wanted);
        if put_off.is_empty() {
            return;
        }
        assert!(self.ends_holds_late, "the tables have a leader's transactions");
        self.late_holds.put_off(put_off);
        self.is_noted = true;
    }

    /// Notes that all timers that were due have run, but those put off. Cost: one comparison where nothing
    /// is noted.
    pub(super) fn note_timers_run(&mut self, state: &ShardState) {
        if std::mem::take(&mut self.is_noted) {
            self.late_holds.end_with(state.last_seq(), state.holds_put_off().collect());
        }
    }

    /// Loads what a timer needs, and what the timers behind it need by `until`. Timers whose rows cannot be
    /// read wait for the next start. Returns whether this one is still to run.
    pub(super) fn load_for_timer(
        &mut self,
        state: &mut ShardState,
        timer: Timer,
        until: Timestamp,
    ) -> bool {
        let wanted = state.wanted_by_timer(timer, until.plus(LOADED_AHEAD));
        if wanted.is_empty() {
            return true;
        }
        state.evict(self.evictable_until());
        let question = LoaderQuestion::Transactions(wanted.clone());
        if let Ok(answer) = self.ask_and_wait(question) {
            state.admit(answer.into_loaded());
            state.dismiss();
        }
        self.put_off(state, wanted);
        state.due_timer(timer.due).is_some_and(|next| next.0 == timer)
    }

    /// The newest record behind which nothing in memory is needed for an open question.
    pub(super) fn evictable_until(&self) -> RecordSeq {
        let applied = self.watermark.as_ref().map_or(RecordSeq(0), |watermark| watermark.applied());
        let open = self.open.front().map(|open| open.1);
        let answered = self.answered.front().map(|answered| answered.0);
        let holds = self.holds.as_ref().map(|holds| holds.0);
        [open, answered, holds].into_iter().flatten().fold(applied, RecordSeq::min)
    }
}
