//! Queries of the shard, against a model that looks at every record.

use std::collections::{BTreeMap, BTreeSet};
use std::iter;

use proptest::prelude::*;

use super::model::Model;
use super::world::journal;
use super::*;
use crate::command::NewTransaction;
use crate::command::effect::{Effect, RememberedAnswer};
use crate::command::reply::NetworkReply;
use crate::domain::ids::{CardSlot, Timestamp, TransactionSeq};
use crate::domain::money::{CurrencyCode, Minor};
use crate::domain::network_key::{
    DuplicateKey, DuplicateWindow, Fingerprint, OriginalKey, RetrievalKey, TraceKey,
};
use crate::domain::transaction::{
    TransactionKind, TransactionProgress, TransactionRecord, TransactionState,
};
use crate::journal::testing::next_random;
use crate::packed::RowAnswer;
use crate::store::AnswerPlace;
use crate::store::StoreError;
use crate::store::query::{Page, PurchaseKey, TransactionRow};

/// A journal whose transactions carry names from a small stock, whose holds end, and some of whose
/// answers follow from their transaction.
pub(super) struct NetworkJournal {
    random: u64,
    /// When each trace was last answered.
    traces: BTreeMap<u128, Timestamp>,
    open: BTreeMap<TransactionSeq, TransactionProgress>,
    records: Vec<Record>,
}

impl NetworkJournal {
    pub(super) fn make(seed: u64, len: usize) -> Vec<Record> {
        let (traces, open) = Default::default();
        let mut made = Self { random: seed, traces, open, records: Vec::new() };
        for record in journal(seed, len) {
            made.take(record);
        }
        made.records
    }

    fn below(&mut self, bound: u64) -> u64 {
        next_random(&mut self.random) % bound
    }

    fn take(&mut self, mut record: Record) {
        for effect in &mut record.effects {
            match effect {
                Effect::Transaction(made) => self.name(&mut made.record, &mut made.progress),
                Effect::TransactionProgress(seq, progress) => self.change(*seq, progress),
                _ => {}
            }
        }
        self.move_a_hold(&mut record);
        self.answer_from_the_row(&mut record);
        self.records.push(record);
    }

    fn name(&mut self, row: &mut TransactionRecord, progress: &mut TransactionProgress) {
        row.trace.original_key = Some(OriginalKey(self.below(25))).filter(|key| key.0 < 20);
        row.trace.retrieval_key = Some(RetrievalKey(self.below(25))).filter(|key| key.0 < 20);
        if self.below(2) == 0 {
            row.kind = TransactionKind::Refund;
        }
        if !progress.held.is_empty() {
            let odd = i64::try_from(self.below(20 * 86_400)).unwrap() * Timestamp::SECOND;
            let lifetime = [7 * Timestamp::DAY, 7 * Timestamp::DAY, 30 * Timestamp::DAY, odd];
            let lifetime = lifetime[usize::try_from(self.below(4)).unwrap()];
            progress.hold_expires_at = row.authorized_at.plus(lifetime);
            self.open.insert(row.seq, progress.clone());
        }
    }

    fn change(&mut self, seq: TransactionSeq, progress: &mut TransactionProgress) {
        match self.open.remove(&seq) {
            Some(open) if !progress.held.is_empty() => {
                progress.hold_expires_at = open.hold_expires_at;
                self.open.insert(seq, progress.clone());
            }
            _ => {}
        }
    }

    /// Moves the end of some open hold, at times to where it was.
    fn move_a_hold(&mut self, record: &mut Record) {
        if self.open.is_empty() || self.below(4) > 0 {
            return;
        }
        let place = usize::try_from(self.below(self.open.len() as u64)).unwrap();
        let later = i64::try_from(self.below(20 * 86_400)).unwrap() * Timestamp::SECOND;
        let (seq, progress) = self.open.iter_mut().nth(place).unwrap();
        if later % 3 > 0 {
            progress.hold_expires_at = record.at.plus(later + 1);
        }
        record.effects.push(Effect::TransactionProgress(*seq, Box::new(progress.clone())));
    }

    fn answer_from_the_row(&mut self, record: &mut Record) {
        if self.below(3) == 0 {
            return;
        }
        let made = record.effects.iter_mut().find_map(|effect| match effect {
            Effect::Transaction(made) => Some(made),
            _ => None,
        });
        let Some(made) = made else { return };
        let (key, is_traced) = (self.below(40), self.below(2) == 0);
        // A key has the elements of its trace. No message has a key like a trace's: hashes of 64 bits do not meet.
        let trace = is_traced.then(|| TraceKey(7 << 64 | u128::from(500 + key % 8)));
        let ends = trace.and_then(|trace| self.traces.insert(trace.0, record.at));
        made.answer = Some(RowAnswer {
            fingerprint: Fingerprint {
                key: DuplicateKey(u128::from(key) + if is_traced { 100_000 } else { 0 }),
                trace,
                content: self.below(1_000),
                window: DuplicateWindow::Day,
            },
            shares_trace: ends.is_some_and(|given| given.plus(Timestamp::DAY) > record.at),
            allowance_balance: Minor(5),
            currency: CurrencyCode(840),
        });
        record.effects.retain(|effect| !matches!(effect, Effect::Answer(_)));
    }
}

/// Every answer ever given, by place.
fn answers_of(records: &[Record]) -> Vec<(AnswerPlace, Timestamp, RememberedAnswer)> {
    let mut answers = Vec::new();
    for record in records {
        for effect in &record.effects {
            let (place, answer) = match effect {
                Effect::Transaction(made) => {
                    let Some(answer) = &made.answer else { continue };
                    let place = AnswerPlace::Transaction(made.record.seq);
                    (place, answer.answer(&made.record))
                }
                Effect::Answer(answer) => (AnswerPlace::Record(record.seq), (**answer).clone()),
                _ => continue,
            };
            answers.push((place, record.at, answer));
        }
    }
    answers
}

/// A store that took the records in runs of these lengths.
fn store_in_runs(records: &[Record], cuts: &[usize]) -> Store {
    let store = empty_store();
    let mut done = 0;
    for (turn, cut) in cuts.iter().cycle().enumerate() {
        let end = (done + cut).min(records.len());
        let kind = if turn % 3 == 2 { CommitKind::Checkpoint } else { CommitKind::Visible };
        let run = gather(&records[done..end]);
        store.commit(&run, position_after(&records[..end]), kind).unwrap();
        done = end;
        if done == records.len() {
            // Forgets what ended as of the newest record.
            let nothing_new = Projection::default();
            let position = position_after(records);
            store.commit(&nothing_new, position, CommitKind::Checkpoint).unwrap();
            return store;
        }
    }
    unreachable!("runs have a length")
}

/// A name is found at the first row that is read, whatever else carries it.
fn check_names(store: &Store, model: &Model) {
    let snapshot = store.read().unwrap();
    for key in 0..21 {
        let all = || model.transactions.values();
        let is_declined = |row: &&TransactionRow| row.progress.state == TransactionState::Declined;
        let owner = |has: &dyn Fn(&TransactionRecord) -> bool| {
            let carriers = || all().filter(|row| !is_declined(row) && has(&row.record));
            let newest = carriers().rfind(|row| !row.record.kind.yields_marks());
            newest.or_else(|| carriers().next()).map(|row| row.record.seq)
        };
        let found = |name| {
            let mut rows_read = 0;
            let found = snapshot.owner_of(name, |seq| {
                rows_read += 1;
                Ok(Some(seq))
            });
            assert!(rows_read <= 1);
            found.unwrap()
        };
        let (original, retrieval) = (OriginalKey(key), RetrievalKey(key));
        let expected = owner(&|record| record.trace.original_key == Some(original));
        assert_eq!(found(PurchaseKey::Original(original)), expected);
        let has = |record: &TransactionRecord| record.trace.retrieval_key == Some(retrieval);
        let declined = || all().rfind(|row| is_declined(row) && has(&row.record));
        let expected = owner(&has).or_else(|| declined().map(|row| row.record.seq));
        assert_eq!(found(PurchaseKey::Retrieval(retrieval)), expected);
    }
}

fn check_answers(store: &Store, records: &[Record], model: &Model) {
    let snapshot = store.read().unwrap();
    let given = answers_of(records);
    let applied_at = snapshot.checkpoint().unwrap().applied_at;
    for (seq, row) in &model.transactions {
        let recalled = snapshot.recall(*seq).unwrap().unwrap();
        assert_eq!(recalled.row, *row);
        let of_row = given.iter().find(|(place, ..)| *place == AnswerPlace::Transaction(*seq));
        assert_eq!(recalled.answer.as_ref(), of_row.map(|(.., answer)| answer));
    }
    let is_open = |answer: &RememberedAnswer| answer.expires_at > applied_at;
    for (.., asked) in &given {
        let message = &asked.fingerprint;
        let found = snapshot.answers_to(message).unwrap();
        assert!(found.len() <= 6, "{found:?}");
        for (place, answer) in &found {
            let (.., expected) = given.iter().find(|(known, ..)| known == place).unwrap();
            assert_eq!(answer, expected);
            assert_eq!(snapshot.answer_at(*place).unwrap().as_ref(), Some(answer));
        }
        let newest = |is_it: &dyn Fn(&Fingerprint) -> bool| {
            let open = given.iter().filter(|(.., answer)| is_open(answer));
            open.filter(|(.., answer)| is_it(&answer.fingerprint)).max_by_key(|(_, at, _)| *at)
        };
        let of_key = newest(&|known| known.key == message.key);
        let of_trace = newest(&|known| known.trace.is_some() && known.trace == message.trace);
        for (place, _, answer) in of_key.into_iter().chain(of_trace) {
            assert!(found.contains(&(*place, answer.clone())), "{place:?} {message:?}");
        }
    }
}

fn check_restart(store: &Store, records: &[Record]) {
    let given = answers_of(records);
    let applied_at = store.checkpoint().unwrap().applied_at;
    for hours in [0, 1, 12, 23] {
        let since = applied_at.plus(-hours * Timestamp::HOUR);
        let mut found = Vec::new();
        store.message_keys_since(since, |key, place| found.push((key, place))).unwrap();
        let keys_of = |answer: &RememberedAnswer| {
            let (key, further) = answer.fingerprint.index_keys(answer.shares_trace);
            iter::once(key).chain(further)
        };
        for (key, place) in &found {
            let (.., answer) = given.iter().find(|(known, ..)| known == place).unwrap();
            assert!(keys_of(answer).any(|known| known == *key), "{key} {place:?}");
        }
        let open: Vec<_> = given
            .iter()
            .filter(|(_, at, answer)| *at >= since && answer.expires_at > applied_at)
            .collect();
        for (place, at, answer) in &open {
            let Fingerprint { key, trace, .. } = answer.fingerprint;
            let is_newest = |is_it: &dyn Fn(&Fingerprint) -> bool| {
                open.iter().all(|(_, other, known)| other <= at || !is_it(&known.fingerprint))
            };
            if is_newest(&|known| known.key == key) {
                assert!(found.contains(&(keys_of(answer).next().unwrap(), *place)), "{place:?}");
            }
            if let Some(trace) = answer.fingerprint.trace_half()
                && is_newest(&|known| known.trace == answer.fingerprint.trace)
            {
                assert!(found.contains(&(trace, *place)), "{place:?}");
            }
            assert!(trace.is_some() || !answer.shares_trace);
        }
    }
}

/// The holds of the model that end within a time, the first to end first.
fn holds_of(model: &Model, after: Timestamp, until: Timestamp) -> Vec<(TransactionSeq, Timestamp)> {
    let open = model.transactions.values().filter(|row| !row.progress.held.is_empty());
    let mut holds: Vec<_> =
        open.map(|row| (row.record.seq, row.progress.hold_expires_at)).collect();
    holds.retain(|(_, at)| after < *at && *at <= until);
    holds.sort_by_key(|(seq, at)| (*at, *seq));
    holds
}

fn check_holds(store: &Store, model: &Model, random: &mut u64) {
    let snapshot = store.read().unwrap();
    let applied_at = snapshot.checkpoint().unwrap().applied_at;
    let mut days = |bound: u64| {
        let seconds = next_random(random) % (bound * 86_400);
        i64::try_from(seconds).unwrap() * Timestamp::SECOND
    };
    for _ in 0..30 {
        let after = applied_at.plus(days(10) - 1);
        let until = after.plus(days(40));
        let due = snapshot.holds_due(after, until, 1_000).unwrap();
        assert_eq!(due.until, until);
        assert_eq!(due.holds, holds_of(model, after, until));
    }
    assert_eq!(snapshot.holds_due(applied_at, applied_at, 9).unwrap().holds, []);
    let ends = holds_of(model, applied_at, applied_at.plus(30 * Timestamp::DAY));
    for (seq, end) in ends.iter().take(20) {
        let by_its_end = snapshot.holds_due(applied_at, *end, 1_000).unwrap();
        assert_eq!(by_its_end.holds, holds_of(model, applied_at, *end), "up to {seq:?}");
        let behind = snapshot.holds_due(*end, end.plus(1), 1_000).unwrap();
        assert_eq!(behind.holds, holds_of(model, *end, end.plus(1)), "behind {seq:?}");
    }
    let ever = snapshot.holds_due(applied_at, Timestamp::MAX, 1_000).unwrap();
    assert_eq!(ever.holds, holds_of(model, applied_at, Timestamp(i64::MAX - 1)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_is_asked_back_is_what_the_journal_said(
        seed in any::<u64>(),
        cuts in prop::collection::vec(1_usize..60, 1..8),
    ) {
        let records = NetworkJournal::make(seed, 300);
        let store = store_in_runs(&records, &cuts);
        let model = Model::of(&records);
        check_names(&store, &model);
        check_answers(&store, &records, &model);
        check_restart(&store, &records);
        check_holds(&store, &model, &mut seed.clone());
    }
}

/// More holds than are wanted at a time come piece by piece, none twice and none left out.
#[test]
fn many_holds_come_in_pieces() {
    let records = busy_journal(20_000);
    let store = store_of(&records);
    let snapshot = store.read().unwrap();
    let applied_at = snapshot.checkpoint().unwrap().applied_at;
    let end = applied_at.plus(40 * Timestamp::DAY);
    let (mut after, mut found, mut pieces) = (applied_at, Vec::new(), 0);
    while after < end {
        let due = snapshot.holds_due(after, end, 3_000).unwrap();
        assert!(due.until > after && due.until <= end);
        found.extend(due.holds);
        after = due.until;
        pieces += 1;
    }
    assert!(pieces > 2, "{pieces} pieces");
    assert_eq!(found, holds_of(&Model::of(&records), applied_at, end));
    assert_eq!(found.len(), 20_000);
}

/// A journal that ends with this many authorizations, a second apart.
fn busy_journal(authorizations: u64) -> Vec<Record> {
    let mut records = journal(3, 200);
    let is_purchase = |effect: &Effect| match effect {
        Effect::Transaction(made) => {
            let NewTransaction { record, progress, .. } = &**made;
            (!progress.held.is_empty()).then(|| (record.clone(), progress.clone()))
        }
        _ => None,
    };
    let sample = records.iter().flat_map(|record| &record.effects).find_map(is_purchase);
    let (sample_row, sample_progress) = sample.unwrap();
    let mut seq = Model::of(&records).transactions.keys().next_back().unwrap().0;
    let mut last = records.last().unwrap().clone();
    for number in 0..authorizations {
        seq += 1;
        last =
            Record { seq: last.seq.next(), at: last.at.plus(Timestamp::SECOND), effects: vec![] };
        let (mut row, mut progress) = (sample_row.clone(), sample_progress.clone());
        (row.seq, row.authorized_at) = (TransactionSeq(seq), last.at);
        let days = if number % 5 == 0 { 30 } else { 7 };
        progress.hold_expires_at = last.at.plus(days * Timestamp::DAY);
        last.effects.push(Effect::Transaction(Box::new(NewTransaction::of(row, progress))));
        records.push(last.clone());
    }
    records
}

/// Flips a byte in each of these blocks of transactions, chosen by the last block's number: of its head and places,
/// or the last one of its last row. Returns the transactions that are lost.
fn damage_blocks(
    store: &Store,
    chosen: impl FnOnce(usize) -> Vec<(usize, usize)>,
) -> BTreeSet<TransactionSeq> {
    let write_txn = store.database.begin_write().unwrap();
    let mut lost = BTreeSet::new();
    {
        let mut blocks = write_txn.open_table(TRANSACTION_BLOCKS).unwrap();
        let keys: Vec<u64> = blocks.iter().unwrap().map(|row| row.unwrap().0.value()).collect();
        let last = keys.len() - 1;
        assert!(last > 4, "{last} blocks");
        for (at, place) in chosen(last) {
            let mut bytes = blocks.get(keys[at]).unwrap().unwrap().value().to_vec();
            let place = place.min(bytes.len() - 1);
            bytes[place] ^= 1;
            blocks.insert(keys[at], bytes.as_slice()).unwrap();
            let first = if place == 20 { keys[at - 1] + 1 } else { keys[at] };
            lost.extend((first..=keys[at]).map(TransactionSeq));
        }
    }
    write_txn.commit().unwrap();
    store.forget_view();
    lost
}

/// Where a search by time probed a damaged block of old transactions, it failed: each checkpoint searches for the
/// first messages to keep, so the projector ended.
#[test]
fn a_damaged_old_block_stops_no_checkpoint_and_no_answer() {
    let records = busy_journal(3_000);
    let (behind, before) = records.split_last().unwrap();
    let store = store_of(before);
    let applied_at = store.checkpoint().unwrap().applied_at;
    let keys_since = |hours: i64| {
        let (mut found, since) = (Vec::new(), applied_at.plus(-hours * Timestamp::HOUR));
        store.message_keys_since(since, |key, place| found.push((key, place))).unwrap();
        found
    };
    let (_, _, answered) = answers_of(before).pop().unwrap();
    let card = before.iter().flat_map(|record| &record.effects).rev().find_map(made_with).unwrap();
    let answers = || store.read().unwrap().answers_to(&answered.fingerprint).unwrap();
    let whole = (keys_since(0), keys_since(24), answers());
    damage_blocks(&store, |last| (1..last).map(|at| (at, 20)).collect());
    assert_eq!((keys_since(0), keys_since(24), answers()), whole);
    let run = gather(std::slice::from_ref(behind));
    store.commit(&run, position_after(&records), CommitKind::Checkpoint).unwrap();
    store.restore(RestoreScope::Recent { transactions: 1 }, &mut |_| {}).unwrap();
    // A list passes over nothing that it cannot read.
    let (snapshot, before_last) =
        (store.read().unwrap(), applied_at.plus(-600 * Timestamp::SECOND));
    let page = Page { created_before: Some(before_last), ..Page::first(1) };
    let listed = snapshot.list_card_transactions(card, &page);
    assert!(matches!(listed, Err(StoreError::Damaged { .. })), "{listed:?}");
}

/// One row that could not be read kept every hold from ending, without a sign.
#[test]
fn damaged_rows_keep_no_other_hold_from_being_found() {
    let records = busy_journal(3_000);
    let store = store_of(&records);
    let applied_at = store.checkpoint().unwrap().applied_at;
    let ends = holds_of(&Model::of(&records), applied_at, applied_at.plus(40 * Timestamp::DAY));
    // In one block a row, of another the places, and of the last one, too, where the search ends.
    let lost = damage_blocks(&store, |last| vec![(1, usize::MAX), (3, 20), (last, 20)]);
    let snapshot = store.read().unwrap();
    let (mut after, mut found, mut unreadable) = (applied_at, Vec::new(), BTreeSet::new());
    while after < applied_at.plus(40 * Timestamp::DAY) {
        let until = after.plus(Timestamp::HOUR);
        let due = snapshot.holds_due(after, until, 1_000_000).unwrap();
        found.extend(due.holds);
        unreadable.extend(due.unreadable);
        after = due.until;
    }
    assert_eq!(unreadable, lost);
    let expected: Vec<_> = ends.into_iter().filter(|(seq, _)| !lost.contains(seq)).collect();
    assert_eq!(found, expected);
}

/// The end of a hold that an increment had moved was forgotten once it was past, also where the hold was late.
#[test]
fn moved_ends_of_late_holds_stay() {
    let mut records = busy_journal(10);
    let (seq, mut progress) = records.last().unwrap().effects.iter().find_map(made_by).unwrap();
    let moved_at = records.last().unwrap().at.plus(Timestamp::SECOND);
    progress.hold_expires_at = moved_at.plus(Timestamp::DAY);
    let moved = vec![Effect::TransactionProgress(seq, Box::new(progress))];
    for (at, effects) in [(moved_at, moved), (moved_at.plus(2 * Timestamp::DAY), vec![])] {
        records.push(Record { seq: records.last().unwrap().seq.next(), at, effects });
    }
    let store = empty_store();
    store.late_holds.note(moved_at);
    for part in [0..records.len() - 1, records.len() - 1..records.len()] {
        let run = gather(&records[part.clone()]);
        store.commit(&run, position_after(&records[..part.end]), CommitKind::Checkpoint).unwrap();
    }
    let until = moved_at.plus(Timestamp::DAY);
    let due = store.read().unwrap().holds_due(moved_at, until, usize::MAX).unwrap();
    assert_eq!(due.holds, [(seq, until)]);
}

/// The card of a transaction that an effect makes.
fn made_with(effect: &Effect) -> Option<CardSlot> {
    match effect {
        Effect::Transaction(made) => made.record.card,
        _ => None,
    }
}

/// A transaction that an effect makes.
fn made_by(effect: &Effect) -> Option<(TransactionSeq, TransactionProgress)> {
    match effect {
        Effect::Transaction(made) => Some((made.record.seq, made.progress.clone())),
        _ => None,
    }
}

/// A start asked for late holds since its checkpoint only, whatever the tables could not tell before.
#[test]
fn checkpoints_carry_since_when_holds_are_late_until_one_has_their_ends() {
    let records = journal(5, 30);
    let disk = FaultyBackend::new();
    let store = Store::open_with_backend(disk.clone(), DIRECTORY).unwrap();
    let late = Timestamp(1_700_000_000_000_000);
    store.late_holds.note(late.plus(7));
    store.late_holds.note(late);
    store.late_holds.note(late.plus(9));
    commit(&store, &records[..10], CommitKind::Checkpoint).unwrap();
    drop(store);
    let store = Store::open_with_backend(disk.clone(), DIRECTORY).unwrap();
    assert_eq!(store.late_holds.since(), Some(late));
    let (damaged, mended) = (TransactionSeq(3), TransactionSeq(4));
    store.late_holds.put_off([damaged, mended]);
    store.late_holds.end_with(records[19].seq, BTreeSet::from([damaged]));
    let up_to = |store: &Store, from: usize, end: usize| {
        let run = gather(&records[from..end]);
        store.commit(&run, position_after(&records[..end]), CommitKind::Checkpoint).unwrap();
    };
    up_to(&store, 10, 19);
    assert_eq!(store.late_holds.since(), Some(late), "the record that ended them is not there");
    let directory = tempfile::tempdir().unwrap();
    let copy = directory.path().join("copy");
    store.copy_to(&copy).unwrap();
    let copy = Store::open(&copy, DIRECTORY).unwrap();
    let stored = copy.late_holds.transactions();
    assert_eq!((copy.late_holds.since(), stored), (Some(late), BTreeSet::from([damaged, mended])));
    up_to(&store, 19, 20);
    drop(store);
    let store = Store::open_with_backend(disk, DIRECTORY).unwrap();
    let stored = store.late_holds.transactions();
    assert_eq!((store.late_holds.since(), stored), (None, BTreeSet::from([damaged])));
    assert!(store.late_holds.are_any());
}

/// The preparation of a checkpoint removed the note from memory. If its last record never became durable, the checkpoint
/// was dropped, and the next one forgot the holds.
#[test]
fn a_checkpoint_that_never_comes_forgets_no_late_holds() {
    let records = journal(5, 10);
    let disk = FaultyBackend::new();
    let store = Store::open_with_backend(disk.clone(), DIRECTORY).unwrap();
    let late = Timestamp(1_700_000_000_000_000);
    store.late_holds.note(late);
    store.late_holds.end_with(records[9].seq, BTreeSet::new());
    let run = gather(&records);
    drop(store.prepare(&run, position_after(&records), CommitKind::Checkpoint).unwrap());
    commit(&store, &records[..9], CommitKind::Checkpoint).unwrap();
    drop(store);
    let store = Store::open_with_backend(disk, DIRECTORY).unwrap();
    assert_eq!(store.late_holds.since(), Some(late));
}

/// A checkpoint without answers forgets all before it, and not what comes next.
#[test]
fn the_first_answer_after_a_checkpoint_is_found() {
    let store = empty_store();
    store.commit(&Projection::default(), position_after(&[]), CommitKind::Checkpoint).unwrap();
    let fingerprint =
        Fingerprint { key: DuplicateKey(3), trace: None, content: 1, window: DuplicateWindow::Day };
    let answer = RememberedAnswer {
        fingerprint,
        shares_trace: false,
        expires_at: Timestamp(10).plus(Timestamp::DAY),
        reply: NetworkReply::Conflict,
    };
    let effects = vec![Effect::Answer(Box::new(answer.clone()))];
    let records = [Record { seq: RecordSeq(1), at: Timestamp(10), effects }];
    commit(&store, &records, CommitKind::Checkpoint).unwrap();
    let snapshot = store.read().unwrap();
    let place = AnswerPlace::Record(RecordSeq(1));
    assert_eq!(snapshot.answers_to(&fingerprint).unwrap(), [(place, answer.clone())]);
    assert_eq!(snapshot.answer_at(place).unwrap(), Some(answer));
}
