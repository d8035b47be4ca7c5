//! Advices of the network's stand-in, and the requests that they stand for: whichever of the two comes
//! first, they are one purchase.

use cardswitch_engine::command::Command;
use cardswitch_engine::command::network::{
    AdviceOutcome, Advise, NetworkCommand, NetworkRequest, OriginalRef, PurchaseFacts,
    ReversalAmount,
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
    let request = Some(Box::new(identity(amount)));
    advice_of(story, facts(pan(1), amount, MARK), outcome, request)
}

/// An advice by HTTP, where requests have no identity but their marks.
fn unidentified_advice(story: &mut Story, facts: PurchaseFacts) -> AuthorizationReply {
    advice_of(story, facts, Approved, None)
}

fn advice_of(
    story: &mut Story,
    facts: PurchaseFacts,
    outcome: AdviceOutcome,
    request: Option<Box<Fingerprint>>,
) -> AuthorizationReply {
    let command = NetworkCommand::Advise(Advise {
        facts,
        is_cash: false,
        outcome,
        original: by_retrieval(MARK),
        request,
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

/// The same by HTTP: the hold was set to the whole amount again, and one that had been given back whole
/// was taken a second time.
#[test]
fn an_advice_with_the_marks_of_its_request_takes_nothing_again() {
    let part = ReversalAmount::GiveBack(Minor(400));
    for (reversed, expected) in [(None, 900), (Some(part), 500), (Some(ReversalAmount::Full), 0)] {
        let mut story = Story::begin();
        let first = request(&mut story, 900);
        reversed.map(|amount| story.reverse(by_retrieval(MARK), amount));
        let again = unidentified_advice(&mut story, facts(pan(1), 900, MARK));
        let said = |reply: &AuthorizationReply| {
            (reply.transaction, reply.authorization_id, reply.approved)
        };
        assert_eq!((said(&again), held(&story)), (said(&first), expected), "{reversed:?}");
    }
}

/// One of another amount, or of another time or trace number, completes the purchase that it names.
#[test]
fn an_advice_with_other_marks_sets_the_hold() {
    for (amount, mark) in [(700, MARK), (900, MARK + 1)] {
        let mut story = Story::begin();
        let first = request(&mut story, 900);
        story.reverse(by_retrieval(MARK), ReversalAmount::GiveBack(Minor(400)));
        let completed = unidentified_advice(&mut story, facts(pan(1), amount, mark));
        assert_eq!((completed.transaction, held(&story)), (first.transaction, amount));
    }
}

/// What a reversal left of an advice that it overtook was taken whole by the advice's second copy.
#[test]
fn a_second_copy_of_an_advice_takes_nothing_again() {
    let mut story = Story::begin();
    story.reverse(by_retrieval(MARK), ReversalAmount::GiveBack(Minor(400)));
    for _ in 0..2 {
        unidentified_advice(&mut story, facts(pan(1), 900, MARK));
        assert_eq!(held(&story), 500);
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
