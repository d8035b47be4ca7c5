//! Network messages: repeats are answered from memory, everything else by its kind.

use super::duplicates::DuplicateCheck;
use super::execute_authorization::{execute_advise, execute_authorize, execute_inquire_balance};
use super::execute_increment::execute_increment;
use super::execute_presentment::{execute_present, execute_refund};
use super::execute_reversal::execute_reverse;
use super::execute_transfer::{execute_conclude_transfer, execute_transfer};
use super::shard_change::ShardChange;
use crate::command::effect::{Effect, NetworkLogEntry, NetworkMessageKind, RememberedAnswer};
use crate::command::network::{
    Advise, CardRef, MessageAmounts, NetworkCommand, NetworkRequest, PurchaseFacts,
};
use crate::command::reply::NetworkReply;
use crate::domain::card::MaskedPan;
use crate::domain::money::{CurrencyAmount, CurrencyCode, Minor};
use crate::domain::network_key::Fingerprint;
use crate::domain::response_code::SubReason;
use crate::packed::RowAnswer;

pub(super) fn execute_network(
    change: &mut ShardChange<'_>,
    request: &NetworkRequest,
) -> NetworkReply {
    let mut shares_trace = false;
    if let Some(fingerprint) = &request.fingerprint {
        match change.state.known_message(fingerprint, change.moment.at) {
            DuplicateCheck::Answered(reply) => return reply,
            DuplicateCheck::Conflict => return NetworkReply::Conflict,
            DuplicateCheck::NewOfTrace => shares_trace = true,
            DuplicateCheck::New => {}
        }
    }
    let reply = match &request.command {
        NetworkCommand::Authorize(command) => execute_authorize(change, command),
        NetworkCommand::Increment(command) => execute_increment(change, command),
        NetworkCommand::Advise(command) => execute_advise(change, command),
        NetworkCommand::Reverse(command) => execute_reverse(change, command),
        NetworkCommand::Present(command) => execute_present(change, command),
        NetworkCommand::Refund(command) => execute_refund(change, command),
        NetworkCommand::InquireBalance(command) => execute_inquire_balance(change, command),
        NetworkCommand::Transfer(command) => execute_transfer(change, command),
        NetworkCommand::ConcludeTransfer(command) => execute_conclude_transfer(change, command),
    };
    // What was not understood has changed nothing, so the same message may come again, put right.
    let is_understood = !matches!(reply, NetworkReply::FormatError(_));
    if let Some(fingerprint) = request.fingerprint.filter(|_| is_understood) {
        let expires_at = change.moment.at.plus(fingerprint.window.lifetime());
        let answer =
            RememberedAnswer { fingerprint, shares_trace, expires_at, reply: reply.clone() };
        remember(change, answer);
    }
    if let NetworkCommand::Advise(Advise { request: Some(stood_for), .. }) = &request.command {
        remember_for_request(change, stood_for, &reply);
    }
    reply
}

/// Keeps the answer to an advice for the request that it stands for, which may come late: the
/// purchase that the advice made is that request's, and takes money once.
fn remember_for_request(
    change: &mut ShardChange<'_>,
    stood_for: &Fingerprint,
    reply: &NetworkReply,
) {
    let shares_trace = match change.state.known_message(stood_for, change.moment.at) {
        DuplicateCheck::New => false,
        DuplicateCheck::NewOfTrace => true,
        // The request, or one of another content, has its answer.
        DuplicateCheck::Answered(_) | DuplicateCheck::Conflict => return,
    };
    let (fingerprint, reply) = (*stood_for, reply.clone());
    let expires_at = change.moment.at.plus(fingerprint.window.lifetime());
    let answer = RememberedAnswer { fingerprint, shares_trace, expires_at, reply };
    // A record keeps one answer beside its transaction's. An answer that does not follow from the row says that a
    // reversal came first and took a part: the request will be declined for that.
    let follows = match change.effects.last() {
        Some(Effect::Transaction(made)) => RowAnswer::of(&made.record, &answer).is_some(),
        _ => false,
    };
    if follows {
        change.push(Effect::Answer(Box::new(answer)));
    }
}

/// Keeps an answer for repeats: with the transaction that was made, where it follows from its row.
fn remember(change: &mut ShardChange<'_>, answer: RememberedAnswer) {
    if let Some(Effect::Transaction(made)) = change.effects.last_mut() {
        made.answer = RowAnswer::of(&made.record, &answer);
        if made.answer.is_some() {
            return;
        }
    }
    change.push(Effect::Answer(Box::new(answer)));
}

/// The amount in the account's currency, and what the merchant asked in another one.
/// Errors: it is not billed, or one of the two amounts is nothing, which would stand outside of every rule; or another
/// amount is billed beside one in the account's own currency: nobody pays two amounts of one currency.
pub(super) fn amount_for_account(
    amounts: &MessageAmounts,
    currency: CurrencyCode,
) -> Result<(Minor, Option<CurrencyAmount>), SubReason> {
    let own = CurrencyAmount { amount: amounts.amount, currency };
    match (amounts.currency, amounts.billing) {
        (Some(asked), billing) if asked != currency => {
            let billing = billing.filter(|billing| billing.currency == currency);
            let billing = billing.ok_or(SubReason::BillingAmountMissing)?;
            if billing.amount.is_zero() == amounts.amount.is_positive() {
                return Err(SubReason::BillingAmountMissing);
            }
            let foreign = CurrencyAmount { amount: amounts.amount, currency: asked };
            Ok((billing.amount, Some(foreign)))
        }
        (_, Some(billing)) if billing != own => Err(SubReason::BillingConflict),
        _ => Ok((amounts.amount, None)),
    }
}

/// Notes a message that makes no transaction because its card is unknown.
pub(super) fn log_unknown_card(
    change: &mut ShardChange<'_>,
    kind: NetworkMessageKind,
    card: CardRef,
    facts: Option<&PurchaseFacts>,
) {
    let entry = NetworkLogEntry {
        amount: facts.map_or(Minor::ZERO, |facts| facts.amounts.amount),
        currency: facts.and_then(|facts| facts.amounts.currency),
        rrn: facts.map_or_else(String::new, |facts| facts.trace.rrn.to_string()),
        ..log_entry(change, (kind, SubReason::UnknownCard), Some(card))
    };
    change.push(Effect::NetworkLog(Box::new(entry)));
}

/// A note of a message that makes no transaction and names no amount.
pub(super) fn log_entry(
    change: &ShardChange<'_>,
    (kind, reason): (NetworkMessageKind, SubReason),
    card: Option<CardRef>,
) -> NetworkLogEntry {
    let masked_pan = match card {
        Some(CardRef::Pan(_, masked)) => masked,
        _ => MaskedPan::default(),
    };
    NetworkLogEntry {
        at: change.moment.at,
        kind,
        masked_pan,
        amount: Minor::ZERO,
        currency: None,
        rrn: String::new(),
        reason,
    }
}
