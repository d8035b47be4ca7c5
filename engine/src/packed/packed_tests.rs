//! Packed values unpack to equal values; damage is refused and never a panic.

use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::command::effect::{IssuedCard, RememberedAnswer};
use crate::command::reply::{AuthorizationReply, NetworkReply};
use crate::decision::{
    AttemptWindow, DecisionFacts, IncrementDecision, KnownAmounts, RuleSet, VelocityFacts,
};
use crate::domain::allowance::{AllowanceTerms, CardUsage, Scope};
use crate::domain::authorization_id::authorization_id_of;
use crate::domain::business_date::{BusinessDate, Interval};
use crate::domain::card::{
    CardProfile, CardRecord, CardState, CardTexts, PanHash, SealedPan, SuspensionReason,
};
use crate::domain::company::Address;
use crate::domain::credential::{CredentialFailures, CredentialPresence, PackedZip, PinVerifier};
use crate::domain::hold::HoldPart;
use crate::domain::ids::*;
use crate::domain::later_message::{LaterMessage, LaterMessageKind};
use crate::domain::merchant::{Mcc, Merchant};
use crate::domain::money::{Conversion, CurrencyAmount, CurrencyCode, Minor};
use crate::domain::network_key::*;
use crate::domain::posting::StatementLine;
use crate::domain::public_id::IdMint;
use crate::domain::response_code::{ResponseCode, SubReason};
use crate::domain::text::LineText;
use crate::domain::transaction::*;

/// Text of the network's form, or nearly so: digits of the right and of wrong lengths, letters,
/// none, and long ones.
fn mark(len: usize) -> impl Strategy<Value = LineText> {
    prop_oneof![
        4 => proptest::string::string_regex(&format!("[0-9]{{{len}}}")).unwrap(),
        1 => Just("9".repeat(len)),
        1 => proptest::string::string_regex("[0-9]{0,14}").unwrap(),
        1 => ".{0,16}".prop_map(|text: String| text),
        1 => (250_usize..600).prop_map(|len| "é".repeat(len)),
    ]
    .prop_map(|text| LineText::spaced(&text))
}

fn text() -> impl Strategy<Value = LineText> {
    ".{0,30}".prop_map(|text: String| LineText::spaced(&text))
}

fn parts() -> impl Strategy<Value = Vec<(i64, u32, i32)>> {
    prop_oneof![
        Just(Vec::new()),
        Just(vec![(1_299, 7, 20_515)]),
        prop::collection::vec(any::<(i64, u32, i32)>(), 0..5),
    ]
}

prop_compose! {
    fn later_message()(
        kind in prop_oneof![
            Just(LaterMessageKind::Increment),
            Just(LaterMessageKind::Completion),
            any::<u8>().prop_map(LaterMessageKind::Presentment),
        ],
        key in any::<Option<u64>>(),
        left in any::<i64>(),
        conversion in prop::option::of((any::<u16>(), 1..=i64::MAX, any::<i64>())),
    ) -> LaterMessage {
        LaterMessage {
            kind,
            key: key.map(OriginalKey),
            left: Minor(left),
            conversion: conversion.map(|(currency, amount, billed)| {
                let asked =
                    CurrencyAmount { amount: Minor(amount), currency: CurrencyCode(currency) };
                Conversion { asked, billed: Minor(billed) }
            }),
        }
    }
}

prop_compose! {
    pub(crate) fn progress()(
        state in prop::sample::select(&[
            TransactionState::Pending,
            TransactionState::Completed,
            TransactionState::Declined,
            TransactionState::Canceled,
        ][..]),
        held in parts(),
        cleared in parts(),
        (posted, refunded) in prop_oneof![Just((0, 0)), any::<(i64, i64)>()],
        later in prop::collection::vec(later_message(), 0..200),
        is_final in any::<bool>(),
        expires in prop_oneof![Just(i64::MAX), any::<i64>()],
        posted_at in any::<Option<i64>>(),
        flags in any::<u16>(),
    ) -> TransactionProgress {
        let parts = |parts: Vec<(i64, u32, i32)>| {
            let part = |(amount, period, day)| HoldPart {
                amount: Minor(amount), period, day: BusinessDate(day),
            };
            parts.into_iter().map(part).collect()
        };
        TransactionProgress {
            state,
            held: parts(held),
            cleared: parts(cleared),
            posted: Minor(posted),
            refunded: Minor(refunded),
            later: later.into_iter().collect(),
            is_final,
            hold_expires_at: Timestamp(expires),
            posted_at: posted_at.map(Timestamp),
            flags: TransactionFlags(flags),
        }
    }
}

prop_compose! {
    fn trace()(
        (stan, rrn, time) in (mark(6), mark(12), mark(10)),
        (acquirer, terminal) in (mark(6), mark(8)),
        keys in any::<(Option<u64>, Option<u64>)>(),
    ) -> NetworkTrace {
        NetworkTrace {
            stan, rrn, acquirer, terminal,
            transmission_time: time,
            original_key: keys.0.map(OriginalKey),
            retrieval_key: keys.1.map(RetrievalKey),
        }
    }
}

prop_compose! {
    fn merchant()(
        (mid, mcc) in any::<(u64, Option<u16>)>(),
        (id, name, city) in (mark(15), text(), text()),
        (state, country, zip) in (text(), text(), text()),
    ) -> Merchant {
        Merchant {
            mid, mcc: mcc.map(Mcc), card_acceptor_id: id, name, city, state, country, zip,
        }
    }
}

prop_compose! {
    fn bank_account()((description, name, number) in (text(), text(), text()))
        -> BankAccount
    {
        BankAccount { description, name, number }
    }
}

/// An id of the mint, or any other.
fn id(at: i64, seq: u64) -> impl Strategy<Value = Uuid> {
    let minted = IdMint::new([7; 16], 0).transaction_id(Timestamp(at), TransactionSeq(seq));
    prop_oneof![Just(minted.0), any::<u128>().prop_map(Uuid::from_u128)]
}

fn places() -> impl Strategy<Value = (i64, u64, Uuid)> {
    (any::<i64>(), 0..1_u64 << 40).prop_flat_map(|(at, seq)| (Just(at), Just(seq), id(at, seq)))
}

prop_compose! {
    fn window()((limit, count, room_at) in any::<(u16, u16, i64)>()) -> AttemptWindow {
        AttemptWindow { limit, count, room_at: Timestamp(room_at) }
    }
}

prop_compose! {
    /// Terms whose optional parts are often absent.
    fn partial_terms()(mut terms in terms(), absent in any::<[bool; 5]>()) -> AllowanceTerms {
        let none = AllowanceTerms::budget(terms.amount);
        if absent[0] { terms.transaction_limit = none.transaction_limit; }
        if absent[1] { terms.daily_limit = none.daily_limit; }
        if absent[2] { terms.starts_at = none.starts_at; }
        if absent[3] { terms.ends_at = none.ends_at; }
        if absent[4] { terms.scope = none.scope; }
        terms
    }
}

fn known() -> impl Strategy<Value = KnownAmounts> {
    let count = KnownAmounts::default().each_mut().len();
    prop::collection::vec(any::<i64>(), count).prop_map(|drawn| {
        let mut known = KnownAmounts::default();
        for (amount, drawn) in known.each_mut().into_iter().zip(drawn) {
            *amount = Minor(drawn);
        }
        known
    })
}

prop_compose! {
    pub(crate) fn facts()(
        terms in partial_terms(),
        (spent, day_spent, known) in (any::<i64>(), any::<i64>(), known()),
        (period, started_on, day, expires_on) in any::<(u32, i32, i32, i32)>(),
        state in prop::sample::select(&[
            CardState::Unactivated, CardState::Active, CardState::Suspended, CardState::Terminated,
        ][..]),
        suspension in prop::sample::select(&[
            SuspensionReason::None, SuspensionReason::Manual,
            SuspensionReason::SingleUse, SuspensionReason::EndTime,
        ][..]),
        (credentials, pin_failures) in any::<(u8, u8)>(),
        failures in any::<Option<(i64, u8)>>(),
        velocity in prop::option::of((window(), window())),
    ) -> DecisionFacts {
        DecisionFacts {
            terms,
            usage: CardUsage {
                spent: Minor(spent),
                day_spent: Minor(day_spent),
                period,
                period_started_on: BusinessDate(started_on),
                day: BusinessDate(day),
                state,
                suspension,
                pin_failures,
            },
            known,
            expires_on: BusinessDate(expires_on),
            credentials: CredentialPresence::from_bits(credentials),
            failures: failures.map(|(since, count)| CredentialFailures {
                since: Timestamp(since), count,
            }),
            velocity: velocity.map(|(minute, hour)| VelocityFacts { minute, hour }),
        }
    }
}

prop_compose! {
    fn increment()(
        (transaction, at, amount, added_to) in any::<(u64, i64, i64, i64)>(),
        (mcc, failed, has_used_card_up) in any::<(Option<u16>, u32, bool)>(),
        facts in facts(),
    ) -> IncrementDecision {
        IncrementDecision {
            transaction: TransactionSeq(transaction),
            decided_at: Timestamp(at),
            amount: Minor(amount),
            added_to: Minor(added_to),
            mcc: mcc.map(Mcc),
            failed_rules: RuleSet::from_bits(failed),
            has_used_card_up,
            facts,
        }
    }
}

prop_compose! {
    pub(crate) fn record()(
        (at, seq, id) in places(),
        kind in prop::sample::select(&[
            TransactionKind::Purchase,
            TransactionKind::SingleMessagePurchase,
            TransactionKind::Verification,
            TransactionKind::Cash,
            TransactionKind::Refund,
            TransactionKind::BankTransfer,
        ][..]),
        (company, account, card, member) in any::<(u32, u32, Option<u32>, Option<u32>)>(),
        (requested, foreign, refund_of) in any::<(i64, Option<(i64, u16)>, Option<u64>)>(),
        (merchant, bank_account) in
            (prop::option::of(merchant()), prop::option::weighted(0.2, bank_account())),
        trace in trace(),
        (code, reason, failed) in (
            prop::sample::select(&[
                ResponseCode::Approved, ResponseCode::Declined, ResponseCode::Risk,
                ResponseCode::InsufficientFunds, ResponseCode::InvalidZip,
            ][..]),
            prop::sample::select(&[SubReason::None, SubReason::NothingHeld][..]),
            any::<u32>(),
        ),
        (facts, dimensions) in
            (prop::option::of(facts()), any::<[Option<u128>; 4]>()),
    ) -> TransactionRecord {
        TransactionRecord {
            seq: TransactionSeq(seq),
            id: TransactionId(id),
            kind,
            company: CompanySlot(company),
            account: AccountSlot(account),
            card: card.map(CardSlot),
            member: member.map(MemberSlot),
            requested: Minor(requested),
            foreign: foreign.map(|(amount, currency)| CurrencyAmount {
                amount: Minor(amount), currency: CurrencyCode(currency),
            }),
            merchant,
            bank_account,
            trace,
            response_code: code,
            sub_reason: reason,
            failed_rules: RuleSet::from_bits(failed),
            facts,
            refund_of: refund_of.map(TransactionSeq),
            authorized_at: Timestamp(at),
            dimensions: dimensions.map(|id| id.map(|id| DimensionId(Uuid::from_u128(id)))),
        }
    }
}

prop_compose! {
    pub(crate) fn answer()(
        (key, trace, content) in any::<(u128, Option<u128>, u64)>(),
        window in prop::sample::select(&[
            DuplicateWindow::Day,
            DuplicateWindow::RepeatsOnly { is_repeat: false },
            DuplicateWindow::RepeatsOnly { is_repeat: true },
        ][..]),
        (shares_trace, balance, currency) in any::<(bool, i64, u16)>(),
    ) -> RowAnswer {
        RowAnswer {
            fingerprint: Fingerprint {
                key: DuplicateKey(key), trace: trace.map(TraceKey), content, window,
            },
            shares_trace,
            allowance_balance: Minor(balance),
            currency: CurrencyCode(currency),
        }
    }
}

prop_compose! {
    fn line()(
        (seq, id, account, number) in any::<(u64, u128, u32, u64)>(),
        (amount, transaction, card, member) in any::<(i64, u64, Option<u32>, Option<u32>)>(),
        (description, posted_on, posted_at) in any::<(String, i32, i64)>(),
    ) -> StatementLine {
        StatementLine {
            seq: LineSeq(seq),
            id: StatementLineId(Uuid::from_u128(id)),
            account: AccountSlot(account),
            number,
            amount: Minor(amount),
            transaction: TransactionSeq(transaction),
            card: card.map(CardSlot),
            member: member.map(MemberSlot),
            description,
            posted_on: BusinessDate(posted_on),
            posted_at: Timestamp(posted_at),
        }
    }
}

prop_compose! {
    fn address()(first in prop::collection::vec(text(), 7)) -> Address {
        let [attn, address_1, address_2, city, state, zip_code, country] =
            first.try_into().unwrap();
        Address { attn, address_1, address_2, city, state, zip_code, country }
    }
}

prop_compose! {
    fn terms()(
        amounts in any::<[i64; 3]>(),
        window in any::<[i64; 2]>(),
        scope in prop::collection::vec(any::<u16>(), 0..=10),
        interval in prop::sample::select(&[
            Interval::None, Interval::Daily, Interval::Weekly,
            Interval::Monthly, Interval::Quarterly, Interval::Yearly,
        ][..]),
        single_use in any::<bool>(),
    ) -> AllowanceTerms {
        AllowanceTerms {
            amount: Minor(amounts[0]),
            daily_limit: Minor(amounts[1]),
            transaction_limit: Minor(amounts[2]),
            starts_at: Timestamp(window[0]),
            ends_at: Timestamp(window[1]),
            scope: Scope::new(&scope).unwrap(),
            interval,
            single_use,
        }
    }
}

prop_compose! {
    fn card()(
        (slot, company, account, holder) in any::<(u32, u32, u32, Option<u32>)>(),
        (id, allowance_id, created_at) in any::<(u128, u128, i64)>(),
        words in any::<[String; CardTexts::<String>::COUNT]>(),
        (is_virtual, last_four) in any::<(bool, [u8; 4])>(),
        dimensions in any::<[Option<u128>; 4]>(),
        addresses in prop::array::uniform2(prop::option::weighted(0.3, address())),
        (pan_hash, pin, zip, expires_on) in any::<(u64, u64, u64, i32)>(),
        terms in terms(),
        sealed in prop::collection::vec(any::<u8>(), 0..300),
    ) -> IssuedCard {
        let mut words = words.into_iter();
        let [billing_address, shipping_address] = addresses;
        IssuedCard {
            profile: CardProfile {
                slot: CardSlot(slot),
                id: CardId(Uuid::from_u128(id)),
                allowance_id: AllowanceId(Uuid::from_u128(allowance_id)),
                company: CompanySlot(company),
                texts: CardTexts::from_fn(|_| words.next().unwrap()),
                is_virtual,
                last_four,
                assigned_to: holder.map(MemberSlot),
                dimensions: dimensions.map(|id| id.map(|id| DimensionId(Uuid::from_u128(id)))),
                billing_address,
                shipping_address,
                created_at: Timestamp(created_at),
            },
            record: CardRecord {
                pan_hash: PanHash(pan_hash),
                pin: PinVerifier(pin),
                zip: PackedZip(zip),
                account: AccountSlot(account),
                expires_on: BusinessDate(expires_on),
                usage: CardUsage::default(),
                terms,
            },
            sealed_pan: SealedPan(sealed),
        }
    }
}

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
        prop_assert_eq!(
            view.is_indexed_by_name(),
            progress.state != TransactionState::Declined
        );
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
