//! Questions of a shard with limits to the tables, and the intake of their answers.
//!
//! A command that needs rows that are not in memory is not executed: `wanting` lists them, the
//! loader reads them, `admit` takes them in, and then the command is executed like any other.
//! `apply` changes the state; this file changes which parts of it are in memory.
//!
//! INVARIANT: rows that a snapshot of the tables does not have are in memory from before the
//! snapshot is taken until its answer is admitted: `evict` is never allowed past the oldest open
//! question.

use std::collections::BTreeMap;

use super::apply::expiry_timer_of;
use super::duplicates::{AnswerPlace, MessageKeys, NewestNumbers};
use super::execute_reversal::message_of;
use super::open_transaction::OpenTransaction;
use super::state::ShardState;
use super::timers::{Timer, TimerKind};
use super::transactions::{CacheLimits, PurchaseKey};
use crate::command::Command;
use crate::command::effect::RememberedAnswer;
use crate::command::network::{NetworkCommand, NetworkRequest, OriginalRef};
use crate::domain::ids::{CardSlot, RecordSeq, Timestamp, TransactionSeq};
use crate::domain::network_key::Fingerprint;
use crate::domain::public_id::IdMint;
use crate::domain::transaction::{TransactionProgress, TransactionRecord, TransactionState};
use crate::packed::RowAnswer;
use crate::store::LateHolds;
use crate::store::query::DueHolds;

/// The rows of the tables that a command needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecallRequest {
    /// These transactions.
    pub transactions: Vec<TransactionSeq>,
    /// The purchases that these keys name.
    pub purchases: Vec<PurchaseKey>,
    /// The answers at these places.
    pub answers: Vec<AnswerPlace>,
    /// The answers that may be the one to a message of these fingerprints, wherever they are.
    pub messages: Vec<Fingerprint>,
}

/// A transaction as the tables have it.
#[derive(Clone, Debug)]
pub struct LoadedTransaction {
    /// The part that never changes.
    pub record: TransactionRecord,
    /// The progress of the transaction.
    pub progress: TransactionProgress,
}

impl LoadedTransaction {
    /// Whether it has a key.
    pub fn carries(&self, key: PurchaseKey) -> bool {
        let trace = &self.record.trace;
        match key {
            PurchaseKey::Original(key) => trace.original_key == Some(key),
            PurchaseKey::Retrieval(key) => trace.retrieval_key == Some(key),
        }
    }

    /// Whether it was declined: its reference names any other transaction rather.
    pub fn is_declined(&self) -> bool {
        self.progress.state == TransactionState::Declined
    }

    /// Whether it leaves the marks that it shares to another transaction.
    pub const fn yields_marks(&self) -> bool {
        self.record.kind.yields_marks()
    }
}

/// The answer of the tables. Rows missing in it are not in the tables.
#[derive(Clone, Debug, Default)]
pub struct LoadedRows {
    /// Transactions, wanted by number or named by a key.
    pub transactions: Vec<LoadedTransaction>,
    /// The transaction that each key names.
    pub purchases: Vec<(PurchaseKey, Option<TransactionSeq>)>,
    /// The answers that may be the one to the message, and their places.
    pub answers: Vec<(AnswerPlace, RememberedAnswer)>,
}

/// The state of caching in a shard with limits.
#[derive(Clone, Debug)]
pub(super) struct CacheState {
    pub(super) limits: CacheLimits,
    /// The tables' answers for the command that is executed next.
    purchases: Vec<(PurchaseKey, Option<TransactionSeq>)>,
    answers: Vec<(AnswerPlace, RememberedAnswer)>,
    /// The progress of transactions that the journal's tail changed and that are not in memory.
    patches: BTreeMap<TransactionSeq, Patch>,
    /// The number of patches after which some are dropped.
    patches_until_drop: usize,
    /// The last record of that tail; none before the shard goes live.
    live_from: Option<RecordSeq>,
}

/// The progress of a transaction that is not in memory.
#[derive(Clone, Debug)]
struct Patch {
    progress: TransactionProgress,
    /// The record that left it so.
    changed_by: RecordSeq,
}

impl CacheState {
    /// Answers of the tables that may be the one to the message at hand.
    pub(super) fn answers(&self) -> &[(AnswerPlace, RememberedAnswer)] {
        &self.answers
    }

    /// The transaction that a key names in the tables.
    pub(super) fn purchase(&self, key: PurchaseKey) -> Option<TransactionSeq> {
        self.purchases.iter().find(|known| known.0 == key)?.1
    }

    /// Keeps how a transaction stands that is not in memory, while the journal's tail is replayed.
    pub(super) fn patch(
        &mut self,
        seq: TransactionSeq,
        progress: &TransactionProgress,
        changed_by: RecordSeq,
    ) {
        assert!(self.live_from.is_none(), "a live shard changes only what is in memory");
        self.patches.insert(seq, Patch { progress: progress.clone(), changed_by });
    }

    /// Drops the patches that the tables have, as far as record `until`.
    fn drop_patches(&mut self, until: RecordSeq) {
        if self.live_from.is_some_and(|live_from| live_from <= until) {
            self.patches = BTreeMap::new();
        } else if self.patches.len() > self.patches_until_drop {
            self.patches.retain(|_, patch| patch.changed_by > until);
            self.patches_until_drop = self.limits.unseen_changes.max(2 * self.patches.len());
        }
    }
}

impl ShardState {
    /// A state that keeps no more of the past in memory than this; the rest is read from the tables.
    pub fn with_limits(limits: CacheLimits) -> Self {
        assert!(
            limits.loaded_transactions >= CacheLimits::LOADED_MIN,
            "what one command needs fits the cache"
        );
        let caching = CacheState {
            limits,
            purchases: Vec::new(),
            answers: Vec::new(),
            patches: BTreeMap::new(),
            patches_until_drop: limits.unseen_changes,
            live_from: None,
        };
        let mut state = Self { caching: Some(caching), ..Self::default() };
        state.transactions.reserve(limits.recent_transactions);
        state.messages.reserve(limits.message_keys);
        state.timers.limit_to(Timestamp::MIN);
        state
    }

    /// Notes the instant from which on holds may be late: that of the checkpoint, or an earlier one that
    /// stands beside it. Cost of an earlier one: the tables' rows of that time are read.
    pub(crate) fn expect_late_holds_from(&mut self, since: Timestamp) {
        if self.caching.is_some() {
            self.timers.limit_to(since.plus(-1));
        }
    }

    /// Ends the replay: from here on only transactions in memory are changed, and holds end. No timer
    /// is known, also none that was put off while the tables could not be read.
    pub fn go_live(&mut self) {
        self.recent_changes.begin_after(self.last_seq);
        let Some(caching) = &mut self.caching else { return };
        caching.live_from.get_or_insert(self.last_seq);
    }

    /// Takes in an answer from the tables at a restart; its key comes by `take_in_keys`.
    pub fn restore_answer(&mut self, at: RecordSeq, answer: RememberedAnswer) {
        self.messages.keep(at, answer);
    }

    /// Takes in the answer that the message of the transaction `seq` got, at a restart.
    pub fn restore_transaction_answer(&mut self, seq: TransactionSeq, answer: &RememberedAnswer) {
        if let Some(open) = self.transactions.get_mut(seq) {
            open.keep_answer(RowAnswer::read(answer));
        }
    }

    /// Takes in the keys of the last day at a restart, after `resume_from` and before any other.
    pub fn take_in_keys(&mut self, keys: MessageKeys) {
        self.messages.take_in(keys);
    }

    /// The rows that a command needs and that are not in memory; none if it can be executed.
    pub fn wanting(&self, ids: &IdMint, command: &Command) -> Option<RecallRequest> {
        self.caching.as_ref()?;
        let Command::Network(request) = command else { return None };
        let is_answer_known = request.identities().all(|print| self.is_answer_known(print));
        let original = self.original_of(request);
        let is_settled =
            original.is_none_or(|(card, original)| self.is_settled(ids, card, &original));
        let is_reversal = matches!(request.command, NetworkCommand::Reverse(_));
        let reversed = original.filter(|_| is_reversal);
        let is_settled = is_settled
            && reversed.is_none_or(|(card, named)| self.is_message_settled(ids, card, &named));
        // Also where the tables are asked: they may not have the refund yet, and would not name it.
        let refunded = reversed.and_then(|(card, named)| self.refunded_purchase(ids, card, &named));
        if is_answer_known && is_settled && refunded.is_none_or(|seq| !self.is_away(seq)) {
            return None;
        }
        let mut wanted = RecallRequest::default();
        wanted.transactions.extend(refunded);
        request.identities().for_each(|print| self.want_answers(print, &mut wanted));
        if let Some((card, original)) = original {
            self.want_original(ids, card, &original, &mut wanted);
        }
        Some(wanted)
    }

    /// Whether memory alone tells what a message was answered, if it was.
    fn is_answer_known(&self, fingerprint: &Fingerprint) -> bool {
        let (mut is_found, mut is_all_here) = (false, true);
        self.messages.each_place(fingerprint, &self.newest(), |place| {
            let known = self.fingerprint_at(place);
            is_found |= known.is_some_and(|known| known.key == fingerprint.key);
            is_all_here &= known.is_some();
        });
        is_all_here && (is_found || self.messages.is_complete(self.last_at))
    }

    fn fingerprint_at(&self, place: AnswerPlace) -> Option<&Fingerprint> {
        match place {
            AnswerPlace::Transaction(seq) => self.transactions.get(seq)?.fingerprint(),
            AnswerPlace::Record(seq) => {
                self.messages.answer_at(seq).map(|answer| &answer.fingerprint)
            }
        }
    }

    /// Wants every answer that may be the one to a message, known or not: until the tables answer,
    /// what they have may leave memory.
    fn want_answers(&self, fingerprint: &Fingerprint, wanted: &mut RecallRequest) {
        self.messages.each_place(fingerprint, &self.newest(), |place| wanted.answers.push(place));
        if !self.messages.is_complete(self.last_at) {
            wanted.messages.push(*fingerprint);
        }
    }

    /// The transaction a message names, and its card.
    fn original_of(&self, request: &NetworkRequest) -> Option<(Option<CardSlot>, OriginalRef)> {
        let (card, original) = match &request.command {
            NetworkCommand::Authorize(_)
            | NetworkCommand::InquireBalance(_)
            | NetworkCommand::Transfer(_) => return None,
            NetworkCommand::Increment(increment) => (increment.card, increment.original),
            NetworkCommand::Advise(advise) => (Some(advise.facts.card), advise.original),
            NetworkCommand::Reverse(reverse) => (reverse.card, reverse.original),
            NetworkCommand::Present(present) => {
                (present.facts.as_ref().map(|facts| facts.card), present.original)
            }
            NetworkCommand::Refund(refund) => (Some(refund.facts.card), refund.original),
            NetworkCommand::ConcludeTransfer(conclude) => {
                let transaction = Some(conclude.transaction);
                (None, OriginalRef { transaction, ..OriginalRef::default() })
            }
        };
        Some((card.and_then(|card| self.find_card(card)), original))
    }

    /// Whether memory alone tells which purchase a message names.
    fn is_settled(&self, ids: &IdMint, card: Option<CardSlot>, named: &OriginalRef) -> bool {
        if self.transactions.is_whole() {
            return true;
        }
        if let Some(seq) = named.transaction.and_then(|id| ids.open_transaction_id(id)) {
            return !self.is_away(seq);
        }
        let by_authorization = card.zip(named.authorization_id);
        let mut sequences = by_authorization.into_iter().flat_map(|(_, id)| self.sequences_of(id));
        // The newest transaction with the card decides; one that is not in memory might be it.
        let decisive = sequences.find(|seq| {
            self.is_away(*seq) || self.transaction(*seq).is_some_and(|found| found.card == card)
        });
        if let Some(seq) = decisive {
            return !self.is_away(seq);
        }
        match (named.original_key, named.retrieval_key) {
            (None, None) => true,
            (Some(key), _) => self.names_purchase(PurchaseKey::Original(key)),
            (None, Some(key)) => self.names_purchase(PurchaseKey::Retrieval(key)),
        }
    }

    /// Whether memory alone tells which message a reversal names, where it tells the purchase.
    fn is_message_settled(
        &self,
        ids: &IdMint,
        card: Option<CardSlot>,
        named: &OriginalRef,
    ) -> bool {
        let Some(key) = named.original_key.filter(|_| !self.transactions.is_whole()) else {
            return true;
        };
        let found = self.find_original(ids, card, named);
        found.is_none_or(|(_, open)| message_of(open, key, named.class).is_some())
            || self.names_purchase(PurchaseKey::Original(key))
    }

    /// Whether memory alone tells that a key names a purchase.
    fn names_purchase(&self, key: PurchaseKey) -> bool {
        self.transactions.find_by_key(key).is_some_and(|found| !found.1.yields_marks())
    }

    /// The purchase that the refund gave money back for which a reversal names, where the refund is
    /// in memory.
    fn refunded_purchase(
        &self,
        ids: &IdMint,
        card: Option<CardSlot>,
        named: &OriginalRef,
    ) -> Option<TransactionSeq> {
        self.find_reversed(ids, card, named)?.1.refund_of
    }

    /// Whether only the tables know of a transaction.
    fn is_away(&self, seq: TransactionSeq) -> bool {
        self.transactions.is_before_ring(seq) && self.transactions.get(seq).is_none()
    }

    /// Wants everything a message names its purchase by, known or not, for the same reason.
    fn want_original(
        &self,
        ids: &IdMint,
        card: Option<CardSlot>,
        named: &OriginalRef,
        wanted: &mut RecallRequest,
    ) {
        let by_id = named.transaction.and_then(|id| ids.open_transaction_id(id));
        wanted.transactions.extend(by_id);
        if let (Some(_), Some(id)) = (card, named.authorization_id) {
            wanted.transactions.extend(self.sequences_of(id));
        }
        wanted.purchases.extend(named.original_key.map(PurchaseKey::Original));
        wanted.purchases.extend(named.retrieval_key.map(PurchaseKey::Retrieval));
    }

    /// Takes in an answer of the tables. Its keys and answers serve the command that is executed
    /// next, until `dismiss`.
    pub fn admit(&mut self, loaded: LoadedRows) {
        let Some(caching) = &mut self.caching else { return };
        for LoadedTransaction { record, mut progress } in loaded.transactions {
            let mut changed_by = RecordSeq(0);
            if let Some(newer) = caching.patches.get(&record.seq) {
                progress.clone_from(&newer.progress);
                // Timers, too, must know it as changed, until the tables have the change.
                changed_by = newer.changed_by;
            }
            let open = OpenTransaction::of(&record, progress, changed_by);
            self.transactions.load(record.seq, open);
        }
        caching.purchases = loaded.purchases;
        caching.answers = loaded.answers;
    }

    /// Forgets what the tables said for the last command.
    pub fn dismiss(&mut self) {
        if let Some(caching) = &mut self.caching {
            caching.purchases.clear();
            caching.answers.clear();
        }
    }

    /// Lets go of what is beyond the limits. `until` is the newest record that the tables had when
    /// the oldest question was asked that is still open, or that they have now.
    pub fn evict(&mut self, until: RecordSeq) {
        let Some(caching) = &mut self.caching else { return };
        self.transactions.evict(&caching.limits, until);
        let next = NewestNumbers {
            transaction: self.last_transaction.next(),
            record: self.last_seq.next(),
        };
        self.messages.evict(&caching.limits, until, (self.last_at, next));
        caching.drop_patches(until);
    }

    /// Until when every timer is in memory.
    pub const fn timers_known_until(&self) -> Timestamp {
        self.timers.known_until()
    }

    /// Takes in the holds that end next after `timers_known_until`, as the tables had them at record
    /// `as_of` or later.
    pub fn learn_timers(&mut self, due: &DueHolds, as_of: RecordSeq) {
        let patches = self.caching.as_ref().map(|caching| &caching.patches);
        self.timers.limit_to(due.until);
        // What the tables cannot read may be in memory.
        let unreadable = due.unreadable.iter().map(|seq| (*seq, Timestamp::MAX));
        for (seq, due) in due.holds.iter().copied().chain(unreadable) {
            let open = self.transactions.get_open(seq).map(|open| &open.progress);
            let newer = open.or_else(|| Some(&patches?.get(&seq)?.progress));
            let due = newer.map_or(due, expiry_timer_of);
            self.timers.reschedule(TimerKind::HoldExpiry(seq), Timestamp::MAX, due);
        }
        // Changes that the tables have not seen are in memory, whatever their age: an increment
        // moves the end of an old hold, from a time asked for before to one asked for now.
        let unseen = self.transactions.iter().filter(|(_, open)| open.changed_seq > as_of);
        let unseen = unseen.map(|(seq, open)| (seq, &open.progress));
        // A row that was loaded since the patch may have changed again.
        let patched = patches.into_iter().flatten().map(|(seq, patch)| (*seq, &patch.progress));
        let patched = patched.filter(|(seq, _)| self.transactions.get(*seq).is_none());
        for (seq, progress) in unseen.chain(patched) {
            let due = expiry_timer_of(progress);
            self.timers.reschedule(TimerKind::HoldExpiry(seq), Timestamp::MAX, due);
        }
    }

    /// The transactions that a timer needs and the tables alone have, and those that the timers
    /// after it need by `until`; empty where the timer can run.
    pub fn wanted_by_timer(&self, timer: Timer, until: Timestamp) -> Vec<TransactionSeq> {
        let away = |timer: &Timer| match timer.kind {
            TimerKind::HoldExpiry(seq) if self.transactions.get(seq).is_none() => Some(seq),
            _ => None,
        };
        let Some(caching) = self.caching.as_ref().filter(|_| away(&timer).is_some()) else {
            return Vec::new();
        };
        let most = (caching.limits.loaded_transactions / 2).min(TIMER_LOAD_MAX);
        let timers = self.timers.iter().take_while(|next| next.due <= until.max(timer.due));
        timers.filter_map(away).take(most).collect()
    }

    /// Puts off the timers of those of these transactions that the tables could not give. Their holds end
    /// late: with a start that reads them. Returns these transactions.
    pub(super) fn put_off_timers(
        &mut self,
        wanted: impl IntoIterator<Item = TransactionSeq>,
    ) -> Vec<TransactionSeq> {
        let away = wanted.into_iter().filter(|seq| self.transactions.get(*seq).is_none());
        let away: Vec<_> = away.collect();
        if !away.is_empty() {
            self.timers.put_off(away.iter().map(|seq| TimerKind::HoldExpiry(*seq)).collect());
        }
        away
    }

    /// Takes timers back that were put off, for the tables could give their transactions now.
    pub(super) fn take_back_timers(
        &mut self,
        loaded: &LoadedRows,
        until: Timestamp,
        as_of: RecordSeq,
    ) {
        let rows = loaded.transactions.iter();
        let holds: Vec<_> =
            rows.map(|row| (row.record.seq, expiry_timer_of(&row.progress))).collect();
        self.timers.take_back(holds.iter().map(|(seq, _)| TimerKind::HoldExpiry(*seq)));
        self.learn_timers(&DueHolds { holds, until, ..DueHolds::default() }, as_of);
    }

    /// Notes since when this state knows no ends of holds.
    pub(crate) fn expect_holds_in(&self, late_holds: &LateHolds) {
        if self.caching.is_some() {
            late_holds.expect(self.timers_known_until());
        }
    }

    /// In a cluster no hold is late, but where a directory brought it in: a leader that cannot read its tables
    /// stops, and the next one goes on.
    pub(super) fn expect_few_late_holds(&mut self, since: Option<Timestamp>) {
        self.expect_late_holds_from(since.map_or(self.last_at, |since| since.min(self.last_at)));
    }

    /// The transactions whose holds end late, with the next start that reads them.
    pub fn holds_put_off(&self) -> impl Iterator<Item = TransactionSeq> {
        self.timers.iter_put_off().filter_map(|kind| match kind {
            TimerKind::HoldExpiry(seq) => Some(*seq),
            TimerKind::AllowanceEnd(_) => None,
        })
    }

    /// The number of transactions in memory.
    pub fn transactions_in_memory(&self) -> usize {
        self.transactions.len()
    }
}

/// The most transactions that are loaded at a time for timers.
const TIMER_LOAD_MAX: usize = 4_096;
