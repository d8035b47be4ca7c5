//! Authorizations over ISO 8583: an approval, and every decline that the test cards can produce,
//! each with its DE39 and its exact code in DE44.

use cardswitch_harness::{HttpClient, Installation, Purchase, TestCard};
use serde_json::Value;

/// More than any tiny limit, less than any ordinary one.
const ORDINARY_MINOR: u64 = 7_500;

#[test]
fn approves_and_echoes_what_identifies_the_request() {
    let installation = Installation::init(60, 201);
    let switch = installation.serve();
    let request = Purchase::of(installation.cards.ordinary(), ORDINARY_MINOR).request();
    let answer = switch.acquirer().ask(&request);
    assert_eq!(answer.mti, "0110");
    assert_eq!(answer.expect_approved().len(), 6, "DE38 has six characters");
    for field in [2, 3, 4, 7, 11, 12, 13, 32, 37, 41, 42, 49] {
        assert_eq!(answer.get(field), request.get(field), "DE{field} is echoed");
    }
}

#[test]
fn each_card_profile_declines_with_its_own_code() {
    let installation = Installation::init(60, 203);
    let switch = installation.serve();
    let mut acquirer = switch.acquirer();
    let rows = [
        ("terminated", 1000),
        ("no_funds", 1101),
        ("unactivated", 1201),
        ("suspended", 1202),
        ("expired", 1203),
        ("windowed_future", 1501),
        ("windowed_past", 1501),
        ("tiny_allowance", 1502),
        ("tiny_transaction_limit", 1503),
    ];
    for (profile, code) in rows {
        let card = installation.cards.first(profile);
        let answer = acquirer.ask(&Purchase::of(card, ORDINARY_MINOR).request());
        eprintln!("{profile}: {answer:?}");
        answer.expect_declined(code);
    }
}

#[test]
fn same_trace_with_another_amount_or_card_is_94() {
    let installation = Installation::init(60, 216);
    let switch = installation.serve();
    let mut acquirer = switch.acquirer();
    let ordinary = installation.cards.with_profile("ordinary");
    let purchase = Purchase::of(ordinary[0], ORDINARY_MINOR);
    acquirer.ask(&purchase.request()).expect_approved();
    let balance = allowance(&switch.api(), ordinary[0])["balance"].clone();

    let mut other_amount = purchase.clone();
    other_amount.amount_minor += 1;
    let mut other_card = purchase;
    other_card.pan.clone_from(&ordinary[1].pan);
    for changed in [other_amount, other_card] {
        assert_eq!(acquirer.ask(&changed.request()).response(), "94");
    }
    assert_eq!(allowance(&switch.api(), ordinary[0])["balance"], balance, "94 changes nothing");
}

#[track_caller]
fn allowance(api: &HttpClient, card: &TestCard) -> Value {
    api.get(&format!("/v1/allowances/{}", card.allowance_id)).expect(200)
}
