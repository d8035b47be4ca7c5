//! Reversals: held amounts are released; an amount that settled at once is compensated by a line.

use super::card_money::CardMoney;
use super::execute_network::{amount_for_account, log_entry};
use super::shard_change::ShardChange;
use super::transactions::OpenTransaction;
use crate::command::effect::{EarlyReversal, Effect, NetworkLogEntry, NetworkMessageKind};
use crate::command::network::{ReversalAmount, Reverse};
use crate::command::reply::{NetworkReply, ReversalOutcome, ReversalReply};
use crate::domain::ids::{MemberSlot, Timestamp};
use crate::domain::money::{CurrencyCode, Minor};
use crate::domain::response_code::SubReason;
use crate::domain::transaction::{TransactionKind, TransactionProgress, TransactionState};

/// How long a reversal that came before its purchase is remembered. Units: microseconds.
const EARLY_REVERSAL_LIFETIME: i64 = 24 * Timestamp::HOUR;

pub(super) fn execute_reverse(change: &mut ShardChange<'_>, command: &Reverse) -> NetworkReply {
    let card = command.card.map(|card| change.state.find_card(card));
    // A card that is named but not known has no purchase, whatever else the message names.
    let found = match card {
        Some(None) => {
            log_refused(change, command, None, SubReason::UnknownCard);
            None
        }
        known => change.state.find_original(change.moment.ids, known.flatten(), &command.original),
    };
    let Some((seq, open, card)) = found.and_then(|(seq, open)| Some((seq, open, open.card?)))
    else {
        return NetworkReply::Reversal(remember_early(change, command));
    };
    let mut money = CardMoney::open(change, card, seq);
    let mut progress = open.progress.clone();
    let outcome = if open.kind == TransactionKind::Refund {
        reverse_refund(change, open, command.amount, (&mut money, &mut progress))
    } else {
        reverse(change, open, command, &mut money, &mut progress)
    };
    let reply = ReversalReply {
        outcome: outcome.map_or_else(|refused| refused, |_| ReversalOutcome::Reversed),
        transaction: Some(change.moment.ids.transaction_id(open.authorized_at, seq)),
        given_back: outcome.unwrap_or(Minor::ZERO),
        remaining: progress.held.total(),
        allowance_balance: money.allowance_balance(),
        currency: money.account.currency(),
    };
    if outcome == Err(ReversalOutcome::NothingHeld) {
        log_refused(change, command, Some(open), SubReason::NothingHeld);
    }
    if reply.given_back.is_positive() {
        change.push(Effect::TransactionProgress(seq, Box::new(progress)));
        money.close(change);
    }
    NetworkReply::Reversal(reply)
}

/// Notes a reversal that reverses nothing.
fn log_refused(
    change: &mut ShardChange<'_>,
    command: &Reverse,
    open: Option<&OpenTransaction>,
    reason: SubReason,
) {
    let entry = NetworkLogEntry {
        amount: open.map_or(Minor::ZERO, |open| open.requested),
        ..log_entry(change, (NetworkMessageKind::Reversal, reason), command.card)
    };
    change.push(Effect::NetworkLog(Box::new(entry)));
}

/// Gives back what the reversal says and returns how much that was.
fn reverse(
    change: &mut ShardChange<'_>,
    open: &OpenTransaction,
    command: &Reverse,
    money: &mut CardMoney<'_>,
    progress: &mut TransactionProgress,
) -> Result<Minor, ReversalOutcome> {
    let held = progress.held.total();
    let is_of_later = names_a_later_message(open, command);
    if held.is_positive() {
        let given_back = match (command.amount, &command.amounts) {
            (ReversalAmount::Full, Some(amounts)) if is_of_later => {
                let (own, _) = amount_for_account(amounts, money.account.currency())
                    .map_err(|_| ReversalOutcome::AmountOutOfRange)?;
                own.min(held)
            }
            (amount, _) => amount_given_back(open, amount, held)?,
        };
        money.release(change, given_back, progress);
        cancel_if_nothing_remains(progress);
        return Ok(given_back);
    }
    if progress.state == TransactionState::Canceled {
        return Ok(Minor::ZERO);
    }
    let is_posted_at_once = open.kind == TransactionKind::SingleMessagePurchase
        || progress.is_posted_only(open.authorized_at);
    // A reversal gives back only the rest that refunds left.
    let reversible = progress.posted - progress.refunded;
    if !is_posted_at_once || !reversible.is_positive() || is_of_later {
        return Err(ReversalOutcome::NothingHeld);
    }
    let given_back = amount_given_back(open, command.amount, reversible)?;
    if !money.can_post(given_back) {
        return Err(ReversalOutcome::AmountOutOfRange);
    }
    // Giving back nothing posts nothing: a line without its balances would lend its number twice.
    if given_back.is_positive() {
        let named = (open.merchant_name.as_str(), open.member);
        give_back_posted(change, given_back, named, (money, progress));
    }
    Ok(given_back)
}

/// Whether the reversal is about another message than the one that made the purchase, as an
/// increment: the purchase was found by what its messages share.
fn names_a_later_message(open: &OpenTransaction, command: &Reverse) -> bool {
    let first = open.original_key;
    command.original.original_key.is_some_and(|named| first.is_some_and(|first| first != named))
}

/// Gives back what was posted, by a line of that name and member.
pub(super) fn give_back_posted(
    change: &mut ShardChange<'_>,
    amount: Minor,
    (merchant_name, member): (&str, Option<MemberSlot>),
    (money, progress): (&mut CardMoney<'_>, &mut TransactionProgress),
) {
    money.compensate(change, amount, progress);
    money.write_line(change, amount, merchant_name, member);
    cancel_if_nothing_remains(progress);
}

/// Takes back what a refund gave, by a line against it. The room that its purchase got is taken
/// again, from the current period and day.
fn reverse_refund(
    change: &mut ShardChange<'_>,
    open: &OpenTransaction,
    amount: ReversalAmount,
    (money, progress): (&mut CardMoney<'_>, &mut TransactionProgress),
) -> Result<Minor, ReversalOutcome> {
    let given = -progress.posted;
    if !given.is_positive() {
        return Ok(Minor::ZERO);
    }
    let taken_back = amount_given_back(open, amount, given)?;
    if !money.can_post(taken_back) {
        return Err(ReversalOutcome::AmountOutOfRange);
    }
    if !taken_back.is_positive() {
        return Ok(taken_back);
    }
    let room = taken_back.min(progress.refunded);
    if let Some(purchase_seq) = open.refund_of.filter(|_| room.is_positive()) {
        let Some(purchase) = change.state.transaction(purchase_seq) else {
            unreachable!("what a refund gave room to is loaded with it");
        };
        let mut purchase = purchase.progress.clone();
        money.take_room_again(room, &mut purchase);
        purchase.refunded -= room;
        progress.refunded -= room;
        change.push(Effect::TransactionProgress(purchase_seq, Box::new(purchase)));
    }
    let named = (open.merchant_name.as_str(), open.member);
    take_back_refunded(change, taken_back, named, (money, progress));
    Ok(taken_back)
}

/// Takes back what was refunded, by a line of that name and member.
pub(super) fn take_back_refunded(
    change: &mut ShardChange<'_>,
    amount: Minor,
    (merchant_name, member): (&str, Option<MemberSlot>),
    (money, progress): (&mut CardMoney<'_>, &mut TransactionProgress),
) {
    money.debit(change, amount);
    progress.posted += amount;
    money.write_line(change, -amount, merchant_name, member);
    cancel_if_nothing_remains(progress);
}

/// The part of `open_amount` that a reversal gives back.
/// Errors: `AmountOutOfRange` for more than there is.
fn amount_given_back(
    open: &OpenTransaction,
    amount: ReversalAmount,
    open_amount: Minor,
) -> Result<Minor, ReversalOutcome> {
    let checked = |kept: Minor| {
        if kept.is_amount() { Ok(kept) } else { Err(ReversalOutcome::AmountOutOfRange) }
    };
    let given_back = match amount {
        ReversalAmount::Full => open_amount,
        ReversalAmount::GiveBack(given) => given,
        ReversalAmount::Remaining(kept) => open_amount - checked(kept)?,
        ReversalAmount::RemainingOriginal(kept) => {
            open_amount - kept_in_account_currency(open, checked(kept)?)
        }
    };
    if given_back >= Minor::ZERO && given_back <= open_amount {
        Ok(given_back)
    } else {
        Err(ReversalOutcome::AmountOutOfRange)
    }
}

/// The rest in the account's currency for a rest of the original amount: at the rate of the
/// authorization, whatever was given back since, and rounded up. Source: ISO DE95.
fn kept_in_account_currency(open: &OpenTransaction, kept: Minor) -> Minor {
    let Some(foreign) = open.foreign.filter(|foreign| foreign.amount.is_positive()) else {
        return kept;
    };
    let whole = i128::from(foreign.amount.0);
    let share = i128::from(open.requested.0) * i128::from(kept.0);
    let rounded_up = (share + whole - 1) / whole;
    // More than any amount is out of range whatever is open.
    let bounded = rounded_up.min(i128::from(Minor::BALANCE_MAX.0));
    Minor(i64::try_from(bounded).unwrap_or(Minor::BALANCE_MAX.0))
}

/// A purchase with nothing held and nothing posted is canceled.
pub(super) fn cancel_if_nothing_remains(progress: &mut TransactionProgress) {
    if !progress.held.is_empty() {
        return;
    }
    progress.hold_expires_at = Timestamp::MAX;
    if progress.posted.is_zero() {
        progress.state = TransactionState::Canceled;
    }
}

/// Remembers a reversal whose purchase has not been seen, so that it is declined when it comes.
fn remember_early(change: &mut ShardChange<'_>, command: &Reverse) -> ReversalReply {
    let (original_key, retrieval_key) =
        (command.original.original_key, command.original.retrieval_key);
    if original_key.is_some() || retrieval_key.is_some() {
        let expires_at = change.moment.at.plus(EARLY_REVERSAL_LIFETIME);
        let early = EarlyReversal { original_key, retrieval_key, expires_at };
        change.push(Effect::EarlyReversal(early));
    }
    ReversalReply {
        outcome: ReversalOutcome::NotFound,
        transaction: None,
        given_back: Minor::ZERO,
        remaining: Minor::ZERO,
        allowance_balance: Minor::ZERO,
        currency: CurrencyCode::default(),
    }
}
