//! The command that both doors make of a step's message, and the answer that both give.

use cardswitch_engine::command::network::{
    AdviceOutcome, Advise, AuthorizationKind, Authorize, CardRef, Increment, InquireBalance,
    MessageAmounts, NetworkCommand, OriginalRef, PartialApproval, Present, PresentmentNumber,
    PurchaseFacts, Refund, ReversalAmount, ReversalKind, Reverse,
};
use cardswitch_engine::command::reply::{NetworkReply, PostingOutcome, ReversalOutcome};
use cardswitch_engine::domain::business_date::BusinessDate;
use cardswitch_engine::domain::credential::{
    Cvv, CvvPair, ExpiryMonth, PinVerifier, PresentedCredentials, PresentedValue,
};
use cardswitch_engine::domain::ids::TransactionId;
use cardswitch_engine::domain::merchant::{Mcc, Merchant};
use cardswitch_engine::domain::money::{CurrencyAmount, CurrencyCode, Minor};
use cardswitch_engine::domain::network_key::{
    AuthorizationId, DuplicateKey, DuplicateWindow, Fingerprint, NetworkTrace, OriginalKey,
    RetrievalKey, TraceKey,
};
use cardswitch_engine::domain::response_code::ResponseCode;
use cardswitch_feed::scenario::{
    Act, Credential, Money, Naming, StepAnswer, StepRequest, TransactionIds,
};
use cardswitch_feed::{FeedError, Identity, merchant_category};
use cardswitch_sim::samples::pan;

/// The card verification value of every card.
pub(crate) const CVV: &str = "042";

pub(crate) fn failed(error: impl std::fmt::Display) -> FeedError {
    FeedError::Http(error.to_string())
}

/// The identity of a message: the same one sent again has the same.
pub(crate) fn fingerprint_of(asked: &StepRequest<'_>) -> Fingerprint {
    let Identity { rrn, stan, .. } = asked.identity;
    let key = u128::from(rrn) << 32 | u128::from(stan);
    let (trace, window) = (Some(TraceKey(!key)), DuplicateWindow::Day);
    Fingerprint { key: DuplicateKey(key), trace, content: rrn, window }
}

fn card_of(asked: &StepRequest<'_>) -> Result<CardRef, FeedError> {
    Ok(pan(asked.card.pan.parse().map_err(failed)?))
}

pub(crate) fn command_of(asked: &StepRequest<'_>) -> Result<NetworkCommand, FeedError> {
    let (original, own_rrn) = original_of(asked);
    let facts = facts_of(asked, own_rrn)?;
    let authorize = |kind, facts: PurchaseFacts| {
        let is_nothing = kind != AuthorizationKind::Cash && facts.amounts.amount.is_zero();
        let kind = if is_nothing { AuthorizationKind::Verification } else { kind };
        let takes_partial = asked.details.partial == Some(true);
        let partial =
            if takes_partial { PartialApproval::Taken } else { PartialApproval::NotTaken };
        let credentials = credentials_of(asked);
        NetworkCommand::Authorize(Authorize { facts, kind, credentials, partial })
    };
    Ok(match asked.act {
        Act::Authorize(_) => authorize(AuthorizationKind::Purchase, facts),
        Act::Purchase(_) => authorize(AuthorizationKind::SingleMessage, facts),
        Act::Cash(_) => authorize(AuthorizationKind::Cash, facts),
        Act::Verify => authorize(AuthorizationKind::Verification, facts),
        Act::Inquire => NetworkCommand::InquireBalance(InquireBalance {
            card: facts.card,
            credentials: credentials_of(asked),
        }),
        Act::Increment(_) => NetworkCommand::Increment(Increment {
            card: Some(facts.card),
            amounts: facts.amounts,
            mcc: facts.merchant.mcc,
            credentials: PresentedCredentials::default(),
            original,
            own_key: facts.trace.original_key,
            otherwise: None,
        }),
        Act::Advise(_) => {
            let is_declined = asked.details.declined == Some(true);
            let outcome =
                if is_declined { AdviceOutcome::Declined } else { AdviceOutcome::Approved };
            NetworkCommand::Advise(Advise {
                facts,
                is_cash: false,
                outcome,
                original,
                request: None,
            })
        }
        Act::Present(_) => NetworkCommand::Present(Present {
            amounts: Some(facts.amounts),
            facts: Some(facts),
            original,
            number: asked.details.number.map_or(PresentmentNumber::ONLY, |named| {
                PresentmentNumber { number: named.number, count: named.count }
            }),
        }),
        Act::Refund(_) => NetworkCommand::Refund(Refund { facts, original }),
        Act::Reverse => {
            let kept = asked.details.keep.map(|keep| Minor(keep.minor));
            let is_advice = asked.details.advice == Some(true);
            NetworkCommand::Reverse(Reverse {
                card: Some(facts.card),
                original,
                amount: kept.map_or(ReversalAmount::Full, ReversalAmount::RemainingOriginal),
                kind: if is_advice { ReversalKind::Advice } else { ReversalKind::Request },
            })
        }
        other => return Err(failed(format!("{other:?} is no message"))),
    })
}

/// The names of the transaction that a message is about, and the message's own reference number.
fn original_of(asked: &StepRequest<'_>) -> (OriginalRef, u64) {
    let own = asked.identity.rrn;
    let by_rrn = |rrn| {
        let retrieval_key = Some(RetrievalKey(rrn));
        (OriginalRef { retrieval_key, ..OriginalRef::default() }, rrn)
    };
    let Some(original) = &asked.original else { return (OriginalRef::default(), own) };
    let known = original.known.as_ref();
    let authorization_id = known.and_then(|known| known.authorization_id).map(AuthorizationId);
    let named = match (asked.details.by, authorization_id) {
        (Some(Naming::Rrn), _) => return by_rrn(original.identity.rrn),
        (None, _) if known.is_none() => return by_rrn(original.identity.rrn),
        (None | Some(Naming::AuthorizationId), Some(_)) => {
            OriginalRef { authorization_id, ..OriginalRef::default() }
        }
        _ => {
            let original_key = Some(OriginalKey(original.identity.rrn));
            OriginalRef { original_key, ..OriginalRef::default() }
        }
    };
    (OriginalRef { retrieval_key: Some(RetrievalKey(own)), ..named }, own)
}

fn facts_of(asked: &StepRequest<'_>, rrn: u64) -> Result<PurchaseFacts, FeedError> {
    let none = MessageAmounts { amount: Minor::ZERO, currency: None, billing: None };
    let amounts = asked.act.amount().map_or(none, |amount| MessageAmounts {
        amount: Minor(amount.minor),
        currency: Some(CurrencyCode(amount.numeric())),
        billing: asked.details.billing.map(|billing| CurrencyAmount {
            amount: Minor(billing.minor),
            currency: CurrencyCode(billing.numeric()),
        }),
    });
    let mcc = Some(Mcc(merchant_category(asked.merchant)));
    Ok(PurchaseFacts {
        card: card_of(asked)?,
        amounts,
        merchant: Merchant { mcc, ..Merchant::default() },
        trace: NetworkTrace {
            original_key: Some(OriginalKey(asked.identity.rrn)),
            retrieval_key: Some(RetrievalKey(rrn)),
            ..NetworkTrace::default()
        },
    })
}

/// The card's own credentials, but for the wrong ones; no card has a PIN.
fn credentials_of(asked: &StepRequest<'_>) -> PresentedCredentials {
    let is_wrong = |credential| asked.details.is_wrong(credential);
    let own = ExpiryMonth::of(BusinessDate::from_naive(asked.card.expiration));
    let wrong = ExpiryMonth(own.0 ^ 1);
    let cvv = Cvv::parse(CVV.as_bytes());
    let shown = if is_wrong(Credential::Cvv) { Cvv::NONE } else { cvv };
    PresentedCredentials {
        expiry: Some(PresentedValue::new(if is_wrong(Credential::Expiry) { wrong } else { own })),
        cvv: Some(PresentedValue::new(CvvPair { shown, own: cvv })),
        pin: is_wrong(Credential::Pin).then(|| PresentedValue::new(PinVerifier(1))),
        ..PresentedCredentials::default()
    }
}

pub(crate) fn answered(code: ResponseCode, reason: Option<&str>) -> StepAnswer {
    StepAnswer {
        code: code.number(),
        reason: reason.map(str::to_owned),
        approved: None,
        balance: None,
        known: TransactionIds { authorization_id: None, transaction_id: None },
    }
}

/// The answer that both doors give, and the transaction that it names.
pub(crate) fn answer_of(
    reply: &NetworkReply,
    asked: &StepRequest<'_>,
) -> (StepAnswer, Option<TransactionId>) {
    let with_balance = |answered, balance: Minor| StepAnswer {
        balance: Some(Money::of_account(balance.0)),
        ..answered
    };
    match reply {
        NetworkReply::Authorization(reply) => {
            let code = reply.response_code;
            let asked_for = asked.act.amount();
            let approved = match asked_for {
                Some(amount) if amount.numeric() == reply.currency.0 => {
                    Some(Money::of_account(reply.approved.0))
                }
                other => other,
            };
            let first = answered(code, reply.sub_reason.text());
            let authorization_id = reply.authorization_id.map(|id| id.0);
            let answered = StepAnswer {
                approved: approved.filter(|_| code.is_approved()),
                known: TransactionIds { authorization_id, ..first.known },
                ..first
            };
            (with_balance(answered, reply.allowance_balance), reply.transaction)
        }
        NetworkReply::Reversal(reply) => {
            let code = reply.outcome.response_code();
            let reason = (reply.outcome != ReversalOutcome::Reversed).then(|| reply.outcome.word());
            (with_balance(answered(code, reason), reply.allowance_balance), reply.transaction)
        }
        NetworkReply::Posting(reply) => {
            let code = reply.outcome.response_code();
            let reason = (reply.outcome != PostingOutcome::Posted).then(|| reply.outcome.word());
            (with_balance(answered(code, reason), reply.allowance_balance), reply.transaction)
        }
        NetworkReply::Balance(reply) => {
            let first = answered(reply.response_code, reply.sub_reason.text());
            (with_balance(first, reply.allowance_balance), None)
        }
        NetworkReply::Conflict => (answered(ResponseCode::Declined, Some("conflict")), None),
        NetworkReply::FormatError(reason) => {
            (answered(ResponseCode::Declined, reason.text()), None)
        }
        NetworkReply::Transfer(reply) => (answered(reply.response_code, None), reply.transaction),
    }
}
