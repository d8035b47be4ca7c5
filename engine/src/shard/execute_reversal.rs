//! Reversals: held amounts are released; what a presentment, a refund or a purchase of one message
//! posted is compensated by a line.

use super::card_money::CardMoney;
use super::early_reversals::MessageMarks;
use super::execute_network::log_entry;
use super::open_transaction::{NamedOnLines, OpenTransaction};
use super::shard_change::ShardChange;
use super::state::ShardState;
use crate::command::effect::{EarlyReversal, Effect, NetworkLogEntry, NetworkMessageKind};
use crate::command::network::{OriginalRef, ReversalAmount, Reverse};
use crate::command::reply::{NetworkReply, ReversalOutcome, ReversalReply};
use crate::domain::hold::HoldParts;
use crate::domain::ids::{CardSlot, Timestamp, TransactionSeq};
use crate::domain::later_message::LaterMessageKind;
use crate::domain::money::{Conversion, CurrencyCode, Minor};
use crate::domain::network_key::{MessageClass, OriginalKey};
use crate::domain::public_id::IdMint;
use crate::domain::response_code::SubReason;
use crate::domain::transaction::{TransactionKind, TransactionProgress, TransactionState};

/// The reply to a reversal that names nothing known.
const NOT_FOUND: ReversalReply = ReversalReply {
    outcome: ReversalOutcome::NotFound,
    transaction: None,
    given_back: Minor::ZERO,
    remaining: Minor::ZERO,
    allowance_balance: Minor::ZERO,
    currency: CurrencyCode(0),
};

/// How long a reversal that came before its message is remembered. Units: microseconds.
const EARLY_REVERSAL_LIFETIME: i64 = 24 * Timestamp::HOUR;

/// The message that a reversal takes back.
#[derive(Clone, Copy)]
pub(super) enum ReversedMessage {
    /// The one that made the transaction.
    First,
    /// A later one, by its place among those.
    Later(usize),
}

impl ShardState {
    /// Finds the message that a reversal names, and its transaction. None for a message that the
    /// transaction has not had: it may come yet.
    pub(super) fn find_reversed(
        &self,
        ids: &IdMint,
        card: Option<CardSlot>,
        named: &OriginalRef,
    ) -> Option<(TransactionSeq, &OpenTransaction, ReversedMessage)> {
        let (seq, open) = self.find_original(ids, card, named)?;
        let Some(key) = named.original_key else {
            return Some((seq, open, ReversedMessage::First));
        };
        let message_of = |open| message_of(open, key, named.class);
        if let Some(message) = message_of(open) {
            return Some((seq, open, message));
        }
        // A refund, say, may carry its purchase's authorization id.
        let by_key = OriginalRef { original_key: Some(key), ..OriginalRef::default() };
        let own = self.find_original(ids, card, &by_key);
        let own = own.and_then(|(seq, open)| Some((seq, open, message_of(open)?)));
        own.or_else(|| open.original_key.is_none().then_some((seq, open, ReversedMessage::First)))
    }
}

/// The message of a transaction that this key may mean, if there is one of this class. The presentment that made a
/// force post has the transaction's own, and is one of the later messages.
pub(super) fn message_of(
    open: &OpenTransaction,
    key: OriginalKey,
    class: Option<MessageClass>,
) -> Option<ReversedMessage> {
    let later = |class| open.progress.later.place_of(key, class).map(ReversedMessage::Later);
    let is_first = open.original_key.is_some_and(|own| key.may_mean(own));
    let first = is_first.then_some(ReversedMessage::First);
    let is_posting = open.progress.is_posted_only(open.authorized_at);
    let is_of_class = class == Some(open.kind.class()) && !is_posting;
    later(class).or(first.filter(|_| is_of_class)).or_else(|| later(None)).or(first)
}

pub(super) fn execute_reverse(change: &mut ShardChange<'_>, command: &Reverse) -> NetworkReply {
    let card = command.card.map(|card| change.state.find_card(card));
    // A card that is named but not known has no purchase, whatever else the message names.
    let found = match card {
        Some(None) => {
            log_refused(change, command, None, SubReason::UnknownCard);
            None
        }
        known => change.state.find_reversed(change.moment.ids, known.flatten(), &command.original),
    };
    let reversed = found.and_then(|(seq, open, message)| Some((seq, open, open.card?, message)));
    let Some((seq, open, card, message)) = reversed else {
        // The number of a card is drawn when it is issued: no purchase with an unknown one can come.
        if card != Some(None) {
            remember_early(change, card.flatten(), command);
        }
        return NetworkReply::Reversal(NOT_FOUND);
    };
    let mut money = CardMoney::open(change, card, seq);
    let mut progress = open.progress.clone();
    let taken = (&mut money, &mut progress);
    let outcome = match message {
        ReversedMessage::Later(at) => {
            reverse_later(change, open.named_on_lines(), (command.amount, at), taken)
        }
        ReversedMessage::First if open.is_refund() => {
            reverse_known_refund(change, open, command.amount, taken)
        }
        ReversedMessage::First => reverse(change, open, command.amount, taken),
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
    amount: ReversalAmount,
    (money, progress): (&mut CardMoney<'_>, &mut TransactionProgress),
) -> Result<Minor, ReversalOutcome> {
    let held = progress.held.total();
    if held.is_positive() {
        // What was posted of it stays, and is a part of the amount to keep.
        let whole = held + progress.posted;
        let given_back = amount_given_back(open.conversion_of_hold(), amount, whole)?.min(held);
        give_back_held(change, (given_back, &HoldParts::new()), (money, progress));
        progress.later.give_back_held(given_back);
        return Ok(given_back);
    }
    if progress.state == TransactionState::Canceled {
        return Ok(Minor::ZERO);
    }
    let is_posted_at_once = open.kind == TransactionKind::SingleMessagePurchase
        || progress.is_posted_only(open.authorized_at);
    let reversible = progress.posted - progress.refunded;
    if !is_posted_at_once || !reversible.is_positive() {
        return Err(ReversalOutcome::NothingHeld);
    }
    // The amount to keep is a part of the whole purchase. No more goes back than refunds have left.
    let given_back = amount_given_back(open.conversion(), amount, progress.posted)?.min(reversible);
    progress.later.give_back_posted(given_back);
    let newest = (given_back, &HoldParts::new());
    reverse_posted(change, open.named_on_lines(), newest, (money, progress))
}

/// Gives back what a reversal says that came before the message of these marks, which is the newest of
/// its transaction: as if it came right after it. Returns how much that is.
pub(super) fn reverse_early(
    change: &mut ShardChange<'_>,
    marks: MessageMarks,
    named: NamedOnLines<'_>,
    purse: (&mut CardMoney<'_>, &mut TransactionProgress),
) -> Minor {
    let Some((at, newest)) = purse.1.later.newest() else { return Minor::ZERO };
    let Some(amount) = change.reversal_before(marks, newest.class()) else { return Minor::ZERO };
    // One that would be refused gives nothing back.
    reverse_later(change, named, (amount, at), purse).unwrap_or(Minor::ZERO)
}

/// What a reversal that came before a message leaves of the amount that it takes: all where it would
/// be refused, none where nothing is left to take.
pub(super) fn left_by_early(
    early: Option<ReversalAmount>,
    amount: Minor,
    conversion: Option<Conversion>,
) -> Option<Minor> {
    let Some(early) = early else { return Some(amount) };
    let given_back = amount_given_back(conversion, early, amount).unwrap_or(Minor::ZERO);
    Some(amount - given_back).filter(|left| left.is_positive())
}

/// Gives back what a later message took, in its parts, as far as it is still held or posted.
fn reverse_later(
    change: &mut ShardChange<'_>,
    named: NamedOnLines<'_>,
    (amount, at): (ReversalAmount, usize),
    (money, progress): (&mut CardMoney<'_>, &mut TransactionProgress),
) -> Result<Minor, ReversalOutcome> {
    let (held, posted) = (progress.held.total(), progress.posted - progress.refunded);
    let is_over = progress.state == TransactionState::Canceled;
    let mut message = progress.later.as_slice()[at].clone();
    let asked = amount_given_back(message.conversion, amount, message.left)?;
    let is_posting = matches!(message.kind, LaterMessageKind::Presentment(_));
    // Refunds may have given back all that is posted: until one is reversed there is nothing to give.
    let is_nothing_open = if is_posting { !posted.is_positive() } else { held.is_zero() };
    if message.left.is_positive() && is_nothing_open && !is_over {
        return Err(ReversalOutcome::NothingHeld);
    }
    let given_back = asked.min(if is_posting { posted.or_zero() } else { held });
    // A refund of a posting leaves less to give back, until it is reversed itself.
    let parts = message.give_back(if is_posting { given_back } else { asked });
    if is_posting {
        reverse_posted(change, named, (given_back, &parts), (money, progress))?;
    } else {
        give_back_held(change, (given_back, &parts), (money, progress));
    }
    *progress.later.at_mut(at) = message;
    Ok(given_back)
}

fn give_back_held(
    change: &mut ShardChange<'_>,
    amount_in_parts: (Minor, &HoldParts),
    (money, progress): (&mut CardMoney<'_>, &mut TransactionProgress),
) {
    money.release_parts(change, amount_in_parts, progress);
    cancel_if_nothing_remains(progress);
}

/// Gives back what a transaction posted, if its account can take it.
/// Errors: `AmountOutOfRange`.
fn reverse_posted(
    change: &mut ShardChange<'_>,
    (merchant_name, member): NamedOnLines<'_>,
    (amount, parts): (Minor, &HoldParts),
    (money, progress): (&mut CardMoney<'_>, &mut TransactionProgress),
) -> Result<Minor, ReversalOutcome> {
    if !money.can_post(amount) {
        return Err(ReversalOutcome::AmountOutOfRange);
    }
    // Giving back nothing posts nothing: a line without its balances would lend its number twice.
    if amount.is_positive() {
        money.compensate(change, (amount, parts), progress);
        money.write_line(change, amount, merchant_name, member);
        cancel_if_nothing_remains(progress);
    }
    Ok(amount)
}

/// Takes back what a refund gave, and tells its purchase.
fn reverse_known_refund(
    change: &mut ShardChange<'_>,
    open: &OpenTransaction,
    amount: ReversalAmount,
    purse: (&mut CardMoney<'_>, &mut TransactionProgress),
) -> Result<Minor, ReversalOutcome> {
    let known = open.refund_of.and_then(|seq| Some((seq, change.state.transaction(seq)?)));
    let mut purchase = known.map(|(_, purchase)| purchase.progress.clone());
    let refund = (open.conversion(), open.named_on_lines());
    let taken_back = reverse_refund(change, refund, amount, purse, purchase.as_mut())?;
    if let Some(((seq, before), after)) = known.zip(purchase)
        && after != before.progress
    {
        change.push(Effect::TransactionProgress(seq, Box::new(after)));
    }
    Ok(taken_back)
}

/// Takes back what a refund gave, by a line against it: first what it gave beyond its purchase. Of
/// the rest the room that the purchase got is taken again, in its period and day.
pub(super) fn reverse_refund(
    change: &mut ShardChange<'_>,
    (conversion, (merchant_name, member)): (Option<Conversion>, NamedOnLines<'_>),
    amount: ReversalAmount,
    (money, progress): (&mut CardMoney<'_>, &mut TransactionProgress),
    purchase: Option<&mut TransactionProgress>,
) -> Result<Minor, ReversalOutcome> {
    let given = -progress.posted;
    if !given.is_positive() {
        return Ok(Minor::ZERO);
    }
    let taken_back = amount_given_back(conversion, amount, given)?;
    if !money.can_post(taken_back) {
        return Err(ReversalOutcome::AmountOutOfRange);
    }
    if !taken_back.is_positive() {
        return Ok(taken_back);
    }
    let room = (progress.refunded - (given - taken_back)).or_zero();
    if room.is_positive() {
        let Some(purchase) = purchase else {
            unreachable!("what a refund gave room to is loaded with it");
        };
        purchase.refunded -= room;
        progress.refunded -= room;
        money.take_room_again(progress, purchase);
    }
    money.debit(change, taken_back);
    progress.posted += taken_back;
    money.write_line(change, -taken_back, merchant_name, member);
    cancel_if_nothing_remains(progress);
    Ok(taken_back)
}

/// The part of `open_amount` that a reversal gives back. A rest of what was asked in another
/// currency is one at the rate of its message, whatever was given back since. Source: ISO DE95.
/// Errors: `AmountOutOfRange` for more than there is.
fn amount_given_back(
    conversion: Option<Conversion>,
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
            let kept = checked(kept)?;
            open_amount - conversion.map_or(kept, |conversion| conversion.share(kept))
        }
    };
    if given_back >= Minor::ZERO && given_back <= open_amount {
        Ok(given_back)
    } else {
        Err(ReversalOutcome::AmountOutOfRange)
    }
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

/// Remembers a reversal whose message has not been seen, for when it comes. A reference that a declined
/// try of the purchase has says that it has come: the next try is another one.
fn remember_early(change: &mut ShardChange<'_>, card: Option<CardSlot>, command: &Reverse) {
    let OriginalRef { original_key, class, retrieval_key, .. } = command.original;
    let retrieval_key = if original_key.is_none_or(OriginalKey::is_vague) {
        let purchase = change.state.find_original(change.moment.ids, card, &command.original);
        let of_purchase = purchase.and_then(|(_, open)| open.retrieval_key);
        // Where no purchase is found, one that was declined may have the reference: its next try is not meant.
        of_purchase.or(retrieval_key.filter(|key| !change.state.is_known_reference(*key)))
    } else {
        None
    };
    let original_key = original_key.map(|key| match retrieval_key {
        Some(_) => key.vague_name(class),
        None => key.in_class(class),
    });
    if original_key.is_some() || retrieval_key.is_some() {
        let (amount, expires_at) = (command.amount, change.moment.at.plus(EARLY_REVERSAL_LIFETIME));
        let early = EarlyReversal { card, original_key, retrieval_key, amount, expires_at };
        change.push(Effect::EarlyReversal(Box::new(early)));
    }
}
