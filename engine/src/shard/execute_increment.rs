//! Increments: more for a purchase of which something is held, be it pending or presented in part.
//!
//! The added amount is judged like a purchase of its own, but for the transaction limit, which holds
//! for the whole. It belongs to the period and day of the increment. A declined one changes nothing
//! of the purchase.

use super::card_money::CardMoney;
use super::execute_authorization::{declined_without_transaction, execute_authorize};
use super::execute_card::{Attempt, Judgement, count_attempt, judge, velocity_facts};
use super::execute_network::{amount_for_account, log_entry};
use super::open_transaction::OpenTransaction;
use super::shard_change::ShardChange;
use crate::command::Moment;
use crate::command::effect::{Effect, NetworkLogEntry, NetworkMessageKind};
use crate::command::network::Increment;
use crate::command::reply::{AuthorizationReply, NetworkReply};
use crate::decision::{IncrementDecision, Rule, RuleSet};
use crate::domain::authorization_id::authorization_id_of;
use crate::domain::card::SuspensionReason;
use crate::domain::hold::HoldParts;
use crate::domain::ids::{CardSlot, TransactionSeq};
use crate::domain::later_message::{LaterMessage, LaterMessageKind};
use crate::domain::money::{Conversion, Minor};
use crate::domain::network_key::MessageClass;
use crate::domain::response_code::SubReason;
use crate::domain::transaction::TransactionFlags;

pub(super) fn execute_increment(change: &mut ShardChange<'_>, command: &Increment) -> NetworkReply {
    let slot = command.card.map(|card| change.state.find_card(card));
    let named = match slot {
        // A card that is named but not known has no purchase, whatever else the message names.
        Some(None) => None,
        known => change.state.find_original(change.moment.ids, known.flatten(), &command.original),
    };
    let held = named.and_then(|(seq, open)| {
        let is_held = !open.progress.held.is_empty();
        Some((seq, open, open.card.filter(|_| is_held)?))
    });
    match (held, &command.otherwise) {
        (Some(purchase), _) => add_to_purchase(change, command, purchase),
        (None, Some(authorize)) => execute_authorize(change, authorize),
        (None, None) => {
            let unknown = slot == Some(None);
            let reason = if unknown { SubReason::UnknownCard } else { SubReason::NotPending };
            log_declined(change, command, reason);
            NetworkReply::Authorization(declined_without_transaction(reason))
        }
    }
}

fn add_to_purchase(
    change: &mut ShardChange<'_>,
    command: &Increment,
    (seq, open, card): (TransactionSeq, &OpenTransaction, CardSlot),
) -> NetworkReply {
    let mut money = CardMoney::open(change, card, seq);
    let (amount, foreign) = match amount_for_account(&command.amounts, money.account.currency()) {
        Ok(amounts) => amounts,
        Err(reason) => return NetworkReply::FormatError(reason),
    };
    let mcc = command.mcc.or(open.mcc);
    let attempt = Attempt {
        amount,
        added_to: open.progress.held.total() + open.progress.posted,
        mcc,
        is_cash: false,
        credentials: &command.credentials,
        // A request is declined also where a rest would stay: see `execute_authorize`.
        is_reversed_before: change
            .reversal_before((command.own_key, open.retrieval_key), MessageClass::Authorization)
            .is_some(),
        velocity: count_attempt(change, card),
        before: velocity_facts(change.state, change.moment, card),
    };
    let Judgement { mut failed, facts } = judge(change, &mut money, &attempt);
    // The purchase that used the card up may still take more.
    let has_used_card_up = open.progress.flags.contains(TransactionFlags::CONSUMED_SINGLE_USE);
    if has_used_card_up && money.usage.suspension == SuspensionReason::SingleUse {
        failed = failed.without(Rule::CardSuspended);
    }
    let decision = Box::new(IncrementDecision {
        transaction: seq,
        decided_at: change.moment.at,
        amount,
        added_to: attempt.added_to,
        mcc,
        failed_rules: failed,
        has_used_card_up,
        facts,
    });
    let is_approved = failed.is_empty();
    if is_approved {
        let mut progress = open.progress.clone();
        money.hold(change, amount, &mut progress);
        let (kind, conversion) = (LaterMessageKind::Increment, Conversion::of(foreign, amount));
        let increment = LaterMessage::new(kind, command.own_key, amount, conversion);
        progress.later.add(increment.in_parts(HoldParts::taken(amount, &money.usage)));
        progress.hold_expires_at = money.hold_end(change, open.mcc.or(mcc));
        change.push(Effect::TransactionProgress(seq, Box::new(progress)));
    } else {
        log_declined(change, command, SubReason::IncrementDeclined);
    }
    change.push(Effect::Increment(decision));
    let reply = answer(change.moment, (seq, open), amount, failed, &money);
    money.close(change);
    NetworkReply::Authorization(reply)
}

fn answer(
    moment: &Moment<'_>,
    (seq, open): (TransactionSeq, &OpenTransaction),
    amount: Minor,
    failed: RuleSet,
    money: &CardMoney<'_>,
) -> AuthorizationReply {
    let is_approved = failed.is_empty();
    AuthorizationReply {
        transaction: Some(moment.ids.transaction_id(open.authorized_at, seq)),
        response_code: failed.response_code(),
        sub_reason: failed.sub_reason(),
        failed_rules: failed,
        approved: if is_approved { amount } else { Minor::ZERO },
        authorization_id: is_approved.then(|| authorization_id_of(seq)),
        allowance_balance: money.allowance_balance(),
        currency: money.account.currency(),
    }
}

/// Notes an increment that added nothing; its purchase stands as it stood.
fn log_declined(change: &mut ShardChange<'_>, command: &Increment, reason: SubReason) {
    let entry = NetworkLogEntry {
        amount: command.amounts.amount,
        currency: command.amounts.currency,
        ..log_entry(change, (NetworkMessageKind::Increment, reason), command.card)
    };
    change.push(Effect::NetworkLog(Box::new(entry)));
}
