//! Purchases of several presentments, which are open until the last one: what comes in between changes
//! their hold, and takes nothing beside it.

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::network::{
    AdviceOutcome, AuthorizationKind, PresentmentNumber, ReversalAmount,
};
use cardswitch_engine::command::reply::AuthorizationReply;
use cardswitch_engine::directory::allowance::{AllowanceChanges, AllowanceCommand};
use cardswitch_engine::domain::allowance::AllowanceTerms;
use cardswitch_engine::domain::ids::AccountSlot;
use cardswitch_engine::domain::money::Minor;
use cardswitch_engine::domain::response_code::ResponseCode;

use crate::samples::{admin, company_id, facts, new_card, pan};
use crate::story::{Story, by_retrieval, named_by};

/// A purchase of 10000, of which 4000 are presented.
fn begin() -> (Story, AuthorizationReply) {
    let mut story = Story::begin();
    let bought = story.authorize(facts(pan(1), 10_000, 5), AuthorizationKind::Purchase);
    present(&mut story, 4_000, 1);
    assert_eq!(held_and_spent(&story), (6_000, 10_000));
    (story, bought)
}

/// One of three presentments.
fn present(story: &mut Story, amount: i64, number: u8) {
    let own = facts(pan(1), amount, 90 + u64::from(number));
    story.present_part(own, by_retrieval(5), PresentmentNumber { number, count: 3 });
}

fn held_and_spent(story: &Story) -> (i64, i64) {
    (story.driver.state.balances(AccountSlot(0)).held.0, story.spent().0)
}

/// It became a purchase of its own, whose hold stayed when the last presentment posted it as well.
#[test]
fn an_increment_between_presentments_adds_to_the_hold() {
    let (mut story, bought) = begin();
    let more = story.increment(2_000, 6, None);
    assert_eq!((more.transaction, held_and_spent(&story)), (bought.transaction, (8_000, 12_000)));
    present(&mut story, 8_000, 3);
    assert_eq!(held_and_spent(&story), (0, 12_000));
}

/// The limit of a transaction holds for all of it, what is presented already included.
#[test]
fn an_increment_between_presentments_is_judged_by_the_whole() {
    let (mut story, _) = begin();
    let allowance = new_card(1, 0, AllowanceTerms::budget(Minor(1))).allowance_id;
    let transaction_limit = Some(Minor(11_000));
    let limit = AllowanceChanges { transaction_limit, ..AllowanceChanges::default() };
    let limit = AllowanceCommand::Update(company_id(0), allowance, limit);
    story.run(&admin(AdminCommand::Allowance(limit)));
    let more = story.increment(1_001, 6, None);
    assert_eq!(more.response_code, ResponseCode::TransactionLimitExceeded);
    assert!(story.increment(1_000, 7, None).response_code.is_approved());
    assert_eq!(held_and_spent(&story), (7_000, 11_000));
}

/// Once, it became a purchase of its own, and the rest was held twice.
#[test]
fn a_completion_between_presentments_says_what_the_whole_comes_to() {
    for (whole, held) in [(9_000, 5_000), (13_000, 9_000), (4_000, 0), (3_000, 0)] {
        let (mut story, bought) = begin();
        let completed = story.advise(whole, AdviceOutcome::Approved);
        let expected = (held, 4_000 + held);
        assert_eq!(
            (completed.transaction, completed.approved.0, held_and_spent(&story)),
            (bought.transaction, whole, expected)
        );
        // Its reversal gives back the hold that it set.
        let reversed = story.reverse(named_by(80), ReversalAmount::Full);
        assert_eq!((reversed.given_back.0, held_and_spent(&story)), (held, (0, 4_000)));
    }
}

/// Of a completion that is reversed in part stays what the reversal says of the whole.
#[test]
fn what_stays_of_a_completion_between_presentments_is_told_of_the_whole() {
    let (mut story, _) = begin();
    story.advise(9_000, AdviceOutcome::Approved);
    let reversed = story.reverse(named_by(80), ReversalAmount::Remaining(Minor(7_000)));
    assert_eq!((reversed.given_back.0, held_and_spent(&story)), (2_000, (3_000, 7_000)));
}

#[test]
fn behind_the_last_presentment_there_is_nothing_to_add_to() {
    let (mut story, bought) = begin();
    present(&mut story, 1_000, 3);
    for own in [story.increment(2_000, 6, None), story.advise(3_000, AdviceOutcome::Approved)] {
        assert!(own.response_code.is_approved() && own.transaction != bought.transaction);
    }
    assert_eq!(held_and_spent(&story), (5_000, 10_000));
}
