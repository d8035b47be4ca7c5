//! Authorizations over ISO 8583: an approval, and every decline that the test cards can produce,
//! each with its DE39 and its exact code in DE44.

use cardswitch_harness::{HttpClient, Installation, Message, Purchase, TestCard, minor};
use serde_json::Value;

/// More than any tiny limit, less than any ordinary one.
const ORDINARY_MINOR: u64 = 7_500;

/// Inside every limit.
const SMALL_MINOR: u64 = 100;

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
fn repeat_indicator_of_a_new_request_is_taken_as_the_request() {
    let installation = Installation::init(60, 202);
    let switch = installation.serve();
    let mut request = Purchase::of(installation.cards.ordinary(), SMALL_MINOR).request();
    request.mti = "0101".to_owned();
    switch.acquirer().ask(&request).expect_approved();
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
fn unknown_card_is_answered_14() {
    let installation = Installation::init(60, 204);
    let switch = installation.serve();
    let mut purchase = Purchase::of(installation.cards.ordinary(), SMALL_MINOR);
    // Luhn valid, and outside the range that `init` makes cards from.
    purchase.pan = "4111111111111111".to_owned();
    let answer = switch.acquirer().ask(&purchase.request());
    assert_eq!(answer.response(), "14");
    assert_eq!(answer.exact_code(), Some("1000"));
}

#[test]
fn credentials_are_checked_only_where_the_message_carries_them() {
    let installation = Installation::init(60, 205);
    let switch = installation.serve();
    let mut acquirer = switch.acquirer();
    let ordinary = installation.cards.with_profile("ordinary");
    let card = ordinary
        .iter()
        .find(|card| !card.pin.is_empty() && !card.zip.is_empty())
        .expect("an ordinary card with a PIN and a ZIP");

    let mut right = Purchase::of(card, SMALL_MINOR);
    right.expiry_yymm = Some(card.expiry_yymm());
    right.cvv = Some(card.cvv.clone());
    right.pin = Some(card.pin.clone());
    right.zip = Some(card.zip.clone());
    acquirer.ask(&right.request()).expect_approved();

    // A card of its own for each: wrong attempts on one card are counted.
    let others: Vec<_> = ordinary
        .iter()
        .filter(|other| !other.pin.is_empty() && !other.zip.is_empty())
        .filter(|other| other.card_id != card.card_id)
        .collect();
    assert!(others.len() >= 4, "the portfolio has five ordinary cards with PIN and ZIP");
    for (other, (code, spoil)) in others.iter().zip(WRONG_CREDENTIALS) {
        let mut wrong = Purchase::of(other, SMALL_MINOR);
        spoil(&mut wrong, other);
        acquirer.ask(&wrong.request()).expect_declined(code);
        acquirer.ask(&Purchase::of(other, SMALL_MINOR).request()).expect_approved();
    }
}

/// Gives a purchase one credential that is not its card's.
type Spoil = fn(&mut Purchase, &TestCard);

const WRONG_CREDENTIALS: [(u16, Spoil); 4] = [
    (1301, |purchase, card| purchase.expiry_yymm = Some(other_month(&card.expiry_yymm()))),
    (1302, |purchase, card| purchase.pin = Some(other_digits(&card.pin))),
    (1303, |purchase, card| purchase.cvv = Some(other_digits(&card.cvv))),
    (1304, |purchase, card| purchase.zip = Some(other_digits(&card.zip))),
];

#[test]
fn repeated_wrong_verification_values_block_the_card_for_a_while() {
    let installation = Installation::init(60, 206);
    let switch = installation.serve();
    let mut acquirer = switch.acquirer();
    let card = installation.cards.ordinary();
    for _ in 0..5 {
        let mut wrong = Purchase::of(card, SMALL_MINOR);
        wrong.cvv = Some(other_digits(&card.cvv));
        acquirer.ask(&wrong.request()).expect_declined(1303);
    }
    let mut right = Purchase::of(card, SMALL_MINOR);
    right.cvv = Some(card.cvv.clone());
    acquirer.ask(&right.request()).expect_declined(1701);
}

#[test]
fn cash_is_declined_by_processing_code_and_by_category() {
    let installation = Installation::init(60, 207);
    let switch = installation.serve();
    let mut acquirer = switch.acquirer();
    let card = installation.cards.ordinary();
    for (processing_code, mcc) in
        [("010000", 5411), ("090000", 5411), ("000000", 6010), ("000000", 6011)]
    {
        let mut cash = Purchase::of(card, SMALL_MINOR);
        cash.processing_code = processing_code.to_owned();
        cash.mcc = Some(mcc);
        acquirer.ask(&cash.request()).expect_declined(1702);
    }
    let mut unknown = Purchase::of(card, SMALL_MINOR);
    unknown.processing_code = "770000".to_owned();
    let answer = acquirer.ask(&unknown.request());
    assert_eq!(answer.response(), "12", "a processing code that nobody knows: {answer:?}");
}

#[test]
fn scoped_card_pays_only_in_its_categories() {
    let installation = Installation::init(60, 208);
    let switch = installation.serve();
    let mut acquirer = switch.acquirer();
    let card = installation.cards.first("scoped");
    let scope = &allowance(&switch.api(), card)["scope"];
    let own = scope.as_array().expect("a scope").iter().filter_map(Value::as_u64);
    let inside = own.into_iter().find(|&category| category >= 700).expect("a plain category");

    let mut purchase = Purchase::of(card, SMALL_MINOR);
    purchase.mcc = Some(u16::try_from(inside).expect("four digits"));
    acquirer.ask(&purchase.request()).expect_approved();

    let mut outside = Purchase::of(card, SMALL_MINOR);
    // Betting: no sensible scope has it.
    outside.mcc = Some(7995);
    acquirer.ask(&outside.request()).expect_declined(1501);

    let mut without = Purchase::of(card, SMALL_MINOR);
    without.mcc = None;
    acquirer.ask(&without.request()).expect_declined(1501);
}

#[test]
fn daily_limit_is_used_up_by_approvals() {
    let installation = Installation::init(60, 209);
    let switch = installation.serve();
    let mut acquirer = switch.acquirer();
    let card = installation.cards.first("daily_limited");
    let limit = minor(&allowance(&switch.api(), card)["daily_limit"]);
    let limit = u64::try_from(limit).expect("a limit is positive");

    acquirer.ask(&Purchase::of(card, limit + 1).request()).expect_declined(1502);
    acquirer.ask(&Purchase::of(card, limit).request()).expect_approved();
    acquirer.ask(&Purchase::of(card, 1).request()).expect_declined(1502);
}

#[test]
fn limits_are_met_exactly() {
    let installation = Installation::init(60, 210);
    let switch = installation.serve();
    let mut acquirer = switch.acquirer();
    for (profile, key, code) in
        [("tiny_transaction_limit", "transaction_limit", 1503), ("tiny_allowance", "balance", 1502)]
    {
        let card = installation.cards.first(profile);
        let limit = minor(&allowance(&switch.api(), card)[key]);
        let limit = u64::try_from(limit).expect("a limit is positive");
        acquirer.ask(&Purchase::of(card, limit + 1).request()).expect_declined(code);
        acquirer.ask(&Purchase::of(card, limit).request()).expect_approved();
    }
}

#[test]
fn single_use_card_serves_one_purchase() {
    let installation = Installation::init(60, 211);
    let switch = installation.serve();
    let mut acquirer = switch.acquirer();
    let card = installation.cards.first("single_use");
    let first = Purchase::of(card, SMALL_MINOR);
    let authorization_id = acquirer.ask(&first.request()).expect_approved();
    acquirer.ask(&Purchase::of(card, SMALL_MINOR).request()).expect_declined(1202);

    let body = switch.api().get(&format!("/v1/cards/{}", card.card_id)).expect(200);
    assert_eq!(body["state"], "suspended");
    assert_eq!(body["suspension_reason"], "single_use");

    // A purchase can still be reversed, and that re-opens nothing.
    let reversal = acquirer.ask(&first.reversal(&authorization_id));
    assert_eq!(reversal.response(), "00");
    acquirer.ask(&Purchase::of(card, SMALL_MINOR).request()).expect_declined(1202);
}

#[test]
fn velocity_limit_declines_1701_in_the_end() {
    let installation = Installation::init(60, 212);
    let switch = installation.serve();
    let mut acquirer = switch.acquirer();
    let card = installation.cards.first("velocity");
    let mut ask = || acquirer.ask(&Purchase::of(card, 1).request());
    let first = ask();
    first.expect_approved();
    // The window slides by the clock: a hundred attempts take far less than its minute.
    let blocked = (0..100).map(|_| ask()).find(|answer| answer.response() != "00");
    blocked.expect("a hundred attempts in a row pass the limit").expect_declined(1701);
}

#[test]
fn zero_amount_verification_holds_nothing() {
    let installation = Installation::init(60, 213);
    let switch = installation.serve();
    let card = installation.cards.ordinary();
    let before = allowance(&switch.api(), card)["balance"].clone();
    switch.acquirer().ask(&Purchase::of(card, 0).request()).expect_approved();
    assert_eq!(allowance(&switch.api(), card)["balance"], before);
}

#[test]
fn same_key_gets_the_first_answer_again() {
    let installation = Installation::init(60, 214);
    let switch = installation.serve();
    let mut acquirer = switch.acquirer();
    let card = installation.cards.ordinary();
    let request = Purchase::of(card, ORDINARY_MINOR).request();
    let first = acquirer.ask(&request);
    first.expect_approved();
    let balance = allowance(&switch.api(), card)["balance"].clone();

    let mut repeat = request.clone();
    repeat.mti = "0101".to_owned();
    for again in [&request, &repeat, &request] {
        let answer = acquirer.ask(again);
        assert_eq!(comparable(&answer), comparable(&first));
    }
    assert_eq!(allowance(&switch.api(), card)["balance"], balance, "a duplicate takes nothing");
}

#[test]
fn declines_are_repeated_too() {
    let installation = Installation::init(60, 215);
    let switch = installation.serve();
    let mut acquirer = switch.acquirer();
    let request = Purchase::of(installation.cards.first("suspended"), SMALL_MINOR).request();
    let first = acquirer.ask(&request);
    first.expect_declined(1202);
    assert_eq!(comparable(&acquirer.ask(&request)), comparable(&first));
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

/// An answer without what may differ from one sending to the next: the repeat digit is not echoed.
fn comparable(answer: &Message) -> (Option<&str>, Option<&str>, Option<&str>, Option<&str>) {
    (answer.get(38), answer.get(39), answer.get(4), answer.exact_code())
}

#[track_caller]
fn allowance(api: &HttpClient, card: &TestCard) -> Value {
    api.get(&format!("/v1/allowances/{}", card.allowance_id)).expect(200)
}

/// As many digits, each another one.
fn other_digits(digits: &str) -> String {
    let next =
        |digit: char| char::from(b'0' + (u8::try_from(digit).expect("ASCII") - b'0' + 1) % 10);
    digits.chars().map(next).collect()
}

/// The month after or before, in the same year.
fn other_month(yymm: &str) -> String {
    let month = if &yymm[2..] == "12" { "11" } else { "12" };
    format!("{}{month}", &yymm[..2])
}
