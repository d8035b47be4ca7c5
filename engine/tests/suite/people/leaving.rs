//! The ends that come with a lost membership or role, and the rest that stays elsewhere.

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::effect::Effect;
use cardswitch_engine::command::reply::Rejection;
use cardswitch_engine::directory::DirectoryRow;
use cardswitch_engine::directory::access_token::{
    AccessScope, AccessTokenCommand, NewAccessToken, NewTokenGrant, TokenOrigin,
};
use cardswitch_engine::directory::member::{MemberChanges, MemberCommand, MemberRole, NewMember};
use cardswitch_engine::directory::ticket::{NewTicketContent, TicketState};
use cardswitch_engine::directory::user::{
    NewInvite, NewUser, SecurityQuestion, Totp, UserChanges, UserCommand,
};
use cardswitch_engine::domain::ids::{CompanySlot, Timestamp};
use cardswitch_engine::limits;

use super::{APP, BOOKS, code_of, exchange, grant_of, link, new_user, session, use_link};
use crate::model::HOUR;
use crate::office::{ADA, BOB, FOREIGNER, Office, leaving, new_member};
use crate::samples::{company_id, digest, member_id, ticket_id, token_id, user_id};

#[test]
fn leaving_ends_sessions_codes_and_tokens_in_its_own_record() {
    let delete = |office: &mut Office| {
        office.does(AdminCommand::Member(MemberCommand::Delete(company_id(0), member_id(BOB))));
    };
    let deactivate = |office: &mut Office| assert_eq!(office.update(BOB, leaving()), Ok(()));
    for leave in [delete as fn(&mut Office), deactivate] {
        let mut office = Office::with_people();
        office.issue(1, BOB, session()).unwrap();
        office.issue(2, BOB, code_of(APP, 0, BOB)).unwrap();
        office.issue(3, BOB, code_of(APP, 1, FOREIGNER)).unwrap();
        office.issue(4, BOB, link()).unwrap();
        office.issue(5, ADA, session()).unwrap();
        let owners = [(0, BOB), (0, ADA), (1, FOREIGNER)];
        for (number, (company, member)) in (1..).zip(owners) {
            let new = grant_of(number, company, (Some(APP), Some(member)));
            office.does(AdminCommand::AccessToken(AccessTokenCommand::Grant(Box::new(new))));
        }
        leave(&mut office);
        let effects = office.last_effects();
        assert!(matches!(effects.first(), Some(Effect::Row(DirectoryRow::Member(_)))));
        // A user who takes part in another company stays signed in.
        assert_eq!(office.last_ends(), (vec![(TicketState::Ended, 1)], vec![true]));
        let revoked = effects.iter().find_map(|effect| match effect {
            Effect::Row(DirectoryRow::AccessToken(token)) => Some(token.id),
            _ => None,
        });
        assert_eq!(revoked, Some(token_id(1)));
        assert_eq!(office.asks(exchange(2, 9, 0)), Err(Rejection::TicketSpent));
        assert_eq!(office.asks(exchange(3, 9, 1)), Ok(()), "the same person, another member");
        office.assert_replays();
    }
}

/// However long the texts are that a browser or an app sends.
#[test]
fn ending_everything_fits_one_record() {
    let mut office = Office::with_people();
    for number in 0..limits::TICKETS_OF_USER_MAX as u64 {
        let content = NewTicketContent::Session { user_agent: "x".repeat(60_000).parse().unwrap() };
        office.issue(number, BOB, content).unwrap();
        let mut content = code_of(APP, 0, BOB);
        if let NewTicketContent::AuthorizationCode(code) = &mut content {
            code.redirect_uri = Some(format!("https://app.example/{}", "y".repeat(60_000)));
        }
        office.issue(1_000 + number, BOB, content).unwrap();
    }
    let elsewhere =
        AdminCommand::Member(MemberCommand::Delete(company_id(1), member_id(FOREIGNER)));
    office.does(elsewhere);
    assert_eq!(office.update(BOB, leaving()), Ok(()));
    let all = 2 * limits::TICKETS_OF_USER_MAX;
    assert_eq!(office.last_ends(), (vec![(TicketState::Ended, all)], vec![]));
    assert!(!format!("{:?}", office.last_effects()).contains("xx"));
}

/// Any company may add any address. Doing so and undoing it must not sign its owner out.
#[test]
fn a_company_that_adds_an_address_and_deletes_it_ends_no_session() {
    let mut office = Office::with_people();
    office.issue(1, ADA, session()).unwrap();
    let visit = |number| {
        AdminCommand::Member(MemberCommand::Create(new_member(number, 1, "ADA@example.com")))
    };
    office.does(visit(50));
    office.does(AdminCommand::Member(MemberCommand::Delete(company_id(1), member_id(50))));
    assert_eq!(office.last_ends(), (vec![], vec![]));
    office.does(visit(51));
    let away = AdminCommand::Member(MemberCommand::Update(company_id(1), member_id(51), leaving()));
    office.does(away);
    assert_eq!(office.last_ends(), (vec![], vec![]));
    // Nor may it be the address's last member that takes part, or that there is.
    let own = new_member(60, 0, "own@example.com");
    office.does(AdminCommand::Member(MemberCommand::Create(own)));
    office.does(AdminCommand::User(UserCommand::Create(new_user(60, "own@example.com"))));
    office.issue(2, 60, session()).unwrap();
    assert_eq!(office.update(60, leaving()), Ok(()));
    assert_eq!(office.last_ends(), (vec![(TicketState::Ended, 1)], vec![]));
    office.assert_replays();
}

/// A developer who had left went on to sign in, and a new membership gave the right back.
#[test]
fn the_right_to_register_apps_ends_with_the_membership_it_is_for() {
    let mut office = Office::with_people();
    for company in [0, 1] {
        let develops = Some((company_id(company), true));
        let changes = UserChanges { develops, ..UserChanges::default() };
        office.does(AdminCommand::User(UserCommand::Update(user_id(BOB), changes)));
    }
    let mut companies_after = |company, number| {
        let away = MemberCommand::Update(company_id(company), member_id(number), leaving());
        office.does(AdminCommand::Member(away));
        let user = office.last_effects().into_iter().find_map(|effect| match effect {
            Effect::Row(DirectoryRow::User(user)) => Some(*user),
            _ => None,
        });
        user.unwrap().developer_of
    };
    assert_eq!(companies_after(0, BOB), [CompanySlot(1)]);
    assert_eq!(companies_after(1, FOREIGNER), []);
    assert_eq!(office.issue(1, BOB, session()), Err(Rejection::MemberInactive));
    office.assert_replays();
}

/// A new member is given the address of a member who is gone.
#[test]
fn an_address_that_is_freed_lets_nobody_in() {
    let mut office = Office::with_people();
    let question =
        SecurityQuestion { question: "Why?".parse().unwrap(), answer_hash: "hash".to_owned() };
    let changes = UserChanges {
        totp: Some(Some(Totp { sealed_seed: vec![1; 40], last_step: 5 })),
        security_question: Some(Some(question)),
        develops: Some((company_id(0), true)),
        ..UserChanges::default()
    };
    office.does(AdminCommand::User(UserCommand::Update(user_id(BOB), changes)));
    office.issue(1, BOB, session()).unwrap();
    office.issue(2, BOB, link()).unwrap();
    let user_in = |office: &Office| {
        office.last_effects().into_iter().find_map(|effect| match effect {
            Effect::Row(DirectoryRow::User(user)) => Some(*user),
            _ => None,
        })
    };
    // He is a member of another company still, and then away, but not deleted there.
    office.does(AdminCommand::Member(MemberCommand::Delete(company_id(0), member_id(BOB))));
    assert_eq!(office.last_ends(), (vec![], vec![]));
    let user = user_in(&office).unwrap();
    assert_eq!((user.password_hash.is_some(), user.developer_of), (true, vec![]));
    let away =
        AdminCommand::Member(MemberCommand::Update(company_id(1), member_id(FOREIGNER), leaving()));
    office.does(away);
    assert_eq!(office.last_ends(), (vec![(TicketState::Ended, 1)], vec![]));
    assert_eq!(user_in(&office), None);
    office.does(AdminCommand::Member(MemberCommand::Delete(company_id(1), member_id(FOREIGNER))));
    assert_eq!(office.last_ends(), (vec![(TicketState::Ended, 1)], vec![]));
    let user = user_in(&office).unwrap();
    assert_eq!((user.password_hash, user.developer_of, user.is_closed), (None, vec![], true));
    assert!(user.totp.is_none() && user.security_question.is_none());
    assert_eq!(office.asks(use_link(2)), Err(Rejection::TicketSpent));
    // Nothing opens the account again: neither a link on its way nor one that he asks for.
    let unknown = Err(Rejection::UserNotFound);
    let expires_at = Timestamp(office.now() + HOUR);
    let invite = |number| NewInvite {
        user: user_id(number),
        digest: digest(1, number),
        ticket: ticket_id(number),
        expires_at,
    };
    for member in [BOB, FOREIGNER] {
        let (company, member) = (company_id(u64::from(member == FOREIGNER)), member_id(member));
        let late = MemberCommand::SendPasswordLink(company, member, invite(30));
        assert_eq!(office.asks(AdminCommand::Member(late)), Err(Rejection::MemberNotFound));
    }
    assert_eq!(office.issue(3, BOB, link()), unknown);
    assert_eq!(office.issue(3, BOB, session()), unknown);
    // A later member with the address is another user, who is invited.
    let invite = Some(invite(40));
    let later = NewMember { invite, ..new_member(40, 0, "bob@example.com") };
    office.does(AdminCommand::Member(MemberCommand::Create(later)));
    assert_eq!(user_in(&office).unwrap().id, user_id(40));
    assert_eq!(office.last_ends(), (vec![(TicketState::Open, 1)], vec![]));
    assert_eq!(office.issue(3, BOB, session()), unknown);
    office.does(use_link(40));
    assert_eq!(user_in(&office).unwrap().id, user_id(40));
    assert_eq!(office.issue(3, 40, session()), Ok(()));
    // Deleting once more takes nothing away.
    let records = office.driver.ends.len();
    office.does(AdminCommand::Member(MemberCommand::Delete(company_id(1), member_id(FOREIGNER))));
    assert_eq!(office.driver.ends.len(), records);
    office.assert_replays();
}

/// A company that added a developer of another one by their address, and deleted them, closed the account.
#[test]
fn an_account_that_develops_for_a_company_stays() {
    let mut office = Office::with_people();
    let developer = NewUser {
        developer_of: vec![company_id(1)],
        password_hash: Some("hash".to_owned()),
        ..new_user(60, "dev@example.com")
    };
    office.does(AdminCommand::User(UserCommand::Create(developer)));
    office.issue(1, 60, session()).unwrap();
    let passing = new_member(50, 0, "dev@example.com");
    office.does(AdminCommand::Member(MemberCommand::Create(passing)));
    office.does(AdminCommand::Member(MemberCommand::Delete(company_id(0), member_id(50))));
    let changed = office
        .last_effects()
        .into_iter()
        .any(|effect| matches!(effect, Effect::Row(DirectoryRow::User(_))));
    assert!(!changed, "nothing of the account is another company's to take");
    assert_eq!(office.last_ends(), (vec![], vec![]), "the session stays");
    office.issue(2, 60, session()).unwrap();
    office.assert_replays();
}

#[test]
fn a_role_that_falls_takes_back_what_it_may_not_allow() {
    let all = AccessScope { accountant: true, admin: true, scim: true, iam: true };
    let alone = [
        AccessScope::default(),
        BOOKS,
        AccessScope { accountant: false, scim: false, iam: false, ..all },
        AccessScope { accountant: false, admin: false, iam: false, ..all },
        AccessScope { accountant: false, admin: false, scim: false, ..all },
    ];
    let (top, books, least) =
        (MemberRole::Administrator, MemberRole::Accountant, MemberRole::Member);
    // How many of each there can be, and how many stay.
    let rows = [(top, books, 5, 2), (top, least, 5, 0), (books, least, 2, 0), (books, top, 2, 2)];
    for (from, to, given, kept) in rows {
        let mut office = Office::with_people();
        let role = |role| MemberChanges { role: Some(role), ..MemberChanges::default() };
        assert_eq!(office.update(ADA, role(top)), Ok(()), "somebody has to be");
        assert_eq!(office.update(BOB, role(from)), Ok(()));
        for (number, scope) in (1..).zip(alone).take(given) {
            let mut content = code_of(APP, 0, BOB);
            if let NewTicketContent::AuthorizationCode(code) = &mut content {
                code.scope = scope;
            }
            office.issue(number, BOB, content).unwrap();
            let new = grant_of(number, 0, (Some(APP), Some(BOB)));
            let token = NewAccessToken { scope, ..new.token };
            let new = NewTokenGrant { token, ..new };
            office.does(AdminCommand::AccessToken(AccessTokenCommand::Grant(Box::new(new))));
            office.grant(100 + number, TokenOrigin::Password, (APP, ADA));
        }
        assert_eq!(office.update(BOB, role(to)), Ok(()));
        let (tickets, tokens) = office.last_ends();
        let ended: usize = tickets.iter().map(|row| row.1).sum();
        let gone = given - kept;
        assert_eq!((ended, tokens), (gone, vec![true; gone]), "{from:?} to {to:?}");
        office.assert_replays();
    }
}
