//! Sessions, links and codes: their owners, their uses, their ends.

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::effect::Effect;
use cardswitch_engine::command::reply::Rejection;
use cardswitch_engine::directory::access_token::{AccessTokenCommand, TokenOrigin};
use cardswitch_engine::directory::app::AppCommand;
use cardswitch_engine::directory::member::MemberCommand;
use cardswitch_engine::directory::ticket::{
    Ticket, TicketCommand, TicketContent, TicketState, USED_CODE_MEMORY,
};
use cardswitch_engine::directory::user::{
    ProvenPassword, SecurityQuestion, Totp, UserChanges, UserCommand,
};
use cardswitch_engine::domain::ids::{Timestamp, UserSlot};
use cardswitch_engine::limits;

use super::{APP, code_of, exchange, link, new_app, new_user, session, use_link};
use crate::model::HOUR;
use crate::office::{ADA, BOB, FOREIGNER, Office, leaving, new_member};
use crate::samples::{app_id, company_id, digest, member_id, ticket_id, token_id, user_id};

#[test]
fn a_ticket_is_issued_once_and_for_somebody() {
    let mut office = Office::with_people();
    office.does(AdminCommand::App(AppCommand::Create(new_app(2, 0))));
    office.does(AdminCommand::App(AppCommand::Delete(company_id(0), app_id(2))));
    office.does(AdminCommand::Member(MemberCommand::Create(new_member(5, 0, "carol@example.com"))));
    assert_eq!(office.update(5, leaving()), Ok(()));
    office.does(AdminCommand::User(UserCommand::Create(new_user(5, "carol@example.com"))));
    assert_eq!(office.issue(1, BOB, session()), Ok(()));
    let rows = [
        ("a secret that is known", 1, BOB, session(), Err(Rejection::IdTaken)),
        ("no user", 2, 99, session(), Err(Rejection::UserNotFound)),
        ("no app", 2, BOB, code_of(9, 0, BOB), Err(Rejection::AppNotFound)),
        ("a deleted app", 2, BOB, code_of(2, 0, BOB), Err(Rejection::AppNotFound)),
        ("no company", 2, BOB, code_of(APP, 9, BOB), Err(Rejection::CompanyNotFound)),
        ("no member", 2, BOB, code_of(APP, 0, 9), Err(Rejection::MemberNotFound)),
        ("another company's member", 2, BOB, code_of(APP, 1, BOB), Err(Rejection::MemberNotFound)),
        ("somebody else", 2, BOB, code_of(APP, 0, ADA), Err(Rejection::MemberNotFound)),
        ("who has left", 2, 5, code_of(APP, 0, 5), Err(Rejection::MemberNotFound)),
        ("a membership", 2, BOB, code_of(APP, 0, BOB), Ok(())),
        ("another membership, of another company", 3, BOB, code_of(APP, 1, FOREIGNER), Ok(())),
        ("a link", 4, BOB, link(), Ok(())),
    ];
    for (told, number, user, content, expected) in rows {
        assert_eq!(office.issue(number, user, content), expected, "{told}");
    }
    let past = Timestamp(office.now() + 1_000_000);
    assert_eq!(office.issue_until(5, BOB, past, session()), Err(Rejection::TicketSpent));
    office.assert_replays();
}

#[test]
fn all_users_together_have_so_many_tickets() {
    let mut office = Office::with_people();
    assert_eq!(office.issue(1, ADA, session()), Ok(()));
    let now = Timestamp(office.now());
    let ticket = |number: usize| Ticket {
        // In their order: they are put in one behind the other.
        digest: std::array::from_fn(|place| {
            number.checked_shr(8 * (31 - place as u32)).unwrap_or(0) as u8
        }),
        id: ticket_id(1_000 + number as u64),
        user: UserSlot(10 + number as u32 / 100),
        created_at: now,
        // One of them is forgotten first.
        expires_at: now.plus(if number == 2 { HOUR } else { 3 * HOUR }),
        address: String::new(),
        state: TicketState::Open,
        content: TicketContent::PasswordLink { is_invite: false, sent_by: None },
    };
    let tickets: Vec<_> = (2..limits::TICKETS_MAX).map(ticket).map(Effect::row).collect();
    let state = &mut office.driver.state;
    state.apply_record(state.last_seq().next(), now, &tickets);
    let later = now.plus(2 * HOUR);
    assert_eq!(office.issue_until(2, BOB, later, session()), Ok(()), "the last one");
    for content in [session(), link(), code_of(APP, 0, BOB)] {
        assert_eq!(office.issue(3, BOB, content), Err(Rejection::Full));
    }
    // The first has expired, though no record has come since.
    office.wait_until(now.plus(HOUR).0 - 1_000_000);
    assert_eq!(office.issue_until(3, BOB, later, session()), Ok(()));
}

/// A password was compared while its user was being deactivated: the session began all the same,
/// after every other one had ended.
#[test]
fn a_session_begins_only_for_who_may_sign_in() {
    let mut office = Office::with_people();
    office.does(AdminCommand::User(UserCommand::Create(new_user(9, "visitor@example.com"))));
    assert_eq!(office.issue(1, 9, session()), Ok(()), "never a member");
    assert_eq!(office.update(BOB, leaving()), Ok(()));
    assert_eq!(office.issue(2, BOB, session()), Ok(()), "active elsewhere");
    let elsewhere = MemberCommand::Update(company_id(1), member_id(FOREIGNER), leaving());
    office.does(AdminCommand::Member(elsewhere));
    assert_eq!(office.issue(3, BOB, session()), Err(Rejection::MemberInactive));
    assert_eq!(office.issue(3, BOB, link()), Ok(()), "a link opens no page");
    let develops = Some((company_id(0), true));
    let changes = UserChanges { develops, ..UserChanges::default() };
    office.does(AdminCommand::User(UserCommand::Update(user_id(BOB), changes)));
    assert_eq!(office.issue(4, BOB, session()), Ok(()), "a developer");
    office.assert_replays();
}

#[test]
fn a_link_sets_a_password_once_and_ends_every_other_way_in() {
    let mut office = Office::with_people();
    for (number, content) in [(1, link()), (2, link()), (3, session()), (4, session())] {
        office.issue(number, BOB, content).unwrap();
    }
    office.issue(5, BOB, code_of(APP, 0, BOB)).unwrap();
    office.issue(6, ADA, session()).unwrap();
    // One token was given for the old password, two were not.
    office.grant(1, TokenOrigin::Password, (APP, BOB));
    office.grant(2, TokenOrigin::OwnCompany, (APP, BOB));
    office.grant(3, TokenOrigin::Password, (APP, ADA));
    office.does(use_link(1));
    let ended = vec![(TicketState::Used, 1), (TicketState::Ended, 4)];
    assert_eq!(office.last_ends(), (ended, vec![true]));
    assert_eq!(office.asks(exchange(5, 9, 0)), Err(Rejection::TicketSpent));
    // The second use of the same link, and the use of the other one.
    assert_eq!(office.asks(use_link(1)), Err(Rejection::TicketSpent));
    assert_eq!(office.asks(use_link(2)), Err(Rejection::TicketSpent));
    assert_eq!(
        office.asks(AdminCommand::Ticket(TicketCommand::End(user_id(ADA), ticket_id(6)))),
        Ok(())
    );

    // A password set from within a session leaves that one open.
    for number in 7..10 {
        office.issue(number, BOB, session()).unwrap();
    }
    let changes = UserChanges {
        password_hash: Some("another".to_owned()),
        keep_session: Some(digest(1, 8)),
        ..UserChanges::default()
    };
    office.does(AdminCommand::User(UserCommand::Update(user_id(BOB), changes)));
    assert_eq!(office.last_ends(), (vec![(TicketState::Ended, 2)], vec![]));
    office.does(AdminCommand::User(UserCommand::EndSessions(user_id(BOB))));
    assert_eq!(office.last_ends(), (vec![(TicketState::Ended, 1)], vec![]));
    office.assert_replays();
}

/// A password reset that comes between a page and what is sent from it wins.
#[test]
fn a_change_made_in_a_session_needs_that_session_to_be_open() {
    let mut office = Office::with_people();
    for (number, user) in [(1, BOB), (2, BOB), (3, ADA)] {
        office.issue(number, user, session()).unwrap();
    }
    office.issue(4, BOB, link()).unwrap();
    let question =
        SecurityQuestion { question: "Why?".parse().unwrap(), answer_hash: "hash".to_owned() };
    let within = |session: u64, changes: UserChanges| {
        let keep_session = Some(digest(1, session));
        AdminCommand::User(UserCommand::Update(
            user_id(BOB),
            UserChanges { keep_session, ..changes },
        ))
    };
    let totp = |last_step| UserChanges {
        totp: Some(Some(Totp { sealed_seed: vec![1; 40], last_step })),
        ..UserChanges::default()
    };
    let asked = UserChanges { security_question: Some(Some(question)), ..UserChanges::default() };
    let spent = Err(Rejection::TicketSpent);
    for (told, session) in [("somebody else's", 3), ("a link", 4), ("none", 99)] {
        let records = office.driver.ends.len();
        assert_eq!(office.asks(within(session, totp(1))), spent, "{told}");
        assert_eq!(office.driver.ends.len(), records, "{told}");
    }
    // A second factor ends every other session, whatever the password.
    office.does(within(1, totp(1)));
    assert_eq!(office.last_ends(), (vec![(TicketState::Ended, 1)], vec![]));
    office.issue(5, BOB, session()).unwrap();
    office.does(within(1, asked.clone()));
    assert_eq!(office.last_ends(), (vec![(TicketState::Ended, 1)], vec![]));
    office.does(AdminCommand::User(UserCommand::EndSessions(user_id(BOB))));
    for changes in [totp(2), asked, UserChanges { password_hash: None, ..UserChanges::default() }] {
        assert_eq!(office.asks(within(1, changes)), spent);
    }
    office.assert_replays();
}

#[test]
fn tickets_end_at_their_instant_and_are_forgotten_then() {
    let mut office = Office::with_people();
    let start = office.now();
    // The office asks once a second.
    let at = |seconds: i64| Timestamp(start + seconds * 1_000_000);
    office.issue_until(1, BOB, at(7), link()).unwrap();
    office.issue_until(2, BOB, at(6), link()).unwrap();
    office.issue_until(3, BOB, at(7), code_of(APP, 0, BOB)).unwrap();
    office.issue_until(4, BOB, at(7), code_of(APP, 0, BOB)).unwrap();
    office.does(exchange(3, 1, 0));
    assert_eq!(office.entries("tickets"), 4);
    // The sixth second: one has ended, and a refusal makes no record, so it is remembered still.
    assert_eq!(office.asks(use_link(2)), Err(Rejection::TicketSpent));
    assert_eq!(office.entries("tickets"), 4);
    // The seventh: all of them, at that very instant.
    assert_eq!(office.asks(exchange(4, 2, 0)), Err(Rejection::TicketSpent));
    assert_eq!(office.asks(use_link(1)), Err(Rejection::TicketSpent));
    // A forgotten secret may come again.
    office.issue(2, BOB, link()).unwrap();
    assert_eq!(office.entries("tickets"), 2, "the used code, and the new link");
    office.assert_replays();

    // The used code is remembered for a day, and its token taken back until then.
    let mut late = Office::with_people();
    late.issue(1, BOB, code_of(APP, 0, BOB)).unwrap();
    let ends_at = late.now() + HOUR - 1_000_000;
    late.does(exchange(1, 1, 0));
    late.wait_until(ends_at + USED_CODE_MEMORY - 2_000_000);
    late.does(AdminCommand::Ticket(TicketCommand::RevokeCode(digest(1, 1))));
    assert_eq!(late.last_ends(), (vec![], vec![true]));
    let after = AdminCommand::Ticket(TicketCommand::RevokeCode(digest(1, 1)));
    assert_eq!(late.asks(after), Err(Rejection::TicketNotFound));
    late.assert_replays();
}

#[test]
fn one_more_ticket_than_there_may_be_ends_the_oldest() {
    let mut office = Office::with_people();
    for number in 0..limits::TICKETS_OF_USER_MAX as u64 {
        office.issue(number, BOB, session()).unwrap();
        assert_eq!(office.last_ends(), (vec![(TicketState::Open, 1)], vec![]));
    }
    office.issue(500, BOB, link()).unwrap();
    assert_eq!(office.last_ends(), (vec![(TicketState::Open, 1)], vec![]), "another kind");
    office.issue(501, BOB, session()).unwrap();
    let ended = vec![(TicketState::Ended, 1), (TicketState::Open, 1)];
    assert_eq!(office.last_ends(), (ended, vec![]));
    let first = AdminCommand::Ticket(TicketCommand::End(user_id(BOB), ticket_id(0)));
    assert_eq!(office.asks(first), Err(Rejection::TicketNotFound));
    office.does(AdminCommand::User(UserCommand::EndSessions(user_id(BOB))));
    let all = limits::TICKETS_OF_USER_MAX;
    assert_eq!(office.last_ends(), (vec![(TicketState::Ended, all)], vec![]));
}

/// Signing in and out does not fill the switch.
#[test]
fn what_is_spent_is_forgotten_at_once() {
    let mut office = Office::with_people();
    for number in 0..20 {
        office.issue(number, BOB, session()).unwrap();
        office.does(AdminCommand::Ticket(TicketCommand::End(user_id(BOB), ticket_id(number))));
        assert_eq!(office.entries("tickets"), 0);
    }
    office.issue(30, BOB, link()).unwrap();
    office.issue(31, BOB, link()).unwrap();
    office.does(use_link(30));
    assert_eq!(office.entries("tickets"), 0, "one was used, the other ended");
    office.issue(32, BOB, code_of(APP, 0, BOB)).unwrap();
    office.does(AdminCommand::Ticket(TicketCommand::RevokeCode(digest(1, 32))));
    assert_eq!(office.entries("tickets"), 0);
    // Used codes are kept, so many of them, without texts.
    let room = limits::USED_CODES_OF_USER_MAX as u64;
    for number in 100..=100 + room {
        office.issue(number, BOB, code_of(APP, 0, BOB)).unwrap();
        office.does(exchange(number, number, 0));
        assert!(!format!("{:?}", office.last_effects()).contains("app.example"));
        office.does(AdminCommand::AccessToken(AccessTokenCommand::Revoke(
            company_id(0),
            token_id(number),
        )));
        let kept = (number - 99).min(room) as usize;
        assert_eq!(office.entries("tickets"), kept, "{number}");
    }
    let forgotten = AdminCommand::Ticket(TicketCommand::RevokeCode(digest(1, 100)));
    assert_eq!(office.asks(forgotten), Err(Rejection::TicketNotFound));
    assert_eq!(
        office.asks(AdminCommand::Ticket(TicketCommand::RevokeCode(digest(1, 101)))),
        Ok(())
    );
    assert_eq!(office.entries("access_tokens"), 0);
    office.assert_replays();
}

/// A harmless command that needs a password.
fn with_password(proven: ProvenPassword) -> AdminCommand {
    let ends = AdminCommand::User(UserCommand::EndSessions(user_id(BOB)));
    AdminCommand::WithPassword(proven, Box::new(ends))
}

/// A password takes long to compare: it was right when it was given, and is another by now.
#[test]
fn a_password_opens_nothing_once_it_is_another() {
    let mut office = Office::with_people();
    let user = user_id(BOB);
    let with = |user, hash: Option<&str>| {
        let password_hash = hash.map(str::to_owned);
        with_password(ProvenPassword { user, password_hash, totp_seed: None, answer_hash: None })
    };
    let changed = Err(Rejection::PasswordChanged);
    assert_eq!(office.asks(with(user, Some("hash"))), Ok(()));
    let set = UserChanges { password_hash: Some("other".to_owned()), ..UserChanges::default() };
    office.does(AdminCommand::User(UserCommand::Update(user, set)));
    let rows = [
        ("the old one", user, Some("hash"), changed),
        ("none", user, None, changed),
        ("the new one", user, Some("other"), Ok(())),
        ("nobody's", user_id(99), Some("other"), Err(Rejection::UserNotFound)),
    ];
    for (told, user, hash, expected) in rows {
        assert_eq!(office.asks(with(user, hash)), expected, "{told}");
    }
    office.assert_replays();
}

/// A sign-in had begun before its user set up one-time codes: it ended without one, since only the
/// password was compared again. Nor is an answer of one second factor worth another.
#[test]
fn a_password_opens_nothing_once_it_is_asked_for_with_something_else() {
    let mut office = Office::with_people();
    let with = |seed: Option<u8>, answer: Option<&str>| {
        with_password(ProvenPassword {
            user: user_id(BOB),
            password_hash: Some("hash".to_owned()),
            totp_seed: seed.map(|seed| vec![seed; 20]),
            answer_hash: answer.map(str::to_owned),
        })
    };
    let totp = |seed| UserChanges {
        totp: Some(Some(Totp { sealed_seed: vec![seed; 20], last_step: 0 })),
        ..UserChanges::default()
    };
    let question = |answer: Option<&str>| {
        let asked = answer.map(|answer| SecurityQuestion {
            question: "First pet?".parse().unwrap(),
            answer_hash: answer.to_owned(),
        });
        UserChanges { security_question: Some(asked), ..UserChanges::default() }
    };
    let no_totp = UserChanges { totp: Some(None), ..UserChanges::default() };
    let steps = [
        ("nothing", UserChanges::default(), (None, None)),
        ("codes set up", totp(1), (Some(1), None)),
        ("codes of another generator", totp(2), (Some(2), None)),
        ("a question besides", question(Some("rex")), (Some(2), Some("rex"))),
        ("another answer", question(Some("tom")), (Some(2), Some("tom"))),
        ("no codes", no_totp, (None, Some("tom"))),
        ("no question", question(None), (None, None)),
    ];
    let known: Vec<_> = steps.iter().map(|(_, _, proven)| *proven).collect();
    for (told, changes, now) in steps {
        office.does(AdminCommand::User(UserCommand::Update(user_id(BOB), changes)));
        for proven in &known {
            let expected = if *proven == now { Ok(()) } else { Err(Rejection::PasswordChanged) };
            assert_eq!(office.asks(with(proven.0, proven.1)), expected, "{told}: {proven:?}");
        }
    }
    // A code that is used up is no other generator.
    office.does(AdminCommand::User(UserCommand::Update(user_id(BOB), totp(3))));
    office.does(AdminCommand::User(UserCommand::UseTotpStep(user_id(BOB), 7)));
    assert_eq!(office.asks(with(Some(3), None)), Ok(()));
    office.assert_replays();
}
