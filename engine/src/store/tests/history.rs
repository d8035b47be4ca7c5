//! The store over a long life: random runs, visible or durable, closed in order or by a power
//! failure, is what the slow model says it is; and what it hands back to a shard.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::model::Model;
use super::queries::{StateCriteria, check_lines, check_transactions};
use super::world::journal;
use super::*;
use crate::command::effect::RememberedAnswer;
use crate::directory::ticket::Ticket;
use crate::domain::ids::{Timestamp, TransactionSeq};
use crate::domain::network_key::DuplicateKey;
use crate::domain::transaction_tags::TagChanges;
use crate::journal::testing::next_random;
use crate::store::AnswerPlace;
use crate::store::directory::StoredRow as _;
use crate::store::query::{LineFilter, Order, Page, TransactionFilter};

fn check_against_model(store: &Store, records: &[Record], random: &mut u64) {
    let applied = usize::try_from(store.checkpoint().unwrap().applied_seq.0).unwrap();
    let model = Model::of(&records[..applied]);
    let snapshot = store.read().unwrap();
    for (seq, row) in &model.transactions {
        assert_eq!(snapshot.transaction(*seq).unwrap().as_ref(), Some(row), "{seq:?}");
    }
    let next = TransactionSeq(model.transactions.len() as u64 + 1);
    assert_eq!(snapshot.transaction(next).unwrap(), None);
    for (slot, card) in &model.cards {
        assert_eq!(snapshot.card(*slot).unwrap().as_ref(), Some(card));
    }
    for (slot, balances) in &model.balances {
        assert_eq!(&snapshot.account(*slot).unwrap().unwrap().balances, balances);
    }
    for order in [Order::NewestFirst, Order::OldestFirst] {
        let offset = usize::try_from(next_random(random) % 300).unwrap();
        let page = Page { offset, order, ..Page::first(50) };
        let filter = TransactionFilter::default();
        check_transactions(&model, &snapshot, (&filter, &StateCriteria::default()), &page);
        check_lines(&model, &snapshot, &LineFilter::default(), &page);
    }
    let mut restored = Model::default();
    restore_effects(store, &mut |effect| restored.apply(effect));
    assert_eq!(restored, model.hot());
    for figure in snapshot.audit().unwrap() {
        assert!(figure.is_right(), "{figure:?}");
    }
}

#[test]
fn a_long_life_is_what_the_model_says() {
    for seed in 0..4 {
        println!("seed {seed}");
        let mut random = seed;
        let records = journal(seed, 1_500);
        let mut disk = FaultyBackend::new();
        let mut store = Store::open_with_backend(disk.clone(), DIRECTORY).unwrap();
        let mut done = 0;
        while done < records.len() {
            let len = usize::try_from(1 + next_random(&mut random) % 60).unwrap();
            let end = (done + len).min(records.len());
            let kind = match next_random(&mut random) % 4 {
                0 => CommitKind::Checkpoint,
                _ => CommitKind::Visible,
            };
            let run = gather(&records[done..end]);
            store.commit(&run, position_after(&records[..end]), kind).unwrap();
            done = end;
            match next_random(&mut random) % 12 {
                // Closed in order: all visible records are there.
                0 => {
                    drop(store);
                    store = Store::open_with_backend(disk.clone(), DIRECTORY).unwrap();
                    assert_eq!(store.checkpoint().unwrap().applied_seq.0, done as u64);
                }
                // Only the last checkpoint is left.
                1 => {
                    disk = disk.after_power_failure();
                    store = Store::open_with_backend(disk.clone(), DIRECTORY).unwrap();
                    let applied = store.checkpoint().unwrap().applied_seq.0;
                    done = usize::try_from(applied).unwrap();
                }
                2 => {}
                _ => continue,
            }
            check_against_model(&store, &records, &mut random);
        }
        check_against_model(&store, &records, &mut random);
        assert_same_dump(&store, &store_of(&records), "in many runs, and in one");
        let folded = {
            use redb::ReadableTableMetadata;
            let read_txn = store.database.begin_read().unwrap();
            let changes = read_txn.open_table(TRANSACTION_CHANGES.definition()).unwrap();
            changes.len().unwrap() < Model::of(&records).transactions.len() as u64 / 4
        };
        assert!(folded, "changes are folded into their blocks");
    }
}

/// The newest answer to each key given at `since` or later, and not only in a row before `first`.
fn answers_since(
    records: &[Record],
    first: u64,
    since: Timestamp,
) -> BTreeMap<DuplicateKey, (AnswerPlace, RememberedAnswer)> {
    let mut newest = BTreeMap::new();
    for record in records {
        let made = record.effects.iter().find_map(|effect| match effect {
            Effect::Transaction(made) => Some(made),
            _ => None,
        });
        if let Some(made) = made.filter(|made| made.record.seq.0 >= first)
            && let Some(answer) = &made.answer
        {
            let place = AnswerPlace::Transaction(made.record.seq);
            newest.insert(answer.fingerprint.key, (place, answer.answer(&made.record)));
        }
        for effect in &record.effects {
            if let Effect::Answer(answer) = effect
                && record.at >= since
            {
                let place = AnswerPlace::Record(record.seq);
                newest.insert(answer.fingerprint.key, (place, (**answer).clone()));
            }
        }
    }
    let end = records.last().unwrap().at;
    newest.retain(|_, (_, answer)| answer.expires_at > end);
    newest
}

#[test]
fn a_recent_restore_takes_back_the_newest_transactions_and_their_answers() {
    for seed in 0..12 {
        println!("seed {seed}");
        let records = journal(seed, 300);
        let store = store_of(&records);
        let whole = Model::of(&records);
        let (model, count) = (whole.clone().hot(), whole.transactions.len() as u64);
        for transactions in [0, 1, 5, 20, count, count + 7] {
            let first = (count + 1).saturating_sub(transactions);
            let since = whole.transactions.get(&TransactionSeq(first));
            let since = since.map_or(records.last().unwrap().at, |row| row.record.authorized_at);
            let since = if first <= 1 { Timestamp::MIN } else { since };
            let mut restored = Model::default();
            let mut answers = BTreeMap::new();
            let mut visit = |found: RestoredPart<'_>| match found {
                RestoredPart::Effect(effect) => restored.apply(effect),
                RestoredPart::Card(card) => {
                    restored.apply(Effect::CardIssued(Box::new(card.to_issued())));
                }
                RestoredPart::Answer { place, answer } => {
                    answers.insert(answer.fingerprint.key, (place, *answer));
                }
            };
            store.restore(RestoreScope::Recent { transactions }, &mut visit).unwrap();
            // The newest come without gaps, declined ones among them.
            let mut expected = whole.transactions.clone();
            expected.retain(|seq, _| seq.0 >= first);
            expected.values_mut().for_each(|row| row.tags = TagChanges::default());
            assert_eq!(restored.transactions, expected, "{transactions}");
            // The sums of holds follow from all transactions, and no shard asks for them.
            for (slot, card) in &mut restored.cards {
                card.held = model.cards[slot].held;
            }
            assert_eq!((&restored.cards, &restored.balances), (&model.cards, &model.balances));
            assert_eq!(answers, answers_since(&records, first, since), "{transactions}");
        }
    }
}

#[test]
fn readers_share_a_view_until_the_next_commit() {
    let records = journal(43, 60);
    let store = empty_store();
    for (place, run) in records.chunks(20).enumerate() {
        let before = store.read().unwrap();
        assert!(Arc::ptr_eq(&before, &store.read().unwrap()));
        let end = records.len().min((place + 1) * 20);
        store.commit(&gather(run), position_after(&records[..end]), CommitKind::Visible).unwrap();
        let after = store.read().unwrap();
        let applied = [&before, &after].map(|view| view.checkpoint().unwrap().applied_seq.0);
        assert_eq!(applied, [place as u64 * 20, end as u64]);
        drop(after);
        assert_eq!(Arc::strong_count(&before), 1, "the store has let go of it");
    }
}

#[test]
fn a_snapshot_keeps_the_numbers_of_its_commit() {
    let records = journal(41, 300);
    let store = empty_store();
    let mut kept = Vec::new();
    for (place, run) in records.chunks(7).enumerate() {
        let end = (place + 1) * 7;
        let kind = if place % 5 == 4 { CommitKind::Checkpoint } else { CommitKind::Visible };
        let position = position_after(&records[..end.min(records.len())]);
        store.commit(&gather(run), position, kind).unwrap();
        kept.push((store.read().unwrap(), end.min(records.len())));
    }
    for (snapshot, end) in kept {
        let model = Model::of(&records[..end]);
        for (slot, balances) in &model.balances {
            assert_eq!(snapshot.account(*slot).unwrap().unwrap().balances, *balances, "{end}");
        }
        for (slot, card) in &model.cards {
            let usage = snapshot.card(*slot).unwrap().unwrap().record.usage;
            assert_eq!(usage, card.record.usage, "{end}");
        }
    }
}

/// Records after which all tables have rows, also those that let go of them.
pub(super) fn full_journal() -> Vec<Record> {
    let is_full = |records: &Vec<Record>| {
        let store = store_of(records);
        let snapshot = store.read().unwrap();
        macro_rules! have_rows {
            ($($table:expr),*) => {
                true $(&& snapshot.table($table.definition()).unwrap().first().unwrap().is_some())*
            };
        }
        let has_rows =
            |table: &SlotTable| snapshot.table(*table).unwrap().first().unwrap().is_some();
        have_rows!(ANSWERS, KEYED_ANSWERS, Ticket::ROWS)
            && RESOURCE_TABLES.iter().all(|(rows, _)| has_rows(rows))
    };
    (51..).map(|seed| journal(seed, 400)).find(is_full).unwrap()
}

/// Reopens a store after `change` was made to its tables behind its back.
fn reopen_changed(change: impl FnOnce(&redb::WriteTransaction)) -> Result<Store, String> {
    let disk = FaultyBackend::new();
    let store = Store::open_with_backend(disk.clone(), DIRECTORY).unwrap();
    commit(&store, &full_journal(), CommitKind::Checkpoint).unwrap();
    let write_txn = store.database.begin_write().unwrap();
    change(&write_txn);
    write_txn.commit().unwrap();
    drop(store);
    Store::open_with_backend(disk, DIRECTORY).map_err(|error| error.to_string())
}

#[test]
fn tables_whose_rows_and_numbers_are_apart_are_refused() {
    let outcome = reopen_changed(|write_txn| {
        let mut meta = write_txn.open_table(META).unwrap();
        meta.insert(META_NUMBERS, 7_u64.to_le_bytes().as_slice()).unwrap();
    });
    let text = outcome.unwrap_err();
    assert!(text.contains("its rows are of record 400, its balances of record 7"), "{text}");
}

#[test]
fn another_format_is_refused_by_its_number() {
    let outcome = reopen_changed(|write_txn| {
        let mut meta = write_txn.open_table(META).unwrap();
        meta.insert(META_FORMAT, 9_u32.to_le_bytes().as_slice()).unwrap();
    });
    let text = outcome.unwrap_err();
    assert!(text.contains("format 9") && text.contains("reads format 1"), "{text}");
}

/// A last visible commit that changed no balance was refused at the next start: rows without numbers of
/// their own were closed as they stood.
#[test]
fn rows_without_numbers_are_closed_as_a_checkpoint() {
    let records = full_journal();
    let is_row = |effect: &Effect| matches!(effect, Effect::Row(_));
    let has_rows_alone = |record: &Record| record.effects.iter().all(is_row);
    let end = records.iter().rposition(has_rows_alone).unwrap() + 1;
    let disk = FaultyBackend::new();
    let store = Store::open_with_backend(disk.clone(), DIRECTORY).unwrap();
    commit(&store, &records[..end - 1], CommitKind::Checkpoint).unwrap();
    let run = gather(&records[end - 1..end]);
    store.commit(&run, position_after(&records[..end]), CommitKind::Visible).unwrap();
    drop(store);
    let store = Store::open_with_backend(disk, DIRECTORY).unwrap();
    assert_eq!(store.checkpoint().unwrap().applied_seq.0, end as u64);
}

/// Flips one byte of the first value of a table: in the middle, or where a page has its first card.
fn flip<K>(
    write_txn: &redb::WriteTransaction,
    definition: redb::TableDefinition<'_, K, &'static [u8]>,
) where
    K: Key + for<'a> Value<SelfType<'a> = K> + 'static,
{
    let mut table = write_txn.open_table(definition).unwrap();
    let (key, mut bytes) = {
        let (key, value) = table.first().unwrap().expect("the table has rows");
        (key.value(), value.value().to_vec())
    };
    let is_page = redb::TableHandle::name(&definition) == CARD_USAGES.name();
    let place = if is_page { 20 } else { bytes.len() / 2 };
    bytes[place] ^= 4;
    table.insert(key, bytes.as_slice()).unwrap();
}

#[test]
fn a_flipped_byte_is_found_by_whoever_reads_it() {
    fn refused<K>(table: redb::TableDefinition<'static, K, &'static [u8]>)
    where
        K: Key + for<'a> Value<SelfType<'a> = K> + 'static,
    {
        let store = reopen_changed(|write_txn| flip(write_txn, table)).unwrap();
        let name = redb::TableHandle::name(&table);
        let outcome = store.restore(RestoreScope::Whole, &mut |_| {});
        let text = outcome.expect_err(name).to_string();
        assert!(text.contains(name), "{text}");
    }
    refused(COMPANIES.definition());
    refused(ACCOUNT_BALANCES.definition());
    refused(CARDS.definition());
    refused(CARD_USAGES.definition());
    refused(ANSWERS.definition());
    refused(KEYED_ANSWERS.definition());
    refused(Ticket::ROWS.definition());
    refused(TRANSACTION_BLOCKS);
    RESOURCE_TABLES.iter().for_each(|(rows, _)| refused(*rows));
    for table in [LINE_BLOCKS, POSTING_BLOCKS] {
        let store = reopen_changed(|write_txn| flip(write_txn, table)).unwrap();
        let error = store.read().unwrap().audit().unwrap_err().to_string();
        assert!(error.contains("blocks, key"), "{error}");
    }
    let store = reopen_changed(|write_txn| flip(write_txn, EVENT_BLOCKS.definition())).unwrap();
    let error = store.read().unwrap().audit().unwrap_err().to_string();
    assert!(error.contains("event_blocks"), "{error}");
    let store = reopen_changed(|write_txn| flip(write_txn, DAY_FIGURES.definition())).unwrap();
    let error = store.read().unwrap().audit().unwrap_err().to_string();
    assert!(error.contains("day_figures"), "{error}");
    let store = reopen_changed(|write_txn| flip(write_txn, STATE_PAGES)).unwrap();
    let error = store.read().unwrap().audit().unwrap_err().to_string();
    assert!(error.contains("table state_pages, company 0, class 0, page 0: its sum is"), "{error}");
}

#[test]
fn a_change_of_a_transaction_that_was_never_made_is_refused() {
    use crate::domain::transaction::{TransactionProgress, TransactionState};
    let mut records = journal(43, 100);
    records.truncate(100);
    let progress = Box::new(TransactionProgress::empty(TransactionState::Canceled));
    let change = |seq, transaction| Record {
        seq: RecordSeq(seq),
        at: records.last().unwrap().at,
        effects: vec![Effect::TransactionProgress(TransactionSeq(transaction), progress.clone())],
    };
    let store = store_of(&records);
    let run = [change(101, 9_999)];
    let outcome = store.commit(
        &gather(&run),
        position_after(&[&records[..], &run].concat()),
        CommitKind::Visible,
    );
    let text = outcome.unwrap_err().to_string();
    assert!(text.contains("transaction 9999 changed, and there is none"), "{text}");
    assert_eq!(store.checkpoint().unwrap().applied_seq, RecordSeq(100), "nothing was written");
    // The same where the run makes transactions of its own, and all of the others are known.
    let whole = [&records[..], &run].concat();
    let outcome = commit(&empty_store(), &whole, CommitKind::Visible);
    assert!(outcome.is_err(), "{outcome:?}");
}
