//! Packed values unpack to equal values; damage is refused and never a panic.

use proptest::prelude::*;

use super::strategies::{answer, card, increment, line, progress, record};
use super::*;
use crate::command::effect::RememberedAnswer;
use crate::command::reply::{AuthorizationReply, NetworkReply};
use crate::decision::{DecisionFacts, IncrementDecision, KnownAmounts, RuleSet};
use crate::domain::allowance::{AllowanceTerms, CardUsage};
use crate::domain::authorization_id::authorization_id_of;
use crate::domain::business_date::{BusinessDate, Interval};
use crate::domain::card::CardState;
use crate::domain::credential::CredentialPresence;
use crate::domain::hold::HoldPart;
use crate::domain::ids::*;
use crate::domain::merchant::{Mcc, Merchant};
use crate::domain::money::{CurrencyCode, Minor};
use crate::domain::network_key::*;
use crate::domain::public_id::IdMint;
use crate::domain::response_code::{ResponseCode, SubReason};
use crate::domain::transaction::*;

fn packed(
    record: &TransactionRecord,
    progress: &TransactionProgress,
    answer: Option<&RowAnswer>,
) -> Vec<u8> {
    let mut bytes = Vec::new();
    append_row(&mut bytes, record, progress, answer);
    bytes
}

proptest! {
    #[test]
    fn a_row_reads_back_whatever_it_holds(
        record in record(),
        progress in progress(),
        answer in prop::option::of(answer()),
        before in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let mut bytes = before.clone();
        append_row(&mut bytes, &record, &progress, answer.as_ref());
        let view = TransactionView::parse(&bytes[before.len()..]).unwrap();
        prop_assert_eq!(view.to_record().unwrap(), record.clone());
        prop_assert_eq!(view.to_progress().unwrap(), progress.clone());
        prop_assert_eq!(view.answer(), answer);
        let keys = answer.map(|answer| answer.fingerprint.index_keys(answer.shares_trace));
        prop_assert_eq!(view.message_keys(), keys);
        prop_assert_eq!(view.seq(), record.seq);
        prop_assert_eq!(view.authorized_at(), record.authorized_at);
        prop_assert_eq!(view.kind(), record.kind);
        prop_assert_eq!((view.company(), view.account()), (record.company, record.account));
        prop_assert_eq!((view.card(), view.member()), (record.card, record.member));
        prop_assert_eq!(view.requested(), record.requested);
        prop_assert_eq!(view.dimensions(), record.dimensions);
        prop_assert_eq!(view.original_key(), record.trace.original_key);
        prop_assert_eq!(view.retrieval_key(), record.trace.retrieval_key);
        prop_assert_eq!(view.state(), progress.state);
    }

    #[test]
    fn a_row_with_another_progress_is_the_row_packed_anew(
        record in record(),
        before in progress(),
        after in progress(),
        answer in prop::option::of(answer()),
    ) {
        let bytes = packed(&record, &before, answer.as_ref());
        let view = TransactionView::parse(&bytes).unwrap();
        let mut changed = vec![1, 2, 3];
        append_row_with_progress(&mut changed, &view, &after);
        prop_assert_eq!(&changed[3..], &packed(&record, &after, answer.as_ref())[..]);
    }

    #[test]
    fn a_progress_reads_back_whatever_it_holds(progress in progress()) {
        let mut bytes = Vec::new();
        append_progress(&mut bytes, &progress);
        prop_assert_eq!(parse_progress(&bytes).unwrap(), progress);
    }

    #[test]
    fn lines_and_cards_read_back_and_not_when_cut(
        line in line(),
        card in card(),
        place in any::<prop::sample::Index>(),
        bits in 1_u8..,
    ) {
        let (mut bytes, mut card_bytes) = (Vec::new(), Vec::new());
        append_line(&mut bytes, &line);
        append_card(&mut card_bytes, &card);
        prop_assert_eq!(parse_line(&bytes), Ok(line));
        prop_assert_eq!(parse_card(&card_bytes), Ok(card));
        prop_assert!(parse_line(&bytes[..place.index(bytes.len())]).is_err());
        prop_assert!(parse_card(&card_bytes[..place.index(card_bytes.len())]).is_err());
        // Some damage is undetectable here; the test is that none is a panic.
        let at = place.index(bytes.len());
        bytes[at] ^= bits;
        let at = place.index(card_bytes.len());
        card_bytes[at] ^= bits;
        let _ = (parse_line(&bytes), parse_card(&card_bytes));
    }

    #[test]
    fn increments_read_back_and_not_when_cut(
        decision in increment(),
        place in any::<prop::sample::Index>(),
        bits in 1_u8..,
    ) {
        let mut bytes = Vec::new();
        append_increment(&mut bytes, &decision);
        prop_assert_eq!(parse_increment(&bytes), Ok(decision.clone()));
        prop_assert!(parse_increment(&bytes[..place.index(bytes.len())]).is_err());
        let serialized = crate::codec::encode(&decision).unwrap();
        prop_assert_eq!(crate::codec::decode(&serialized), Ok(decision));
        // Some damage is undetectable here; the test is that none is a panic.
        let at = place.index(bytes.len());
        bytes[at] ^= bits;
        let _ = parse_increment(&bytes);
    }

    #[test]
    fn a_cut_or_changed_row_is_never_a_panic(
        record in record(),
        progress in progress(),
        answer in prop::option::of(answer()),
        place in any::<prop::sample::Index>(),
        bits in 1_u8..,
    ) {
        let bytes = packed(&record, &progress, answer.as_ref());
        let cut = &bytes[..place.index(bytes.len())];
        let read = TransactionView::parse(cut).and_then(|view| {
            view.to_record()?;
            view.to_progress()
        });
        prop_assert!(read.is_err(), "a cut row is read");
        let mut changed = bytes;
        let at = place.index(changed.len());
        changed[at] ^= bits;
        if let Ok(view) = TransactionView::parse(&changed) {
            // Some damage is undetectable here; blocks and batches carry checksums.
            let _ = (view.to_record(), view.to_progress(), view.answer(), view.dimensions());
            let _ = (view.message_keys(), view.state());
        }
    }

    #[test]
    fn an_answer_that_follows_from_its_row_is_given_again(record in record(), kept in answer()) {
        let answer = kept.answer(&record);
        prop_assert_eq!(RowAnswer::of(&record, &answer), Some(kept));
    }
}

/// The facts of a common purchase: a monthly budget with both limits.
fn common_facts() -> DecisionFacts {
    let terms = AllowanceTerms {
        interval: Interval::Monthly,
        transaction_limit: Minor(50_000),
        daily_limit: Minor(100_000),
        ..AllowanceTerms::budget(Minor(500_000))
    };
    let usage = CardUsage {
        spent: Minor(123_456),
        day_spent: Minor(7_890),
        period: 7,
        period_started_on: BusinessDate(20_513),
        day: BusinessDate(20_515),
        state: CardState::Active,
        ..CardUsage::default()
    };
    DecisionFacts {
        terms,
        usage,
        known: KnownAmounts::funds(Minor(98_765_432), Minor(1_234_567)),
        expires_on: BusinessDate(21_500),
        credentials: CredentialPresence::from_bits(0b11_0011),
        failures: None,
        velocity: None,
    }
}

#[test]
fn the_facts_of_a_common_purchase_take_a_few_dozen_bytes() {
    let mut bytes = Vec::new();
    facts::append_facts(&mut bytes, &common_facts());
    println!("{} bytes", bytes.len());
    assert!(bytes.len() <= 40, "{} bytes", bytes.len());
    let mut rest = &bytes[..];
    assert_eq!(facts::take_facts(&mut rest), Ok(common_facts()));
    assert!(rest.is_empty());
}

pub(crate) fn common_increment() -> IncrementDecision {
    IncrementDecision {
        transaction: TransactionSeq(123_456_789),
        decided_at: Timestamp(1_772_539_200_123_456),
        amount: Minor(1_250),
        added_to: Minor(4_250),
        mcc: Some(Mcc(7011)),
        failed_rules: RuleSet::EMPTY,
        has_used_card_up: false,
        facts: common_facts(),
    }
}

#[test]
fn the_decision_on_a_common_increment_is_short() {
    let mut bytes = Vec::new();
    append_increment(&mut bytes, &common_increment());
    println!("{} bytes", bytes.len());
    assert!(bytes.len() <= 64, "{} bytes", bytes.len());
}

/// A purchase in the form of an acquirer over ISO 8583.
fn purchase() -> (TransactionRecord, TransactionProgress, RowAnswer) {
    let (at, seq) = (Timestamp(1_772_539_200_123_456), TransactionSeq(123_456_789));
    let record = TransactionRecord {
        seq,
        id: IdMint::new([7; 16], 0).transaction_id(at, seq),
        kind: TransactionKind::Purchase,
        company: CompanySlot(3),
        account: AccountSlot(4),
        card: Some(CardSlot(812_345)),
        member: Some(MemberSlot(77)),
        requested: Minor(4_250),
        foreign: None,
        merchant: Some(Merchant {
            mid: 9_876_543_210,
            mcc: Some(Mcc(5812)),
            card_acceptor_id: "123456789012345".parse().unwrap(),
            name: "BLUE BOTTLE COFFEE 042".parse().unwrap(),
            city: "SAN FRANCISCO".parse().unwrap(),
            state: "CA".parse().unwrap(),
            country: "US".parse().unwrap(),
            zip: "".parse().unwrap(),
        }),
        bank_account: None,
        trace: NetworkTrace {
            stan: "123456".parse().unwrap(),
            rrn: "606212345678".parse().unwrap(),
            acquirer: "400001".parse().unwrap(),
            terminal: "TERM0042".parse().unwrap(),
            transmission_time: "0303120000".parse().unwrap(),
            original_key: Some(OriginalKey(11)),
            retrieval_key: Some(RetrievalKey(12)),
        },
        response_code: ResponseCode::Approved,
        sub_reason: SubReason::None,
        failed_rules: RuleSet::EMPTY,
        facts: Some(common_facts()),
        refund_of: None,
        authorized_at: at,
        dimensions: [None; 4],
    };
    let mut progress = TransactionProgress::empty(TransactionState::Pending);
    let part = HoldPart { amount: Minor(4_250), period: 7, day: BusinessDate(20_515) };
    progress.held = [part].into_iter().collect();
    progress.hold_expires_at = at.plus(7 * Timestamp::DAY);
    let fingerprint = Fingerprint {
        key: DuplicateKey(1 << 100),
        trace: Some(TraceKey(1 << 90 | 5)),
        content: 13,
        window: DuplicateWindow::Day,
    };
    let answer = RowAnswer {
        fingerprint,
        shares_trace: false,
        allowance_balance: Minor(95_750),
        currency: CurrencyCode(840),
    };
    (record, progress, answer)
}

#[test]
fn a_common_purchase_is_short() {
    let (record, progress, answer) = purchase();
    let bytes = packed(&record, &progress, Some(&answer));
    println!("{} bytes", bytes.len());
    assert!(bytes.len() <= 285, "{} bytes", bytes.len());
}

#[test]
fn an_answer_that_says_something_else_is_not_taken_for_the_rows() {
    let (record, _, kept) = purchase();
    let given = kept.answer(&record);
    let NetworkReply::Authorization(reply) = given.reply.clone() else { unreachable!() };
    assert_eq!(reply.authorization_id, Some(authorization_id_of(record.seq)));
    let with = |change: fn(&mut AuthorizationReply)| {
        let mut reply = reply;
        change(&mut reply);
        RememberedAnswer { reply: NetworkReply::Authorization(reply), ..given.clone() }
    };
    let others = [
        with(|reply| reply.transaction = None),
        with(|reply| reply.response_code = ResponseCode::Risk),
        with(|reply| reply.sub_reason = SubReason::NothingHeld),
        with(|reply| reply.failed_rules = RuleSet::from_bits(1)),
        with(|reply| reply.approved = Minor(1)),
        with(|reply| reply.authorization_id = None),
        RememberedAnswer { expires_at: given.expires_at.plus(1), ..given.clone() },
        RememberedAnswer { reply: NetworkReply::Conflict, ..given.clone() },
    ];
    for other in others {
        assert_eq!(RowAnswer::of(&record, &other), None, "{other:?}");
    }
    let balance = with(|reply| reply.allowance_balance = Minor(-5));
    assert_eq!(RowAnswer::of(&record, &balance).unwrap().allowance_balance, Minor(-5));
}

#[test]
fn other_versions_and_kinds_are_refused_by_name() {
    use crate::codec::CodecError;
    let (record, progress, answer) = purchase();
    let bytes = packed(&record, &progress, Some(&answer));
    let refused = |at: usize, value: u8| {
        let mut changed = bytes.clone();
        changed[at] = value;
        TransactionView::parse(&changed).unwrap_err()
    };
    let mut increment = Vec::new();
    append_increment(&mut increment, &common_increment());
    let refused_increment = |at: usize, value: u8| {
        let mut changed = increment.clone();
        changed[at] = value;
        parse_increment(&changed).unwrap_err()
    };
    assert_eq!(refused_increment(0, 2), CodecError::UnknownVersion { version: 2 });
    assert!(matches!(refused_increment(1, 4), CodecError::Malformed { .. }));
    assert_eq!(refused(0, 2), CodecError::UnknownVersion { version: 2 });
    assert_eq!(refused(1, 7), CodecError::UnknownKind { kind: 7 });
    assert!(matches!(refused(7, 0x80), CodecError::Malformed { .. }));
}
