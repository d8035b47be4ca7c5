//! Strategies of everything that is packed, for tests.

use std::num::NonZeroU8;

use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::command::effect::IssuedCard;
use crate::decision::{
    AttemptWindow, DecisionFacts, IncrementDecision, KnownAmounts, RuleSet, VelocityFacts,
};
use crate::domain::allowance::{AllowanceTerms, CardUsage, Scope};
use crate::domain::business_date::{BusinessDate, Interval};
use crate::domain::card::{
    CardProfile, CardRecord, CardState, CardTexts, PanHash, SealedPan, SuspensionReason,
};
use crate::domain::company::Address;
use crate::domain::credential::{CredentialFailures, CredentialPresence, PackedZip, PinVerifier};
use crate::domain::hold::{HoldPart, HoldParts};
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

fn hold_parts(parts: Vec<(i64, u32, i32)>) -> HoldParts {
    let part =
        |(amount, period, day)| HoldPart { amount: Minor(amount), period, day: BusinessDate(day) };
    parts.into_iter().map(part).collect()
}

prop_compose! {
    fn later_message()(
        kind in prop_oneof![
            Just(LaterMessageKind::Increment),
            Just(LaterMessageKind::Completion),
            any::<u8>().prop_map(|it| LaterMessageKind::Presentment(NonZeroU8::new(it))),
        ],
        key in any::<Option<u64>>(),
        (amount, left) in any::<(i64, i64)>(),
        parts in parts(),
        conversion in prop::option::of((any::<u16>(), 1..=i64::MAX, any::<i64>())),
    ) -> LaterMessage {
        LaterMessage {
            kind,
            key: key.map(OriginalKey),
            amount: Minor(amount),
            left: Minor(left),
            parts: hold_parts(parts),
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
        TransactionProgress {
            state,
            held: hold_parts(held),
            cleared: hold_parts(cleared),
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
    pub(super) fn increment()(
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
    pub(super) fn line()(
        (seq, id, account, number) in any::<(u64, u128, u32, u64)>(),
        (amount, transaction, card, member) in any::<(i64, u64, Option<u32>, Option<u32>)>(),
        (description, posted_on, posted_at) in any::<(String, i32, i64)>(),
        merchant in prop::option::of(merchant()),
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
            merchant: merchant.map(Box::new),
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
    pub(super) fn card()(
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
