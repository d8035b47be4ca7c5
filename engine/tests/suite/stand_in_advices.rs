//! Advices of the network's stand-in, and the requests that they stand for: whichever of the two comes
//! first, they are one purchase.

use cardswitch_engine::command::Command;
use cardswitch_engine::command::network::{
    AdviceOutcome, Advise, NetworkCommand, NetworkRequest, OriginalRef, ReversalAmount,
};
use cardswitch_engine::command::reply::{AuthorizationReply, NetworkReply, Reply};
use cardswitch_engine::domain::ids::AccountSlot;
use cardswitch_engine::domain::money::Minor;
use cardswitch_engine::domain::network_key::{
    DuplicateKey, DuplicateWindow, Fingerprint, TraceKey,
};
use cardswitch_engine::domain::response_code::ResponseCode;

use AdviceOutcome::{Approved, Declined};

use crate::samples::{facts, pan};
use crate::story::{Story, by_retrieval, purchase};

/// The mark of the purchase.
const MARK: u64 = 5;

/// The identity of a request for this amount.
fn identity(amount: i64) -> Fingerprint {
    Fingerprint {
        key: DuplicateKey(u128::from(MARK) << 64 | amount.unsigned_abs() as u128),
        trace: Some(TraceKey(7)),
        content: amount.unsigned_abs(),
        window: DuplicateWindow::Day,
    }
}

fn ask(story: &mut Story, request: NetworkRequest) -> AuthorizationReply {
    match story.run(&Command::Network(Box::new(request))) {
        Reply::Network(NetworkReply::Authorization(reply)) => reply,
        other => panic!("{other:?}"),
    }
}

fn request(story: &mut Story, amount: i64) -> AuthorizationReply {
    let command = NetworkCommand::Authorize(purchase(facts(pan(1), amount, MARK)));
    ask(story, NetworkRequest { command, fingerprint: Some(identity(amount)) })
}

fn advice(story: &mut Story, amount: i64, outcome: AdviceOutcome) -> AuthorizationReply {
    let command = NetworkCommand::Advise(Advise {
        facts: facts(pan(1), amount, MARK),
        is_cash: false,
        outcome,
        original: by_retrieval(MARK),
        request: Some(Box::new(identity(amount))),
    });
    ask(story, NetworkRequest { command, fingerprint: None })
}

fn held(story: &Story) -> i64 {
    story.driver.state.balances(AccountSlot(0)).held.0
}

/// The request that came behind its advice put a second hold.
#[test]
fn a_request_behind_its_advice_is_the_same_purchase() {
    for (outcome, expected, kept) in
        [(Approved, ResponseCode::Approved, 900), (Declined, ResponseCode::Declined, 0)]
    {
        let mut story = Story::begin();
        let first = advice(&mut story, 900, outcome);
        let second = request(&mut story, 900);
        assert_eq!((second.response_code, held(&story)), (expected, kept));
        assert_eq!(first, second, "it hears what the advice heard");
    }
}

/// The advice of a purchase that had been given back in part or whole took the whole amount again.
#[test]
fn an_advice_behind_its_request_takes_nothing_again() {
    let (part, whole) = (ReversalAmount::GiveBack(Minor(400)), ReversalAmount::Full);
    for (reversed, expected) in [(None, 900), (Some(part), 500), (Some(whole), 0)] {
        let mut story = Story::begin();
        let first = request(&mut story, 900);
        reversed.map(|amount| story.reverse(by_retrieval(MARK), amount));
        assert_eq!(advice(&mut story, 900, Approved), first);
        assert_eq!(held(&story), expected, "{reversed:?}");
    }
}

/// The network's word counts where the request got none, or asked for something else.
#[test]
fn an_advice_that_says_more_than_its_request_counts() {
    let mut story = Story::begin();
    assert_eq!(request(&mut story, 100_001).response_code, ResponseCode::AllowanceExceeded);
    assert_eq!(advice(&mut story, 100_001, Approved).response_code, ResponseCode::Approved);
    assert_eq!(held(&story), 100_001);
    let again = request(&mut story, 100_001);
    assert!(!again.response_code.is_approved(), "the same message hears the same");

    let mut story = Story::begin();
    let first = request(&mut story, 900);
    let completed = advice(&mut story, 700, Approved);
    assert_eq!((completed.transaction, held(&story)), (first.transaction, 700));
}

#[test]
fn an_advice_without_a_request_is_a_purchase_of_its_own() {
    let mut story = Story::begin();
    let facts = facts(pan(1), 900, MARK);
    let original = OriginalRef::default();
    let advise = Advise { facts, is_cash: false, outcome: Approved, original, request: None };
    let command = NetworkCommand::Advise(advise);
    ask(&mut story, NetworkRequest { command, fingerprint: None });
    request(&mut story, 900);
    assert_eq!(held(&story), 1_800);
}
