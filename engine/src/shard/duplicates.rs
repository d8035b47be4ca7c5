//! Earlier messages of the network: answers for repeats, traces for conflicts.
//!
//! An answer is found by the keys of its message (`Fingerprint::index_keys`): with the transaction
//! it made, where it follows from it, else in a list of its own. An entry is gone as soon as a record is
//! applied at or after its `expires_at`; the projection forgets by the same rule, so that live and
//! recovered state agree.

use std::collections::{HashSet, VecDeque};

use super::index::{Growth, HashIndex, Values, spread};
use super::open_transaction::OpenTransaction;
use super::prefetch::GROUP_LEN;
use super::transactions::{CacheLimits, Transactions, low_bits};
use crate::command::effect::RememberedAnswer;
use crate::command::reply::NetworkReply;
use crate::domain::ids::{RecordSeq, Timestamp, TransactionSeq};
use crate::domain::network_key::{DuplicateKey, DuplicateWindow, Fingerprint};
pub use crate::store::AnswerPlace;

/// The verdict on a message, from the answers to earlier ones.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DuplicateCheck {
    /// The message is new.
    New,
    /// So it is, under a trace that another one with the same content has.
    NewOfTrace,
    /// The same message was answered with this reply.
    Answered(NetworkReply),
    /// Its key or trace belongs to a message with other content.
    Conflict,
}

/// The key that every message has which could be the same, or in conflict: of the trace, if any.
const fn first_key(fingerprint: &Fingerprint) -> u64 {
    fingerprint.index_keys(false).0
}

/// The numbers that are in use, to tell whole numbers by their low parts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NewestNumbers {
    pub(super) transaction: TransactionSeq,
    pub(super) record: RecordSeq,
}

/// Every answer that may be asked for again.
#[derive(Clone, Debug)]
pub(super) struct Messages {
    index: HashIndex,
    /// Answers without a transaction of their own, in the order of their records.
    answers: VecDeque<(RecordSeq, RememberedAnswer)>,
    /// The first numbers of the days, so that keys older than a day die.
    marks: VecDeque<Mark>,
    /// Keys of answers before these are dead.
    floor: NewestNumbers,
    /// Keys entered so far.
    entered: u64,
    /// Until when keys are missing that had to go before their day was over.
    incomplete_until: Timestamp,
}

/// An instant, and what had been answered by then.
#[derive(Clone, Copy, Debug)]
struct Mark {
    at: Timestamp,
    /// The first ones after it.
    next: NewestNumbers,
    entered: u64,
}

/// The least time between two marks. Units: microseconds.
const MARK_INTERVAL: i64 = Timestamp::MINUTE;
/// Room for keys that a shard with limits begins with: 8 MiB.
const FIRST_KEYS: usize = 1 << 19;
/// The number of marks that divide the largest number of keys.
const MARKS_PER_LIMIT: u64 = 64;

/// The bit of an index value that tells records from transactions.
const IS_RECORD: u32 = 1 << 31;

impl AnswerPlace {
    const fn value(self) -> u32 {
        match self {
            Self::Transaction(seq) => low_bits(seq.0) & !IS_RECORD,
            Self::Record(seq) => low_bits(seq.0) | IS_RECORD,
        }
    }

    fn of(value: u32, newest: &NewestNumbers) -> Option<Self> {
        let number = |newest: u64| {
            let back = low_bits(newest).wrapping_sub(value) & !IS_RECORD;
            newest.checked_sub(u64::from(back))
        };
        if value & IS_RECORD == 0 {
            number(newest.transaction.0).map(|seq| Self::Transaction(TransactionSeq(seq)))
        } else {
            number(newest.record.0).map(|seq| Self::Record(RecordSeq(seq)))
        }
    }
}

/// Tells which keys are dead; their hashes nobody can tell again.
struct DeadPlaces {
    newest: NewestNumbers,
    floor: NewestNumbers,
}

impl Values for DeadPlaces {
    fn has_dead(&self) -> bool {
        self.floor.record > RecordSeq(0)
    }

    fn is_dead(&self, value: u32) -> bool {
        match AnswerPlace::of(value, &self.newest) {
            Some(AnswerPlace::Transaction(seq)) => seq < self.floor.transaction,
            Some(AnswerPlace::Record(seq)) => seq < self.floor.record,
            None => true,
        }
    }
}

impl Default for Messages {
    fn default() -> Self {
        Self {
            index: HashIndex::with_capacity(Growth::Doubling, 0),
            answers: VecDeque::new(),
            marks: VecDeque::new(),
            floor: NewestNumbers::default(),
            entered: 0,
            incomplete_until: Timestamp::MIN,
        }
    }
}

impl Messages {
    /// Begins with room for some of so many keys: each doubling leaves the keys that are there one
    /// bit less alike than they were, and who is taken for another is looked up in the tables.
    pub(super) fn reserve(&mut self, keys: usize) {
        self.index = HashIndex::with_capacity(Growth::Doubling, keys.min(FIRST_KEYS));
    }

    /// Asks for the line of a message ahead of its use.
    #[inline]
    pub(super) fn prefetch(&self, fingerprint: &Fingerprint) {
        self.index.prefetch(spread(first_key(fingerprint)));
    }

    /// Hands over where each answer is that may be the one to this message. Of its trace these are
    /// the first and the newest, of its own key the newest: few, however many share the trace.
    #[inline]
    pub(super) fn each_place(
        &self,
        fingerprint: &Fingerprint,
        newest: &NewestNumbers,
        mut visit: impl FnMut(AnswerPlace),
    ) {
        let mut is_any = false;
        self.each_under(first_key(fingerprint), newest, |place| {
            is_any = true;
            visit(place);
        });
        // INVARIANT: of the answers under a trace the newest is found by it, so none is no answer.
        if is_any && fingerprint.trace.is_some() {
            self.each_under(fingerprint.key_half(), newest, visit);
        }
    }

    #[inline]
    fn each_under(&self, key: u64, newest: &NewestNumbers, mut visit: impl FnMut(AnswerPlace)) {
        self.index.find(spread(key), |value| {
            let place = AnswerPlace::of(value, newest);
            place.filter(|place| !self.is_before_floor(*place)).into_iter().for_each(&mut visit);
            false
        });
    }

    fn is_before_floor(&self, place: AnswerPlace) -> bool {
        match place {
            AnswerPlace::Transaction(seq) => seq < self.floor.transaction,
            AnswerPlace::Record(seq) => seq < self.floor.record,
        }
    }

    /// The answer that record `seq` kept, where it is in memory.
    pub(super) fn answer_at(&self, seq: RecordSeq) -> Option<&RememberedAnswer> {
        answer_of(&self.answers, seq)
    }

    /// Whether every key of the last day is in the index.
    pub(super) fn is_complete(&self, at: Timestamp) -> bool {
        at >= self.incomplete_until
    }

    /// Keeps an answer that no transaction keeps, made by record `seq`; returns its place.
    pub(super) fn keep(&mut self, seq: RecordSeq, answer: RememberedAnswer) -> AnswerPlace {
        // At a restart answers come without their records, in order.
        let after = self.answers.back().map_or(RecordSeq(1), |last| last.0.next());
        let seq = seq.max(after);
        self.answers.push_back((seq, answer));
        AnswerPlace::Record(seq)
    }

    /// Enters the keys of an answer. Where a newer answer hides one before, it takes its place: a
    /// message without a trace may be answered anew, and of a trace's later answers the newest does.
    pub(super) fn enter(
        &mut self,
        entered: &EnteredAnswer,
        newest: NewestNumbers,
        elsewhere: &AnswersElsewhere<'_>,
    ) {
        let EnteredAnswer { fingerprint, place, .. } = *entered;
        let (key, trace) = fingerprint.index_keys(entered.shares_trace);
        if matches!(fingerprint.window, DuplicateWindow::RepeatsOnly { .. }) {
            let is_same = |known: &EnteredAnswer| known.fingerprint.key == fingerprint.key;
            self.replace_or_enter(key, (place, newest), elsewhere, is_same);
        } else {
            self.enter_key(spread(key), place, newest);
        }
        if let Some(trace) = trace {
            // The first one stays: it has no other key.
            let is_later = |known: &EnteredAnswer| {
                known.shares_trace && known.fingerprint.trace == fingerprint.trace
            };
            self.replace_or_enter(trace, (place, newest), elsewhere, is_later);
        }
    }

    /// Puts an answer where one is found that it hides; where none is known, it has a place of its own.
    fn replace_or_enter(
        &mut self,
        key: u64,
        (place, newest): (AnswerPlace, NewestNumbers),
        elsewhere: &AnswersElsewhere<'_>,
        is_hidden: impl Fn(&EnteredAnswer) -> bool,
    ) {
        let answers = &self.answers;
        let is_it = |value| {
            let known = AnswerPlace::of(value, &newest)
                .and_then(|place| elsewhere.find(place).or_else(|| listed(answers, place)));
            known.is_some_and(|known| is_hidden(&known))
        };
        if !self.index.replace(spread(key), place.value(), is_it) {
            self.enter_key(spread(key), place, newest);
        }
    }

    fn enter_key(&mut self, hash: u64, place: AnswerPlace, newest: NewestNumbers) {
        self.entered += 1;
        self.index.insert(hash, place.value(), &DeadPlaces { newest, floor: self.floor });
    }

    /// Begins with keys that were read from the tables.
    pub(super) fn take_in(&mut self, keys: MessageKeys) {
        assert!(self.entered == 0, "what the tables know is older than any other key");
        (self.index, self.entered) = (keys.index, keys.entered);
    }

    /// Forgets what ended by `at`, before which `next` are the first numbers not given out.
    pub(super) fn forget_expired(&mut self, at: Timestamp, next: NewestNumbers) {
        while self.answers.front().is_some_and(|entry| entry.1.expires_at <= at) {
            self.answers.pop_front();
        }
        while let Some(mark) = self.marks.pop_front_if(|mark| mark.at.plus(Timestamp::DAY) <= at) {
            self.floor = mark.next;
        }
        let is_due = self.marks.back().is_none_or(|newest| newest.at.plus(MARK_INTERVAL) <= at);
        if is_due {
            self.mark(at, next);
        }
    }

    pub(super) fn mark(&mut self, at: Timestamp, next: NewestNumbers) {
        self.marks.push_back(Mark { at, next, entered: self.entered });
    }

    /// Lets go of what is beyond the limits: answers that the tables have, and the oldest keys.
    pub(super) fn evict(
        &mut self,
        limits: &CacheLimits,
        until: RecordSeq,
        (at, next): (Timestamp, NewestNumbers),
    ) {
        while self.answers.len() > limits.answers
            && self.answers.front().is_some_and(|entry| entry.0 <= until)
        {
            self.answers.pop_front();
        }
        let limit = limits.message_keys as u64;
        let newest_mark = self.marks.back().map_or(0, |mark| mark.entered);
        if self.entered - newest_mark > limit / MARKS_PER_LIMIT {
            self.mark(at, next);
        }
        // Keys that the tables do not have yet stay.
        let is_over = |mark: &mut Mark| {
            self.entered - mark.entered > limit && mark.next.record <= until.next()
        };
        while let Some(mark) = self.marks.pop_front_if(is_over) {
            self.floor = mark.next;
            self.incomplete_until = mark.at.plus(Timestamp::DAY);
        }
    }

    /// Every answer of the list.
    pub(super) fn iter(&self) -> impl Iterator<Item = &RememberedAnswer> {
        self.answers.iter().map(|entry| &entry.1)
    }
}

fn answer_of(
    answers: &VecDeque<(RecordSeq, RememberedAnswer)>,
    seq: RecordSeq,
) -> Option<&RememberedAnswer> {
    let at = answers.binary_search_by_key(&seq, |entry| entry.0).ok()?;
    Some(&answers[at].1)
}

/// The answer at a place of the list.
fn listed(
    answers: &VecDeque<(RecordSeq, RememberedAnswer)>,
    place: AnswerPlace,
) -> Option<EnteredAnswer> {
    match place {
        AnswerPlace::Record(seq) => Some(EnteredAnswer::of(place, answer_of(answers, seq)?)),
        AnswerPlace::Transaction(_) => None,
    }
}

/// An answer as an index knows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct EnteredAnswer {
    pub(super) fingerprint: Fingerprint,
    pub(super) shares_trace: bool,
    pub(super) place: AnswerPlace,
}

impl EnteredAnswer {
    pub(super) const fn of(place: AnswerPlace, answer: &RememberedAnswer) -> Self {
        let RememberedAnswer { fingerprint, shares_trace, .. } = *answer;
        Self { fingerprint, shares_trace, place }
    }
}

/// Answers that are not in the list of those that no transaction keeps.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnswersElsewhere<'a> {
    /// Those that transactions keep.
    pub(super) transactions: &'a Transactions,
    /// The answers of the tables for the command at hand.
    pub(super) recalled: &'a [(AnswerPlace, RememberedAnswer)],
}

impl AnswersElsewhere<'_> {
    fn find(&self, place: AnswerPlace) -> Option<EnteredAnswer> {
        let kept = match place {
            AnswerPlace::Transaction(seq) => self.transactions.get(seq),
            AnswerPlace::Record(_) => None,
        };
        let recalled = || self.recalled.iter().find(|known| known.0 == place);
        kept.and_then(|open| open.entered_answer(place))
            .or_else(|| Some(EnteredAnswer::of(place, &recalled()?.1)))
    }
}

/// Keys of messages as a restart reads them from the tables, beside the state they are for.
#[derive(Debug)]
pub struct MessageKeys {
    index: HashIndex,
    entered: u64,
    newest: NewestNumbers,
}

impl MessageKeys {
    /// Room for so many keys, as far as the limits allow them; the last transaction and the last
    /// record are what the tables know.
    pub fn with_room(
        keys: u64,
        limits: &CacheLimits,
        (transaction, record): (TransactionSeq, RecordSeq),
    ) -> Self {
        let keys = usize::try_from(keys).unwrap_or(usize::MAX).max(FIRST_KEYS);
        let index = HashIndex::with_capacity(Growth::Doubling, keys.min(limits.message_keys));
        Self { index, entered: 0, newest: NewestNumbers { transaction, record } }
    }

    /// Enters keys, the oldest first; their lines are asked for by groups.
    pub fn enter(&mut self, keys: &[(u64, AnswerPlace)]) {
        let places = DeadPlaces { newest: self.newest, floor: NewestNumbers::default() };
        for group in keys.chunks(GROUP_LEN) {
            group.iter().for_each(|(key, _)| self.index.prefetch(spread(*key)));
            for (key, place) in group {
                self.index.insert(spread(*key), place.value(), &places);
            }
        }
        self.entered += keys.len() as u64;
    }
}

/// Gathers the answers that may be the one to a message.
#[derive(Debug, Default)]
pub(super) struct CandidateAnswers {
    /// The newest answer under the same key.
    by_key: Option<RememberedAnswer>,
    /// The end of the newest answer under the same trace, and the content of its message.
    by_trace: Option<(Timestamp, u64)>,
}

impl CandidateAnswers {
    /// Takes an answer into account, given at the instant `at` or before.
    pub(super) fn add(
        &mut self,
        fingerprint: &Fingerprint,
        at: Timestamp,
        known: RememberedAnswer,
    ) {
        let ends = known.expires_at;
        if ends <= at {
            return;
        }
        if fingerprint.trace.is_some()
            && known.fingerprint.trace == fingerprint.trace
            && self.by_trace.is_none_or(|newest| newest.0 < ends)
        {
            self.by_trace = Some((ends, known.fingerprint.content));
        }
        if known.fingerprint.key == fingerprint.key
            && self.by_key.as_ref().is_none_or(|newest| newest.expires_at < ends)
        {
            self.by_key = Some(known);
        }
    }

    /// The verdict on the message.
    pub(super) fn known(self, fingerprint: &Fingerprint) -> DuplicateCheck {
        if let Some(answer) = self.by_key.filter(|_| fingerprint.window.may_match()) {
            return if answer.fingerprint.content == fingerprint.content {
                DuplicateCheck::Answered(answer.reply)
            } else {
                DuplicateCheck::Conflict
            };
        }
        match self.by_trace {
            Some((_, content)) if content != fingerprint.content => DuplicateCheck::Conflict,
            Some(_) => DuplicateCheck::NewOfTrace,
            None => DuplicateCheck::New,
        }
    }
}

/// An answer that may be asked for again, where it is kept.
#[derive(Clone, Copy, Debug)]
pub(super) enum KeptAnswer<'a> {
    /// With the transaction that its message made.
    Transaction(TransactionSeq, &'a OpenTransaction),
    /// By itself.
    Listed(&'a RememberedAnswer),
}

impl KeptAnswer<'_> {
    /// Its end and its key; none if the transaction keeps no answer.
    fn expiry(&self) -> Option<(Timestamp, DuplicateKey)> {
        match self {
            Self::Transaction(_, open) => {
                Some((open.answer_expires_at()?, open.fingerprint()?.key))
            }
            Self::Listed(answer) => Some((answer.expires_at, answer.fingerprint.key)),
        }
    }

    /// The answer itself; none if the transaction keeps none.
    pub(super) fn remembered(&self) -> Option<RememberedAnswer> {
        match self {
            Self::Transaction(seq, open) => open.remembered_answer(*seq),
            Self::Listed(answer) => Some((*answer).clone()),
        }
    }
}

/// The newest answer under each key that ends after `at`, in the order of expiry and key. Of answers
/// under one key that end together the last is the newest.
pub(super) fn sorted_answers<'a>(
    answers: impl Iterator<Item = KeptAnswer<'a>>,
    at: Timestamp,
) -> Vec<KeptAnswer<'a>> {
    let with_expiry = answers.filter_map(|answer| Some((answer.expiry()?, answer)));
    let mut sorted: Vec<_> = with_expiry.filter(|((expires_at, _), _)| *expires_at > at).collect();
    sorted.sort_by_key(|(expiry, _)| *expiry);
    let mut keys = HashSet::with_capacity(sorted.len());
    let newest_first = sorted.into_iter().rev().filter(|((_, key), _)| keys.insert(*key));
    let mut newest: Vec<_> = newest_first.map(|(_, answer)| answer).collect();
    newest.reverse();
    newest
}

#[cfg(test)]
#[path = "duplicates_tests.rs"]
mod tests;
