//! Refunds of purchases that are not presented yet, or in part only: in the end the card has the room
//! that it has when they come last.

use cardswitch_engine::command::network::{AuthorizationKind, PresentmentNumber, ReversalAmount};
use cardswitch_engine::domain::ids::AccountSlot;
use cardswitch_engine::domain::money::Minor;

use crate::samples::{facts, pan};
use crate::story::{Story, by_retrieval};

/// The presentments of a purchase of 10000.
const PRESENTED: [&[i64]; 4] = [&[10_000], &[4_000, 6_000], &[7_000], &[2_000, 3_000, 7_000]];
/// The mark of the refund.
const REFUND: u64 = 60;

/// A purchase with these presentments, and a refund of it before the one at this place.
fn story(presented: &[i64], refunded: i64, place: usize) -> Story {
    let mut story = Story::begin();
    story.authorize(facts(pan(1), 10_000, 5), AuthorizationKind::Purchase);
    for at in 0..=presented.len() {
        if at == place {
            assert_eq!(story.refund(refunded, REFUND, by_retrieval(5)).posted, Minor(refunded));
        }
        let Some(amount) = presented.get(at) else { break };
        let number = PresentmentNumber { number: at as u8 + 1, count: presented.len() as u8 };
        let own = facts(pan(1), *amount, 90 + at as u64);
        story.present_part(own, by_retrieval(5), number);
    }
    story
}

/// What is spent and held, and what the account has gained.
fn sums(story: &Story) -> [i64; 3] {
    let balances = story.driver.state.balances(AccountSlot(0));
    [story.spent().0, balances.held.0, balances.ledger.0 - 1_000_000]
}

/// A refund that came before its presentment gave its card no room, then or later.
#[test]
fn a_refund_gives_its_room_whenever_it_comes() {
    for presented in PRESENTED {
        let whole: i64 = presented.iter().sum();
        for refunded in [1, 3_000, 6_000, 7_000] {
            for place in 0..=presented.len() {
                let row = format!("{presented:?}, {refunded} back before {place}");
                let mut story = story(presented, refunded, place);
                let rest = whole - refunded;
                assert_eq!(sums(&story), [rest, 0, -rest], "{row}");
                // A reversal of the refund takes all of it again, a partial one a part.
                let part = ReversalAmount::GiveBack(Minor(refunded / 3));
                story.reverse(by_retrieval(REFUND), part);
                let rest = rest + refunded / 3;
                assert_eq!(sums(&story), [rest, 0, -rest], "{row}");
                story.reverse(by_retrieval(REFUND), ReversalAmount::Full);
                assert_eq!(sums(&story), [whole, 0, -whole], "{row}");
            }
        }
    }
}

/// Until the presentment the hold counts whole: the merchant may present all of it.
#[test]
fn a_refund_leaves_a_hold_as_it_is() {
    let mut story = story(&[], 6_000, 0);
    assert_eq!(sums(&story), [10_000, 10_000, 6_000]);
    assert_eq!(story.reverse(by_retrieval(REFUND), ReversalAmount::Full).given_back, Minor(6_000));
    story.present(10_000, by_retrieval(5));
    assert_eq!(sums(&story), [10_000, 0, -10_000]);
}

/// Of a purchase that is reversed nothing is left to give room for, until it is presented all the same.
#[test]
fn a_refund_of_a_purchase_that_is_reversed_then_gives_no_room() {
    let mut story = story(&[], 6_000, 0);
    story.reverse(by_retrieval(5), ReversalAmount::Full);
    assert_eq!(sums(&story), [0, 0, 6_000]);
    story.present(10_000, by_retrieval(5));
    assert_eq!(sums(&story), [4_000, 0, -4_000]);
}

/// Room is given for the purchase once, however many refunds name it.
#[test]
fn refunds_together_give_no_more_room_than_their_purchase_took() {
    let mut story = story(&[], 6_000, 0);
    story.refund(6_000, 61, by_retrieval(5));
    story.present(10_000, by_retrieval(5));
    assert_eq!(sums(&story), [0, 0, 2_000]);
    // The second went beyond the purchase by 2000, which goes first.
    story.reverse(by_retrieval(61), ReversalAmount::GiveBack(Minor(2_000)));
    assert_eq!(sums(&story), [0, 0, 0]);
    story.reverse(by_retrieval(61), ReversalAmount::Full);
    assert_eq!(sums(&story), [4_000, 0, -4_000]);
}
