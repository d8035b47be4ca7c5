//! Sets against a slow model, and what of them is refused.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use proptest::prelude::*;
use redb::{Database, ReadableDatabase, ReadableTableMetadata};

use super::page::{Counts, Members};
use super::*;
use crate::domain::ids::CompanySlot;
use crate::domain::transaction::{TransactionKind, TransactionState};
use crate::journal::testing::{FaultyBackend, next_random};
use crate::store::query::Order;

const STATES: [TransactionState; 4] = TransactionState::ALL;
const KINDS: [TransactionKind; 3] =
    [TransactionKind::Purchase, TransactionKind::Verification, TransactionKind::BankTransfer];

fn database() -> Database {
    let database = Database::builder().create_with_backend(FaultyBackend::new()).unwrap();
    let write_txn = database.begin_write().unwrap();
    write_txn.open_table(STATE_PAGES).unwrap();
    write_txn.commit().unwrap();
    database
}

fn write(database: &Database, changes: &SetChanges) -> Result<(), StoreError> {
    let write_txn = database.begin_write().unwrap();
    changes.write(&write_txn)?;
    write_txn.commit().unwrap();
    Ok(())
}

fn reader(database: &Database) -> SetReader {
    SetReader::new(Arc::new(database.begin_read().unwrap().open_table(STATE_PAGES).unwrap()))
}

/// Every transaction: its company, and its class.
type Model = BTreeMap<u64, (CompanySlot, Class)>;

/// A program of random new transactions and changes, in some commits.
struct Life {
    random: u64,
    database: Database,
    model: Model,
    next: u64,
}

impl Life {
    fn new(seed: u64) -> Self {
        Self { random: seed, database: database(), model: Model::new(), next: 0 }
    }

    fn below(&mut self, bound: u64) -> u64 {
        next_random(&mut self.random) % bound
    }

    fn class(&mut self, kind: TransactionKind) -> Class {
        // Some states are rare, so that pages of every form occur.
        let state = [0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 3][usize::try_from(self.below(11)).unwrap()];
        Class::of(kind, STATES[state])
    }

    /// New transactions, of which there are many and sometimes a hole before, and changes of older
    /// ones.
    fn commit(&mut self) {
        let mut changes = SetChanges::default();
        self.next += [0, 0, 1, 10_000, 3_000_000][usize::try_from(self.below(5)).unwrap()];
        for _ in 0..self.below(4_000) {
            let company = CompanySlot(u32::try_from(self.below(20) / 18).unwrap());
            let kind = KINDS[usize::from(self.below(30) == 0)];
            let class = self.class(kind);
            changes.join(company, class, self.next);
            self.model.insert(self.next, (company, class));
            self.next += 1;
        }
        let known: Vec<u64> = self.model.keys().copied().collect();
        let mut changed = BTreeMap::new();
        for _ in 0..self.below(300) {
            let place = usize::try_from(self.below(known.len().max(1) as u64)).unwrap();
            let Some(seq) = known.get(place) else { break };
            changed.insert(*seq, self.class(TransactionKind::Purchase));
        }
        // Changes of class are a write of their own, after that of the new members.
        let mut earlier = SetChanges::default();
        for (seq, class) in changed {
            let (company, before) = self.model[&seq];
            earlier.go(company, (before, class), seq);
            self.model.insert(seq, (company, class));
        }
        write(&self.database, &changes).unwrap();
        write(&self.database, &earlier).unwrap();
    }

    fn seqs(&mut self) -> Range<u64> {
        let end = self.next + 10_000;
        let low = self.below(3) * self.below(end) / 2;
        let high = if self.below(3) == 0 { u64::MAX } else { low + self.below(end) };
        low..high
    }

    fn classes(&mut self) -> TransactionClasses {
        let states: Vec<_> = STATES.into_iter().filter(|_| self.below(2) == 0).collect();
        let mut classes = TransactionClasses::in_states(&states);
        if self.below(3) == 0 {
            classes = TransactionClasses::ALL;
        }
        if self.below(2) == 0 {
            classes = classes.without_declines();
        }
        if self.below(2) == 0 {
            classes = classes.without_verifications();
        }
        classes
    }

    fn check(&mut self) {
        let (company, seqs, classes) = (
            CompanySlot(1 - u32::try_from(self.below(6) / 4).unwrap()),
            self.seqs(),
            self.classes(),
        );
        let mut expected: Vec<u64> = self
            .model
            .range(seqs.clone())
            .filter(|(_, (of, class))| *of == company && Classes::from(classes).contains(*class))
            .map(|(seq, _)| *seq)
            .collect();
        let reader = reader(&self.database);
        let count = reader.count(company, classes.into(), seqs.clone()).unwrap();
        assert_eq!(count, expected.len() as u64, "{company:?} {classes:?} {seqs:?}");
        let scan = |order| -> Vec<u64> {
            reader.scan(company, classes.into(), seqs.clone(), order).map(Result::unwrap).collect()
        };
        assert_eq!(scan(Order::OldestFirst), expected, "{company:?} {classes:?} {seqs:?}");
        expected.reverse();
        assert_eq!(scan(Order::NewestFirst), expected, "{company:?} {classes:?} {seqs:?}");
        let mut filter = ClassFilter::new(&reader, company, classes.into());
        for (seq, (of, class)) in self.model.iter().step_by(37) {
            let accepts = *of == company && Classes::from(classes).contains(*class);
            assert_eq!(filter.accepts(*seq).unwrap(), accepts, "{seq}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn sets_are_those_of_the_model(seed in any::<u64>()) {
        let mut life = Life::new(seed);
        for _ in 0..6 {
            life.commit();
            for _ in 0..8 {
                life.check();
            }
        }
    }
}

#[test]
fn classes_are_states_and_kinds() {
    let all: Vec<_> =
        STATES.into_iter().flat_map(|state| KINDS.map(|kind| (kind, state))).collect();
    for (kind, state) in all {
        let class = Class::of(kind, state);
        let is_verification =
            kind == TransactionKind::Verification && state != TransactionState::Completed;
        let is_declined = state == TransactionState::Declined;
        let every = TransactionClasses::ALL;
        assert!(Classes::from(every).contains(class) && TransactionClasses::default() == every);
        assert_eq!(Classes::from(every.without_declines()).contains(class), !is_declined);
        assert_eq!(Classes::from(every.without_verifications()).contains(class), !is_verification);
        for wanted in STATES {
            let classes = TransactionClasses::in_states(&[wanted]);
            assert_eq!(Classes::from(classes).contains(class), wanted == state);
        }
    }
    assert_eq!(TransactionClasses::in_states(&STATES), TransactionClasses::ALL);
    assert_eq!(Classes::from(TransactionClasses::in_states(&[])).each().count(), 0);
}

#[test]
fn a_card_goes_to_the_class_of_its_state_wherever_it_was() {
    use crate::domain::card::CardState;
    let database = database();
    let company = CompanySlot(2);
    let states =
        [CardState::Unactivated, CardState::Active, CardState::Suspended, CardState::Terminated];
    let mut random = 5;
    let mut model = BTreeMap::new();
    for _ in 0..200 {
        let slot = next_random(&mut random) % 20 * 1_000;
        let state = states[usize::try_from(next_random(&mut random) % 4).unwrap()];
        let write_txn = database.begin_write().unwrap();
        let mut changes = SetChanges::default();
        {
            let pages = write_txn.open_table(STATE_PAGES).unwrap();
            changes.set_card(&pages, company, Class::of_card(state), slot).unwrap();
        }
        changes.write(&write_txn).unwrap();
        write_txn.commit().unwrap();
        model.insert(slot, state);
    }
    let reader = reader(&database);
    for wanted in states {
        let expected: Vec<u64> =
            model.iter().filter(|(_, state)| **state == wanted).map(|(slot, _)| *slot).collect();
        let classes = Classes::of_cards(&[wanted]);
        let found = reader.scan(company, classes, 0..u64::MAX, Order::OldestFirst);
        assert_eq!(found.map(Result::unwrap).collect::<Vec<_>>(), expected, "{wanted:?}");
        assert_eq!(reader.count(company, classes, 0..u64::MAX).unwrap(), expected.len() as u64);
    }
}

#[test]
fn a_page_has_the_shorter_form_and_reads_back() {
    let key = (3, 1, PAGES, 7);
    for (step, bytes) in [(1, 8 + 1_024), (15, 8 + 1_024), (16, 8 + 1_024), (17, 8 + 2 * 482)] {
        let mut members = Members::NONE;
        (0..8_192).step_by(step).for_each(|place| assert!(members.insert(place)));
        let packed = members.to_bytes(key);
        assert_eq!(packed.len(), bytes, "every {step}");
        assert_eq!(Members::parse(key, &packed).unwrap(), members);
    }
}

#[test]
fn bytes_of_pages_and_sums_stay_as_they_are() {
    let mut members = Members::NONE;
    for place in [0, 258, 8_191] {
        members.insert(place);
    }
    let bytes = members.to_bytes((1, 2, PAGES, 3));
    assert_eq!(bytes[4..], [1, 0, 3, 0, 0, 0, 2, 1, 255, 31]);
    let mut counts = Counts::NONE;
    counts.set(2, 8_192);
    counts.set(255, 1);
    let bytes = counts.to_bytes((1, 2, SUMS, 3));
    assert_eq!(bytes[4..], [1, 2, 2, 0, 2, 0, 0, 32, 255, 0, 1, 0]);
    assert_eq!(Counts::parse((1, 2, SUMS, 3), &bytes).unwrap(), counts);
}

#[test]
fn any_flipped_bit_and_any_other_place_is_refused() {
    let key = (1, 2, PAGES, 3);
    let mut members = Members::NONE;
    for place in [5, 6, 700] {
        members.insert(place);
    }
    let bytes = members.to_bytes(key);
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(Members::parse(key, &damaged).is_err(), "bit {bit}");
    }
    for other in [(2, 2, PAGES, 3), (1, 3, PAGES, 3), (1, 2, SUMS, 3), (1, 2, PAGES, 4)] {
        assert!(Members::parse(other, &bytes).is_err(), "{other:?}");
        assert!(Counts::parse(other, &bytes).is_err(), "{other:?}");
    }
    for end in 0..bytes.len() {
        assert!(Members::parse(key, &bytes[..end]).is_err(), "cut at {end}");
    }
}

#[test]
fn a_set_without_members_leaves_nothing() {
    let database = database();
    let (pending, completed) = (Class::of(KINDS[0], STATES[0]), Class::of(KINDS[0], STATES[1]));
    let mut changes = SetChanges::default();
    changes.join(CompanySlot(1), pending, 4);
    write(&database, &changes).unwrap();
    let mut changes = SetChanges::default();
    changes.go(CompanySlot(1), (pending, completed), 4);
    changes.go(CompanySlot(1), (pending, pending), 5);
    write(&database, &changes).unwrap();
    let table = database.begin_read().unwrap().open_table(STATE_PAGES).unwrap();
    assert_eq!(table.len().unwrap(), 2, "one page and one sum");
}

#[test]
fn a_transaction_that_is_elsewhere_is_refused() {
    let database = database();
    let (pending, completed) = (Class::of(KINDS[0], STATES[0]), Class::of(KINDS[0], STATES[1]));
    let mut joins = SetChanges::default();
    joins.join(CompanySlot(1), pending, 4);
    write(&database, &joins).unwrap();
    let again = write(&database, &joins).unwrap_err().to_string();
    assert!(
        again.contains("number 4 of company 1 is in the set of its next state already"),
        "{again}"
    );
    let mut leaves = SetChanges::default();
    leaves.go(CompanySlot(1), (completed, pending), 9);
    let missing = write(&database, &leaves).unwrap_err().to_string();
    assert!(missing.contains("number 9 of company 1 is not in the set of its state"), "{missing}");
}
