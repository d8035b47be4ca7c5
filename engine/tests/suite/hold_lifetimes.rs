//! Holds end after the days that their company sets for the merchant's category, or after the usual ones.

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::network::AuthorizationKind;
use cardswitch_engine::directory::company::{CompanyChanges, CompanyCommand};
use cardswitch_engine::domain::ids::{AccountSlot, Timestamp};
use cardswitch_engine::domain::merchant::Mcc;

use crate::samples::{admin, company_id, facts, pan};
use crate::story::Story;

const HOTEL: u16 = 7011;
const GROCERY: u16 = 5411;

fn set(story: &mut Story, table: &str) {
    let table = Some(table.parse().unwrap());
    let changes = CompanyChanges { hold_table: table, ..CompanyChanges::default() };
    story.run(&admin(AdminCommand::Company(CompanyCommand::Update(company_id(0), changes))));
}

fn buy(story: &mut Story, amount: i64, mark: u64, mcc: u16) {
    let mut facts = facts(pan(1), amount, mark);
    facts.merchant.mcc = Some(Mcc(mcc));
    story.authorize(facts, AuthorizationKind::Purchase);
}

/// What is held at an instant, or a microsecond later, by account and card alike.
fn held_at(story: &mut Story, at: i64) -> i64 {
    story.driver.run(Timestamp(at), &admin(AdminCommand::SetNetworkKey([1; 32])));
    let held = story.driver.state.balances(AccountSlot(0)).held;
    assert_eq!(story.spent(), held);
    held.0
}

#[test]
fn a_hold_ends_after_the_days_of_its_merchant() {
    let rows = [
        ("", GROCERY, 7),
        ("", HOTEL, 30),
        ("10", GROCERY, 10),
        ("10", HOTEL, 30),
        ("1,3=14", HOTEL, 14),
        ("1,3=14,7011=2", HOTEL, 2),
        ("5411=365", GROCERY, 365),
    ];
    for (table, mcc, days) in rows {
        let mut story = Story::begin();
        set(&mut story, table);
        buy(&mut story, 1_000, 5, mcc);
        let end = story.at + days * Timestamp::DAY;
        assert_eq!(held_at(&mut story, end - 1), 1_000, "{table} {mcc}");
        assert_eq!(held_at(&mut story, end), 0, "{table} {mcc}");
    }
}

/// A hold keeps the end that it has; an increment gives it one by the table of that moment.
#[test]
fn another_table_is_for_holds_from_then_on() {
    let mut story = Story::begin();
    buy(&mut story, 1_000, 5, GROCERY);
    set(&mut story, "2,7011=3");
    buy(&mut story, 50, 6, GROCERY);
    story.at += 2 * Timestamp::DAY;
    let at = story.at;
    assert_eq!(held_at(&mut story, at - 1), 1_050);
    assert_eq!(held_at(&mut story, at), 1_000);
    story.increment(20, 7, None);
    let end = story.at + 2 * Timestamp::DAY;
    assert_eq!(held_at(&mut story, end - 1), 1_020);
    assert_eq!(held_at(&mut story, end), 0);
}

#[test]
fn a_table_that_is_taken_away_leaves_the_usual_one() {
    let mut story = Story::begin();
    set(&mut story, "2");
    set(&mut story, "");
    buy(&mut story, 1_000, 5, GROCERY);
    let end = story.at + 2 * Timestamp::DAY;
    assert_eq!(held_at(&mut story, end), 1_000);
}
