//! Kills (SIGKILL) amid cards being ordered under idempotency keys, by clients that ask again until
//! they are answered: one card for each key, and every later answer is the first one.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use cardswitch_harness::{
    HttpClient, HttpRequest, HttpResponse, Installation, Random, Switch, campaign_scaled, seed_for,
};
use serde_json::json;

const CLIENTS: usize = 4;
/// The pause between two tries of a request whose key is under way.
const PAUSE: Duration = Duration::from_millis(2);

/// The answers to a client before the switch was gone.
#[derive(Default)]
struct Orders {
    answered: Vec<(String, HttpResponse)>,
    unanswered: Option<String>,
}

#[test]
fn every_key_makes_one_card_however_often_the_switch_is_killed() {
    let seed = seed_for("every_key_makes_one_card");
    let mut random = Random::new(seed);
    let installation = Installation::init(60, random.next_u64() >> 1);
    let mut answers: BTreeMap<String, String> = BTreeMap::new();
    let mut left: Vec<Option<String>> = vec![None; CLIENTS];
    let (mut lost, mut made_before) = (0, 0);
    for round in 0..campaign_scaled(10, 250) {
        let switch = installation.serve();
        repeat_some(&switch.api(), &answers, &mut random);
        let again: Vec<String> = left.iter().flatten().cloned().collect();
        let alive_for = Duration::from_millis(random.between(5, 400));
        let told = order_and_kill(switch, round, left, alive_for);
        lost += told.iter().filter(|orders| orders.unanswered.is_some()).count();
        left = told.iter().map(|orders| orders.unanswered.clone()).collect();
        let answered = told.into_iter().flat_map(|orders| orders.answered);
        let mut count = 0;
        for (key, answer) in answered {
            count += 1;
            let is_replayed = answer.header("idempotent-replayed").is_some();
            assert!(!is_replayed || again.contains(&key), "never asked before: {key}");
            made_before += usize::from(is_replayed);
            let before = answers.insert(key.clone(), answer.text());
            assert_eq!(before, None, "{key} was answered twice");
        }
        eprintln!("round {round}: killed after {alive_for:?}, {count} answered");
    }
    let switch = installation.serve();
    let client = switch.api();
    for key in left.into_iter().flatten() {
        let answer = order(&client, &key).expect("the switch stays");
        answers.insert(key, answer.text());
    }
    eprintln!("{} keys, {lost} answers lost, {made_before} of them made before", answers.len());
    assert!(lost > 0, "no answer was lost: nothing was tested");
    assert_one_card_each(&client, &answers);
    for (key, body) in &answers {
        assert_same(&client, key, body);
    }
    switch.stop();
    installation.verify_ok();
}

/// Has clients order cards, kills the switch, and returns their answers.
fn order_and_kill(
    switch: Switch,
    round: usize,
    left: Vec<Option<String>>,
    alive_for: Duration,
) -> Vec<Orders> {
    thread::scope(|scope| {
        let clients: Vec<_> = (0..)
            .zip(left)
            .map(|(number, left): (usize, _)| {
                let client = switch.api();
                scope.spawn(move || order_until_gone(&client, &format!("{round}-{number}"), left))
            })
            .collect();
        thread::sleep(alive_for);
        switch.kill9();
        clients.into_iter().map(|one| one.join().expect("a client ends")).collect()
    })
}

/// Orders cards one after the other, first the order left unanswered before.
fn order_until_gone(client: &HttpClient, prefix: &str, left: Option<String>) -> Orders {
    let mut orders = Orders::default();
    for key in left.into_iter().chain((0..).map(|number| format!("key-{prefix}-{number}."))) {
        match order(client, &key) {
            Some(answer) => orders.answered.push((key, answer)),
            None => {
                orders.unanswered = Some(key);
                break;
            }
        }
    }
    orders
}

/// Asks until there is an answer that is one; none where the switch is gone before.
fn order(client: &HttpClient, key: &str) -> Option<HttpResponse> {
    let headers = &[("content-type", "application/json"), ("idempotency-key", key)];
    let body = json!({"allowance": {"amount": 5}, "description": key, "is_virtual": true});
    let body = body.to_string();
    let request = HttpRequest { method: "POST", path: "/v1/cards", headers, body: body.as_bytes() };
    loop {
        let answer = client.try_send(&request)?;
        if answer.status == 201 {
            return Some(answer);
        }
        let may_pass = [409, 429, 503].contains(&answer.status);
        assert!(may_pass, "{key} was answered with {}: {}", answer.status, answer.text());
        // Under way, more repeats than a token may ask for in a second, or the switch is stopping.
        thread::sleep(PAUSE);
    }
}

/// Repeats some of the requests that were answered before.
fn repeat_some(client: &HttpClient, answers: &BTreeMap<String, String>, random: &mut Random) {
    let keys: Vec<_> = answers.keys().collect();
    for _ in 0..keys.len().min(20) {
        let key = keys[random.index(keys.len())];
        assert_same(client, key, &answers[key]);
    }
}

#[track_caller]
fn assert_same(client: &HttpClient, key: &str, body: &str) {
    let again = order(client, key).expect("the switch stays");
    assert_eq!(again.text(), body, "{key} was answered otherwise");
    assert_eq!(again.header("idempotent-replayed"), Some("true"), "{key}");
}

/// Every key has its card, which is the one in its answer, and no other.
#[track_caller]
fn assert_one_card_each(client: &HttpClient, answers: &BTreeMap<String, String>) {
    let mut ids: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut offset = 0;
    loop {
        let page = client.get(&format!("/v1/cards?limit=1000&offset={offset}")).expect(200);
        let cards = page["results"].as_array().expect("results");
        for card in cards {
            let text = |name: &str| card[name].as_str().expect("text").to_owned();
            ids.entry(text("description")).or_default().push(text("id"));
        }
        offset += cards.len();
        if cards.is_empty() {
            break;
        }
    }
    for (key, body) in answers {
        let answer: serde_json::Value = serde_json::from_str(body).expect("JSON");
        let found = ids.get(key).map_or(&[][..], Vec::as_slice);
        assert_eq!(found, [answer["id"].as_str().expect("an id")], "{key}");
    }
    let made = ids.keys().filter(|description| description.starts_with("key-")).count();
    assert_eq!(made, answers.len(), "a card was made that nobody was told of");
}
