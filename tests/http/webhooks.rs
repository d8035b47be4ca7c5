//! Webhooks as receivers get them: from receivers that misbehave in every way, across kills, and in
//! order.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use cardswitch_harness::{Hook, HookReceiver, HttpClient, Installation, Manner, Switch};
use serde_json::{Value, json};

/// Receivers are on the loopback.
const LOCAL: [&str; 1] = ["--allow-local-webhooks"];

#[track_caller]
fn endpoint(api: &HttpClient, receiver: &HookReceiver) -> String {
    let body = json!({"delivery_url": receiver.url(), "description": "test"});
    let made = api.post("/v1/webhook-endpoints", &body).expect(201);
    assert!(made["secret"].as_str().expect("a secret").starts_with("whsec_"));
    made["id"].as_str().expect("an id").to_owned()
}

#[track_caller]
fn shown(api: &HttpClient, id: &str) -> Value {
    api.get(&format!("/v1/webhook-endpoints/{id}")).expect(200)
}

/// A purchase; the id of its transaction.
#[track_caller]
fn buy(installation: &Installation, switch: &Switch, amount: u32) -> String {
    let card = installation.cards.ordinary();
    let body = json!({"card_id": card.card_id, "amount": amount, "merchant": {"mcc": "5812"}});
    let told = switch.network_api().post("/network/v1/authorizations", &body).expect(200);
    told["transaction_id"].as_str().expect("a transaction").to_owned()
}

#[track_caller]
fn reverse(switch: &Switch, transaction: &str) {
    let body = json!({"transaction_id": transaction});
    switch.network_api().post("/network/v1/reversals", &body).expect(200);
}

fn advance(switch: &Switch, span: &str) {
    switch.network_api().post("/network/v1/clock", &json!({"advance": span})).expect(200);
}

fn told(event: &str, transaction: &str, company: &str) -> Value {
    json!({"event": event, "transaction": {"id": transaction}, "company": {"id": company}})
}

fn transactions(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["transaction"]["id"].as_str().expect("an id")).collect()
}

#[test]
fn what_happens_is_told_in_order_and_polled_alike() {
    let installation = Installation::init(60, 1_301);
    let switch = installation.serve_with(&LOCAL);
    let api = switch.api();
    let before = api.get("/v1/events").expect(200)["cursor"].as_str().expect("a place").to_owned();
    let receiver = HookReceiver::start(Manner::Answers(204));
    let id = endpoint(&api, &receiver);
    let transaction = buy(&installation, &switch, 12);
    reverse(&switch, &transaction);
    let events = receiver.wait_for_events(2);
    let company = &installation.credentials.company_id;
    let expected = [
        told("transaction.created", &transaction, company),
        told("transaction.updated", &transaction, company),
    ];
    assert_eq!(events, expected);
    let hook = receiver.hooks()[0].clone();
    assert!(hook.header("webhook-id").starts_with("msg_"));
    assert!(hook.header("webhook-signature").starts_with("v1,"));
    assert_eq!(hook.header("webhook-attempt"), "1");

    let page = api.get(&format!("/v1/events?after={before}")).expect(200);
    let polled: Vec<_> = page["results"].as_array().expect("results").clone();
    assert_eq!(polled.len(), 2, "{page:#}");
    for (polled, sent) in polled.iter().zip(&events) {
        for key in ["event", "transaction", "company"] {
            assert_eq!(polled[key], sent[key]);
        }
    }
    let sequences: Vec<_> = polled.iter().map(|event| event["sequence"].as_i64()).collect();
    assert!(sequences[0] < sequences[1], "{sequences:?}");
    let headers: Vec<_> =
        receiver.hooks().iter().flat_map(|hook| split(hook, "webhook-sequence")).collect();
    let sequences: Vec<_> =
        sequences.into_iter().map(|sequence| sequence.expect("a number").to_string()).collect();
    assert_eq!(headers, sequences);
    let health = &shown(&api, &id)["delivery"];
    assert_eq!((&health["failing_since"], &health["waiting"]), (&Value::Null, &json!(0)));
    let attempts = api.get(&format!("/v1/webhook-endpoints/{id}/attempts")).expect(200);
    assert_eq!(attempts["results"][0]["status"], 204, "{attempts:#}");
}

/// An instant to come once hid nothing: every event after the request was shown.
#[test]
fn since_an_instant_to_come_shows_nothing_from_before_it() {
    let installation = Installation::init(60, 1_318);
    let switch = installation.serve_with(&["--clock", "manual"]);
    let api = switch.api();
    buy(&installation, &switch, 12);
    let now = api.get("/v1/events").expect(200)["results"][0]["created_at"].clone();
    let since = now.as_str().expect("an instant").replacen("20", "21", 1);
    let page = |query: &str| api.get(&format!("/v1/events?since={since}{query}")).expect(200);
    assert_eq!(page("")["results"], json!([]));
    buy(&installation, &switch, 13);
    for query in ["", "&wait_s=1"] {
        let page = page(query);
        assert_eq!((&page["results"], &page["has_more"]), (&json!([]), &json!(false)), "{query}");
    }
    switch.network_api().post("/network/v1/clock", &json!({"now": since})).expect(200);
    let late = buy(&installation, &switch, 14);
    for query in ["", "&limit=1", "&wait_s=1"] {
        let page = page(query);
        assert_eq!(transactions(page["results"].as_array().expect("results")), [&*late], "{query}");
    }
}

fn split(hook: &Hook, header: &str) -> Vec<String> {
    hook.header(header).split(',').map(str::to_owned).collect()
}

#[test]
fn receivers_that_misbehave_hold_up_nobody_else() {
    let installation = Installation::init(60, 1_302);
    let switch = installation.serve_with(&LOCAL);
    let api = switch.api();
    let manners = [
        Manner::Silent,
        Manner::Answers(500),
        Manner::Redirects,
        Manner::Resets,
        Manner::Long,
        Manner::Endless,
        Manner::Answers(410),
    ];
    let bad: Vec<_> = manners
        .into_iter()
        .map(|manner| {
            let receiver = HookReceiver::start(manner);
            (endpoint(&api, &receiver), receiver, manner)
        })
        .collect();
    let down = {
        let receiver = HookReceiver::start(Manner::Answers(200));
        endpoint(&api, &receiver)
    };
    let good = HookReceiver::start(Manner::Answers(200));
    endpoint(&api, &good);
    let silent: Vec<_> = (0..3)
        .map(|_| {
            let receiver = HookReceiver::start(Manner::Silent);
            endpoint(&api, &receiver);
            receiver
        })
        .collect();
    let bought: Vec<_> = (1..=20).map(|amount| buy(&installation, &switch, amount)).collect();
    let events = good.wait_for_events(20);
    assert_eq!(transactions(&events), bought);
    // Told one after the other, no two receivers would ever keep a request waiting at a time.
    wait_for(|| silent.iter().all(|receiver| receiver.held() == 1));
    for (id, receiver, manner) in &bad {
        receiver.wait_until(|hooks| !hooks.is_empty());
        let is_taken = matches!(manner, Manner::Long | Manner::Endless);
        wait_for(|| {
            let health = &shown(&api, id)["delivery"];
            match manner {
                Manner::Answers(410) => shown(&api, id)["state"] == "gone",
                _ if is_taken => !health["last_delivered_at"].is_null(),
                _ => !health["failing_since"].is_null() && health["waiting"] != 0,
            }
        });
    }
    wait_for(|| shown(&api, &down)["delivery"]["waiting"] != 0);
    let gone = bad.iter().find(|(_, _, manner)| *manner == Manner::Answers(410));
    let (gone, receiver, _) = gone.expect("one is gone");
    let came = receiver.hooks().len();
    buy(&installation, &switch, 1);
    good.wait_for_events(21);
    assert_eq!(receiver.hooks().len(), came, "who is gone is told nothing any more");
    assert_eq!(shown(&api, gone)["is_enabled"], false);
}

#[track_caller]
fn wait_for(is_so: impl Fn() -> bool) {
    for _ in 0..600 {
        if is_so() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert!(is_so(), "it did not come about in a minute");
}

#[test]
fn a_message_is_tried_again_by_the_switchs_clock_and_recovered_when_given_up() {
    let installation = Installation::init(60, 1_303);
    let switch = installation.serve_with(&["--allow-local-webhooks", "--clock", "manual"]);
    let api = switch.api();
    let receiver = HookReceiver::start(Manner::Answers(503));
    let id = endpoint(&api, &receiver);
    let transaction = buy(&installation, &switch, 12);
    for (tries, wait) in (1..).zip(["6s", "6m", "34m", "134m", "6h", "12h", "12h", ""]) {
        let hooks = receiver.wait_until(|hooks| hooks.len() >= tries);
        assert_eq!(hooks.len(), tries, "nothing is sent before it is due");
        assert_eq!(hooks[tries - 1].header("webhook-attempt"), tries.to_string());
        wait_for(|| {
            let attempts = api.get(&format!("/v1/webhook-endpoints/{id}/attempts")).expect(200);
            attempts["count"] == tries
        });
        if !wait.is_empty() {
            advance(&switch, wait);
        }
    }
    let hooks = receiver.hooks();
    assert!(hooks.iter().all(|hook| hook.header("webhook-id") == hooks[0].header("webhook-id")));
    let health = shown(&api, &id)["delivery"].clone();
    assert_eq!((&health["given_up"], &health["waiting"]), (&json!(1), &json!(0)), "{health:#}");
    receiver.behave(Manner::Answers(200));
    let body = json!({"since": "2020-01-01T00:00:00Z"});
    api.post(&format!("/v1/webhook-endpoints/{id}/recover"), &body).expect(200);
    let hooks = receiver.wait_until(|hooks| hooks.len() > 8);
    let last = hooks.last().expect("one");
    assert!(transactions(&last.events).contains(&transaction.as_str()), "{last:?}");
    wait_for(|| shown(&api, &id)["delivery"]["failing_since"].is_null());
}

#[test]
fn nothing_is_lost_when_the_switch_is_killed() {
    let installation = Installation::init(60, 1_304);
    let receiver = HookReceiver::start(Manner::Answers(200));
    let switch = installation.serve_with(&LOCAL);
    let id = endpoint(&switch.api(), &receiver);
    let mut bought = Vec::new();
    let mut switch = Some(switch);
    for round in 0..4 {
        let running = switch.take().expect("a switch runs");
        bought.extend((1..=15).map(|amount| buy(&installation, &running, amount)));
        receiver.behave(Manner::Answers(if round == 1 { 500 } else { 200 }));
        if round == 2 {
            running.stop();
        } else {
            running.kill9();
        }
        switch = Some(installation.serve_with(&LOCAL));
    }
    let switch = switch.expect("a switch runs");
    receiver.behave(Manner::Answers(200));
    let is_told = |hooks: &[Hook]| {
        let events = hooks.iter().flat_map(|hook| transactions(&hook.events));
        let told: Vec<_> = events.collect();
        bought.iter().all(|transaction| told.contains(&transaction.as_str()))
    };
    receiver.wait_until(is_told);
    // A message whose id came twice came with the same events.
    let mut by_id: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for hook in receiver.hooks() {
        let known =
            by_id.entry(hook.header("webhook-id").to_owned()).or_insert(hook.events.clone());
        assert_eq!(*known, hook.events, "one id, two contents");
    }
    let api = switch.api();
    wait_for(|| shown(&api, &id)["delivery"]["waiting"] == 0);
}

#[test]
fn examples_rotation_and_what_may_be_registered() {
    let installation = Installation::init(60, 1_305);
    let reading = installation.add_token("");
    let switch = installation.serve_with(&LOCAL);
    let api = switch.api();
    let receiver = HookReceiver::start(Manner::Answers(200));
    let id = endpoint(&api, &receiver);
    let path = format!("/v1/webhook-endpoints/{id}");
    let sent = api.post(&format!("{path}/test"), &Value::Null).expect(200);
    assert_eq!((&sent["is_delivered"], &sent["kind"]), (&json!(true), &json!("example")));
    let rotated = api.post(&format!("{path}/rotate-secret"), &Value::Null).expect(200);
    assert!(rotated["secret"].as_str().expect("a secret").starts_with("whsec_"));
    assert!(rotated["previous_secret_expires_at"].is_string());
    assert_eq!(shown(&api, &id).get("secret"), None, "a secret is shown once");
    let attempt = sent["id"].as_str().expect("an id");
    api.post(&format!("{path}/attempts/{attempt}/resend"), &Value::Null).expect(200);
    let hooks = receiver.hooks();
    assert_eq!(hooks[0].header("webhook-id"), hooks[1].header("webhook-id"));
    assert_eq!(hooks[0].header("webhook-signature").split(' ').count(), 1);
    assert_eq!(hooks[1].header("webhook-signature").split(' ').count(), 2);
    for address in [
        "http://169.254.169.254/",
        "https://100.64.0.1/",
        "https://[fe80::1]/",
        "https://[::ffff:127.0.0.1]/",
        "http://a.example/",
    ] {
        let refused = api.post("/v1/webhook-endpoints", &json!({"delivery_url": address}));
        assert_eq!(refused.expect_error(400)["param"], "delivery_url", "{address}");
    }
    let reader = switch.api_with(&reading);
    reader.get(&path).expect_error(403);
    reader.get("/v1/events").expect(200);
    api.delete(&path).expect(204);
    api.get(&path).expect_error(404);
}

fn turn(api: &HttpClient, id: &str, is_enabled: bool) {
    let body = json!({ "is_enabled": is_enabled });
    api.put(&format!("/v1/webhook-endpoints/{id}"), &body).expect(200);
}

fn is_told_of(hooks: &[Hook], transaction: &str) -> bool {
    hooks.iter().any(|hook| transactions(&hook.events).contains(&transaction))
}

/// An endpoint began at the place that the dispatcher saw when it noticed the endpoint. After a kill right after
/// the answer it began with the events after the restart.
#[test]
fn an_endpoint_is_told_of_all_that_came_after_it_was_made_or_turned_on() {
    let installation = Installation::init(60, 1_306);
    let receiver = HookReceiver::start(Manner::Answers(200));
    let switch = installation.serve_with(&LOCAL);
    let api = switch.api();
    let first = buy(&installation, &switch, 1);
    let id = endpoint(&api, &receiver);
    let made = buy(&installation, &switch, 2);
    switch.kill9();
    let mut seen = vec![made];
    for round in 0..3 {
        let switch = installation.serve_with(&LOCAL);
        let api = switch.api();
        receiver.wait_until(|hooks| seen.iter().all(|transaction| is_told_of(hooks, transaction)));
        turn(&api, &id, false);
        // It may be told of this one, too: that it was off may never have been noticed.
        buy(&installation, &switch, 3);
        if round == 1 {
            // Some changes while it is off do not turn it on.
            let body = json!({"description": "off", "is_enabled": false});
            api.put(&format!("/v1/webhook-endpoints/{id}"), &body).expect(200);
        }
        turn(&api, &id, true);
        seen.push(buy(&installation, &switch, 5));
        switch.kill9();
    }
    let _switch = installation.serve_with(&LOCAL);
    let hooks =
        receiver.wait_until(|hooks| seen.iter().all(|transaction| is_told_of(hooks, transaction)));
    assert!(!is_told_of(&hooks, &first), "it happened before there was an endpoint");
}

fn copy_directory(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory can be made");
    for entry in fs::read_dir(from).expect("a directory can be read") {
        let entry = entry.expect("an entry can be read");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy_directory(&entry.path(), &target);
        } else if entry.file_type().expect("a type").is_file() {
            fs::copy(entry.path(), target).expect("a file can be copied");
        }
    }
}

/// Places in the log were numbers alone: in a directory that was put back without its newest part they
/// are given out again, and what happened under them was told to nobody.
#[test]
fn nothing_is_skipped_where_the_log_has_lost_its_newest_part() {
    let installation = Installation::init(60, 1_307);
    let receiver = HookReceiver::start(Manner::Answers(200));
    let switch = installation.serve_with(&LOCAL);
    let id = endpoint(&switch.api(), &receiver);
    (1..=3).for_each(|amount| drop(buy(&installation, &switch, amount)));
    receiver.wait_for_events(3);
    switch.stop();
    let older = installation.home().join("older");
    copy_directory(&installation.data(), &older);

    let switch = installation.serve_with(&LOCAL);
    (1..=5).for_each(|amount| drop(buy(&installation, &switch, amount)));
    receiver.wait_for_events(8);
    let page = switch.api().get("/v1/events?limit=1000").expect(200);
    let after = page["cursor"].as_str().expect("a place").to_owned();
    let attempts = format!("/v1/webhook-endpoints/{id}/attempts");
    let lost = switch.api().get(&attempts).expect(200)["results"][0]["id"].clone();
    switch.stop();
    let before = receiver.hooks();

    // The progress of deliveries is the newer one; the journal is the older one.
    fs::copy(installation.data().join("deliveries.redb"), older.join("deliveries.redb"))
        .expect("a file can be copied");
    let switch = installation.serve_directory(&older, &LOCAL);
    let api = switch.api();
    let bought: Vec<_> = (1..=7).map(|amount| buy(&installation, &switch, amount)).collect();
    let page = api.get(&format!("/v1/events?after={after}&limit=1000")).expect(200);
    assert_eq!(transactions(page["results"].as_array().expect("results")), bought);
    let all_told = |hooks: &[Hook]| bought.iter().all(|transaction| is_told_of(hooks, transaction));
    let hooks = receiver.wait_until(all_told);
    for hook in &hooks[before.len()..] {
        let is_new = |old: &Hook| old.header("webhook-id") != hook.header("webhook-id");
        assert!(before.iter().all(is_new), "another message has another id");
    }
    // The events of this attempt are no more, whatever their numbers stand for now.
    let path = format!("{attempts}/{}/resend", lost.as_str().expect("an id"));
    let resent = api.post(&path, &Value::Null).expect(200);
    assert_eq!(resent["is_delivered"], false, "{resent:#}");
    assert_eq!(resent["failure"], "nothing_to_tell", "{resent:#}");
}

/// Once, a damaged file of positions kept the switch from starting, although it can do without.
#[test]
fn a_damaged_file_of_positions_is_put_aside() {
    let installation = Installation::init(60, 1_309);
    let receiver = HookReceiver::start(Manner::Answers(200));
    let switch = installation.serve_with(&LOCAL);
    endpoint(&switch.api(), &receiver);
    let mut bought = vec![buy(&installation, &switch, 1)];
    receiver.wait_until(|hooks| is_told_of(hooks, &bought[0]));
    switch.stop();
    let file = installation.data().join("deliveries.redb");
    let whole = fs::read(&file).expect("it is there");
    let flipped = whole.iter().map(|byte| byte ^ 0x55).collect();
    for damaged in [whole[..whole.len() / 2].to_vec(), flipped] {
        fs::write(&file, &damaged).expect("a file can be written");
        let switch = installation.serve_with(&LOCAL);
        assert!(switch.log().contains("deliveries repeat from the last known places"));
        assert_eq!(
            fs::read(installation.data().join("deliveries.redb.damaged")).ok(),
            Some(damaged)
        );
        bought.push(buy(&installation, &switch, 1));
        receiver.wait_until(|hooks| is_told_of(hooks, &bought[bought.len() - 1]));
        switch.stop();
    }
}

/// One endpoint that was told everything again had the log read for it in long runs, and all others
/// waited for it.
#[test]
fn who_is_told_everything_again_holds_up_nobody() {
    let installation = Installation::init(60, 1_308);
    let switch = installation.serve_with(&LOCAL);
    let api = switch.api();
    let (again, fresh) =
        (HookReceiver::start(Manner::Answers(200)), HookReceiver::start(Manner::Answers(200)));
    let card = installation.cards.ordinary().card_id.clone();
    let purchase = json!({
        "type": "authorization", "card_id": card, "amount": 1,
        "merchant": {"mid": 424_242, "mcc": 5411, "name": "HARNESS GROCERY"},
    });
    let batch = json!(vec![purchase; 1_000]);
    for _ in 0..30 {
        switch.network_api().post("/network/v1/batch", &batch).expect(200);
    }
    let id = endpoint(&api, &again);
    endpoint(&api, &fresh);
    let body = json!({"since": "2020-01-01T00:00:00Z"});
    api.post(&format!("/v1/webhook-endpoints/{id}/recover"), &body).expect(200);
    let bought = buy(&installation, &switch, 1);
    fresh.wait_until(|hooks| is_told_of(hooks, &bought));
    let told: usize = again.hooks().iter().map(|hook| hook.events.len()).sum();
    assert!(told < 30_000, "it was told everything before others were told anything");
    again.wait_until(|hooks| is_told_of(hooks, &bought));
    let told: usize = again.hooks().iter().map(|hook| hook.events.len()).sum();
    assert!(told > 30_000, "{told}");
}
