//! Apps: what they may wish for, and what ends when one is shut out or deleted.

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::effect::Effect;
use cardswitch_engine::command::identity::AppChanges;
use cardswitch_engine::command::reply::Rejection;
use cardswitch_engine::domain::member::AccessScope;
use cardswitch_engine::domain::ticket::TicketState;
use cardswitch_engine::limits;

use super::{APP, BOOKS, code_of, exchange, grant_of, new_app};
use crate::members::{ADA, BOB, FOREIGNER, Office, new_member};
use crate::samples::{app_id, company_id};

/// What an app may have at most goes in one record.
#[test]
fn a_deleted_app_opens_nothing_any_more() {
    let mut office = Office::with_people();
    let (room, of_member) = (limits::TOKENS_OF_APP_MAX, limits::TOKENS_OF_MEMBER_MAX);
    let members = room.div_ceil(of_member) as u64;
    for number in 10..10 + members {
        let member = new_member(number, 0, &format!("m{number}@example.com"));
        office.does(AdminCommand::CreateMember(member));
    }
    for number in 0..=room as u64 {
        let member = 10 + number / of_member as u64 % members;
        let new = grant_of(number, 0, (Some(APP), Some(member)));
        office.does(AdminCommand::GrantToken(Box::new(new)));
    }
    assert_eq!(office.last_ends().1, [true, false], "one more than there is room for");
    office.issue(1, BOB, code_of(APP, 0, BOB)).unwrap();
    office.does(AdminCommand::DeleteApp(company_id(0), app_id(APP)));
    assert_eq!(office.last_ends(), (vec![], vec![true; room]));
    let gone = Err(Rejection::AppNotFound);
    assert_eq!(office.asks(exchange(1, 90_000, 0)), Err(Rejection::TicketSpent));
    assert_eq!(office.issue(2, BOB, code_of(APP, 0, BOB)), Err(Rejection::AppNotFound));
    let again = grant_of(90_000, 0, (Some(APP), None));
    assert_eq!(office.asks(AdminCommand::GrantToken(Box::new(again))), gone);
    assert_eq!(office.asks(AdminCommand::DeleteApp(company_id(0), app_id(APP))), gone);
}

#[test]
fn an_app_is_shut_out_of_one_company_only() {
    let mut office = Office::with_people();
    for (number, (company, member)) in (1..).zip([(0, BOB), (1, FOREIGNER), (0, ADA)]) {
        let new = grant_of(number, company, (Some(APP), Some(member)));
        office.does(AdminCommand::GrantToken(Box::new(new)));
    }
    office.issue(1, BOB, code_of(APP, 0, BOB)).unwrap();
    office.issue(2, BOB, code_of(APP, 1, FOREIGNER)).unwrap();
    office.does(AdminCommand::RevokeAppTokens(app_id(APP), company_id(1)));
    assert_eq!(office.last_ends(), (vec![(TicketState::Ended, 1)], vec![true]));
    assert_eq!(office.asks(exchange(2, 9, 1)), Err(Rejection::TicketSpent));
    assert_eq!(office.asks(exchange(1, 9, 0)), Ok(()));
    office.does(AdminCommand::RevokeAppTokens(app_id(APP), company_id(0)));
    assert_eq!(office.last_ends().1, [true; 3]);
    office.assert_replays();
}

#[test]
fn nothing_is_approved_that_an_app_does_not_wish_for() {
    let mut office = Office::with_people();
    let all = AccessScope { accountant: true, admin: true, scim: true, iam: true };
    let approve = AppChanges { approved: Some(all), ..AppChanges::default() };
    office.does(AdminCommand::UpdateApp(company_id(0), app_id(APP), approve));
    let approved = |office: &Office| match office.last_effects().as_slice() {
        [Effect::App(app)] => app.approved,
        other => panic!("{other:?}"),
    };
    assert_eq!(approved(&office), new_app(APP, 0).requested);
    let narrow = AppChanges { requested: Some(BOOKS), ..AppChanges::default() };
    office.does(AdminCommand::UpdateApp(company_id(0), app_id(APP), narrow));
    assert_eq!(approved(&office), BOOKS);
}
