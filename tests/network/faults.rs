//! `serve --faults`: a client under test meets late, double, false and lost answers, and the books stay
//! right: each decision is durable whatever its answer said.

use std::sync::mpsc::channel;
use std::time::Duration;
use std::{fs, thread};

use cardswitch_harness::{
    Disconnection, HookReceiver, HttpRequest, Installation, Manner, Message, Purchase, Switch,
    run_cardswitch, transactions_of_card,
};
use serde_json::{Value, json};

/// Amounts that meet a fault each. Units: cents.
const TWICE: u64 = 1_302;
const DISCONNECT: u64 = 1_303;
const SIGN_OFF: u64 = 1_304;
const NOT_TAKEN: u64 = 1_391;
const UNKNOWN: u64 = 1_396;
const AFTER_REVERSAL: u64 = 1_305;
const LATE: u64 = 1_306;

fn rules() -> String {
    let faults = [
        ("twice", TWICE),
        ("disconnect", DISCONNECT),
        ("sign-off", SIGN_OFF),
        ("code-91", NOT_TAKEN),
        ("code-96", UNKNOWN),
        ("after-reversal", AFTER_REVERSAL),
    ];
    let rules = faults.map(|(fault, amount)| {
        format!("[[answers]]\nfault = \"{fault}\"\namount_minor = {amount}\n")
    });
    let late = format!("[[answers]]\nfault = \"late\"\namount_minor = {LATE}\nlate_ms = 1500\n");
    format!("{}{late}[[webhooks]]\nfault = \"twice\"\n", rules.concat())
}

fn serve_with_rules(installation: &Installation) -> Switch {
    let file = installation.home().join("faults.toml");
    fs::write(&file, rules()).expect("a file of rules");
    let file = file.to_str().expect("temporary paths are UTF-8");
    installation.serve_with(&["--faults", file, "--allow-local-webhooks"])
}

/// The reversal of a purchase by an acquirer that saw no authorization id.
fn unseen_reversal(purchase: &Purchase) -> Message {
    let mut reversal = purchase.reversal("NONE00");
    reversal.remove(38);
    reversal
}

#[test]
fn each_fault_comes_as_its_rule_says_and_every_decision_stands() {
    let installation = Installation::init(60, 4_711);
    let switch = serve_with_rules(&installation);
    let cards = installation.cards.with_profile("ordinary");
    let mut acquirer = switch.acquirer();
    acquirer.ask(&Purchase::of(cards[0], 100).request()).expect_approved();

    let twice = Purchase::of(cards[0], TWICE).request();
    let first = acquirer.ask(&twice);
    assert_eq!(acquirer.receive().expect("a second answer"), first);
    first.expect_approved();

    acquirer.send(&Purchase::of(cards[0], SIGN_OFF).request()).expect("an open connection");
    let sign_off = acquirer.receive().expect("a sign-off");
    assert_eq!((sign_off.mti.as_str(), sign_off.get(70)), ("0800", Some("002")));
    acquirer.receive().expect("the answer").expect_approved();

    for (amount, code) in [(NOT_TAKEN, "91"), (UNKNOWN, "96")] {
        let purchase = Purchase::of(cards[0], amount);
        assert_eq!(acquirer.ask(&purchase.request()).response(), code);
        assert_eq!(acquirer.ask(&unseen_reversal(&purchase)).response(), "00", "it was approved");
    }

    let late = Purchase::of(cards[0], LATE).request();
    acquirer.send(&late).expect("an open connection");
    acquirer.assert_alive();
    assert!(acquirer.is_silent_for(Duration::from_millis(100)), "it is late");
    acquirer.receive().expect("the late answer").expect_approved();

    let overtaken = Purchase::of(cards[0], AFTER_REVERSAL);
    acquirer.send(&overtaken.request()).expect("an open connection");
    acquirer.assert_alive();
    assert_eq!(acquirer.ask(&unseen_reversal(&overtaken)).response(), "00");
    let answer = acquirer.receive().expect("the answer behind the reversal's");
    answer.expect_approved();
    assert_eq!(answer.get(37), Some(overtaken.rrn.as_str()));

    acquirer.send(&Purchase::of(cards[0], DISCONNECT).request()).expect("an open connection");
    assert_eq!(acquirer.receive(), Err(Disconnection));

    let stored = transactions_of_card(&switch.network_api(), &cards[0].card_id);
    assert!(stored.iter().all(|transaction| transaction.authorization_id.is_some()));
    assert_eq!(stored.len(), 8, "each purchase was approved, whatever its answer said");
    let health = switch.watcher().get("/readyz").expect(200);
    assert_eq!(health["faults"], "on: this switch misbehaves on purpose");
    assert!(switch.anonymous().get("/login").text().contains("Fault injection is on"));
    let log = switch.log();
    assert!(log.contains("answers and webhooks meet faults on purpose"));
    assert!(log.contains("fault=late") && log.contains("fault=after-reversal"), "{log}");
    switch.stop();
    installation.verify_ok();
}

/// Once, `feed` took each 91 for a purchase that was not taken, and its books differed.
#[test]
fn the_books_of_feed_are_right_whether_a_91_was_decided_or_not() {
    let installation = Installation::init(60, 4_716);
    let file = installation.home().join("faults.toml");
    fs::write(&file, "[[answers]]\nfault = \"code-91\"\nrate = 0.3\n").expect("a file of rules");
    let file = file.to_str().expect("temporary paths are UTF-8");
    let switch = installation.serve_with(&["--clock", "manual", "--faults", file]);
    let (iso8583, http) = (switch.iso8583.to_string(), format!("http://{}", switch.http));
    let cards = installation.cards_file();
    let key = &installation.credentials.network_key;
    let mut arguments = vec!["feed", "--connect", &iso8583, "--http", &http, "--network-key", key];
    arguments.extend(["--cards", cards.to_str().expect("UTF-8"), "--json"]);
    arguments.extend(["--speed", "max", "--rate", "0.05", "--duration", "10h"]);
    let report = run_cardswitch(&arguments).expect_json();
    assert_eq!(report["book_differences"], 0, "{report:#}");
    assert!(report["unknown"].as_u64() > Some(50), "{report:#}");
    switch.stop();
    installation.verify_ok();
}

/// A request over HTTP has one answer, which meets the same rules.
#[test]
fn at_the_http_door_answers_come_late_false_or_not_at_all() {
    let installation = Installation::init(60, 4_715);
    let switch = serve_with_rules(&installation);
    let card = installation.cards.ordinary();
    let door = switch.network_api();
    let purchase = |amount: u64| {
        let (cents, rrn) = (amount % 100, format!("HTTP{amount:08}"));
        let amount: Value = format!("{}.{cents:02}", amount / 100).parse().expect("a number");
        json!({"card_id": card.card_id, "amount": amount, "rrn": rrn})
    };
    let ask = |amount| door.post("/network/v1/authorizations", &purchase(amount));
    let reverse = |amount| {
        let rrn = purchase(amount)["rrn"].clone();
        let body = json!({"card_number": card.pan, "rrn": rrn});
        let answer = door.post("/network/v1/reversals", &body).expect(200);
        assert_eq!(answer["outcome"], "reversed", "it was approved: {answer:#}");
    };

    for amount in [100, TWICE, SIGN_OFF] {
        assert_eq!(ask(amount).expect(200)["approved"], true);
    }
    for (amount, code) in [(NOT_TAKEN, "overloaded"), (UNKNOWN, "outcome_unknown")] {
        assert_eq!(ask(amount).expect_error(503)["code"], code);
        reverse(amount);
    }
    let body = purchase(DISCONNECT).to_string();
    let cut = HttpRequest {
        method: "POST",
        path: "/network/v1/authorizations",
        headers: &[("content-type", "application/json")],
        body: body.as_bytes(),
    };
    assert!(door.try_send(&cut).is_none(), "the connection ends instead");
    reverse(DISCONNECT);

    thread::scope(|scope| {
        for amount in [LATE, AFTER_REVERSAL] {
            let (sender, answers) = channel();
            scope.spawn(move || sender.send(ask(amount)));
            let held = || transactions_of_card(&door, &card.card_id);
            let rrn = purchase(amount)["rrn"].clone();
            while !held().iter().any(|transaction| rrn == transaction.rrn) {}
            assert!(answers.try_recv().is_err(), "it is held, and decided");
            if amount == AFTER_REVERSAL {
                reverse(amount);
            }
            let answer = answers.recv().expect("an answer").expect(200);
            assert_eq!(answer["approved"], true);
        }
    });
    switch.stop();
    installation.verify_ok();
}

/// Once, an approved purchase was told as declined, with exit code 0.
#[test]
fn buy_tells_no_decision_that_it_does_not_know() {
    let installation = Installation::init(60, 4_716);
    let switch = serve_with_rules(&installation);
    let card = installation.cards.ordinary();
    let (iso8583, http) = (switch.iso8583.to_string(), format!("http://{}", switch.http));
    let credentials = switch.credentials();
    let at = ["--connect", &iso8583, "--url", &http, "--network-key", &credentials.network_key];
    let at = [&at[..], &["--token", &credentials.access_token]].concat();
    let buy = |amount: &str, further: &[&str]| {
        run_cardswitch(&[&["buy", &card.card_id, amount], further, &at].concat())
    };
    // A message that is no answer comes first.
    let signed_off = buy("13.04", &["--clear", "13.04"]);
    signed_off.expect_done();
    assert!(signed_off.stdout.contains("approved: 13.04 USD"), "{signed_off:#?}");
    assert!(signed_off.stdout.contains("\ncleared"), "{signed_off:#?}");
    // Each amount with what more is asked for, the exit code, and what is said of it.
    let rows: [(&str, &[&str], i32, &str); 7] = [
        ("13.91", &[], 1, "not taken: 1000 not_taken"),
        ("13.96", &["--reverse"], 1, "outcome unknown: 1000 outcome_unknown"),
        ("10", &["--currency", "EUR"], 1, "1000 no_billing_amount"),
        ("10", &["--currency", "EUR", "--billing", "11.55", "--refund"], 0, "refunded"),
        // Once, it was approved for 10, and the rest was passed over.
        ("10", &["--billing", "9"], 2, "--billing is for a price in another currency"),
        ("900000", &[], 0, "declined "),
        ("900000", &["--clear", "1"], 1, "a declined purchase cannot be cleared"),
    ];
    for (amount, further, code, expected) in rows {
        let output = buy(amount, further);
        assert_eq!(output.code, Some(code), "{amount} {further:?}: {output:#?}");
        let told = [&output.stdout[..], &output.stderr].concat();
        assert!(told.contains(expected), "{amount} {further:?}: {told}");
    }
    let stored = transactions_of_card(&switch.network_api(), &card.card_id);
    assert!(stored.iter().any(|row| row.amount_minor.abs() == 1_155), "{stored:#?}");
    for fault in ["sign-off", "code-91", "code-96"] {
        assert!(switch.log().contains(&format!("fault={fault}")), "{fault}");
    }
    switch.stop();
}

#[test]
fn a_webhook_comes_twice_with_the_same_id() {
    let installation = Installation::init(60, 4_712);
    let switch = serve_with_rules(&installation);
    let receiver = HookReceiver::start(Manner::Answers(200));
    let endpoint = json!({"delivery_url": receiver.url(), "description": "test"});
    switch.api().post("/v1/webhook-endpoints", &endpoint).expect(201);
    let card = installation.cards.ordinary();
    switch.acquirer().ask(&Purchase::of(card, 100).request()).expect_approved();
    let hooks = receiver.wait_until(|hooks| hooks.len() >= 2);
    assert_eq!(hooks[0].header("webhook-id"), hooks[1].header("webhook-id"));
    assert_eq!(hooks[0].events, hooks[1].events);
    switch.stop();
}

#[test]
fn nothing_says_so_where_no_faults_are_set() {
    let installation = Installation::init(60, 4_713);
    let switch = installation.serve();
    assert_eq!(switch.watcher().get("/readyz").expect(200).get("faults"), None);
    assert!(!switch.anonymous().get("/login").text().contains("Fault injection"));
    switch.stop();
}

#[test]
fn a_file_that_holds_no_rules_is_refused_with_its_line_or_rule() {
    let installation = Installation::init(60, 4_714);
    let file = installation.home().join("faults.toml");
    let cases = [
        ("[[answers]]\nfault = \"never\"\n", "line 2: unknown variant `never`"),
        ("[[answers]]\nfault = \"twice\"\nrate = 2\n", "answers rule 1: rate"),
        ("[[answers]]\nfault = \"late\"\n", "answers rule 1: a late one needs late_ms"),
        ("[[answer]]\n", "line 1: unknown field `answer`"),
    ];
    for (text, expected) in cases {
        fs::write(&file, text).expect("a file of rules");
        installation.configure(&format!("faults = {file:?}\n"));
        let line = installation.serve_refused().expect_one_line_error();
        assert!(line.contains("faults.toml") && line.contains(expected), "{line}");
    }
    installation.configure("faults = \"no-such-file\"\n");
    let line = installation.serve_refused().expect_one_line_error();
    assert!(line.contains("`no-such-file`"), "{line}");
}
