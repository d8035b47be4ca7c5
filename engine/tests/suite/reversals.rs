//! The stories of bugs of reversals that were found, step by step.

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::network::{
    AdviceOutcome, AuthorizationKind, NetworkCommand, OriginalRef, PresentmentNumber,
    PurchaseFacts, Refund, ReversalAmount, ReversalKind, Reverse,
};
use cardswitch_engine::command::reply::{PostingOutcome, ReversalOutcome};
use cardswitch_engine::directory::card::CardCommand;
use cardswitch_engine::domain::allowance::AllowanceTerms;
use cardswitch_engine::domain::business_date::Interval;
use cardswitch_engine::domain::ids::{AccountSlot, CardSlot, Timestamp};
use cardswitch_engine::domain::money::{CurrencyAmount, CurrencyCode, Minor};
use cardswitch_engine::domain::network_key::MessageClass;
use cardswitch_engine::domain::response_code::SubReason;

use crate::samples::{admin, facts, new_card, pan, without_time};
use crate::story::{Story, by_retrieval, by_retrieval_of, named_by};

/// A message in euros, and what it comes to.
fn foreign(mark: u64, asked: i64, billed: i64) -> PurchaseFacts {
    let mut facts = facts(pan(1), asked, mark);
    let billing = CurrencyAmount { amount: Minor(billed), currency: CurrencyCode(840) };
    facts.amounts.currency = Some(CurrencyCode(978));
    facts.amounts.billing = Some(billing);
    facts
}

/// A card that is not known counted as no card at all, so a transaction id with a foreign card
/// number reversed another card's purchase.
#[test]
fn a_reversal_with_an_unknown_card_reverses_nothing() {
    let mut story = Story::begin();
    let bought = story.authorize(facts(pan(1), 900, 5), AuthorizationKind::Purchase);
    let original = OriginalRef { transaction: bought.transaction, ..OriginalRef::default() };
    let (amount, kind) = (ReversalAmount::Full, ReversalKind::Request);
    let reply = story.reverse_with(Reverse { card: Some(pan(77)), original, amount, kind });
    assert_eq!(reply.outcome, ReversalOutcome::NotFound);
    assert_eq!(story.spent(), Minor(900));
    let reply = story.reverse_with(Reverse { card: None, original, amount, kind });
    assert_eq!((reply.outcome, story.spent()), (ReversalOutcome::Reversed, Minor(0)));
}

/// A reversal with a card number that nobody has was remembered for a day, and any number of them.
#[test]
fn a_reversal_with_an_unknown_card_is_not_remembered() {
    let mut story = Story::begin();
    let (amount, kind) = (ReversalAmount::Full, ReversalKind::Request);
    let of_card = |card| Reverse { card: Some(pan(card)), original: named_by(6), amount, kind };
    let early = |story: &Story| {
        let parts = story.driver.state.part_hashes();
        parts.into_iter().find(|part| part.name == "early reversals").unwrap().entries
    };
    assert_eq!(story.reverse_with(of_card(77)).outcome, ReversalOutcome::NotFound);
    assert_eq!(early(&story), 0);
    assert_eq!(story.reverse_with(of_card(1)).outcome, ReversalOutcome::NotFound);
    assert_eq!(early(&story), 1);
}

/// The kept amount was taken as a share of the hold that was left, so a second partial reversal in
/// the merchant's currency kept a quarter instead of half.
#[test]
fn a_second_foreign_partial_reversal_keeps_what_it_names() {
    let mut story = Story::begin();
    story.authorize(foreign(5, 10_000, 11_001), AuthorizationKind::Purchase);
    for (kept, remaining) in [(8_000, 8_801), (5_000, 5_501), (2_500, 2_751), (0, 0)] {
        let amount = ReversalAmount::RemainingOriginal(Minor(kept));
        let reply = story.reverse(by_retrieval(5), amount);
        assert_eq!(reply.outcome, ReversalOutcome::Reversed);
        assert_eq!(reply.remaining, Minor(remaining), "{kept} of 10000 stay");
        assert_eq!(story.spent(), Minor(remaining));
    }
}

/// What stays of a presentment or increment in the merchant's currency was taken at the rate of the
/// purchase, though the message itself came at another one.
#[test]
fn a_foreign_later_message_is_reversed_at_its_own_rate() {
    // The message at 1.20 upon a purchase at 1.10, or in dollars; what stays of it, and in dollars.
    let rows = [(10_000, 12_000, 6_000, 7_200), (10_000, 12_000, 3_333, 4_000), (0, 900, 900, 900)];
    for (asked, billed, kept, left) in rows {
        let amount = ReversalAmount::RemainingOriginal(Minor(kept));
        let own = |mark| match asked {
            0 => facts(pan(1), billed, mark),
            asked => foreign(mark, asked, billed),
        };
        let mut story = Story::begin();
        story.authorize(foreign(5, 10_000, 11_000), AuthorizationKind::Purchase);
        story.present_part(own(90), by_retrieval(5), PresentmentNumber::ONLY);
        assert_eq!(story.reverse(named_by(90), amount).given_back, Minor(billed - left));
        assert_eq!(story.spent(), Minor(left), "{kept} of {asked} stay posted");

        let mut story = Story::begin();
        story.authorize(foreign(5, 10_000, 11_000), AuthorizationKind::Purchase);
        story.increment_by(own(6), None);
        assert_eq!(story.reverse(named_by(6), amount).given_back, Minor(billed - left));
        assert_eq!(story.spent(), Minor(11_000 + left), "{kept} of {asked} stay held");
    }
}

/// A pump was completed at another rate: what stays of the hold is told in euros, too.
#[test]
fn a_reversal_of_a_completed_hold_goes_by_the_rate_of_the_completion() {
    let in_pounds = |mut facts: PurchaseFacts| {
        facts.amounts.currency = Some(CurrencyCode(826));
        facts
    };
    // The completion, in euros at 1.20, in dollars, and in pounds; what half of it is told as in euros.
    let rows = [
        (foreign(80, 5_000, 6_000), 3_000),
        (facts(pan(1), 6_000, 80), 2_750),
        (in_pounds(foreign(80, 5_000, 6_500)), 2_750),
    ];
    for (completion, left) in rows {
        let mut story = Story::begin();
        story.authorize(foreign(5, 10_000, 11_000), AuthorizationKind::Purchase);
        story.advise_by(completion, AdviceOutcome::Approved);
        let half = ReversalAmount::RemainingOriginal(Minor(2_500));
        assert_eq!(story.reverse(by_retrieval(5), half).remaining, Minor(left));
    }
}

/// A reversal that gave back nothing wrote a line, but not the balances that count it: the next
/// line had the same number.
#[test]
fn a_reversal_of_nothing_writes_no_line() {
    let mut story = Story::begin();
    story.authorize(facts(pan(1), 900, 5), AuthorizationKind::SingleMessage);
    let (lines, seq) = (story.line_count(), story.driver.state.last_seq());
    for amount in [ReversalAmount::GiveBack(Minor(0)), ReversalAmount::Remaining(Minor(900))] {
        let reply = story.reverse(by_retrieval(5), amount);
        assert_eq!((reply.outcome, reply.given_back), (ReversalOutcome::Reversed, Minor(0)));
    }
    assert_eq!((story.line_count(), story.driver.state.last_seq()), (lines, seq));
}

/// A settled purchase was refunded in part and then reversed: the reversal gave everything back,
/// so the card holder had more than was ever paid.
#[test]
fn a_reversal_after_a_refund_gives_back_only_the_rest() {
    let mut story = Story::begin();
    story.authorize(facts(pan(1), 1_000, 1), AuthorizationKind::SingleMessage);
    assert_eq!(story.refund(400, 2, by_retrieval(1)).outcome, PostingOutcome::Posted);
    let rest = story.reverse(by_retrieval(1), ReversalAmount::Full);
    assert_eq!((rest.outcome, rest.given_back), (ReversalOutcome::Reversed, Minor(600)));
    assert_eq!(story.driver.state.balances(AccountSlot(0)).ledger, Minor(1_000_000));
    assert_eq!(story.spent(), Minor::ZERO);
    let again = story.reverse(by_retrieval(1), ReversalAmount::Full);
    assert_eq!((again.outcome, again.given_back), (ReversalOutcome::NothingHeld, Minor::ZERO));
}

/// After a refund, the amount to keep was taken as a part of the rest. Most reversals gave back too little, or nothing.
#[test]
fn what_stays_of_a_refunded_purchase_is_told_of_the_purchase() {
    let remaining = |kept| ReversalAmount::RemainingOriginal(Minor(kept));
    let rows = [(remaining(700), 300), (remaining(500), 500), (remaining(0), 600)];
    let given = [(ReversalAmount::GiveBack(Minor(700)), 600), (ReversalAmount::Full, 600)];
    for (amount, given_back) in rows.into_iter().chain(given) {
        let mut story = Story::begin();
        story.authorize(facts(pan(1), 1_000, 1), AuthorizationKind::SingleMessage);
        story.refund(400, 2, by_retrieval(1));
        assert_eq!(story.reverse(by_retrieval(1), amount).given_back, Minor(given_back));
    }
}

/// After the first of several presentments, the amount to keep was taken as a part of the open hold:
/// of 100 with 40 posted, 70 could not stay.
#[test]
fn what_stays_of_a_purchase_presented_in_part_is_told_of_the_purchase() {
    let rows = [(7_000, Some(3_000)), (10_000, Some(0)), (4_000, Some(6_000)), (0, Some(6_000))];
    for (kept, given_back) in rows.into_iter().chain([(10_001, None)]) {
        let mut story = Story::begin();
        story.authorize(facts(pan(1), 10_000, 5), AuthorizationKind::Purchase);
        let first = PresentmentNumber { number: 1, count: 2 };
        story.present_part(facts(pan(1), 4_000, 90), by_retrieval(5), first);
        let reply = story.reverse(by_retrieval(5), ReversalAmount::RemainingOriginal(Minor(kept)));
        let is_reversed = reply.outcome == ReversalOutcome::Reversed;
        assert_eq!(is_reversed.then_some(reply.given_back.0), given_back, "{kept}");
        assert_eq!(reply.remaining.0, 6_000 - given_back.unwrap_or(0), "{kept}");
    }
}

/// A check of the card with the reference of a purchase, as terminals send before or after it, was
/// presented in its stead: the purchase was held on.
#[test]
fn a_check_of_the_card_takes_no_reference_over() {
    for is_checked_first in [false, true] {
        let mut story = Story::begin();
        let mut check = facts(pan(1), 0, 6);
        check.trace.retrieval_key = by_retrieval(5).retrieval_key;
        let mut sent = [(facts(pan(1), 5_000, 5), AuthorizationKind::Purchase)].to_vec();
        sent.insert(usize::from(!is_checked_first), (check, AuthorizationKind::Verification));
        for (facts, kind) in sent {
            assert!(story.authorize(facts, kind).response_code.is_approved());
        }
        assert_eq!(story.present(5_000, by_retrieval(5)).posted, Minor(5_000));
        assert_eq!(story.driver.state.balances(AccountSlot(0)).held, Minor::ZERO);
        assert_eq!(story.spent(), Minor(5_000));
    }
}

/// A purchase was reversed and presented late all the same. Reversed once more, it gave the money
/// back, although a reversal of an authorization never does.
#[test]
fn a_late_presentment_is_not_taken_back_by_a_reversal_of_its_authorization() {
    let mut story = Story::begin();
    story.authorize(facts(pan(1), 4_500, 5), AuthorizationKind::Purchase);
    assert_eq!(story.reverse(by_retrieval(5), ReversalAmount::Full).given_back, Minor(4_500));
    assert_eq!(story.present(4_500, by_retrieval(5)).posted, Minor(4_500));
    let again = story.reverse(by_retrieval(5), ReversalAmount::Full);
    assert_eq!((again.outcome, again.given_back), (ReversalOutcome::NothingHeld, Minor::ZERO));
    assert_eq!(story.driver.state.balances(AccountSlot(0)).ledger, Minor(1_000_000 - 4_500));
}

/// A reversal of an increment, which shares the purchase's retrieval reference, gave back all of
/// the purchase; one that came first did not keep the increment away.
#[test]
fn a_reversal_of_an_increment_gives_back_the_increment() {
    use ReversalAmount::{Full, GiveBack, RemainingOriginal};
    // Each reversal of the increment of 5000 upon 10000, and what is held after it.
    let rows: [&[(ReversalAmount, i64, i64)]; 4] = [
        &[(Full, 5_000, 10_000), (Full, 0, 10_000)],
        &[(RemainingOriginal(Minor(2_000)), 3_000, 12_000), (Full, 2_000, 10_000)],
        &[(GiveBack(Minor(1_000)), 1_000, 14_000), (GiveBack(Minor(4_000)), 4_000, 10_000)],
        &[(RemainingOriginal(Minor(5_000)), 0, 15_000)],
    ];
    for reversals in rows {
        let mut story = Story::begin();
        story.authorize(facts(pan(1), 10_000, 5), AuthorizationKind::Purchase);
        assert_eq!(story.increment(5_000, 6, None).approved, Minor(5_000));
        for (amount, given_back, remaining) in reversals {
            let reply = story.reverse(named_by(6), *amount);
            assert_eq!(reply.outcome, ReversalOutcome::Reversed, "{amount:?}");
            assert_eq!((reply.given_back.0, reply.remaining.0), (*given_back, *remaining));
            assert_eq!(story.spent(), Minor(*remaining));
        }
        let rest = story.spent();
        assert_eq!(story.reverse(named_by(5), Full).given_back, rest, "the purchase, all of it");
        assert_eq!(story.spent(), Minor::ZERO);
    }
}

/// What a partial reversal of the purchase had given back was given back again by the name of the
/// increment that had added it.
#[test]
fn what_a_reversal_of_the_purchase_gave_back_is_not_given_back_again() {
    let mut story = Story::begin();
    story.authorize(facts(pan(1), 10_000, 5), AuthorizationKind::Purchase);
    story.increment(5_000, 6, None);
    let of_purchase = ReversalAmount::RemainingOriginal(Minor(11_000));
    assert_eq!(story.reverse(named_by(5), of_purchase).given_back, Minor(4_000));
    assert_eq!(story.reverse(named_by(6), ReversalAmount::Full).given_back, Minor(1_000));
    assert_eq!(story.spent(), Minor(10_000));
}

/// A reversal with the references of a purchase, and DE90 of its refund, found no such message of the
/// purchase: the refund stayed.
#[test]
fn a_refund_with_the_references_of_its_purchase_is_reversed_by_its_own_name() {
    for is_named in [true, false] {
        let mut story = Story::begin();
        let mut purchase = facts(pan(1), 900, 5);
        purchase.trace.original_key = purchase.trace.original_key.filter(|_| is_named);
        story.authorize(purchase, AuthorizationKind::SingleMessage);
        story.refund(200, 6, by_retrieval(5));
        let reversal = story.reverse(named_by(6), ReversalAmount::Full);
        assert_eq!((reversal.given_back, story.spent()), (Minor(200), Minor(900)));
    }
}

/// The reversal of a force post by its own name took a later presentment, too.
#[test]
fn a_force_post_is_reversed_without_its_later_presentments() {
    let mut story = Story::begin();
    let (unknown, first_of_two) =
        (OriginalRef::default(), PresentmentNumber { number: 1, count: 2 });
    let transaction = story.present_part(facts(pan(1), 700, 5), unknown, first_of_two).transaction;
    let made = OriginalRef { transaction, ..OriginalRef::default() };
    story.present_part(facts(pan(1), 300, 90), made, PresentmentNumber { number: 2, count: 2 });
    let by_own_name = OriginalRef { original_key: named_by(5).original_key, ..made };
    assert_eq!(story.reverse(by_own_name, ReversalAmount::Full).given_back, Minor(700));
    assert_eq!((story.spent(), story.line_count()), (Minor(300), 4));
    assert_eq!(story.reverse(by_own_name, ReversalAmount::Full).given_back, Minor::ZERO);
    assert_eq!(story.reverse(made, ReversalAmount::Full).given_back, Minor(300));
}

/// A purchase that came without a trace number has no name of its own: the reversal of its increment
/// took all of it.
#[test]
fn an_increment_of_a_purchase_without_a_name_is_reversed_alone() {
    let mut story = Story::begin();
    let mut unnamed = facts(pan(1), 10_000, 5);
    unnamed.trace.original_key = None;
    story.authorize(unnamed, AuthorizationKind::Purchase);
    story.increment(5_000, 6, None);
    assert_eq!(story.reverse(named_by(6), ReversalAmount::Full).given_back, Minor(5_000));
    assert_eq!(story.reverse(named_by(7), ReversalAmount::Full).given_back, Minor(10_000));
}

/// A presentment or completion of a known purchase counted although it was reversed before it came.
#[test]
fn a_later_message_that_was_reversed_before_it_came_counts_for_nothing() {
    let mut story = Story::begin();
    story.authorize(facts(pan(1), 10_000, 5), AuthorizationKind::Purchase);
    for mark in [80, 90] {
        let reply = story.reverse(named_by(mark), ReversalAmount::Full);
        assert_eq!(reply.outcome, ReversalOutcome::NotFound);
    }
    let completion = story.advise(4_000, AdviceOutcome::Approved);
    // As in order: the reversal gives back what the completion set the hold to.
    assert_eq!((completion.approved, story.spent()), (Minor::ZERO, Minor::ZERO));
    let lines = story.line_count();
    assert_eq!(story.present(8_000, by_retrieval(5)).posted, Minor::ZERO);
    assert_eq!((story.spent(), story.line_count()), (Minor::ZERO, lines + 2));
    assert_eq!(story.driver.state.balances(AccountSlot(0)).ledger, Minor(1_000_000));
    assert_eq!(story.reverse(named_by(90), ReversalAmount::Full).given_back, Minor::ZERO);
}

/// A reversal of a message that never came, or came in vain, took its amount from the purchase that
/// shares its retrieval reference, or posted money of it.
#[test]
fn a_reversal_of_a_message_that_added_nothing_gives_nothing_back() {
    use AuthorizationKind::{Purchase, SingleMessage};
    for kind in [Purchase, SingleMessage] {
        let mut story = Story::begin();
        story.authorize(facts(pan(1), 10_000, 5), kind);
        if kind == Purchase {
            assert_eq!(story.increment(90_001, 6, None).approved, Minor::ZERO);
        }
        for mark in [6, 7] {
            let reply = story.reverse(named_by(mark), ReversalAmount::Full);
            assert_eq!((reply.outcome, reply.given_back), (ReversalOutcome::NotFound, Minor::ZERO));
        }
        assert_eq!(story.spent(), Minor(10_000));
        if kind == Purchase {
            let late = story.increment(1, 7, None);
            assert_eq!(
                late.sub_reason,
                SubReason::ReversedBefore,
                "it was reversed before it came"
            );
        }
    }
}

/// A reversal of a first try kept every other try away that shares its retrieval reference.
#[test]
fn a_reversal_that_names_its_message_keeps_no_other_away() {
    let mut story = Story::begin();
    assert_eq!(story.reverse(named_by(6), ReversalAmount::Full).outcome, ReversalOutcome::NotFound);
    let next = story.authorize(facts(pan(1), 100, 5), AuthorizationKind::Purchase);
    assert_eq!(next.approved, Minor(100));
    let first = story.authorize(facts(pan(1), 100, 6), AuthorizationKind::Purchase);
    assert_eq!(first.sub_reason, SubReason::ReversedBefore);
}

/// A reversal of a completion gives back what the pump gave; an increment before it is a part of
/// that.
#[test]
fn a_reversal_of_a_completion_gives_the_hold_back() {
    let mut story = Story::begin();
    story.authorize(facts(pan(1), 10_000, 5), AuthorizationKind::Purchase);
    story.increment(5_000, 6, None);
    assert_eq!(story.advise(4_000, AdviceOutcome::Approved).approved, Minor(4_000));
    let of_increment = story.reverse(named_by(6), ReversalAmount::Full);
    assert_eq!((of_increment.given_back, of_increment.remaining), (Minor::ZERO, Minor(4_000)));
    assert_eq!(story.reverse(named_by(80), ReversalAmount::Full).given_back, Minor(4_000));
    assert_eq!(story.spent(), Minor::ZERO);
}

/// A reversal of a presentment posted nothing, though its original is one: only what had made a
/// transaction could be taken back.
#[test]
fn a_reversal_of_a_presentment_posts_a_line_against_it() {
    let mut story = Story::begin();
    story.authorize(facts(pan(1), 10_000, 5), AuthorizationKind::Purchase);
    assert_eq!(story.present(8_000, by_retrieval(5)).posted, Minor(8_000));
    let lines = story.line_count();
    for (amount, given_back, spent) in [
        (ReversalAmount::RemainingOriginal(Minor(6_000)), 2_000, 6_000),
        (ReversalAmount::Full, 6_000, 0),
        (ReversalAmount::Full, 0, 0),
    ] {
        let reply = story.reverse(named_by(90), amount);
        assert_eq!((reply.outcome, reply.given_back.0), (ReversalOutcome::Reversed, given_back));
        assert_eq!(story.spent(), Minor(spent));
    }
    assert_eq!(story.line_count(), lines + 2);
    assert_eq!(story.driver.state.balances(AccountSlot(0)).ledger, Minor(1_000_000));
    assert_eq!(
        story.present(8_000, by_retrieval(5)).posted,
        Minor::ZERO,
        "it posts once, for ever"
    );
}

/// The reversal of a presentment that a refund had shortened used up all of it: once the refund was
/// reversed, too, the rest was posted for ever.
#[test]
fn a_reversal_of_a_refunded_presentment_leaves_the_rest_to_be_reversed() {
    let mut story = Story::begin();
    story.authorize(facts(pan(1), 10_000, 5), AuthorizationKind::Purchase);
    story.present(10_000, by_retrieval(5));
    assert_eq!(story.refund(6_000, 6, by_retrieval(5)).posted, Minor(6_000));
    let (done, nothing) = (ReversalOutcome::Reversed, ReversalOutcome::NothingHeld);
    // What is left of it is the refund's until that is reversed.
    for (mark, outcome, given_back, spent) in [
        (90, done, 4_000, 0),
        (90, nothing, 0, 0),
        (6, done, 6_000, 6_000),
        (90, done, 6_000, 0),
        (90, done, 0, 0),
    ] {
        let reply = story.reverse(named_by(mark), ReversalAmount::Full);
        assert_eq!((reply.outcome, reply.given_back.0), (outcome, given_back));
        assert_eq!(story.spent(), Minor(spent));
    }
    assert_eq!(story.driver.state.balances(AccountSlot(0)).ledger, Minor(1_000_000));
}

/// A refund of more than the purchase was reversed in part, and the covered part went first: the
/// purchase could then be reversed for more than was paid.
#[test]
fn a_partial_reversal_of_a_refund_takes_first_what_no_purchase_covers() {
    let mut story = Story::begin();
    story.authorize(facts(pan(1), 10_000, 1), AuthorizationKind::SingleMessage);
    assert_eq!(story.refund(15_000, 2, by_retrieval(1)).outcome, PostingOutcome::Posted);
    let part = story.reverse(by_retrieval(2), ReversalAmount::GiveBack(Minor(5_000)));
    assert_eq!((part.given_back, story.spent()), (Minor(5_000), Minor::ZERO));
    let purchase = story.reverse(by_retrieval(1), ReversalAmount::Full);
    assert_eq!(purchase.outcome, ReversalOutcome::NothingHeld, "all of it is refunded");
    let rest = story.reverse(by_retrieval(2), ReversalAmount::GiveBack(Minor(4_000)));
    assert_eq!((rest.given_back, story.spent()), (Minor(4_000), Minor(4_000)));
    assert_eq!(story.driver.state.balances(AccountSlot(0)).ledger, Minor(1_000_000 - 4_000));
}

/// A refund that came in a later period gave no room. Its reversal took room of that period.
#[test]
fn a_reversal_of_a_refund_takes_only_the_room_that_it_gave() {
    let mut story = Story::begin();
    let monthly =
        AllowanceTerms { interval: Interval::Monthly, ..AllowanceTerms::budget(Minor(10_000)) };
    story.run(&admin(AdminCommand::Card(CardCommand::Issue(new_card(2, 0, monthly)))));
    let of_card = |mark| facts(pan(2), 10_000, mark);
    story.authorize(of_card(1), AuthorizationKind::SingleMessage);
    for (days, spent) in [(0, 10_000), (40, 0)] {
        story.at += days * Timestamp::DAY;
        let (facts, original) = (of_card(2 + days as u64), by_retrieval_of(pan(2), 1));
        story.posting(NetworkCommand::Refund(Refund { facts, original }));
        let original = by_retrieval_of(pan(2), 2 + days as u64);
        let (card, kind) = (Some(pan(2)), ReversalKind::Request);
        let amount = ReversalAmount::Full;
        let reply = story.reverse_with(Reverse { card, original, amount, kind });
        assert_eq!(reply.given_back, Minor(10_000));
        assert_eq!(story.driver.state.card(CardSlot(1)).usage.spent, Minor(spent), "{days} days");
    }
}

/// Settlement files often carry the number and time of the authorization. Once, its reversal gave the posted
/// money back, and the hold stayed.
#[test]
fn of_messages_with_one_key_the_one_of_the_named_class_is_reversed() {
    let rows = [(None, 3_000), (Some(MessageClass::Authorization), 7_000)];
    for (class, given_back) in rows.into_iter().chain([(Some(MessageClass::Financial), 3_000)]) {
        let mut story = Story::begin();
        story.authorize(facts(pan(1), 10_000, 5), AuthorizationKind::Purchase);
        let first = PresentmentNumber { number: 1, count: 2 };
        story.present_part(facts(pan(1), 3_000, 5), by_retrieval(5), first);
        let reply = story.reverse(OriginalRef { class, ..named_by(5) }, ReversalAmount::Full);
        assert_eq!(reply.given_back, Minor(given_back), "{class:?}");
    }
}

/// Once, a settlement with the marks of its authorization was taken back, and a purchase with those of a
/// settlement declined.
#[test]
fn an_early_reversal_is_of_messages_of_its_class() {
    let rows = [
        (None, 0, SubReason::ReversedBefore),
        (Some(MessageClass::Authorization), 1_000, SubReason::ReversedBefore),
        (Some(MessageClass::Financial), 0, SubReason::None),
    ];
    for (class, posted, reason) in rows {
        let mut story = Story::begin();
        let early = OriginalRef { class, ..named_by(5) };
        assert_eq!(story.reverse(early, ReversalAmount::Full).outcome, ReversalOutcome::NotFound);
        let own = facts(pan(1), 1_000, 5);
        let reply =
            story.present_part(own.clone(), OriginalRef::default(), PresentmentNumber::ONLY);
        assert_eq!(reply.posted, Minor(posted), "{class:?}");
        let reply = story.authorize(own, AuthorizationKind::Purchase);
        assert_eq!(reply.sub_reason, reason, "{class:?}");
    }
}

/// Zeros for a time beside a good reference: the STAN tells which message is meant. Once, nothing was found and the
/// hold stayed; then the first message was meant, and a reversal of its increment took all.
#[test]
fn a_key_without_the_time_that_a_message_has_means_it_by_its_stan() {
    let vague = |mark| OriginalRef {
        original_key: named_by(mark).original_key.map(without_time),
        ..by_retrieval(5)
    };
    let rows = [(vague(5), 15_000), (vague(6), 5_000), (vague(7), 0), (named_by(7), 0)];
    for (named, given_back) in rows {
        let mut story = Story::begin();
        story.authorize(facts(pan(1), 10_000, 5), AuthorizationKind::Purchase);
        story.increment(5_000, 6, None);
        let reply = story.reverse(named, ReversalAmount::Full);
        assert_eq!(reply.given_back, Minor(given_back), "{named:?}");
    }
    // A purchase that was sent without a time itself is another message than one it does not know.
    let mut story = Story::begin();
    let mut own = facts(pan(1), 10_000, 5);
    own.trace.original_key = own.trace.original_key.map(without_time);
    story.authorize(own, AuthorizationKind::Purchase);
    assert_eq!(story.reverse(vague(7), ReversalAmount::Full).outcome, ReversalOutcome::NotFound);
    assert_eq!(story.reverse(vague(5), ReversalAmount::Full).given_back, Minor(10_000));
}
