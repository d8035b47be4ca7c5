//! A record reads back to the effects it was made of, for transactions of every shape.

use proptest::prelude::*;

use super::NewTransaction;
use crate::codec::CodecError;
use crate::command::effect::Effect;
use crate::command::record::{Record, append_record, record_views, records};
use crate::domain::account::AccountBalances;
use crate::domain::allowance::CardUsage;
use crate::domain::business_date::BusinessDate;
use crate::domain::hold::HoldPart;
use crate::domain::ids::{CardSlot, RecordSeq, Timestamp};
use crate::domain::money::Minor;
use crate::packed::strategies::{answer, progress, record};

prop_compose! {
    fn usage()((spent, day_spent, period, day) in any::<(i64, i64, u32, i32)>()) -> CardUsage {
        CardUsage {
            spent: Minor(spent),
            day_spent: Minor(day_spent),
            period,
            day: BusinessDate(day),
            ..CardUsage::default()
        }
    }
}

prop_compose! {
    fn balances()((ledger, held, line_count) in any::<(i64, i64, u64)>()) -> AccountBalances {
        AccountBalances {
            ledger: Minor(ledger), held: Minor(held), line_count, ..AccountBalances::default()
        }
    }
}

prop_compose! {
    /// A new transaction of every shape: with and without each of the optional parts.
    fn made()(
        record in record(),
        mut progress in progress(),
        held in prop::option::of(any::<(i64, u32, i32)>()),
        card in any::<u32>(),
        (usage, balances) in (prop::option::of(usage()), prop::option::of(balances())),
        answer in prop::option::of(answer()),
    ) -> NewTransaction {
        let mut record = record;
        if let Some((amount, period, day)) = held {
            let part = HoldPart { amount: Minor(amount), period, day: BusinessDate(day) };
            progress.held = [part].into_iter().collect();
        }
        if usage.is_some() {
            record.card = Some(CardSlot(card));
        }
        NewTransaction { record, progress, answer, usage, balances }
    }
}

prop_compose! {
    /// A record with a new transaction among other effects.
    fn effects()(made in made(), before in 0_u8..3, after in 0_u8..3) -> Vec<Effect> {
        let others = |count: u8| (0..count).map(|number| Effect::NetworkKey([number; 32]));
        let made = std::iter::once(Effect::Transaction(Box::new(made)));
        others(before).chain(made).chain(others(after)).collect()
    }
}

fn written(effects: &[Effect]) -> Vec<u8> {
    let mut payload = Vec::new();
    append_record(&mut payload, RecordSeq(7), Timestamp(-3), effects).unwrap();
    payload
}

fn read(payload: &[u8]) -> Record {
    let mut read = records(payload);
    let record = read.next().unwrap().unwrap();
    assert!(read.next().is_none());
    record
}

fn check_reads_back(effects: &[Effect]) {
    let record = read(&written(effects));
    assert_eq!((record.seq, record.at), (RecordSeq(7), Timestamp(-3)));
    assert_eq!(record.effects, effects);
}

proptest! {
    #[test]
    fn a_new_transaction_of_any_shape_reads_back_among_other_effects(effects in effects()) {
        check_reads_back(&effects);
    }

    #[test]
    fn a_view_tells_what_the_transaction_says(made in made()) {
        let payload = written(&[Effect::Transaction(Box::new(made.clone()))]);
        let record = record_views(&payload).next().unwrap().unwrap();
        let effects: Vec<_> = record.effects(Ok).map(Result::unwrap).collect();
        let [Effect::Transaction(view)] = &effects[..] else { panic!("it is seen as one") };
        prop_assert_eq!((view.usage, view.balances), (made.usage, made.balances));
        prop_assert_eq!(view.posting().unwrap(), made.posting());
        prop_assert_eq!(view.to_transaction().unwrap(), made);
    }

    #[test]
    fn bytes_that_are_none_are_refused_and_never_a_panic(
        effects in effects(),
        (at, mask) in any::<(usize, u8)>(),
        cut in any::<usize>(),
    ) {
        let mut payload = written(&effects);
        let len = payload.len();
        prop_assert!(records(&payload[..cut % len.max(1)]).all(|record| record.is_err()));
        payload[at % len] ^= mask;
        // The chain detects a flipped bit; here the bit must only not cause a panic.
        let _ = records(&payload).collect::<Result<Vec<_>, CodecError>>();
    }
}
