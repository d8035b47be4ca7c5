//! The effects of time: holds expire, allowances end.

use super::card_money::CardMoney;
use super::execute_reversal::cancel_if_nothing_remains;
use super::shard_change::ShardChange;
use super::timers::{Timer, TimerKind};
use crate::command::effect::Effect;
use crate::domain::card::SuspensionReason;
use crate::domain::ids::{CardSlot, TransactionSeq};
use crate::domain::transaction::TransactionFlags;

pub(super) fn execute_timer(change: &mut ShardChange<'_>, timer: Timer) {
    match timer.kind {
        TimerKind::AllowanceEnd(slot) => end_allowance(change, slot),
        TimerKind::HoldExpiry(seq) => expire_hold(change, seq),
    }
}

/// Suspends a card whose end_time is past. Source: spec "States and transitions".
fn end_allowance(change: &mut ShardChange<'_>, slot: CardSlot) {
    let mut usage = change.state.card(slot).usage;
    usage.suspend(SuspensionReason::EndTime);
    change.push(Effect::CardUsage(slot, usage));
}

/// Gives back what is still held: as a full reversal would.
fn expire_hold(change: &mut ShardChange<'_>, seq: TransactionSeq) {
    let Some((open, card)) =
        change.state.transaction(seq).and_then(|open| Some((open, open.card?)))
    else {
        unreachable!("only card purchases in memory have a timer that runs");
    };
    let mut money = CardMoney::open(change, card, seq);
    let mut progress = open.progress.clone();
    money.release(change, progress.held.total(), &mut progress);
    progress.flags.insert(TransactionFlags::HOLD_EXPIRED);
    cancel_if_nothing_remains(&mut progress);
    change.push(Effect::TransactionProgress(seq, Box::new(progress)));
    money.close(change);
}
