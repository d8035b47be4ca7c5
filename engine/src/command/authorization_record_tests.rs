//! An authorization's record reads back to the effects it was made of, whatever their shape; any
//! other list of effects does, too, in the general form.

use proptest::prelude::*;

use crate::codec::CodecError;
use crate::command::effect::{Effect, RememberedAnswer};
use crate::command::record::{Record, RecordView, append_record, record_views, records};
use crate::domain::account::AccountBalances;
use crate::domain::allowance::CardUsage;
use crate::domain::business_date::BusinessDate;
use crate::domain::hold::HoldPart;
use crate::domain::ids::{AccountSlot, CardSlot, RecordSeq, Timestamp};
use crate::domain::money::Minor;
use crate::domain::posting::{Book, Posting};
use crate::packed::packed_tests::{answer, progress, record};

const KIND_AT: usize = 5;
const AUTHORIZATION: u8 = 2;

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
    /// The effects of an authorization in every shape: with and without each of the optional ones.
    fn authorization()(
        record in record(),
        mut progress in progress(),
        held in prop::option::of(any::<(i64, u32, i32)>()),
        card in any::<u32>(),
        (usage, balances) in (prop::option::of(usage()), prop::option::of(balances())),
        answer in prop::option::of(answer()),
    ) -> Vec<Effect> {
        let mut record = record;
        let mut effects = Vec::new();
        if let Some((amount, period, day)) = held {
            let part = HoldPart { amount: Minor(amount), period, day: BusinessDate(day) };
            progress.held = [part].into_iter().collect();
            effects.push(Effect::Posting(Posting {
                account: record.account,
                transaction: record.seq,
                from: Book::Funds,
                to: Book::Holds,
                amount: part.amount,
            }));
        }
        if usage.is_some() {
            record.card = Some(CardSlot(card));
        }
        // Far from the ends of time, where no answer could expire.
        record.authorized_at = Timestamp(record.authorized_at.0 >> 8);
        let answer = answer.map(|answer| answer.answer(&record));
        let account = record.account;
        effects.push(Effect::Transaction(Box::new(record), Box::new(progress)));
        effects.extend(usage.map(|usage| Effect::CardUsage(CardSlot(card), usage)));
        effects.extend(balances.map(|balances| Effect::AccountBalances(account, balances)));
        effects.extend(answer.map(|answer| Effect::Answer(Box::new(answer))));
        effects
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

/// Ways to be almost the effects of an authorization.
fn spoil(effects: &mut Vec<Effect>, how: usize) {
    match how {
        0 => effects.push(Effect::NetworkKey([7; 32])),
        1 => effects.insert(0, Effect::CardAttempts(CardSlot(1), vec![Timestamp(1)])),
        2 => effects.reverse(),
        3 => {
            let last = effects.last().cloned();
            effects.extend(last);
        }
        _ => effects.iter_mut().for_each(alter),
    }
}

fn alter(effect: &mut Effect) {
    match effect {
        Effect::Posting(posting) => posting.to = Book::TransitOut,
        Effect::CardUsage(slot, _) => slot.0 ^= 1,
        Effect::AccountBalances(slot, _) => *slot = AccountSlot(slot.0 ^ 1),
        Effect::Answer(answer) => answer.expires_at = answer.expires_at.plus(1),
        _ => {}
    }
}

proptest! {
    #[test]
    fn an_authorization_of_any_shape_reads_back(effects in authorization()) {
        prop_assert_eq!(written(&effects)[KIND_AT], AUTHORIZATION);
        check_reads_back(&effects);
    }

    #[test]
    fn what_is_almost_an_authorization_reads_back_too(
        effects in authorization(),
        how in 0_usize..5,
    ) {
        let mut effects = effects;
        spoil(&mut effects, how);
        check_reads_back(&effects);
    }

    #[test]
    fn a_view_tells_what_the_effects_say(effects in authorization()) {
        let payload = written(&effects);
        let Some(Ok(RecordView::Authorization(view))) = record_views(&payload).next() else {
            panic!("an authorization is seen as one")
        };
        prop_assert_eq!((view.seq(), view.at()), (RecordSeq(7), Timestamp(-3)));
        prop_assert_eq!(view.has_posting(), matches!(effects[0], Effect::Posting(_)));
        for effect in &effects {
            match effect {
                Effect::Transaction(record, progress) => {
                    prop_assert_eq!(&view.transaction().to_record().unwrap(), &**record);
                    prop_assert_eq!(&view.transaction().to_progress().unwrap(), &**progress);
                }
                Effect::CardUsage(_, usage) => prop_assert_eq!(view.usage(), Some(*usage)),
                Effect::AccountBalances(_, balances) => {
                    prop_assert_eq!(view.balances(), Some(*balances));
                }
                _ => {}
            }
        }
    }

    #[test]
    fn bytes_that_are_none_are_refused_and_never_a_panic(
        effects in authorization(),
        (at, mask) in any::<(usize, u8)>(),
        cut in any::<usize>(),
    ) {
        let mut payload = written(&effects);
        let len = payload.len();
        prop_assert!(records(&payload[..cut % len.max(1)]).all(|record| record.is_err()));
        payload[at % len] ^= mask;
        // The chain finds a flipped bit; here it only must not break anything.
        let _ = records(&payload).collect::<Result<Vec<_>, CodecError>>();
    }
}

#[test]
fn an_answer_of_another_kind_is_kept_as_it_is() {
    use crate::command::reply::NetworkReply;
    use crate::domain::network_key::{DuplicateKey, DuplicateWindow, Fingerprint};
    let fingerprint =
        Fingerprint { key: DuplicateKey(1), trace: None, content: 2, window: DuplicateWindow::Day };
    let answer =
        RememberedAnswer { fingerprint, expires_at: Timestamp(9), reply: NetworkReply::Conflict };
    let effects = [Effect::Answer(Box::new(answer))];
    assert_ne!(written(&effects)[KIND_AT], AUTHORIZATION);
    check_reads_back(&effects);
}
