//! Idempotency keys: in the record of their change, for a day, as many as are kept.

use cardswitch_engine::command::Command;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::effect::Effect;
use cardswitch_engine::command::keyed_command::{KeyClaim, KeyedCommand};
use cardswitch_engine::command::record::records;
use cardswitch_engine::command::reply::{Rejection, Reply};
use cardswitch_engine::directory::card::CardCommand;
use cardswitch_engine::directory::company::CompanyCommand;
use cardswitch_engine::domain::allowance::AllowanceTerms;
use cardswitch_engine::domain::ids::{RecordSeq, Timestamp};
use cardswitch_engine::domain::keyed_answer::{KeyedAnswer, KeyedContent, OWNER_BYTES};
use cardswitch_engine::domain::money::Minor;
use cardswitch_engine::limits;
use cardswitch_engine::shard::ShardState;
use cardswitch_engine::verify::verify;

use crate::desk::Desk;
use crate::driver::Driver;
use crate::model::DAY;
use crate::samples::{START, admin, company_id, new_card, new_company};

/// A change under a key, as it comes from a request with this hash.
fn keyed(key: u8, request: u8, change: AdminCommand) -> Command {
    let content = KeyedContent::Object { path: "/v1/cards/x".to_owned() };
    let claim = KeyClaim { key: [key; 32], request: [request; 32], status: 201, content };
    Command::Keyed(Box::new(KeyedCommand { claim, change: Some(change), note: None }))
}

/// The answer to a request.
fn answer(key: u8, request: u8) -> Command {
    let content = KeyedContent::Body(b"sealed".to_vec());
    let claim = KeyClaim { key: [key; 32], request: [request; 32], status: 201, content };
    Command::Keyed(Box::new(KeyedCommand { claim, change: None, note: None }))
}

fn issue(number: u64) -> AdminCommand {
    AdminCommand::Card(CardCommand::Issue(new_card(number, 0, AllowanceTerms::budget(Minor(100)))))
}

fn driver() -> Driver {
    let mut driver = Driver::new(ShardState::default());
    let company = new_company(0, chrono_tz::UTC, 1_000, 0);
    driver.run(Timestamp(START), &admin(AdminCommand::Company(CompanyCommand::Create(company))));
    driver
}

#[test]
fn a_key_is_used_once_and_answered_once() {
    let mut driver = driver();
    let taken = Reply::Rejected(Rejection::KeyTaken);
    let done = |seq| Reply::Done(RecordSeq(seq));
    let rows = [
        (keyed(1, 1, issue(1)), done(2)),
        (keyed(1, 1, issue(2)), taken.clone()),
        (keyed(1, 2, issue(2)), taken.clone()),
        (answer(1, 2), taken.clone()),
        (answer(1, 1), done(3)),
        (answer(1, 1), taken.clone()),
        (keyed(1, 1, issue(2)), taken.clone()),
        // An answer without a change.
        (answer(2, 1), done(4)),
        (answer(2, 1), taken.clone()),
        (keyed(2, 1, issue(2)), taken.clone()),
        // A change that is refused leaves its key to the next.
        (keyed(3, 1, issue(1)), Reply::Rejected(Rejection::IdTaken)),
        (keyed(3, 1, issue(2)), done(5)),
    ];
    for (at, (command, expected)) in (START + 1..).zip(rows) {
        assert_eq!(driver.run(Timestamp(at), &command), expected, "{command:?}");
    }
    assert_eq!(driver.state.card_count(), 2);
}

#[test]
fn a_key_travels_in_the_record_of_its_change() {
    let mut driver = driver();
    driver.run(Timestamp(START + 1), &keyed(1, 2, issue(1)));
    // A change that leaves everything as it is uses its key all the same.
    let unchanged =
        AdminCommand::Company(CompanyCommand::Update(company_id(0), Default::default()));
    driver.run(Timestamp(START + 2), &keyed(2, 2, unchanged));
    let records: Vec<_> = records(&driver.payload).map(Result::unwrap).collect();
    let [_, issued, unchanged] = records.as_slice() else { panic!("{}", records.len()) };
    let [Effect::CardIssued(_), Effect::KeyedAnswer(claim)] = issued.effects.as_slice() else {
        panic!("{:?}", issued.effects)
    };
    let expected = KeyedAnswer {
        key: [1; 32],
        request: [2; 32],
        made_at: Timestamp(START + 1),
        expires_at: Timestamp(START + 1 + DAY),
        status: 201,
        content: KeyedContent::Object { path: "/v1/cards/x".to_owned() },
    };
    assert_eq!(**claim, expected);
    assert!(matches!(unchanged.effects.as_slice(), [Effect::KeyedAnswer(_)]));
}

#[test]
fn a_key_is_free_after_a_day_whenever_it_was_answered() {
    let mut driver = driver();
    let (claimed, answered) = (START + 10, START + 20);
    driver.run(Timestamp(claimed), &keyed(1, 1, issue(1)));
    driver.run(Timestamp(answered), &answer(1, 1));
    let last = Timestamp(claimed + DAY - 1);
    assert_eq!(driver.run(last, &keyed(1, 1, issue(2))), Reply::Rejected(Rejection::KeyTaken));
    let next = Timestamp(claimed + DAY);
    assert_eq!(driver.run(next, &keyed(1, 2, issue(2))), Reply::Done(RecordSeq(4)));
}

/// Answers a request of a company under the key with this number.
fn claim(driver: &mut Driver, at: i64, (company, number): (u8, usize)) -> Reply {
    let mut key = [company; 32];
    key[OWNER_BYTES..][..8].copy_from_slice(&(number as u64).to_be_bytes());
    let content = KeyedContent::Body(Vec::new());
    let claim = KeyClaim { key, request: [0; 32], status: 200, content };
    let command = KeyedCommand { claim, change: None, note: None };
    driver.run(Timestamp(at), &Command::Keyed(Box::new(command)))
}

#[test]
fn all_companies_together_have_so_many_keys_in_a_day() {
    let mut driver = driver();
    let of = |number| ((number / limits::KEYS_PER_COMPANY_MAX) as u8, number);
    for number in 0..limits::KEYS_MAX {
        let reply = claim(&mut driver, START + number as i64, of(number));
        assert!(matches!(reply, Reply::Done(_)), "{number}: {reply:?}");
        driver.payload.clear();
        driver.ends.clear();
    }
    let most = limits::KEYS_MAX;
    let full = Reply::Rejected(Rejection::Full);
    assert_eq!(claim(&mut driver, START + most as i64, of(most)), full);
    assert!(driver.ends.is_empty(), "what is refused leaves no record");
    // A key has ended, though no record has come since.
    assert_eq!(claim(&mut driver, START + DAY - 1, of(most)), full);
    assert!(matches!(claim(&mut driver, START + DAY, of(most)), Reply::Done(_)));
    assert_eq!(claim(&mut driver, START + DAY, of(most + 1)), full);
}

#[test]
fn a_company_has_so_many_keys_in_a_day() {
    let mut driver = driver();
    let most = limits::KEYS_PER_COMPANY_MAX;
    assert!(matches!(claim(&mut driver, START + 1, (2, 0)), Reply::Done(_)));
    for number in 0..most {
        let reply = claim(&mut driver, START + 2 + number as i64, (1, number));
        assert!(matches!(reply, Reply::Done(_)), "{number}: {reply:?}");
    }
    let at = START + 2 + most as i64;
    let refused = Reply::Rejected(Rejection::TooManyKeys);
    assert_eq!(claim(&mut driver, at, (1, most)), refused);
    assert!(matches!(claim(&mut driver, at + 1, (2, 1)), Reply::Done(_)), "another company's");
    assert_eq!(claim(&mut driver, at + 2, (1, most)), refused);
    // A key has ended, though no record has come since: of the other company, then of this one.
    let later = START + 1 + DAY;
    assert_eq!(claim(&mut driver, later, (1, most)), refused);
    let later = later + 1;
    assert!(matches!(claim(&mut driver, later, (1, most)), Reply::Done(_)));
    assert_eq!(claim(&mut driver, later, (1, most + 1)), refused);
}

#[test]
fn keys_and_answers_are_there_after_a_restart() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("data");
    let desk = Desk::create(&path);
    desk.set_up_budget(1_000);
    desk.ask(keyed(1, 1, issue(11)));
    desk.ask(keyed(2, 1, issue(12)));
    desk.ask(answer(2, 1));
    let kept = |desk: &Desk, key: u8| desk.read().keyed_answer(&[key; 32]).unwrap().unwrap();
    let before = [kept(&desk, 1), kept(&desk, 2)];
    desk.engine.shut_down();
    drop(desk);
    let found = verify(&path).unwrap();
    assert!(found.figures.iter().all(|figure| figure.is_right()));
    let desk = Desk::open(&path);
    assert_eq!([kept(&desk, 1), kept(&desk, 2)], before);
    assert_eq!(before[1].content, KeyedContent::Body(b"sealed".to_vec()));
    let taken = Reply::Rejected(Rejection::KeyTaken);
    assert_eq!(desk.ask(keyed(1, 1, issue(13))), taken);
    assert_eq!(desk.ask(answer(2, 1)), taken);
    assert!(matches!(desk.ask(answer(1, 1)), Reply::Done(_)), "the answer was still to come");
    // A record a day later lets go of all of them, in the tables too.
    desk.ask_at(START + 2 * DAY, admin(issue(14)));
    let tables = desk.read();
    assert!((1..=2).all(|key| tables.keyed_answer(&[key; 32]).unwrap().is_none()));
}
