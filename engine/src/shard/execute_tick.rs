//! What happens because time passes: holds expire, allowances end.

use super::card_money::CardMoney;
use super::execute::Moment;
use super::execute_reversal::cancel_if_nothing_remains;
use super::state::ShardState;
use super::timers::{Timer, TimerKind};
use crate::command::effect::Effect;
use crate::domain::card::SuspensionReason;
use crate::domain::ids::{CardSlot, TransactionSeq};
use crate::domain::transaction::TransactionFlags;

pub(super) fn execute_timer(
    state: &ShardState,
    moment: &Moment<'_>,
    timer: Timer,
    effects: &mut Vec<Effect>,
) {
    match timer.kind {
        TimerKind::AllowanceEnd(slot) => end_allowance(state, slot, effects),
        TimerKind::HoldExpiry(seq) => expire_hold(state, moment, seq, effects),
    }
}

/// Suspends a card whose end_time is past. Source: spec "States and transitions".
fn end_allowance(state: &ShardState, slot: CardSlot, effects: &mut Vec<Effect>) {
    let mut usage = state.card(slot).usage;
    usage.suspend(SuspensionReason::EndTime);
    effects.push(Effect::CardUsage(slot, usage));
}

/// Gives back what is still held: as a full reversal would.
fn expire_hold(
    state: &ShardState,
    moment: &Moment<'_>,
    seq: TransactionSeq,
    effects: &mut Vec<Effect>,
) {
    let Some((open, card)) = state.transaction(seq).and_then(|open| Some((open, open.card?)))
    else {
        unreachable!("only card purchases in memory have a timer that runs");
    };
    let mut money = CardMoney::open(state, moment, card, seq);
    let mut progress = open.progress.clone();
    money.release(progress.held.total(), &mut progress, effects);
    progress.flags.insert(TransactionFlags::HOLD_EXPIRED);
    cancel_if_nothing_remains(&mut progress);
    effects.push(Effect::TransactionProgress(seq, Box::new(progress)));
    money.close(effects);
}
