//! Presentments and refunds: the network's settlements post, regardless of the rules.

use super::card_money::CardMoney;
use super::execute_authorization::{Purchase, record_of};
use super::execute_network::{amount_for_account, log_unknown_card};
use super::execute_reversal::{reverse_early, reverse_refund};
use super::open_transaction::OpenTransaction;
use super::shard_change::ShardChange;
use crate::command::effect::{Effect, NetworkMessageKind};
use crate::command::network::{MessageAmounts, Present, PresentmentNumber, PurchaseFacts, Refund};
use crate::command::reply::{NetworkReply, PostingOutcome, PostingReply};
use crate::decision::RuleSet;
use crate::domain::ids::{CardSlot, Timestamp, TransactionId, TransactionSeq};
use crate::domain::later_message::{LaterMessage, LaterMessageKind};
use crate::domain::money::{Conversion, CurrencyCode, Minor};
use crate::domain::network_key::{MessageClass, OriginalKey};
use crate::domain::response_code::{ResponseCode, SubReason};
use crate::domain::transaction::{
    TransactionFlags, TransactionKind, TransactionProgress, TransactionRecord, TransactionState,
};

pub(super) fn execute_present(change: &mut ShardChange<'_>, command: &Present) -> NetworkReply {
    let card = command.facts.as_ref().map(|facts| facts.card);
    let slot = card.and_then(|card| change.state.find_card(card));
    if let (Some(card), None) = (card, slot) {
        let facts = command.facts.as_ref();
        log_unknown_card(change, NetworkMessageKind::Presentment, card, facts);
        return NetworkReply::Posting(not_posted(PostingOutcome::UnknownCard));
    }
    // A refund may carry the marks of a purchase, but nothing of it is left to settle.
    let found = change
        .state
        .find_original(change.moment.ids, slot, &command.original)
        .filter(|(_, open)| open.kind != TransactionKind::Refund);
    match (found, &command.facts, slot) {
        (Some((seq, open)), ..) => present_original(change, command, (seq, open)),
        // One that names no amount is about a hold.
        (None, Some(facts), Some(slot)) if command.amounts.is_some() => {
            force_post(change, facts, (slot, command.number))
        }
        _ => NetworkReply::Posting(not_posted(PostingOutcome::NotFound)),
    }
}

/// Settles a known authorization.
fn present_original(
    change: &mut ShardChange<'_>,
    command: &Present,
    (seq, open): (TransactionSeq, &OpenTransaction),
) -> NetworkReply {
    let Some(card) = open.card else {
        return NetworkReply::Posting(not_posted(PostingOutcome::NotFound));
    };
    let mut money = CardMoney::open(change, card, seq);
    let id = change.moment.ids.transaction_id(open.authorized_at, seq);
    let currency = money.account.currency();
    let presented = presented_amount(command.amounts.as_ref(), open, currency);
    if is_posted_before(command, open, presented.ok().map(|(amount, _)| amount)) {
        let outcome = PostingOutcome::AlreadyPosted;
        return NetworkReply::Posting(PostingReply { outcome, ..posted(id, Minor::ZERO, &money) });
    }
    let (amount, conversion) = match presented {
        Ok(presented) => presented,
        Err(reason) => return NetworkReply::FormatError(reason),
    };
    if !money.can_post(amount) {
        return NetworkReply::Posting(not_posted(PostingOutcome::OutOfBounds));
    }
    let mut progress = open.progress.clone();
    let is_first = progress.posted_at.is_none() && progress.held.is_empty();
    let key = command.facts.as_ref().and_then(|facts| facts.trace.original_key);
    let presented = presentment(command.number, key, (amount, conversion));
    settle(change, command.number, presented, &mut money, &mut progress);
    // As a purchase that was never authorized: nothing of its approval is left.
    if is_first && !progress.flags.contains(TransactionFlags::CONSUMED_SINGLE_USE) {
        money.use_up_single_use(&mut progress);
    }
    let merchant = command.facts.as_ref().and_then(|facts| open.other_merchant(&facts.merchant));
    let (known_name, member) = open.named_on_lines();
    let merchant_name = merchant.as_ref().map_or(known_name, |merchant| merchant.name.as_str());
    money.write_line_of(change, -amount, (merchant_name, member), merchant.as_ref());
    let purse = (&mut money, &mut progress);
    let given_back = reverse_early(change, (key, open.retrieval_key), open.named_on_lines(), purse);
    change.push(Effect::TransactionProgress(seq, Box::new(progress)));
    let reply = posted(id, amount - given_back, &money);
    money.close(change);
    NetworkReply::Posting(reply)
}

/// Whether the presentment was posted before. A purchase that settled at once has nothing to present, and
/// each of several presentments posts once, for ever.
/// CHOICE: an only one has no number. It is the same as another one of its key and amount; behind the last
/// one also as any of its amount, of which something is left. Any other posts.
fn is_posted_before(command: &Present, open: &OpenTransaction, amount: Option<Minor>) -> bool {
    let OpenTransaction { kind, progress, .. } = open;
    if *kind == TransactionKind::SingleMessagePurchase {
        return true;
    }
    if let Some(number) = command.number.among_several() {
        return progress.later.has_presentment(number);
    }
    let key = command.facts.as_ref().and_then(|facts| facts.trace.original_key);
    progress.later.has_presented(amount, key, progress.is_final)
}

/// The amount of a presentment, and its rate; the open hold at its own where it names none.
/// Errors: it names none and nothing is held. Posting nothing would use its number up.
fn presented_amount(
    amounts: Option<&MessageAmounts>,
    open: &OpenTransaction,
    currency: CurrencyCode,
) -> Result<(Minor, Option<Conversion>), SubReason> {
    match amounts {
        Some(amounts) => amount_for_account(amounts, currency)
            .map(|(amount, foreign)| (amount, Conversion::of(foreign, amount))),
        None => {
            let held = Some(open.progress.held.total()).filter(|held| held.is_positive());
            let held = held.ok_or(SubReason::NothingHeld)?;
            Ok((held, open.conversion_of_hold()))
        }
    }
}

/// What is remembered of a presentment, so that a reversal can name it.
fn presentment(
    number: PresentmentNumber,
    key: Option<OriginalKey>,
    (amount, conversion): (Minor, Option<Conversion>),
) -> LaterMessage {
    LaterMessage::new(
        LaterMessageKind::Presentment(number.among_several()),
        key,
        amount,
        conversion,
    )
}

/// Posts an amount: against the open hold if there is one, else by force. The final presentment
/// releases what is left of the hold.
fn settle(
    change: &mut ShardChange<'_>,
    number: PresentmentNumber,
    presented: LaterMessage,
    money: &mut CardMoney<'_>,
    progress: &mut TransactionProgress,
) {
    let (held, amount) = (progress.held.total(), presented.amount);
    if progress.is_final {
        progress.flags.insert(TransactionFlags::AFTER_FINAL);
    } else if held.is_zero() {
        progress.flags.insert(TransactionFlags::FORCED);
    } else if amount > held {
        progress.flags.insert(TransactionFlags::OVER_CLEARED);
    }
    let parts = money.clear(change, amount, progress);
    money.give_refunded_room(progress);
    progress.later.add(presented.in_parts(parts));
    progress.is_final |= number.is_final();
    if progress.is_final {
        money.release(change, progress.held.total(), progress);
    }
    if progress.held.is_empty() {
        progress.hold_expires_at = Timestamp::MAX;
    }
    progress.state = TransactionState::Completed;
    progress.posted_at = progress.posted_at.or(Some(change.moment.at));
}

/// Posts what was never authorized here, as a new transaction. An early reversal of it gives
/// back at once.
fn force_post(
    change: &mut ShardChange<'_>,
    facts: &PurchaseFacts,
    (slot, number): (CardSlot, PresentmentNumber),
) -> NetworkReply {
    let seq = change.state.last_transaction.next();
    let mut money = CardMoney::open(change, slot, seq);
    let (amount, foreign) = match amount_for_account(&facts.amounts, money.account.currency()) {
        Ok(amounts) => amounts,
        Err(reason) => return NetworkReply::FormatError(reason),
    };
    if !money.can_post(amount) {
        return NetworkReply::Posting(not_posted(PostingOutcome::OutOfBounds));
    }
    let purchase = Purchase { foreign, ..posted_purchase(facts, amount) };
    let record = record_of(change.state, change.moment, &purchase, seq, slot);
    let mut progress = TransactionProgress::empty(TransactionState::Completed);
    let key = facts.trace.original_key;
    let presented = presentment(number, key, (amount, Conversion::of(foreign, amount)));
    settle(change, number, presented, &mut money, &mut progress);
    money.use_up_single_use(&mut progress);
    money.write_line(change, -amount, &facts.merchant.name, record.member);
    let named = (facts.merchant.name.as_str(), record.member);
    let marks = (key, facts.trace.retrieval_key);
    reverse_early(change, marks, named, (&mut money, &mut progress));
    let reply = posted(record.id, progress.posted, &money);
    money.make(change, record, progress);
    NetworkReply::Posting(reply)
}

/// Gives money back to a card, as a transaction of its own. An early reversal of it takes back
/// at once, and its purchase gets no room for that.
pub(super) fn execute_refund(change: &mut ShardChange<'_>, command: &Refund) -> NetworkReply {
    let facts = &command.facts;
    let Some(slot) = change.state.find_card(facts.card) else {
        log_unknown_card(change, NetworkMessageKind::Refund, facts.card, Some(facts));
        return NetworkReply::Posting(not_posted(PostingOutcome::UnknownCard));
    };
    let seq = change.state.last_transaction.next();
    let mut money = CardMoney::open(change, slot, seq);
    let (amount, foreign) = match amount_for_account(&facts.amounts, money.account.currency()) {
        Ok(amounts) => amounts,
        Err(reason) => return NetworkReply::FormatError(reason),
    };
    if !money.can_post(amount) {
        return NetworkReply::Posting(not_posted(PostingOutcome::OutOfBounds));
    }
    let original = change.state.find_original(change.moment.ids, Some(slot), &command.original);
    let original = original.filter(|(_, open)| open.kind != TransactionKind::Refund);
    let mut progress = TransactionProgress::empty(TransactionState::Completed);
    let mut purchase = original.map(|(_, open)| open.progress.clone());
    if let Some(purchase) = &mut purchase {
        refund_purchase(amount, &mut money, &mut progress, purchase);
    }
    // CHOICE: a refund of a purchase belongs to the member who made it, whoever holds the card now.
    let member = original.map_or(money.holder(), |(_, open)| open.member);
    money.credit(change, amount);
    money.write_line(change, amount, &facts.merchant.name, member);
    progress.posted = -amount;
    progress.is_final = true;
    progress.posted_at = Some(change.moment.at);
    let refund = (Conversion::of(foreign, amount), (facts.merchant.name.as_str(), member));
    let taken_back = change
        .reversal_before(
            (facts.trace.original_key, facts.trace.retrieval_key),
            MessageClass::Financial,
        )
        .and_then(|early| {
            let purse = (&mut money, &mut progress);
            reverse_refund(change, refund, early, purse, purchase.as_mut()).ok()
        });
    if let Some(((seq, open), refunded)) = original.zip(purchase)
        && refunded != open.progress
    {
        change.push(Effect::TransactionProgress(seq, Box::new(refunded)));
    }
    let purchase = Purchase {
        kind: TransactionKind::Refund,
        foreign,
        refund_of: original.map(|(purchase_seq, _)| purchase_seq),
        ..posted_purchase(facts, amount)
    };
    let record = TransactionRecord {
        member,
        ..record_of(change.state, change.moment, &purchase, seq, slot)
    };
    let reply = posted(record.id, amount - taken_back.unwrap_or(Minor::ZERO), &money);
    money.make(change, record, progress);
    NetworkReply::Posting(reply)
}

/// Notes what is refunded of a purchase, as far as it is not yet, and gives its room back. For what is held
/// the presentment does that: until then the merchant may take all of it.
fn refund_purchase(
    amount: Minor,
    money: &mut CardMoney<'_>,
    refund: &mut TransactionProgress,
    purchase: &mut TransactionProgress,
) {
    let refundable = (purchase.held.total() + purchase.posted - purchase.refunded).or_zero();
    if amount > refundable {
        refund.flags.insert(TransactionFlags::OVER_REFUNDED);
    }
    let room = amount.min(refundable);
    purchase.refunded += room;
    refund.refunded = room;
    refund.cleared = money.give_refunded_room(purchase);
}

fn posted_purchase(facts: &PurchaseFacts, amount: Minor) -> Purchase<'_> {
    Purchase {
        facts,
        kind: TransactionKind::Purchase,
        amount,
        approved: amount,
        foreign: None,
        response_code: ResponseCode::Approved,
        sub_reason: SubReason::None,
        failed: RuleSet::EMPTY,
        decided_on: None,
        refund_of: None,
    }
}

fn posted(id: TransactionId, amount: Minor, money: &CardMoney<'_>) -> PostingReply {
    PostingReply {
        outcome: PostingOutcome::Posted,
        transaction: Some(id),
        posted: amount,
        allowance_balance: money.allowance_balance(),
        currency: money.account.currency(),
    }
}

fn not_posted(outcome: PostingOutcome) -> PostingReply {
    PostingReply {
        outcome,
        transaction: None,
        posted: Minor::ZERO,
        allowance_balance: Minor::ZERO,
        currency: CurrencyCode::default(),
    }
}
