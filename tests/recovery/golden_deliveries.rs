//! Data directories that earlier builds were killed in while webhooks were under way: every later build
//! delivers what is left, in order, and what waits under the ids it had.
//!
//! `tools/golden/make_data_directory.py` writes one, with the build whose format is to be kept.

use std::fs;
use std::path::Path;

use cardswitch_harness::{Hook, HookReceiver, HttpClient, Installation, Manner};
use serde_json::{Value, json};

/// The archives, by the format of lanes.
const ARCHIVES: [&str; 1] = ["deliveries-1.tar.gz"];

/// What an endpoint was told, as the archive says what it is to be told.
fn told(hooks: &[Hook]) -> Vec<Value> {
    let events = hooks.iter().flat_map(|hook| &hook.events);
    let told =
        |event: &Value| json!({"event": event["event"], "transaction": event["transaction"]["id"]});
    events.map(told).collect()
}

fn is_all(hooks: &[Hook], expected: &[Value]) -> bool {
    let told = told(hooks);
    expected.iter().all(|event| told.contains(event))
}

/// Has the endpoint sent to another receiver and turned on.
fn redirect(api: &HttpClient, id: &str, receiver: &HookReceiver) {
    let body = json!({"delivery_url": receiver.url(), "is_enabled": true});
    api.put(&format!("/v1/webhook-endpoints/{id}"), &body).expect(200);
}

#[test]
fn what_was_under_way_is_delivered_by_every_later_build() {
    for name in ARCHIVES {
        println!("{name}");
        let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join("recovery/golden").join(name);
        let (installation, home) = Installation::unpack(&archive);
        let known = fs::read(home.join("deliveries.json")).expect("what is to be told");
        let known: Vec<Value> = serde_json::from_slice(&known).expect("JSON");
        let site = ["--clock", "manual", "--allow-local-webhooks"];
        let switch = installation.serve_with(&site);
        let api = switch.api();
        let receivers: Vec<_> = known
            .iter()
            .map(|endpoint| {
                let receiver = HookReceiver::start(Manner::Answers(200));
                redirect(&api, endpoint["id"].as_str().expect("an id"), &receiver);
                receiver
            })
            .collect();
        let clock = json!({"advance": "10m"});
        switch.network_api().post("/network/v1/clock", &clock).expect(200);
        for (endpoint, receiver) in known.iter().zip(&receivers) {
            let expected = endpoint["events"].as_array().expect("events");
            let hooks = receiver.wait_until(|hooks| is_all(hooks, expected));
            assert_eq!(told(&hooks).len(), expected.len(), "{endpoint:#}: {hooks:?}");
            for message in endpoint["messages"].as_array().expect("ids") {
                let is_it = |hook: &Hook| hook.header("webhook-id") == message;
                assert!(hooks.iter().any(is_it), "{message} was under way");
            }
            // Each transaction is told of first as made.
            let told = told(&hooks);
            for (place, event) in told.iter().enumerate() {
                if event["event"] == "transaction.updated" {
                    let transaction = &event["transaction"];
                    let made = json!({"event": "transaction.created", "transaction": transaction});
                    assert!(told[..place].contains(&made), "{told:#?}");
                }
            }
        }
        switch.stop();
    }
}
