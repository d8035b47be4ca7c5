//! Tokens: those of a code, those made once, and the one that a further one displaces.

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::effect::Effect;
use cardswitch_engine::command::reply::Rejection;
use cardswitch_engine::directory::DirectoryRow;
use cardswitch_engine::directory::access_token::{
    AccessScope, AccessTokenCommand, NewAccessToken, NewTokenGrant, TokenOrigin,
};
use cardswitch_engine::directory::app::AppCommand;
use cardswitch_engine::directory::member::MemberRole;
use cardswitch_engine::directory::ticket::{
    NewAuthorizationCode, NewTicketContent, TicketCommand, TicketState,
};
use cardswitch_engine::limits;

use super::{APP, BOOKS, code_of, exchange, grant_of, new_app, new_token};
use crate::office::{ADA, BOB, FOREIGNER, Office, leaving, with_role};
use crate::samples::{company_id, digest, token_id};

#[test]
fn a_code_gives_one_token_and_a_replay_takes_it_back() {
    let mut office = Office::with_people();
    office.issue(1, BOB, code_of(APP, 0, BOB)).unwrap();
    assert_eq!(office.asks(exchange(1, 1, 1)), Err(Rejection::CompanyNotFound));
    office.does(exchange(1, 1, 0));
    match office.last_effects().as_slice() {
        [
            Effect::Row(DirectoryRow::AccessToken(token)),
            Effect::Row(DirectoryRow::Ticket(code)),
        ] => {
            // The allowed scope, not the one that the exchange asked for.
            assert_eq!((token.scope, token.is_revoked), (BOOKS, false));
            let grant = token.grant.as_ref().unwrap();
            assert_eq!((grant.origin, grant.app.is_some()), (TokenOrigin::Code, true));
            assert_eq!(grant.label, "by a code");
            assert_eq!(code.state, TicketState::Used);
            assert_eq!(code.code().unwrap().token, Some(token.digest));
        }
        other => panic!("{other:?}"),
    }
    // The second of two who come with the same code.
    assert_eq!(office.asks(exchange(1, 2, 0)), Err(Rejection::TicketSpent));
    assert_eq!(office.entries("access_tokens"), 1);
    office.does(AdminCommand::Ticket(TicketCommand::RevokeCode(digest(1, 1))));
    assert_eq!(office.last_ends(), (vec![], vec![true]));
    let records = office.driver.ends.len();
    office.does(AdminCommand::Ticket(TicketCommand::RevokeCode(digest(1, 1))));
    assert_eq!(office.driver.ends.len(), records, "there is nothing left to revoke");

    // A code that was not used is ended.
    office.issue(2, BOB, code_of(APP, 0, BOB)).unwrap();
    office.does(AdminCommand::Ticket(TicketCommand::RevokeCode(digest(1, 2))));
    assert_eq!(office.last_ends(), (vec![(TicketState::Ended, 1)], vec![]));
    assert_eq!(office.asks(exchange(2, 2, 0)), Err(Rejection::TicketSpent));
    office.assert_replays();
}

#[test]
fn a_token_is_made_once() {
    let mut office = Office::with_people();
    office.does(AdminCommand::AccessToken(AccessTokenCommand::Grant(Box::new(grant_of(
        1,
        0,
        (Some(APP), Some(BOB)),
    )))));
    let same_text = NewAccessToken { id: token_id(2), ..new_token(1, 0) };
    let same_id = NewAccessToken { digest: digest(2, 2), ..new_token(1, 0) };
    let taken = Err(Rejection::IdTaken);
    let granted = |token| NewTokenGrant { token, ..grant_of(1, 0, (None, None)) };
    let rows = [
        (AdminCommand::AccessToken(AccessTokenCommand::Create(same_text.clone())), taken),
        (AdminCommand::AccessToken(AccessTokenCommand::Create(same_id.clone())), taken),
        (AdminCommand::AccessToken(AccessTokenCommand::Grant(Box::new(granted(same_text)))), taken),
        (AdminCommand::AccessToken(AccessTokenCommand::Grant(Box::new(granted(same_id)))), taken),
        (
            AdminCommand::AccessToken(AccessTokenCommand::Grant(Box::new(grant_of(
                2,
                9,
                (None, None),
            )))),
            Err(Rejection::CompanyNotFound),
        ),
        (
            AdminCommand::AccessToken(AccessTokenCommand::Grant(Box::new(grant_of(
                2,
                0,
                (Some(9), None),
            )))),
            Err(Rejection::AppNotFound),
        ),
        (
            AdminCommand::AccessToken(AccessTokenCommand::Grant(Box::new(grant_of(
                2,
                0,
                (None, Some(FOREIGNER)),
            )))),
            Err(Rejection::MemberNotFound),
        ),
        (
            AdminCommand::AccessToken(AccessTokenCommand::Grant(Box::new(grant_of(
                2,
                0,
                (None, None),
            )))),
            Ok(()),
        ),
        (
            AdminCommand::AccessToken(AccessTokenCommand::Revoke(company_id(1), token_id(2))),
            Err(Rejection::TokenNotFound),
        ),
        (AdminCommand::AccessToken(AccessTokenCommand::Revoke(company_id(0), token_id(2))), Ok(())),
        (
            AdminCommand::AccessToken(AccessTokenCommand::Revoke(company_id(0), token_id(2))),
            Err(Rejection::TokenNotFound),
        ),
    ];
    for (command, expected) in rows {
        let told = format!("{command:?}");
        assert_eq!(office.asks(command), expected, "{told}");
    }
    office.assert_replays();
}

#[test]
fn one_more_token_than_there_may_be_revokes_the_oldest() {
    let mut office = Office::with_people();
    let room = limits::TOKENS_OF_MEMBER_MAX as u64;
    for number in 0..room {
        let new = grant_of(number, 0, (Some(APP), Some(BOB)));
        office.does(AdminCommand::AccessToken(AccessTokenCommand::Grant(Box::new(new))));
        assert_eq!(office.last_ends().1, [false]);
    }
    for (number, revoked) in [(room, 0), (room + 1, 1)] {
        let new = grant_of(number, 0, (Some(APP), Some(BOB)));
        office.does(AdminCommand::AccessToken(AccessTokenCommand::Grant(Box::new(new))));
        match office.last_effects().as_slice() {
            [
                Effect::Row(DirectoryRow::AccessToken(old)),
                Effect::Row(DirectoryRow::AccessToken(new)),
            ] => {
                assert_eq!((old.id, old.is_revoked), (token_id(revoked), true));
                assert!(!new.is_revoked);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(office.update(BOB, leaving()), Ok(()));
    assert_eq!(office.last_ends().1, vec![true; room as usize]);
    assert_eq!(office.entries("access_tokens"), 0);
    office.assert_replays();
}

/// The page was open while its administrator was demoted: the token came after the role had fallen.
#[test]
fn a_role_lets_in_no_more_than_it_may_allow() {
    let none = AccessScope::default();
    let all = AccessScope { admin: true, ..none };
    let refused = Err(Rejection::ScopeNotAllowed);
    let rows = [
        (MemberRole::Administrator, all, Ok(())),
        (MemberRole::Accountant, BOOKS, Ok(())),
        (MemberRole::Accountant, all, refused),
        (MemberRole::Reviewer, none, refused),
        (MemberRole::Member, none, refused),
    ];
    for (role, scope, expected) in rows {
        let mut office = Office::with_people();
        assert_eq!(office.update(BOB, with_role(role)), Ok(()));
        let new = grant_of(1, 0, (Some(APP), Some(BOB)));
        let new = NewTokenGrant { token: NewAccessToken { scope, ..new.token }, ..new };
        let granted = AdminCommand::AccessToken(AccessTokenCommand::Grant(Box::new(new)));
        let NewTicketContent::AuthorizationCode(code) = code_of(APP, 0, BOB) else { panic!() };
        let code = Box::new(NewAuthorizationCode { scope, ..*code });
        let issued = office.issue(1, BOB, NewTicketContent::AuthorizationCode(code));
        let outcomes = (office.asks(granted), issued);
        assert_eq!(outcomes, (expected, expected), "{role:?} {scope:?}");
        office.assert_replays();
    }
}

/// A member who may sign in somewhere must not take away the tokens of others.
#[test]
fn a_token_displaces_only_its_own_like() {
    let room = limits::TOKENS_OF_MEMBER_MAX as u64;
    let (code, password, own) = (TokenOrigin::Code, TokenOrigin::Password, TokenOrigin::OwnCompany);
    let full = Err(Rejection::TooManyTokens);
    // The tokens that fill the member's room, and the new one: origin and app.
    let rows = [
        ((password, APP), (password, APP), Ok(())),
        ((password, APP), (password, 2), full),
        ((code, APP), (password, APP), full),
        ((own, APP), (password, APP), full),
        ((password, APP), (code, APP), full),
        ((password, APP), (own, APP), full),
        ((code, APP), (code, APP), Ok(())),
        ((code, APP), (code, 2), full),
        ((own, APP), (own, APP), full),
    ];
    for ((origin, app), (comes, to), expected) in rows {
        let mut office = Office::with_people();
        office.does(AdminCommand::App(AppCommand::Create(new_app(2, 0))));
        for number in 0..room {
            office.grant(number, origin, (app, BOB));
        }
        let new = grant_of(room, 0, (Some(to), Some(BOB)));
        let new = NewTokenGrant { origin: comes, ..new };
        let got = office.asks(AdminCommand::AccessToken(AccessTokenCommand::Grant(Box::new(new))));
        assert_eq!(got, expected, "{origin:?} {app}, then {comes:?} {to}");
        office.grant(room + 1, password, (APP, ADA));
        office.assert_replays();
    }
    // A code is not used up by a token that there is no room for.
    let mut office = Office::with_people();
    office.issue(1, BOB, code_of(APP, 0, BOB)).unwrap();
    for number in 0..room {
        office.grant(number, own, (APP, BOB));
    }
    assert_eq!(office.issue(2, BOB, code_of(APP, 0, BOB)), full);
    assert_eq!(office.asks(exchange(1, 900, 0)), full);
    office.does(AdminCommand::AccessToken(AccessTokenCommand::Revoke(company_id(0), token_id(0))));
    assert_eq!(office.asks(exchange(1, 900, 0)), Ok(()));
    office.assert_replays();
}
