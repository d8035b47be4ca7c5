//! Apps: the scopes they may wish for, and the consequences of shutting one out or deleting it.

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::effect::Effect;
use cardswitch_engine::command::reply::Rejection;
use cardswitch_engine::directory::DirectoryRow;
use cardswitch_engine::directory::access_token::{AccessScope, AccessTokenCommand, TokenOrigin};
use cardswitch_engine::directory::app::{
    App, AppApproval, AppChanges, AppCommand, AppProfile, NewApp,
};
use cardswitch_engine::directory::company::{CompanyChanges, CompanyCommand};
use cardswitch_engine::directory::member::{MemberCommand, MemberRole, NewMember};
use cardswitch_engine::directory::ticket::TicketState;
use cardswitch_engine::domain::company::CompanyState;
use cardswitch_engine::domain::text::LineText;
use cardswitch_engine::limits;

use super::{APP, BOOKS, code_of, exchange, grant_of, new_app};
use crate::office::{ADA, BOB, FOREIGNER, Office, new_member};
use crate::samples::{app_id, company_id, new_company, token_id};

impl Office {
    /// An accountant of a company.
    fn hire(&mut self, number: u64, company: u64) {
        let member = new_member(number, company, &format!("m{number}@example.com"));
        let member = NewMember { role: MemberRole::Accountant, ..member };
        self.does(AdminCommand::Member(MemberCommand::Create(member)));
    }

    /// A token of the app for a member.
    fn let_in(&mut self, number: u64, company: u64, member: u64) -> Result<(), Rejection> {
        let new = grant_of(number, company, (Some(APP), Some(member)));
        self.asks(AdminCommand::AccessToken(AccessTokenCommand::Grant(Box::new(new))))
    }

    /// New companies with as many tokens of the app as there may be of each, up to the most of all.
    fn fill_with_tokens(&mut self) {
        let share = limits::TOKENS_OF_APP_IN_COMPANY_MAX;
        let members = share / limits::TOKENS_OF_MEMBER_MAX;
        for company in 2..2 + (limits::TOKENS_OF_APP_MAX / share) as u64 {
            let new = new_company(company, chrono_tz::UTC, 1_000_000, 0);
            self.does(AdminCommand::Company(CompanyCommand::Create(new)));
            let first = 1_000 * company;
            (first..first + members as u64).for_each(|member| self.hire(member, company));
            for number in 0..share as u64 {
                let member = first + number % members as u64;
                assert_eq!(self.let_in(10_000 * company + number, company, member), Ok(()));
                assert_eq!(self.last_ends().1, [false]);
            }
        }
    }
}

/// The largest number of tokens of an app is revoked in one record.
#[test]
fn a_deleted_app_opens_nothing_any_more() {
    let mut office = Office::with_people();
    office.fill_with_tokens();
    assert_eq!(office.let_in(1, 2, 2_001), Ok(()));
    assert_eq!(office.last_ends().1, [true, false], "one more than there is room for");
    assert_eq!(office.let_in(2, 0, BOB), Err(Rejection::TooManyTokens), "another company");
    let no_room = office.issue(1, BOB, code_of(APP, 0, BOB));
    assert_eq!(no_room, Err(Rejection::TooManyTokens), "nor is a code of any use");
    office.does(AdminCommand::AccessToken(AccessTokenCommand::Revoke(company_id(2), token_id(1))));
    office.issue(1, BOB, code_of(APP, 0, BOB)).unwrap();
    assert_eq!(office.let_in(2, 0, BOB), Ok(()));
    office.does(AdminCommand::App(AppCommand::Delete(company_id(0), app_id(APP))));
    assert_eq!(office.last_ends(), (vec![], vec![true; limits::TOKENS_OF_APP_MAX]));
    let gone = Err(Rejection::AppNotFound);
    assert_eq!(office.asks(exchange(1, 90_000, 0)), Err(Rejection::TicketSpent));
    assert_eq!(office.issue(2, BOB, code_of(APP, 0, BOB)), Err(Rejection::AppNotFound));
    let again = grant_of(90_000, 0, (Some(APP), None));
    assert_eq!(
        office.asks(AdminCommand::AccessToken(AccessTokenCommand::Grant(Box::new(again)))),
        gone
    );
    assert_eq!(
        office.asks(AdminCommand::App(AppCommand::Delete(company_id(0), app_id(APP)))),
        gone
    );
}

/// The people of one company took all the tokens of an app, and shut it to every other company.
#[test]
fn one_company_takes_its_share_of_an_apps_tokens() {
    let mut office = Office::with_people();
    let (share, of_member) = (limits::TOKENS_OF_APP_IN_COMPANY_MAX, limits::TOKENS_OF_MEMBER_MAX);
    let members = 10..=10 + (share / of_member) as u64;
    members.clone().for_each(|member| office.hire(member, 0));
    for number in 0..share as u64 {
        let member = 10 + number / of_member as u64;
        assert_eq!(office.let_in(number, 0, member), Ok(()));
    }
    let full = Err(Rejection::TooManyTokens);
    assert_eq!(office.let_in(90_000, 0, *members.end()), full, "a member without a token");
    assert_eq!(office.let_in(90_001, 0, 10), Ok(()), "in the place of the member's own");
    assert_eq!(office.last_ends().1, [true, false]);
    assert_eq!(office.let_in(90_002, 1, FOREIGNER), Ok(()), "another company");
    office.assert_replays();
}

/// A company was closed for abuse, and members of other companies went on to let its app in.
#[test]
fn an_app_of_a_closed_company_gets_nothing() {
    let mut office = Office::with_people();
    office.does(AdminCommand::App(AppCommand::Create(new_app(2, 1))));
    office.issue(1, BOB, code_of(2, 0, BOB)).unwrap();
    office.grant(1, TokenOrigin::Code, (2, BOB));
    let in_state = |state| {
        let changes = CompanyChanges { state: Some(state), ..CompanyChanges::default() };
        AdminCommand::Company(CompanyCommand::Update(company_id(1), changes))
    };
    office.does(in_state(CompanyState::Closed));
    let closed = Err(Rejection::CompanyClosed);
    assert_eq!(office.issue(2, BOB, code_of(2, 0, BOB)), closed);
    assert_eq!(office.asks(exchange(1, 9, 0)), closed);
    let again = grant_of(9, 0, (Some(2), Some(BOB)));
    let again = AdminCommand::AccessToken(AccessTokenCommand::Grant(Box::new(again)));
    assert_eq!(office.asks(again), closed);
    let moved = Some(vec!["https://evil.example/".to_owned()]);
    let moved = AppChanges { redirect_urls: moved, ..AppChanges::default() };
    let moved = AdminCommand::App(AppCommand::Update(company_id(1), app_id(2), moved));
    assert_eq!(office.asks(moved), closed);
    // A token that was given earlier stays valid until somebody revokes it.
    assert_eq!(office.entries("access_tokens"), 1);
    office.does(AdminCommand::App(AppCommand::RevokeTokens(app_id(2), company_id(0))));
    assert_eq!(office.last_ends(), (vec![(TicketState::Ended, 1)], vec![true]));
    office.does(in_state(CompanyState::Active));
    office.issue(3, BOB, code_of(2, 0, BOB)).unwrap();
    assert_eq!(office.asks(exchange(3, 9, 0)), Ok(()));
    office.does(in_state(CompanyState::Closed));
    office.does(AdminCommand::App(AppCommand::Delete(company_id(1), app_id(2))));
    assert_eq!(office.last_ends().1, [true]);
    office.assert_replays();
}

#[test]
fn an_app_is_shut_out_of_one_company_only() {
    let mut office = Office::with_people();
    for (number, (company, member)) in (1..).zip([(0, BOB), (1, FOREIGNER), (0, ADA)]) {
        let new = grant_of(number, company, (Some(APP), Some(member)));
        office.does(AdminCommand::AccessToken(AccessTokenCommand::Grant(Box::new(new))));
    }
    office.issue(1, BOB, code_of(APP, 0, BOB)).unwrap();
    office.issue(2, BOB, code_of(APP, 1, FOREIGNER)).unwrap();
    office.does(AdminCommand::App(AppCommand::RevokeTokens(app_id(APP), company_id(1))));
    assert_eq!(office.last_ends(), (vec![(TicketState::Ended, 1)], vec![true]));
    assert_eq!(office.asks(exchange(2, 9, 1)), Err(Rejection::TicketSpent));
    assert_eq!(office.asks(exchange(1, 9, 0)), Ok(()));
    office.does(AdminCommand::App(AppCommand::RevokeTokens(app_id(APP), company_id(0))));
    assert_eq!(office.last_ends().1, [true; 3]);
    office.assert_replays();
}

const ALL: AccessScope = AccessScope { accountant: true, admin: true, scim: true, iam: true };

/// The app as the last command left it.
fn last_app(office: &Office) -> App {
    match office.last_effects().as_slice() {
        [Effect::Row(DirectoryRow::App(app))] => (**app).clone(),
        other => panic!("{other:?}"),
    }
}

fn update(office: &mut Office, changes: AppChanges) -> App {
    office.does(AdminCommand::App(AppCommand::Update(company_id(0), app_id(APP), changes)));
    last_app(office)
}

fn approve(office: &mut Office, profile: AppProfile, scope: AccessScope) -> Result<App, Rejection> {
    let approval = AppApproval { profile, scope };
    office.asks(AdminCommand::App(AppCommand::Approve(company_id(0), app_id(APP), approval)))?;
    Ok(last_app(office))
}

fn registered() -> AppProfile {
    let NewApp { name, website, redirect_urls, .. } = new_app(APP, 0);
    AppProfile { name: name.into(), website: website.into(), redirect_urls }
}

#[test]
fn nothing_is_approved_that_an_app_does_not_wish_for() {
    let mut office = Office::with_people();
    let app = approve(&mut office, registered(), ALL).unwrap();
    assert_eq!(app.approved, new_app(APP, 0).requested);
    let narrow = AppChanges { requested: Some(BOOKS), ..AppChanges::default() };
    assert_eq!(update(&mut office, narrow).approved, BOOKS);
}

/// An app was approved as one thing and then renamed and pointed elsewhere by its developer; the
/// administrator of another company saw the new name, and the code went to the new address.
#[test]
fn an_approval_binds_the_profile_that_was_seen() {
    let mut office = Office::with_people();
    let renamed = || AppChanges { name: Some(LineText::spaced("A bank")), ..AppChanges::default() };
    let moved = AppChanges {
        website: Some(LineText::spaced("https://bank.example")),
        redirect_urls: Some(vec!["https://evil.example/".to_owned()]),
        ..AppChanges::default()
    };
    let app = update(&mut office, renamed());
    assert_eq!((app.name.as_str(), &app.revision), ("A bank", &None), "nothing is approved yet");
    assert_eq!(approve(&mut office, registered(), ALL), Err(Rejection::AppChanged));
    let seen = app.profile();
    let app = approve(&mut office, seen.clone(), ALL).unwrap();
    assert!(app.is_bound);

    let app = update(&mut office, moved);
    assert_eq!(app.profile(), seen);
    let waiting = app.edited_profile();
    assert_eq!(waiting.redirect_urls, ["https://evil.example/"]);
    assert_eq!(waiting.name, "A bank");
    let back = AppChanges {
        website: Some(LineText::spaced(&seen.website)),
        redirect_urls: Some(seen.redirect_urls.clone()),
        ..AppChanges::default()
    };
    assert_eq!(update(&mut office, back).revision, None, "what is as approved waits for nobody");

    let other = AppChanges { name: Some(LineText::spaced("Another")), ..AppChanges::default() };
    let waiting = update(&mut office, other).edited_profile();
    assert_eq!(approve(&mut office, seen, ALL), Err(Rejection::AppChanged), "not what waits");
    let app = approve(&mut office, waiting.clone(), ALL).unwrap();
    assert_eq!((app.profile(), app.revision), (waiting, None));
    office.assert_replays();
}

/// An approval could be given back, the app renamed, and the scope asked for again: the operator was
/// then shown the new name alone.
#[test]
fn giving_an_approval_back_frees_nothing() {
    let mut office = Office::with_people();
    approve(&mut office, registered(), ALL).unwrap();
    let name = Some(LineText::spaced("A bank"));
    update(&mut office, AppChanges { name, ..AppChanges::default() });
    let narrow = AppChanges { requested: Some(BOOKS), ..AppChanges::default() };
    let app = update(&mut office, narrow.clone());
    assert_eq!((app.profile(), app.is_bound), (registered(), true));
    let wide = AppChanges { requested: Some(ALL), ..AppChanges::default() };
    let app = update(&mut office, wide);
    assert_eq!((app.profile(), app.approved), (registered(), BOOKS));
    let waiting = app.edited_profile();
    assert_eq!(waiting.name, "A bank", "what the operator is asked about");

    update(&mut office, narrow);
    let app = approve(&mut office, waiting.clone(), BOOKS).unwrap();
    assert_eq!((app.profile(), app.is_bound), (waiting, true), "its tokens may still run");
}
