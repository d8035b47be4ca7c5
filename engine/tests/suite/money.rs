//! The stories of bugs that were found, step by step.

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::effect::Effect;
use cardswitch_engine::command::network::{
    AdviceOutcome, Advise, AuthorizationKind, Increment, MessageAmounts, NetworkCommand,
    OriginalRef, Present, PresentmentNumber, Refund, ReversalAmount,
};
use cardswitch_engine::command::record::records;
use cardswitch_engine::command::reply::{
    NetworkReply, PostingOutcome, PostingReply, Rejection, Reply,
};
use cardswitch_engine::directory::allowance::{AllowanceChanges, AllowanceCommand};
use cardswitch_engine::directory::card::CardCommand;
use cardswitch_engine::directory::company::{
    CompanyChanges, CompanyCommand, NewCompany, VelocityChanges,
};
use cardswitch_engine::domain::allowance::AllowanceTerms;
use cardswitch_engine::domain::card::SuspensionReason;
use cardswitch_engine::domain::company::VelocityLimits;
use cardswitch_engine::domain::credential::PresentedCredentials;
use cardswitch_engine::domain::ids::{AccountSlot, CardSlot, Timestamp, TransactionId};
use cardswitch_engine::domain::merchant::{Mcc, Merchant};
use cardswitch_engine::domain::money::{CurrencyAmount, CurrencyCode, Minor};
use cardswitch_engine::domain::posting::StatementLine;
use cardswitch_engine::domain::response_code::{ResponseCode, SubReason};
use cardswitch_engine::domain::transaction::{TransactionFlags, TransactionProgress};

use crate::rng::Rng;
use crate::samples::{admin, company_id, facts, network, new_card, new_company, pan};
use crate::story::{Story, by_retrieval, purchase};

/// A refund that carried its purchase's retrieval reference took that name over, so a second
/// partial refund found the first one and gave no room back.
#[test]
fn a_second_partial_refund_still_finds_the_purchase() {
    let mut story = Story::begin();
    story.authorize(facts(pan(1), 900, 5), AuthorizationKind::SingleMessage);
    story.refund(200, 5, by_retrieval(5));
    assert_eq!(story.spent(), Minor(700));
    let second = story.refund(300, 5, by_retrieval(5));
    assert_eq!((second.outcome, story.spent()), (PostingOutcome::Posted, Minor(400)));
    let seq = story.driver.ids.open_transaction_id(second.transaction.unwrap()).unwrap();
    let flags = story.driver.state.transaction(seq).unwrap().progress.flags;
    assert!(!flags.contains(TransactionFlags::OVER_REFUNDED));
}

/// The doors send no amounts below zero; one that came would have put money into holds, and an
/// advice stopped the shard.
#[test]
fn amounts_below_zero_move_nothing() {
    let mut story = Story::begin();
    story.authorize(facts(pan(1), 900, 5), AuthorizationKind::Purchase);
    let below = MessageAmounts { amount: Minor(-1), currency: None, billing: None };
    let present = |facts, original| {
        let number = PresentmentNumber::ONLY;
        NetworkCommand::Present(Present { facts, amounts: Some(below), original, number })
    };
    let refused = PostingOutcome::OutOfBounds;
    assert_eq!(story.posting(present(None, by_retrieval(5))).outcome, refused);
    let unnamed = Some(facts(pan(1), -1, 6));
    assert_eq!(story.posting(present(unnamed, OriginalRef::default())).outcome, refused);
    assert_eq!(story.refund(-1, 7, OriginalRef::default()).outcome, refused);
    let advice = network(NetworkCommand::Advise(Advise {
        facts: facts(pan(1), -1, 8),
        is_cash: false,
        outcome: AdviceOutcome::Approved,
        original: by_retrieval(5),
        request: None,
    }));
    let reply = story.run(&advice);
    assert!(matches!(reply, Reply::Network(NetworkReply::FormatError(_))), "{reply:?}");
    assert_eq!(story.spent(), Minor(900));
    assert_eq!(story.driver.state.balances(AccountSlot(0)).held, Minor(900));
}

/// Limits beyond what the ledger holds were refused on change, but taken on issue.
#[test]
fn a_card_is_not_issued_with_limits_out_of_bounds() {
    let mut story = Story::begin();
    let beyond = Minor(Minor::AMOUNT_MAX.0 + 1);
    let budget = AllowanceTerms::budget;
    let rows = [
        (budget(Minor::AMOUNT_MAX), true),
        (budget(beyond), false),
        (budget(Minor(-1)), false),
        (AllowanceTerms { daily_limit: Minor(-1), ..budget(Minor(1)) }, false),
        (AllowanceTerms { daily_limit: beyond, ..budget(Minor(1)) }, false),
        (AllowanceTerms { transaction_limit: Minor(i64::MIN), ..budget(Minor(1)) }, false),
    ];
    for (number, (terms, is_taken)) in (10..).zip(rows) {
        let reply =
            story.run(&admin(AdminCommand::Card(CardCommand::Issue(new_card(number, 0, terms)))));
        assert_eq!(reply != Reply::Rejected(Rejection::OutOfBounds), is_taken, "{terms:?}");
    }
}

/// A limit of 65,535 attempts was taken; each attempt then journaled half a megabyte of those before it.
#[test]
fn a_company_has_no_velocity_limit_out_of_bounds() {
    let mut story = Story::begin();
    let most = VelocityLimits::ATTEMPTS_MAX;
    for (number, [per_minute, per_hour], is_taken) in [
        (1, [0, 0], true),
        (2, [most, most], true),
        (3, [most + 1, 0], false),
        (4, [0, u16::MAX], false),
    ] {
        let out_of_bounds = Reply::Rejected(Rejection::OutOfBounds);
        let mut run = |command| story.run(&admin(AdminCommand::Company(command)));
        let velocity = VelocityLimits { per_minute, per_hour };
        let company = NewCompany { velocity, ..new_company(number, chrono_tz::UTC, 0, 0) };
        assert_eq!(run(CompanyCommand::Create(company)) != out_of_bounds, is_taken, "{number}");
        let velocity = VelocityChanges { per_minute: Some(per_minute), per_hour: Some(per_hour) };
        let changes = CompanyChanges { velocity, ..CompanyChanges::default() };
        let changed = run(CompanyCommand::Update(company_id(0), changes));
        assert_eq!(changed != out_of_bounds, is_taken, "{number}");
    }
}

/// A refund was the first to carry a retrieval reference; the purchase that was presented under
/// the same reference was posted on the refund, which then showed the difference of the two.
#[test]
fn a_presentment_that_names_a_refund_is_a_purchase_of_its_own() {
    let mut story = Story::begin();
    let refund = story.refund(400, 5, OriginalRef::default());
    let purchase = story.posting(NetworkCommand::Present(Present {
        facts: Some(facts(pan(1), 900, 5)),
        amounts: Some(facts(pan(1), 900, 5).amounts),
        original: by_retrieval(5),
        number: PresentmentNumber::ONLY,
    }));
    assert_eq!((purchase.outcome, purchase.posted), (PostingOutcome::Posted, Minor(900)));
    assert_ne!(purchase.transaction, refund.transaction);
    let posted = |reply: &PostingReply| {
        let seq = story.driver.ids.open_transaction_id(reply.transaction.unwrap()).unwrap();
        story.driver.state.transaction(seq).unwrap().progress.posted
    };
    assert_eq!((posted(&refund), posted(&purchase)), (Minor(-400), Minor(900)));
}

/// A presentment without an amount, of a purchase that nothing was held for any more, posted nothing
/// and used its number up: the network's own was then answered as posted, and lost.
#[test]
fn a_presentment_of_nothing_is_refused_and_the_next_one_posts() {
    let mut story = Story::begin();
    story.authorize(facts(pan(1), 10_000, 5), AuthorizationKind::Purchase);
    let nameless = network(NetworkCommand::Present(Present {
        facts: None,
        amounts: None,
        original: by_retrieval(5),
        number: PresentmentNumber::ONLY,
    }));
    story.reverse(by_retrieval(5), ReversalAmount::Full);
    let (lines, seq) = (story.line_count(), story.driver.state.last_seq());
    let refused = Reply::Network(NetworkReply::FormatError(SubReason::NothingHeld));
    assert_eq!(story.run(&nameless), refused);
    assert_eq!((story.line_count(), story.driver.state.last_seq()), (lines, seq));
    assert_eq!(story.present(10_000, by_retrieval(5)).posted, Minor(10_000));
    assert_eq!(story.spent(), Minor(10_000));
}

/// A line had the name of the presentment's merchant in its description, and showed the merchant of the
/// authorization.
#[test]
fn a_line_shows_the_merchant_of_its_presentment() {
    let mut bought = facts(pan(1), 900, 5);
    bought.merchant = Merchant {
        mid: 7,
        city: "San Francisco".parse().unwrap(),
        state: "CA".parse().unwrap(),
        country: "USA".parse().unwrap(),
        zip: "94105".parse().unwrap(),
        ..bought.merchant
    };
    let other = |change: fn(&mut Merchant)| {
        let mut merchant = bought.merchant.clone();
        change(&mut merchant);
        merchant
    };
    let other_name = other(|merchant| merchant.name = "A Shop".parse().unwrap());
    // The merchant of the presentment, and what its line shows.
    let rows = [
        (bought.merchant.clone(), bought.merchant.clone()),
        (Merchant::default(), bought.merchant.clone()),
        (other_name.clone(), other_name.clone()),
        (
            Merchant { name: other_name.name.clone(), ..Merchant::default() },
            Merchant { name: other_name.name, mcc: bought.merchant.mcc, ..Merchant::default() },
        ),
        (other(|merchant| merchant.mcc = Some(Mcc(5411))), other(|it| it.mcc = Some(Mcc(5411)))),
        (other(|merchant| merchant.mid = 8), other(|it| it.mid = 8)),
    ];
    // The place may be all that differs; also in the third letter of a country.
    let places: [fn(&mut Merchant); 5] = [
        |it| it.city = "San Francesco".parse().unwrap(),
        |it| it.state = "CO".parse().unwrap(),
        |it| it.country = "FR".parse().unwrap(),
        |it| it.country = "UST".parse().unwrap(),
        |it| it.zip = "94106".parse().unwrap(),
    ];
    let rows = rows.into_iter().chain(places.map(|change| (other(change), other(change))));
    for (presented, shown) in rows {
        let mut story = Story::begin();
        story.authorize(bought.clone(), AuthorizationKind::Purchase);
        let mut own = facts(pan(1), 900, 90);
        own.merchant = presented;
        story.present_part(own, by_retrieval(5), PresentmentNumber::ONLY);
        let line = last_line(&story);
        assert_eq!(line.merchant_or(Some(&bought.merchant)), Some(&shown));
        assert!(line.description.starts_with(shown.name.as_str()), "{line:?}");
        assert_eq!(line.merchant.is_some(), shown != bought.merchant, "nothing is kept twice");
    }
}

fn last_line(story: &Story) -> StatementLine {
    let effects = records(&story.driver.payload).flat_map(|record| record.unwrap().effects);
    let lines = effects.filter_map(|effect| match effect {
        Effect::StatementLine(line) => Some(*line),
        _ => None,
    });
    lines.last().unwrap()
}

/// A refund under the reference of another one was booked as a refund of that.
#[test]
fn a_refund_refunds_no_refund() {
    let mut story = Story::begin();
    let first = story.refund(400, 5, OriginalRef::default());
    let second = story.refund(300, 5, by_retrieval(5));
    let seq = |reply: &PostingReply| {
        story.driver.ids.open_transaction_id(reply.transaction.unwrap()).unwrap()
    };
    let state = &story.driver.state;
    assert_eq!(state.transaction(seq(&second)).unwrap().refund_of, None);
    assert_eq!(state.transaction(seq(&first)).unwrap().progress.refunded, Minor::ZERO);
}

/// A purchase whose amount came to nothing in the account's currency was approved, and held nothing.
#[test]
fn a_purchase_that_comes_to_nothing_is_not_approved() {
    let mut story = Story::begin();
    let mut asked = facts(pan(1), 10_000, 5);
    asked.amounts.currency = Some(CurrencyCode(978));
    asked.amounts.billing =
        Some(CurrencyAmount { amount: Minor::ZERO, currency: CurrencyCode(840) });
    let reply = story.run(&network(NetworkCommand::Authorize(purchase(asked))));
    assert_eq!(reply, Reply::Network(NetworkReply::FormatError(SubReason::BillingAmountMissing)));
}

/// Of a purchase in the account's own currency any billing amount was passed over: its price was approved.
#[test]
fn no_amount_is_billed_beside_another_one_of_the_same_currency() {
    let (dollar, euro) = (CurrencyCode(840), CurrencyCode(978));
    // The currency of the price of 10.00, the amount billed, its currency, and whether they agree.
    let rows = [
        (Some(dollar), 1_000, dollar, true),
        (None, 1_000, dollar, true),
        (Some(dollar), 900, dollar, false),
        (None, 900, dollar, false),
        (Some(dollar), 0, dollar, false),
        (Some(dollar), 1_000, euro, false),
        (Some(dollar), 900, euro, false),
        (Some(euro), 900, dollar, true),
    ];
    let refused = Reply::Network(NetworkReply::FormatError(SubReason::BillingConflict));
    for (currency, billed, billed_in, agree) in rows {
        let story = || {
            let mut story = Story::begin();
            story.authorize(facts(pan(1), 500, 5), AuthorizationKind::Purchase);
            story
        };
        let mut asked = facts(pan(1), 1_000, 6);
        asked.amounts.currency = currency;
        let billing = CurrencyAmount { amount: Minor(billed), currency: billed_in };
        asked.amounts.billing = Some(billing);
        let messages = [
            NetworkCommand::Authorize(purchase(asked.clone())),
            NetworkCommand::Increment(Increment {
                card: Some(asked.card),
                amounts: asked.amounts,
                mcc: None,
                credentials: PresentedCredentials::default(),
                original: by_retrieval(5),
                own_key: None,
                otherwise: None,
            }),
            NetworkCommand::Advise(Advise {
                facts: asked.clone(),
                is_cash: false,
                outcome: AdviceOutcome::Approved,
                original: OriginalRef::default(),
                request: None,
            }),
            NetworkCommand::Present(Present {
                amounts: Some(asked.amounts),
                facts: Some(asked.clone()),
                original: by_retrieval(5),
                number: PresentmentNumber::ONLY,
            }),
            NetworkCommand::Refund(Refund {
                facts: asked.clone(),
                original: OriginalRef::default(),
            }),
        ];
        for message in messages {
            let (mut story, name) = (story(), format!("{message:?}"));
            let before = story.driver.state.last_seq();
            let reply = story.run(&network(message));
            assert_eq!(reply != refused, agree, "{name}: {reply:?}");
            assert_eq!(story.driver.state.last_seq() > before, agree, "{name} changes something");
        }
    }
}

/// A verification used nothing up, rightly; the purchase that was forced upon it did neither.
#[test]
fn a_force_post_to_a_known_transaction_uses_a_single_use_card_up() {
    let mut story = Story::begin();
    let terms = AllowanceTerms { single_use: true, ..AllowanceTerms::budget(Minor(100_000)) };
    story.run(&admin(AdminCommand::Card(CardCommand::Issue(new_card(2, 0, terms)))));
    let verification = facts(pan(2), 0, 5);
    story.authorize(verification, AuthorizationKind::Verification);
    let posted = facts(pan(2), 8_000, 6);
    let retrieval_key = facts(pan(2), 0, 5).trace.retrieval_key;
    story.posting(NetworkCommand::Present(Present {
        amounts: Some(posted.amounts),
        facts: Some(posted),
        original: OriginalRef { retrieval_key, ..OriginalRef::default() },
        number: PresentmentNumber::ONLY,
    }));
    let usage = story.driver.state.card(CardSlot(1)).usage;
    assert_eq!(usage.suspension, SuspensionReason::SingleUse);
    let second = story.authorize(facts(pan(2), 7_000, 7), AuthorizationKind::Purchase);
    assert_eq!(second.response_code, ResponseCode::CardSuspended);
}

/// An increment at a hotel's restaurant ended the hold of the room after a week.
#[test]
fn an_increment_of_another_trade_leaves_a_hold_its_lifetime() {
    let mut story = Story::begin();
    let mut room = facts(pan(1), 80_000, 5);
    room.merchant.mcc = Some(Mcc(7_011));
    story.authorize(room, AuthorizationKind::Purchase);
    story.increment(4_000, 6, Some(Mcc(5_812)));
    let month = 30 * Timestamp::DAY;
    assert_eq!(story.driver.state.next_due(), Some(Timestamp(story.at).plus(month)));
}

/// A decline of the network that named a pending purchase set its hold, and was told as approved.
#[test]
fn a_declined_advice_leaves_a_hold_as_it_is() {
    let mut story = Story::begin();
    story.authorize(facts(pan(1), 10_000, 5), AuthorizationKind::Purchase);
    let declined = story.advise(50_000, AdviceOutcome::Declined);
    assert_eq!(declined.sub_reason, SubReason::DeclinedByNetwork);
    assert_eq!(story.spent(), Minor(10_000));
    assert_eq!(story.advise(2_500, AdviceOutcome::Approved).approved, Minor(2_500));
    assert_eq!(story.spent(), Minor(2_500));
}

fn progress(story: &Story, id: Option<TransactionId>) -> &TransactionProgress {
    let seq = story.driver.ids.open_transaction_id(id.unwrap()).unwrap();
    &story.driver.state.transaction(seq).unwrap().progress
}

/// Each reset and each day left a part of the hold behind, until the purchase was more than a record
/// of the journal may hold and the shard stopped.
#[test]
fn a_hold_that_grows_through_many_periods_has_few_parts() {
    let mut story = Story::begin();
    let id = story.authorize(facts(pan(1), 1, 5), AuthorizationKind::Purchase).transaction;
    let changes = AllowanceChanges { reset: true, ..AllowanceChanges::default() };
    let allowance = new_card(1, 0, AllowanceTerms::budget(Minor(1))).allowance_id;
    let reset = AllowanceCommand::Update(company_id(0), allowance, changes);
    let reset = admin(AdminCommand::Allowance(reset));
    for cycle in 0..30_000 {
        story.at += if cycle % 1_000 == 0 { Timestamp::DAY } else { 0 };
        assert!(matches!(story.run(&reset), Reply::Done(_)), "{cycle}");
        assert_eq!(story.increment(1, 6, None).approved, Minor(1));
        assert!(progress(&story, id).held.parts().len() <= 3, "{cycle}");
        assert_eq!(story.spent(), Minor(1));
        story.driver.payload.clear();
    }
    assert_eq!(progress(&story, id).held.total(), Minor(30_001));
}

/// Each reversal of a refund left a part behind.
#[test]
fn a_purchase_that_is_refunded_again_and_again_has_few_parts() {
    let mut story = Story::begin();
    let mut rng = Rng::new(5);
    let id = story.authorize(facts(pan(1), 40_000, 5), AuthorizationKind::Purchase).transaction;
    story.at += Timestamp::DAY;
    assert_eq!(story.increment(40_000, 6, None).approved, Minor(40_000));
    story.present(80_000, by_retrieval(5));
    for cycle in (0..20_000).step_by(2) {
        let marks = [100 + cycle, 101 + cycle];
        for mark in marks {
            let part = rng.between(1, 40_000);
            let refund = story.refund(part, mark, by_retrieval(5));
            assert_eq!(refund.posted, Minor(part));
        }
        for mark in marks {
            story.reverse(by_retrieval(mark), ReversalAmount::Full);
        }
        let cleared = &progress(&story, id).cleared;
        assert!(cleared.parts().len() <= 2, "{cycle}: {cleared:?}");
        assert_eq!((cleared.total(), story.spent()), (Minor(80_000), Minor(80_000)));
        let today = story.driver.state.card(CardSlot(0)).usage.day_spent;
        assert_eq!(today, Minor(40_000));
        story.driver.payload.clear();
    }
}
