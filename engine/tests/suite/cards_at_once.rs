//! Several cards by one command: all in one record, or none.

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::reply::{Rejection, Reply};
use cardswitch_engine::directory::card::{CardCommand, CardDestination, NewCard};
use cardswitch_engine::directory::company::CompanyCommand;
use cardswitch_engine::domain::allowance::AllowanceTerms;
use cardswitch_engine::domain::company::Address;
use cardswitch_engine::domain::ids::{CardSlot, MemberId, Timestamp};
use cardswitch_engine::domain::money::Minor;
use cardswitch_engine::limits;
use cardswitch_engine::shard::ShardState;
use uuid::Uuid;

use crate::driver::Driver;
use crate::samples::{START, admin, company_id, new_card, new_company};

fn card(number: u64) -> NewCard {
    new_card(number, 0, AllowanceTerms::budget(Minor(100)))
}

fn begin() -> Driver {
    let mut driver = Driver::new(ShardState::default());
    let company = new_company(0, chrono_tz::UTC, 1_000, 0);
    driver.run(Timestamp(START), &admin(AdminCommand::Company(CompanyCommand::Create(company))));
    driver.run(Timestamp(START + 1), &admin(AdminCommand::Card(CardCommand::Issue(card(1)))));
    driver
}

fn run(driver: &mut Driver, cards: Vec<NewCard>) -> Reply {
    let at = driver.state.last_at().plus(1);
    driver.run(at, &admin(AdminCommand::Card(CardCommand::IssueTogether(cards))))
}

#[test]
fn all_are_made_in_one_record_in_order() {
    let mut driver = begin();
    let most = limits::CARDS_AT_ONCE_MAX as u64;
    let cards: Vec<_> = (2..2 + most).map(card).collect();
    let seq = driver.state.last_seq().next();
    assert_eq!(run(&mut driver, cards.clone()), Reply::Done(seq));
    assert_eq!(driver.state.card_count(), 1 + cards.len());
    for (slot, new) in (1..).zip(&cards) {
        assert_eq!(driver.state.card(CardSlot(slot)).pan_hash, new.pan_hash);
    }
    assert_eq!(run(&mut driver, Vec::new()), Reply::Done(seq), "nothing to do is done");
}

#[test]
fn one_that_cannot_be_made_leaves_none() {
    let with = |change: &dyn Fn(&mut NewCard)| {
        let mut cards = vec![card(2), card(3), card(4)];
        change(&mut cards[2]);
        cards
    };
    let text = "\u{20ac}".repeat(30_000);
    let long = Address { address_1: text.parse().unwrap(), ..Address::default() };
    let rows: Vec<(Vec<NewCard>, Rejection)> = vec![
        (with(&|new| new.id = card(1).id), Rejection::IdTaken),
        (with(&|new| new.id = card(2).id), Rejection::IdTaken),
        (with(&|new| new.allowance_id = card(3).allowance_id), Rejection::IdTaken),
        (with(&|new| new.pan_hash = card(1).pan_hash), Rejection::CardNumberTaken),
        (with(&|new| new.pan_hash = card(2).pan_hash), Rejection::CardNumberTaken),
        (
            with(&|new| new.order.assigned_to = Some(MemberId(Uuid::nil()))),
            Rejection::MemberNotFound,
        ),
        (with(&|new| new.order.terms.amount = Minor(-1)), Rejection::OutOfBounds),
        (with(&|new| new.order.company = company_id(7)), Rejection::CompanyNotFound),
        (
            (2..12)
                .map(card)
                .map(|mut card| {
                    card.order.shipping_address = Some(CardDestination::Address(long.clone()));
                    card
                })
                .collect(),
            Rejection::CardsTooLong,
        ),
        ((2..103).map(card).collect(), Rejection::CardsTooLong),
    ];
    let mut driver = begin();
    for (cards, expected) in rows {
        assert_eq!(run(&mut driver, cards), Reply::Rejected(expected));
        assert_eq!(driver.state.card_count(), 1);
    }
    assert_eq!(driver.ends.len(), 2, "nothing was recorded");
}
