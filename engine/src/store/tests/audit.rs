//! The audit agrees with sound books and names what is not sound.

use super::history::full_journal;
use super::recall::NetworkJournal;
use super::world::journal;
use super::*;
use crate::command::effect::Effect;
use crate::domain::money::Minor;
use crate::domain::transaction::TransactionState;
use crate::store::AuditFigure;
use crate::store::runs::{Entry, RUN_CHUNKS, RUN_LISTS, RunWriter};

fn figures(records: &[Record]) -> Vec<AuditFigure> {
    store_of(records).read().unwrap().audit().unwrap()
}

#[test]
fn sound_books_agree_in_every_figure() {
    for seed in 0..6 {
        let figures = figures(&journal(seed, 400));
        let expected =
            2 + 3 + 5 + 3 + RESOURCE_TABLES.len() + SECRET_TABLES.len() + 2 + 3 + 2 * 16 + 2;
        assert_eq!(
            figures.len(),
            expected,
            "both counts, lists by rows, the lists, indexes, resources, decisions, events, each account with its cards, \
             all accounts"
        );
        for figure in &figures {
            assert!(figure.is_right(), "seed {seed}: {figure:?}");
        }
        let has_more_than_none = |what: &str| {
            let mut named = figures.iter().filter(|figure| figure.name.contains(what));
            named.any(|figure| figure.found.parse::<i128>().unwrap() > 0)
        };
        assert!(has_more_than_none("open holds"));
        assert!(has_more_than_none("spent on"));
    }
}

/// Changes the last effect that `tamper` takes, and returns the names of the figures that differ.
fn differing_after(tamper: impl Fn(&mut Effect) -> bool) -> Vec<String> {
    let mut records = journal(11, 400);
    let effects = records.iter_mut().flat_map(|record| &mut record.effects);
    let is_done = effects.rev().any(tamper);
    assert!(is_done, "nothing was changed");
    let differing = figures(&records).into_iter().filter(|figure| !figure.is_right());
    differing.map(|figure| figure.name).collect()
}

fn assert_names(found: &[String], parts: &[&str]) {
    for part in parts {
        assert!(found.iter().any(|name| name.contains(part)), "{part} in {found:?}");
    }
}

#[test]
fn a_changed_balance_is_named() {
    let ledger = differing_after(|effect| {
        let Effect::AccountBalances(_, balances) = effect else { return false };
        balances.ledger += Minor(1);
        true
    });
    assert_names(&ledger, &["sum of statement lines", "funds, holds and transit books"]);
    let held = differing_after(|effect| {
        let Effect::AccountBalances(_, balances) = effect else { return false };
        balances.held += Minor(1);
        balances.line_count += 1;
        true
    });
    assert_names(&held, &["open holds", "holds book", "statement line count"]);
}

#[test]
fn a_changed_posting_or_line_is_named() {
    let posting = differing_after(|effect| {
        let Effect::Posting(posting) = effect else { return false };
        posting.amount += Minor(1);
        true
    });
    assert_names(&posting, &["transactions off their books", "transaction "]);
    let line = differing_after(|effect| {
        let Effect::StatementLine(line) = effect else { return false };
        line.amount += Minor(1);
        line.number += 1;
        true
    });
    assert_names(&line, &["posted by transactions", "last statement line number"]);
}

#[test]
fn a_changed_card_is_named_by_its_id() {
    let usage = differing_after(|effect| {
        let Effect::CardUsage(_, usage) = effect else { return false };
        usage.spent += Minor(1);
        usage.day_spent += Minor(2);
        true
    });
    assert_names(
        &usage,
        &["spent on all cards", "spent today on all cards", "cards off", "card 0000"],
    );
}

/// A declined transaction moves no money, so no sum missed it.
#[test]
fn a_declined_transaction_that_is_gone_is_missed() {
    let differing = differing_after(|effect| match effect {
        Effect::Transaction(made)
            if made.progress.state == TransactionState::Declined && made.record.seq.0 < 50 =>
        {
            *effect = Effect::NetworkKey([0; 32]);
            true
        }
        _ => false,
    });
    let events = "transactions made";
    assert_eq!(differing, ["transactions, numbered without holes", events]);
}

/// The figures that differ once a table was changed behind the store's back.
fn differing_behind(change: impl FnOnce(&redb::WriteTransaction)) -> Vec<String> {
    differing_in(&journal(12, 400), change)
}

fn differing_in(records: &[Record], change: impl FnOnce(&redb::WriteTransaction)) -> Vec<String> {
    let store = store_of(records);
    let write_txn = store.database.begin_write().unwrap();
    change(&write_txn);
    write_txn.commit().unwrap();
    let figures = store.read().unwrap().audit().unwrap();
    figures.into_iter().filter(|figure| !figure.is_right()).map(|figure| figure.name).collect()
}

#[test]
fn sets_that_are_off_their_rows_are_named() {
    let (rows, pages) =
        ("transactions and cards found by their state", "pages of states off their rows");
    let gone = differing_behind(|write_txn| {
        write_txn.open_table(STATE_PAGES).unwrap().pop_first().unwrap().unwrap();
    });
    assert_eq!(gone, [rows, pages]);
    let sum_gone = differing_behind(|write_txn| {
        write_txn.open_table(STATE_PAGES).unwrap().remove((0, 0, 1, 0)).unwrap().unwrap();
    });
    assert_eq!(sum_gone, [pages]);
    let too_many = differing_behind(|write_txn| {
        let mut table = write_txn.open_table(STATE_PAGES).unwrap();
        table.insert((9, 0, 0, 0), [1].as_slice()).unwrap();
    });
    assert_eq!(too_many, [pages]);
}

#[test]
fn moves_that_are_off_the_tags_are_named() {
    let tags = "tags set by hand off the lists of their dimensions";
    let gone = differing_behind(|write_txn| {
        write_txn.open_table(TAG_MOVES).unwrap().pop_first().unwrap().unwrap();
    });
    assert_eq!(gone, [tags]);
    let turned = differing_behind(|write_txn| {
        let mut moves = write_txn.open_table(TAG_MOVES).unwrap();
        let (key, is_put_on) = {
            let (key, value) = moves.first().unwrap().unwrap();
            (key.value(), value.value())
        };
        moves.insert(key, !is_put_on).unwrap();
    });
    assert_eq!(turned, [tags]);
    let too_many = differing_behind(|write_txn| {
        write_txn.open_table(TAG_MOVES).unwrap().insert((7, 7), true).unwrap();
    });
    assert_eq!(too_many, [tags]);
}

#[test]
fn figures_that_are_off_the_decisions_are_named() {
    let counted = "decisions counted by quarter of an hour";
    let off = "figures of decisions off their transactions";
    let gone = differing_behind(|write_txn| {
        let mut table = write_txn.open_table(DAY_FIGURES.definition()).unwrap();
        table.pop_first().unwrap().unwrap();
    });
    assert_eq!(gone, [counted, off]);
    let moved = differing_behind(|write_txn| {
        let mut table = write_txn.open_table(DAY_FIGURES.definition()).unwrap();
        let (key, value) = {
            let (key, value) = table.pop_first().unwrap().unwrap();
            (key.value(), value.value().to_vec())
        };
        table.insert((key.0, key.1 - 1), value.as_slice()).unwrap();
    });
    assert_eq!(moved, [off]);
}

/// Rewrites the runs of a kind with other entries.
fn rewrite_runs(
    write_txn: &redb::WriteTransaction,
    kind: RunKind,
    change: impl FnOnce(&mut Vec<Entry>),
) {
    let mut entries = Vec::new();
    let runs = RunWriter::open(write_txn).unwrap();
    runs.reader(kind).unwrap().each(0, |entry| entries.push(entry)).unwrap();
    drop(runs);
    let number = kind.number();
    write_txn.open_table(RUN_LISTS).unwrap().remove(number).unwrap();
    let mut chunks = write_txn.open_table(RUN_CHUNKS).unwrap();
    chunks.retain(|key, _| key.0 != number).unwrap();
    drop(chunks);
    change(&mut entries);
    RunWriter::open(write_txn).unwrap().append(kind, &mut entries).unwrap();
}

/// Lists were checked for themselves, and never compared with the transactions.
#[test]
fn lists_that_are_off_their_transactions_are_named() {
    let counted = "transactions in their lists and under their names";
    let off = "kinds of lists and names off the transactions";
    let records = NetworkJournal::make(12, 400);
    // Its refunds were purchases: their books are off.
    let before = differing_in(&records, |_| {});
    let differing_with = |kind, change: fn(&mut Vec<Entry>)| {
        let mut names = differing_in(&records, |write_txn| rewrite_runs(write_txn, kind, change));
        names.retain(|name| !before.contains(name));
        names
    };
    for kind in [RunKind::CompanyTransactions, RunKind::FirstDimension, RunKind::OriginalKeys] {
        let gone = differing_with(kind, |entries| {
            entries.swap_remove(entries.len() / 2);
        });
        assert_eq!(gone, [counted, off], "{kind:?}");
        let moved = differing_with(kind, |entries| {
            let place = entries.len() / 2;
            entries[place] =
                Entry::new(entries[place].major().wrapping_add(100), entries[place].minor());
        });
        assert_eq!(moved, [off], "{kind:?}");
    }
    let gone = differing_in(&records, |write_txn| {
        write_txn.open_table(MOVED_HOLDS).unwrap().retain(|_, ()| false).unwrap();
    });
    assert_names(&gone, &["holds found by their moved end"]);
}

/// The same of cards, accounts and answers under idempotency keys.
#[test]
fn entries_that_are_off_their_rows_are_named() {
    let records = full_journal();
    macro_rules! gone {
        ($($index:ident),* => $figure:literal) => {$(
            let gone = differing_in(&records, |write_txn| {
                write_txn.open_table($index).unwrap().pop_first().unwrap().unwrap();
            });
            assert_eq!(gone, [$figure], "{}", stringify!($index));
        )*};
    }
    gone!(CARD_IDS, ALLOWANCE_IDS, PAN_HASHES, COMPANY_CARDS, CARD_MARKS => "entries of the indexes of cards");
    gone!(COMPANY_IDS, ACCOUNT_IDS, COMPANY_ACCOUNTS => "entries of the indexes of companies and accounts");
    gone!(KEYED_ANSWER_ENDS => "answers under idempotency keys found by their end");
    let too_many = differing_in(&records, |write_txn| {
        write_txn.open_table(CARD_IDS).unwrap().insert(7, 7).unwrap();
    });
    assert_eq!(too_many, ["entries of the indexes of cards"]);
}

#[test]
fn indexes_that_are_off_their_rows_are_named() {
    let records = full_journal();
    let slots = RESOURCE_TABLES.iter().map(|(_, entries)| entries);
    for entries in slots.chain(SECRET_TABLES.iter().map(|(_, entries)| entries)) {
        let resource = redb::TableHandle::name(entries).trim_end_matches("_entries");
        let figure = [format!("entries of the indexes of {resource}")];
        let gone = differing_in(&records, |write_txn| {
            write_txn.open_table(*entries).unwrap().pop_first().unwrap().unwrap();
        });
        assert_eq!(gone, figure);
        let too_many = differing_in(&records, |write_txn| {
            write_txn.open_table(*entries).unwrap().insert([9, 7].as_slice(), ()).unwrap();
        });
        assert_eq!(too_many, figure);
    }
}
