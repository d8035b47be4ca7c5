//! Presentments without a number, of which a purchase has one as a rule: what tells another one from the same again.

use cardswitch_engine::command::network::{
    AuthorizationKind, NetworkCommand, OriginalRef, Present, PresentmentNumber, PurchaseFacts,
    ReversalAmount,
};
use cardswitch_engine::command::reply::{PostingOutcome, PostingReply, ReversalOutcome};
use cardswitch_engine::domain::ids::AccountSlot;
use cardswitch_engine::domain::money::Minor;
use cardswitch_engine::domain::transaction::{TransactionFlags, TransactionState};

use crate::samples::{facts, pan};
use crate::story::{Story, by_retrieval, named_by};

const POSTED: PostingOutcome = PostingOutcome::Posted;
const AGAIN: PostingOutcome = PostingOutcome::AlreadyPosted;

fn begin(amount: i64) -> Story {
    let mut story = Story::begin();
    story.authorize(facts(pan(1), amount, 5), AuthorizationKind::Purchase);
    story
}

/// A message of its own for each `mark`; none names nothing but the purchase.
fn present(story: &mut Story, amount: i64, mark: Option<u64>) -> (PostingOutcome, i64) {
    let unmarked = |facts: PurchaseFacts| PurchaseFacts { trace: Default::default(), ..facts };
    let own = mark.map_or(unmarked(facts(pan(1), amount, 0)), |mark| facts(pan(1), amount, mark));
    let reply = story.present_part(own, by_retrieval(5), PresentmentNumber::ONLY);
    (reply.outcome, reply.posted.0)
}

fn ledger(story: &Story) -> i64 {
    story.driver.state.balances(AccountSlot(0)).ledger.0
}

fn state_and_flags(story: &Story, reply: &PostingReply) -> (TransactionState, TransactionFlags) {
    let seq = story.driver.ids.open_transaction_id(reply.transaction.unwrap()).unwrap();
    let progress = &story.driver.state.transaction(seq).unwrap().progress;
    (progress.state, progress.flags)
}

/// The acquirer was told that it is posted, and the books fell short of the network's settlement.
#[test]
fn another_amount_of_another_message_posts_and_is_flagged() {
    let mut story = begin(9_000);
    let before = ledger(&story);
    assert_eq!(present(&mut story, 4_000, Some(90)), (POSTED, 4_000));
    let second =
        story.present_part(facts(pan(1), 2_500, 91), by_retrieval(5), PresentmentNumber::ONLY);
    assert_eq!((second.outcome, second.posted.0, ledger(&story)), (POSTED, 2_500, before - 6_500));
    let (state, flags) = state_and_flags(&story, &second);
    assert_eq!(state, TransactionState::Completed);
    assert!(flags.contains(TransactionFlags::AFTER_FINAL));
}

/// Long after its key was forgotten, too.
#[test]
fn the_same_message_posts_once() {
    for marks in [[Some(90), Some(90)], [Some(90), Some(91)], [Some(90), None], [None, None]] {
        let mut story = begin(4_000);
        let before = ledger(&story);
        assert_eq!(present(&mut story, 4_000, marks[0]), (POSTED, 4_000));
        story.at += 30 * 86_400_000_000;
        assert_eq!(present(&mut story, 4_000, marks[1]), (AGAIN, 0), "{marks:?}");
        if marks[0].is_some() {
            // What a reversal took back of it does not make it another one.
            story.reverse(named_by(90), ReversalAmount::GiveBack(Minor(1_000)));
            assert_eq!(present(&mut story, 4_000, marks[1]), (AGAIN, 0), "{marks:?}");
            assert_eq!(ledger(&story), before - 3_000);
        }
    }
}

/// Once, the corrected settlement never counted.
#[test]
fn a_presentment_that_was_taken_back_is_presented_anew() {
    for amount in [2_000, 6_000] {
        let mut story = begin(2_000);
        let before = ledger(&story);
        present(&mut story, 6_000, Some(90));
        let reversed = story.reverse(named_by(90), ReversalAmount::Full);
        assert_eq!((reversed.given_back.0, ledger(&story)), (6_000, before));
        assert_eq!(present(&mut story, 6_000, Some(90)), (AGAIN, 0));
        let anew =
            story.present_part(facts(pan(1), amount, 91), by_retrieval(5), PresentmentNumber::ONLY);
        assert_eq!(
            (anew.outcome, anew.posted.0, ledger(&story)),
            (POSTED, amount, before - amount)
        );
        assert_eq!(state_and_flags(&story, &anew).0, TransactionState::Completed);
    }
}

/// The last of several may come without its number, and take as much as one before.
#[test]
fn what_is_held_is_posted_whatever_was_posted_before() {
    for amounts in [Some(facts(pan(1), 3_000, 0).amounts), None] {
        let mut story = begin(6_000);
        let first = PresentmentNumber { number: 1, count: 2 };
        story.present_part(facts(pan(1), 3_000, 90), by_retrieval(5), first);
        let (facts, original) = (None, OriginalRef { ..by_retrieval(5) });
        let rest = Present { facts, amounts, original, number: PresentmentNumber::ONLY };
        let reply = story.posting(NetworkCommand::Present(rest.clone()));
        assert_eq!((reply.outcome, reply.posted.0), (POSTED, 3_000));
        assert_eq!(story.posting(NetworkCommand::Present(rest)).outcome, AGAIN);
    }
}

#[test]
fn purchases_that_were_never_authorized_are_as_many_as_their_amounts() {
    let mut story = Story::begin();
    let before = ledger(&story);
    for (amount, mark) in [(1_200, 70), (900, 71)] {
        let same_reference =
            PurchaseFacts { trace: facts(pan(1), 0, mark).trace, ..facts(pan(1), amount, mark) };
        let reply = story.present_part(same_reference, by_retrieval(5), PresentmentNumber::ONLY);
        assert_eq!((reply.outcome, reply.posted.0), (POSTED, amount));
    }
    assert_eq!(ledger(&story), before - 2_100);
}

/// A number says which one it is, whatever it takes.
#[test]
fn one_of_several_posts_once_for_ever() {
    let mut story = begin(9_000);
    let first = PresentmentNumber { number: 1, count: 2 };
    for (amount, mark, outcome) in [(4_000, 90, POSTED), (4_000, 91, AGAIN), (2_500, 92, AGAIN)] {
        let reply = story.present_part(facts(pan(1), amount, mark), by_retrieval(5), first);
        assert_eq!(reply.outcome, outcome);
    }
}

#[test]
fn a_purchase_that_settled_at_once_has_nothing_to_present() {
    let mut story = Story::begin();
    story.authorize(facts(pan(1), 900, 5), AuthorizationKind::SingleMessage);
    assert_eq!(present(&mut story, 900, Some(90)), (AGAIN, 0));
    assert_eq!(present(&mut story, 500, Some(91)), (AGAIN, 0));
}

/// The acquirer was told that it is reversed, and a reversal of the refund took the money all the same.
#[test]
fn a_reversal_of_a_refunded_presentment_is_refused_until_the_refund_is_reversed() {
    let mut story = begin(4_000);
    let before = ledger(&story);
    present(&mut story, 4_000, Some(90));
    story.refund(4_000, 92, by_retrieval(5));
    let refused = story.reverse(named_by(90), ReversalAmount::Full);
    assert_eq!(refused.outcome, ReversalOutcome::NothingHeld);
    story.reverse(named_by(92), ReversalAmount::Full);
    let reversed = story.reverse(named_by(90), ReversalAmount::Full);
    assert_eq!((reversed.outcome, reversed.given_back.0), (ReversalOutcome::Reversed, 4_000));
    assert_eq!(ledger(&story), before);
}

/// Once, the first of two was taken for the one without a number, and never counted.
#[test]
fn one_of_several_is_another_one_than_one_without_a_number() {
    let mut story = begin(10_000);
    assert_eq!(present(&mut story, 3_000, Some(90)), (POSTED, 3_000));
    for (number, amount) in [(1, 4_000), (2, 2_000)] {
        let own = facts(pan(1), amount, 90 + u64::from(number));
        let number = PresentmentNumber { number, count: 2 };
        let reply = story.present_part(own, by_retrieval(5), number);
        assert_eq!((reply.outcome, reply.posted.0), (POSTED, amount));
    }
}

/// Once, it was taken for the first one again as soon as nothing was held.
#[test]
fn before_the_last_one_the_same_amount_is_another_presentment() {
    let mut story = begin(5_000);
    let first = PresentmentNumber { number: 1, count: 2 };
    story.present_part(facts(pan(1), 5_000, 90), by_retrieval(5), first);
    assert_eq!(present(&mut story, 5_000, Some(91)), (POSTED, 5_000));
    assert_eq!(present(&mut story, 5_000, Some(92)), (AGAIN, 0));
}

/// Terminals count alike, so a number of a message returns. Once, the second one never counted.
#[test]
fn one_key_with_another_amount_is_another_presentment() {
    let mut story = begin(7_000);
    for (amount, expected) in [(3_000, POSTED), (4_000, POSTED), (3_000, AGAIN), (4_000, AGAIN)] {
        assert_eq!(present(&mut story, amount, Some(90)).0, expected);
    }
}

/// With a merchant, but about what is held: nothing else can tell how much it is.
#[test]
fn what_names_neither_an_amount_nor_a_purchase_posts_nothing() {
    let mut story = Story::begin();
    let (facts, number) = (Some(facts(pan(1), 0, 90)), PresentmentNumber::ONLY);
    let original = OriginalRef::default();
    let present = Present { facts, amounts: None, original, number };
    let reply = story.posting(NetworkCommand::Present(present));
    assert_eq!(reply.outcome, PostingOutcome::NotFound);
}
