//! Users and their attributes: an address, names, a password, steps of one-time passwords.

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::effect::Effect;
use cardswitch_engine::command::reply::Rejection;
use cardswitch_engine::directory::DirectoryRow;
use cardswitch_engine::directory::user::{SecurityQuestion, Totp, UserChanges, UserCommand};
use cardswitch_engine::domain::ids::CompanySlot;

use super::new_user;
use crate::office::{BOB, Office};
use crate::samples::{company_id, user_id};

#[test]
fn a_user_has_an_address_that_no_other_has() {
    let mut office = Office::with_people();
    let rows = [
        ("another id, in any case", new_user(7, "BOB@example.com"), Err(Rejection::EmailTaken)),
        ("another address", new_user(BOB, "new@example.com"), Err(Rejection::IdTaken)),
        ("both of their own", new_user(7, "new@example.com"), Ok(())),
    ];
    for (told, new, expected) in rows {
        assert_eq!(office.asks(AdminCommand::User(UserCommand::Create(new))), expected, "{told}");
    }
    office.assert_replays();
}

#[test]
fn a_step_of_one_time_passwords_is_used_once() {
    let mut office = Office::with_people();
    let bob = user_id(BOB);
    assert_eq!(
        office.asks(AdminCommand::User(UserCommand::UseTotpStep(bob, 7))),
        Err(Rejection::StepUsed)
    );
    let totp = |totp| UserChanges { totp: Some(totp), ..UserChanges::default() };
    let set = Totp { sealed_seed: vec![1; 40], last_step: 5 };
    office.does(AdminCommand::User(UserCommand::Update(bob, totp(Some(set)))));
    let used = Err(Rejection::StepUsed);
    let rows = [(5, used), (4, used), (6, Ok(())), (6, used), (9, Ok(())), (8, used), (10, Ok(()))];
    for (step, expected) in rows {
        assert_eq!(
            office.asks(AdminCommand::User(UserCommand::UseTotpStep(bob, step))),
            expected,
            "{step}"
        );
    }
    match office.last_effects().as_slice() {
        [Effect::Row(DirectoryRow::User(user))] => {
            let totp = user.totp.as_ref().unwrap();
            assert_eq!((totp.last_step, totp.sealed_seed.as_slice()), (10, [1; 40].as_slice()));
        }
        other => panic!("{other:?}"),
    }
    office.does(AdminCommand::User(UserCommand::Update(bob, totp(None))));
    assert_eq!(
        office.asks(AdminCommand::User(UserCommand::UseTotpStep(bob, 11))),
        Err(Rejection::StepUsed)
    );
    office.assert_replays();
}

/// Two operators at once gave the right for two companies, and one of the two got lost.
#[test]
fn the_right_to_register_apps_changes_company_by_company() {
    let mut office = Office::with_people();
    let rows = [(1, true, vec![1]), (0, true, vec![0, 1]), (1, false, vec![0]), (0, false, vec![])];
    for (company, develops, expected) in rows {
        let develops = Some((company_id(company), develops));
        let changes = UserChanges { develops, ..UserChanges::default() };
        office.does(AdminCommand::User(UserCommand::Update(user_id(BOB), changes)));
        match office.last_effects().as_slice() {
            [Effect::Row(DirectoryRow::User(user))] => {
                let expected: Vec<_> = expected.into_iter().map(CompanySlot).collect();
                assert_eq!(user.developer_of, expected);
            }
            other => panic!("{other:?}"),
        }
    }
    let changes = UserChanges { develops: Some((company_id(9), true)), ..UserChanges::default() };
    let nowhere = office.asks(AdminCommand::User(UserCommand::Update(user_id(BOB), changes)));
    assert_eq!(nowhere, Err(Rejection::CompanyNotFound));
}

#[test]
fn what_is_not_named_of_a_user_stays() {
    let mut office = Office::with_people();
    let question =
        SecurityQuestion { question: "Why?".parse().unwrap(), answer_hash: "hash".to_owned() };
    let changes = UserChanges {
        first_name: Some("Robert".parse().unwrap()),
        security_question: Some(Some(question.clone())),
        develops: Some((company_id(1), true)),
        ..UserChanges::default()
    };
    office.does(AdminCommand::User(UserCommand::Update(user_id(BOB), changes.clone())));
    match office.last_effects().as_slice() {
        [Effect::Row(DirectoryRow::User(user))] => {
            let names = (user.first_name.as_str(), user.last_name.as_str());
            assert_eq!(names, ("Robert", "User"));
            assert_eq!(user.developer_of, [CompanySlot(1)]);
            assert_eq!(user.security_question, Some(question));
            assert_eq!(user.password_hash.as_deref(), Some("hash"));
        }
        other => panic!("{other:?}"),
    }
    let records = office.driver.ends.len();
    office.does(AdminCommand::User(UserCommand::Update(user_id(BOB), changes)));
    assert_eq!(office.driver.ends.len(), records, "nothing has changed");
}
