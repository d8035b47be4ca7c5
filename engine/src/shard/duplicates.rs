//! What the network said before: answers for repeats, traces for conflicts, early reversals.
//!
//! An entry is gone as soon as a record is applied at or after its `expires_at`; the projection
//! forgets by the same rule, so that live and recovered state agree.

use std::collections::{HashMap, VecDeque};

use crate::command::effect::{EarlyReversal, RememberedAnswer};
use crate::command::reply::NetworkReply;
use crate::domain::ids::Timestamp;
use crate::domain::network_key::{
    DuplicateKey, DuplicateWindow, Fingerprint, NetworkTrace, OriginalKey, RetrievalKey, TraceKey,
};

/// What is known of a message when it comes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Known<'a> {
    /// It is new.
    New,
    /// It was answered so.
    Answered(&'a NetworkReply),
    /// Its key or trace belongs to a message with other content.
    Conflict,
}

/// Answers by message key.
#[derive(Clone, Debug, Default)]
pub(super) struct RememberedAnswers {
    by_key: HashMap<DuplicateKey, RememberedAnswer>,
    by_trace: HashMap<TraceKey, (u64, Timestamp)>,
    // One queue for each window, because within one the order of arrival is that of expiry.
    expiring_by_day: VecDeque<(Timestamp, DuplicateKey, Option<TraceKey>)>,
    expiring_soon: VecDeque<(Timestamp, DuplicateKey, Option<TraceKey>)>,
}

impl RememberedAnswers {
    pub(super) fn find(&self, fingerprint: &Fingerprint, at: Timestamp) -> Known<'_> {
        let known = self.by_key.get(&fingerprint.key).filter(|answer| answer.expires_at > at);
        if let Some(answer) = known.filter(|_| fingerprint.window.may_match()) {
            return if answer.fingerprint.content == fingerprint.content {
                Known::Answered(&answer.reply)
            } else {
                Known::Conflict
            };
        }
        let trace = fingerprint.trace.and_then(|trace| self.by_trace.get(&trace));
        match trace {
            Some((content, expires_at)) if *expires_at > at && *content != fingerprint.content => {
                Known::Conflict
            }
            _ => Known::New,
        }
    }

    pub(super) fn insert(&mut self, answer: RememberedAnswer) {
        let (fingerprint, expires_at) = (answer.fingerprint, answer.expires_at);
        let queue = match fingerprint.window {
            DuplicateWindow::Day => &mut self.expiring_by_day,
            DuplicateWindow::RepeatsOnly { .. } => &mut self.expiring_soon,
        };
        queue.push_back((expires_at, fingerprint.key, fingerprint.trace));
        if let Some(trace) = fingerprint.trace {
            self.by_trace.insert(trace, (fingerprint.content, expires_at));
        }
        self.by_key.insert(fingerprint.key, answer);
    }

    pub(super) fn forget_expired(&mut self, at: Timestamp) {
        for queue in [&mut self.expiring_by_day, &mut self.expiring_soon] {
            while let Some((_, key, trace)) = queue.pop_front_if(|entry| entry.0 <= at) {
                // A key may have been renewed since; its later entry will come up in turn.
                if self.by_key.get(&key).is_some_and(|answer| answer.expires_at <= at) {
                    self.by_key.remove(&key);
                }
                if let Some(trace) = trace
                    && self.by_trace.get(&trace).is_some_and(|entry| entry.1 <= at)
                {
                    self.by_trace.remove(&trace);
                }
            }
        }
    }

    /// Every answer, in the order of expiry and key.
    pub(super) fn sorted(&self) -> Vec<&RememberedAnswer> {
        let mut answers: Vec<_> = self.by_key.values().collect();
        answers.sort_by_key(|answer| (answer.expires_at, answer.fingerprint.key));
        answers
    }
}

/// Reversals whose purchase has not been seen.
#[derive(Clone, Debug, Default)]
pub(super) struct EarlyReversals {
    by_original: HashMap<OriginalKey, Timestamp>,
    by_retrieval: HashMap<RetrievalKey, Timestamp>,
    expiring: VecDeque<EarlyReversal>,
}

impl EarlyReversals {
    /// Whether the purchase with these marks was reversed before it came.
    pub(super) fn names(&self, trace: &NetworkTrace, at: Timestamp) -> bool {
        let by_original = trace.original_key.and_then(|key| self.by_original.get(&key));
        let by_retrieval = trace.retrieval_key.and_then(|key| self.by_retrieval.get(&key));
        [by_original, by_retrieval].into_iter().flatten().any(|expires_at| *expires_at > at)
    }

    pub(super) fn insert(&mut self, reversal: EarlyReversal) {
        if let Some(key) = reversal.original_key {
            self.by_original.insert(key, reversal.expires_at);
        }
        if let Some(key) = reversal.retrieval_key {
            self.by_retrieval.insert(key, reversal.expires_at);
        }
        self.expiring.push_back(reversal);
    }

    pub(super) fn forget_expired(&mut self, at: Timestamp) {
        while let Some(gone) = self.expiring.pop_front_if(|entry| entry.expires_at <= at) {
            if let Some(key) = gone.original_key
                && self.by_original.get(&key).is_some_and(|expires_at| *expires_at <= at)
            {
                self.by_original.remove(&key);
            }
            if let Some(key) = gone.retrieval_key
                && self.by_retrieval.get(&key).is_some_and(|expires_at| *expires_at <= at)
            {
                self.by_retrieval.remove(&key);
            }
        }
    }

    /// Every early reversal, in the order of expiry and keys.
    pub(super) fn sorted(&self) -> Vec<EarlyReversal> {
        let mut reversals: Vec<_> = self.expiring.iter().copied().collect();
        reversals.sort_by_key(|entry| (entry.expires_at, entry.original_key, entry.retrieval_key));
        reversals.dedup();
        reversals
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::response_code::SubReason;

    fn fingerprint(key: u128, content: u64, window: DuplicateWindow) -> Fingerprint {
        let trace = (window == DuplicateWindow::Day).then_some(TraceKey(99));
        Fingerprint { key: DuplicateKey(key), trace, content, window }
    }

    fn remember(answers: &mut RememberedAnswers, fingerprint: Fingerprint, at: Timestamp) {
        let expires_at = at.plus(fingerprint.window.lifetime());
        let reply = NetworkReply::FormatError(SubReason::None);
        answers.insert(RememberedAnswer { fingerprint, expires_at, reply });
    }

    #[test]
    fn a_key_finds_its_answer_for_a_day_and_refuses_other_content() {
        let mut answers = RememberedAnswers::default();
        let start = Timestamp(1_000_000);
        let first = fingerprint(1, 5, DuplicateWindow::Day);
        remember(&mut answers, first, start);
        let (last, gone) = (start.plus(Timestamp::DAY - 1), start.plus(Timestamp::DAY));
        assert!(matches!(answers.find(&first, last), Known::Answered(_)));
        assert_eq!(answers.find(&first, gone), Known::New);
        let other = fingerprint(2, 6, DuplicateWindow::Day);
        assert_eq!(answers.find(&other, last), Known::Conflict);
        answers.forget_expired(gone);
        assert!(answers.sorted().is_empty());
    }

    #[test]
    fn without_time_and_reference_only_repeats_are_matched() {
        let mut answers = RememberedAnswers::default();
        let start = Timestamp(1_000_000);
        let original = fingerprint(1, 5, DuplicateWindow::RepeatsOnly { is_repeat: false });
        let repeat = fingerprint(1, 5, DuplicateWindow::RepeatsOnly { is_repeat: true });
        remember(&mut answers, original, start);
        assert_eq!(answers.find(&original, start.plus(1)), Known::New);
        assert!(matches!(answers.find(&repeat, start.plus(1)), Known::Answered(_)));
        assert_eq!(answers.find(&repeat, start.plus(10 * Timestamp::MINUTE)), Known::New);
    }
}
