//! "Change is reflected immediately": what is authorized after a change was answered obeys it, at
//! either door, whatever else is under way. Changes race authorizations, several hundred rounds.
//!
//! A thread that authorizes looks at what was last promised before it asks and again when it has
//! its answer: where both are the same, the answer must be the promised one.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use cardswitch_harness::{
    Acquirer, HttpClient, Installation, Purchase, Random, Switch, TestCard, campaign_scaled,
    seed_for,
};
use serde_json::{Value, json};

/// The expected outcome: a round and a response code, or none while a change is under way.
#[derive(Debug, Default)]
struct Promise(AtomicU64);

impl Promise {
    const CODES: u64 = 10_000;
    const NOTHING: u64 = 9_999;

    fn withdraw(&self, round: u64) {
        self.0.store(round * Self::CODES + Self::NOTHING, Ordering::SeqCst);
    }

    fn give(&self, round: u64, code: u64) {
        self.0.store(round * Self::CODES + code, Ordering::SeqCst);
    }

    /// Asks, and compares the answer with what was promised all the while. Returns whether anything
    /// was.
    #[track_caller]
    fn check(&self, door: &str, ask: impl FnOnce() -> u64) -> bool {
        let before = self.0.load(Ordering::SeqCst);
        let code = ask();
        let held = before == self.0.load(Ordering::SeqCst) && before % Self::CODES != Self::NOTHING;
        if held {
            let round = before / Self::CODES;
            assert_eq!(code, before % Self::CODES, "at the {door} door in round {round}");
        }
        held
    }
}

#[test]
fn changes_of_card_and_allowance_are_seen_by_the_next_authorization() {
    let seed = seed_for("changes_of_card_and_allowance_are_seen_by_the_next_authorization");
    let mut random = Random::new(seed);
    let installation = Installation::init(60, 861);
    let switch = installation.serve();
    let api = switch.api();
    let card = installation.cards.ordinary();
    api.put(&format!("/v1/allowances/{}", card.allowance_id), &open_allowance()).expect(200);
    let promise = Promise::default();
    promise.withdraw(0);
    let rounds = campaign_scaled(400, 10_000);
    let checked = race(&switch, card, &promise, || {
        let (mut acquirer, network) = (switch.acquirer(), switch.network_api());
        let mut standing = Standing::default();
        for round in 1..=u64::try_from(rounds).expect("few rounds") {
            let change = standing.draw_change(&mut random);
            promise.withdraw(round);
            if change.get("state").is_some() {
                api.put(&format!("/v1/cards/{}", card.card_id), &change).expect(200);
            } else {
                api.put(&format!("/v1/allowances/{}", card.allowance_id), &change).expect(200);
            }
            promise.give(round, standing.code());
            assert!(promise.check("ISO 8583", || ask_iso(&mut acquirer, &card.pan)));
            assert!(promise.check("HTTP", || ask_http(&network, &card.card_id)));
        }
    });
    eprintln!("{rounds} rounds, {checked} answers beside them were held to a promise");
    assert!(checked > rounds / 4, "hardly anything raced: {checked}");
}

/// Room for everything.
fn open_allowance() -> Value {
    json!({
        "amount": 10_000_000, "interval": null, "daily_limit": null, "transaction_limit": null,
        "scope": [], "single_use": false, "start_time": null, "end_time": null,
    })
}

/// The obstacles of a purchase.
#[derive(Debug, Default)]
struct Standing {
    is_suspended: bool,
    /// The response code of the allowance.
    allowance: u64,
}

impl Standing {
    /// The first rule that fails speaks.
    const fn code(&self) -> u64 {
        if self.is_suspended { 1202 } else { self.allowance }
    }

    /// Draws a change; an allowance is set as a whole.
    fn draw_change(&mut self, random: &mut Random) -> Value {
        if random.between(0, 2) == 0 {
            self.is_suspended = !self.is_suspended;
            return json!({"state": if self.is_suspended { "suspended" } else { "active" }});
        }
        let mut change = open_allowance();
        let (key, value, code) = match random.between(0, 4) {
            0 => ("transaction_limit", json!(0.01), 1503),
            1 => ("scope", json!([5812]), 1501),
            2 => ("amount", json!(0), 1502),
            _ => ("scope", json!([]), 0),
        };
        change[key] = value;
        self.allowance = code;
        change
    }
}

#[test]
fn a_member_who_leaves_takes_the_cards_along_at_once() {
    let installation = Installation::init(60, 862);
    let switch = installation.serve();
    let (api, network) = (switch.api(), switch.network_api());
    let mut acquirer = switch.acquirer();
    let mut checked = 0;
    let rounds = u64::try_from(campaign_scaled(150, 3_000)).expect("few rounds");
    for round in 1..=rounds {
        let member = json!({
            "first_name": "Grace", "last_name": "Hopper", "email": format!("g{round}@example.com"),
        });
        let member = api.post("/v1/members", &member).expect(201);
        let card = json!({
            "description": "Travel", "is_virtual": true, "allowance": {"amount": 1_000_000},
            "assigned_to": {"id": member["id"]},
        });
        let card = test_card(&network, &api.post("/v1/cards", &card).expect(201));
        let path = format!("/v1/members/{}", member["id"].as_str().expect("an id"));
        let promise = Promise::default();
        promise.give(round, 0);
        checked += race(&switch, &card, &promise, || {
            assert!(promise.check("ISO 8583", || ask_iso(&mut acquirer, &card.pan)));
            promise.withdraw(round);
            if round.is_multiple_of(2) {
                api.put(&path, &json!({"is_active": false})).expect(200);
            } else {
                assert_eq!(api.delete(&path).status, 204);
            }
            promise.give(round, 1000);
            assert!(promise.check("ISO 8583", || ask_iso(&mut acquirer, &card.pan)));
            assert!(promise.check("HTTP", || ask_http(&network, &card.card_id)));
        });
    }
    eprintln!("{rounds} rounds, {checked} answers beside them were held to a promise");
    assert!(checked as u64 > rounds / 4, "hardly anything raced: {checked}");
}

/// Authorizes at both doors, again and again, until `run` is through. Returns how many answers were
/// held to a promise.
#[track_caller]
fn race(switch: &Switch, card: &TestCard, promise: &Promise, run: impl FnOnce()) -> usize {
    let is_over = AtomicBool::new(false);
    let until_over = |ask: &mut dyn FnMut() -> bool| {
        let mut checked = 0;
        while !is_over.load(Ordering::SeqCst) {
            checked += usize::from(ask());
        }
        checked
    };
    thread::scope(|scope| {
        let by_iso = || {
            let mut acquirer = switch.acquirer();
            until_over(&mut || promise.check("ISO 8583", || ask_iso(&mut acquirer, &card.pan)))
        };
        let by_http = || {
            let network = switch.network_api();
            until_over(&mut || {
                // Each request has a connection of its own, of which there are only so many.
                thread::sleep(Duration::from_millis(1));
                promise.check("HTTP", || ask_http(&network, &card.card_id))
            })
        };
        let racers = [scope.spawn(by_iso), scope.spawn(by_iso), scope.spawn(by_http)];
        let over = FlagGuard(&is_over);
        run();
        drop(over);
        racers.into_iter().map(|racer| racer.join().expect("a racer ends well")).sum()
    })
}

/// Ends the race also where its other side fails.
struct FlagGuard<'a>(&'a AtomicBool);

impl Drop for FlagGuard<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// The response code of a purchase of 0.02, 0 for an approval.
#[track_caller]
fn ask_iso(acquirer: &mut Acquirer, pan: &str) -> u64 {
    let card = TestCard { pan: pan.to_owned(), ..no_card() };
    let answer = acquirer.ask(&Purchase::of(&card, 2).request());
    let code = answer.exact_code().map(|code| code.parse().expect("a code is a number"));
    if answer.response() == "00" { 0 } else { code.expect("a decline has its code") }
}

#[track_caller]
fn ask_http(network: &HttpClient, card_id: &str) -> u64 {
    let purchase = json!({"card_id": card_id, "amount": 0.02, "merchant": {"mcc": 5411}});
    let answer = network.post("/network/v1/authorizations", &purchase).expect(200);
    answer["response_code"].as_u64().expect("an answer has its code")
}

/// A card made over the API, as a terminal knows it.
#[track_caller]
fn test_card(network: &HttpClient, card: &Value) -> TestCard {
    let card_id = card["id"].as_str().expect("an id").to_owned();
    let shown = network.get(&format!("/network/v1/cards/{card_id}")).expect(200);
    let pan = shown["card_number"].as_str().expect("a number").to_owned();
    TestCard { card_id, pan, ..no_card() }
}

fn no_card() -> TestCard {
    TestCard {
        card_id: String::new(),
        allowance_id: String::new(),
        pan: String::new(),
        expiration: String::new(),
        cvv: String::new(),
        pin: String::new(),
        zip: String::new(),
        profile: String::new(),
    }
}
