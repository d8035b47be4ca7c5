//! Tables that can no longer be written: purchases go on, and nobody hears wrong words about the rest.

use std::sync::Arc;

use cardswitch_engine::clock::Clock;
use cardswitch_engine::engine::{Engine, EngineOptions, EngineStorage};
use cardswitch_engine::journal::testing::{DiskFaultPlan, FaultyBackend, FaultyDisk};
use cardswitch_engine::store::Pacing;
use cardswitch_engine::store::overlay::SharedBackend;
use cardswitch_wire::time::parse_time;
use serde_json::{Value, json};

use super::world::{DoorBench, START};

/// Access was ended, in words, and went on; a reversal by the id of a purchase heard that there was none.
#[tokio::test]
async fn nothing_is_changed_and_nothing_is_denied_while_the_tables_stand_still() {
    let tables = FaultyBackend::default();
    let store = SharedBackend::new(tables.clone());
    let storage =
        EngineStorage { store, cache_bytes: 1 << 20, journal: Arc::new(FaultyDisk::default()) };
    let pacing = Pacing { checkpoint_records: 1, ..Pacing::default() };
    let open = |options| Engine::open_on(EngineOptions { pacing, ..options }, storage);
    let bench = DoorBench::with(open, Clock::manual(parse_time(START).unwrap())).await;
    let card = bench.card(1_000).await;
    let buy = async || bench.post("authorizations", json!({"card_id": card.id, "amount": 1})).await;
    tables.plan(DiskFaultPlan { fail_write: Some(1), ..DiskFaultPlan::default() });
    let engine = &bench.state.switch.engine;
    while engine.projection_failure().is_none() {
        assert_eq!(buy().await["response_code"], 0);
    }
    let after = buy().await;
    assert_eq!(after["response_code"], 0, "purchases need no tables");
    let refused =
        bench.refused("reversals", named(after["transaction_id"].as_str().unwrap())).await;
    assert_eq!((refused.0, &refused.1["code"]), (503, &json!("tables_behind")));
    let unknown = named("01890000-0000-7000-8000-000000000000");
    assert_eq!(bench.refused("reversals", unknown).await.0, 404);

    let durable = engine.durable_seq();
    for (method, path, body) in [
        (
            "POST",
            "/v1/cards",
            json!({"allowance": {"amount": 1}, "description": "x", "is_virtual": true}),
        ),
        ("PUT", "/v1/company", json!({"risk": null})),
    ] {
        let (status, told) = bench.ask("Token token", method, path, &body.to_string()).await;
        assert_eq!((status, &told["detail"]["code"]), (503, &json!("tables_behind")), "{path}");
    }
    assert_eq!(engine.durable_seq(), durable);
}

fn named(transaction: &str) -> Value {
    json!({"transaction_id": transaction})
}
