//! The clock of a simulation, turned at the network's HTTP door.

use cardswitch_engine::clock::Clock;
use serde_json::json;

use super::world::{DoorBench, purchase};

#[tokio::test]
async fn a_manual_clock_is_turned_and_runs_what_is_due() {
    let bench = DoorBench::new().await;
    let card = bench.card(100).await;
    bench.post("authorizations", purchase(&card, json!(10))).await;
    let before = bench.get("clock").await;
    assert_eq!(before["manual"], true);
    let answer = bench.post("clock", json!({"advance": "8d"})).await;
    assert!(answer["now"].as_str() > before["now"].as_str());
    let row = &bench.get(&format!("cards/{}/transactions", card.id)).await["results"][0];
    assert_eq!((&row["state"], &row["held"]), (&json!("canceled"), &json!(0.0)));

    let set = bench.post("clock", json!({"now": "2026-06-01T00:00:00Z"})).await;
    assert_eq!(set["now"], "2026-06-01T00:00:00.000000Z");
    let mut timed = purchase(&card, json!(1));
    timed["time"] = json!("2026-07-01T00:00:00Z");
    bench.post("authorizations", timed).await;
    assert_eq!(bench.get("clock").await["now"], "2026-07-01T00:00:00.000000Z");

    let rows = [
        json!({"now": "2026-01-01T00:00:00Z"}),
        json!({"now": "tomorrow"}),
        json!({"advance": -1}),
        json!({"advance": "1 week"}),
        json!({"now": "2027-01-01T00:00:00Z", "advance": 1}),
        json!({}),
    ];
    for body in rows {
        assert_eq!(bench.refused("clock", body.clone()).await.0, 400, "{body}");
    }
}

#[tokio::test]
async fn the_systems_clock_is_not_turned() {
    let bench = DoorBench::with_clock(Clock::System).await;
    assert_eq!(bench.get("clock").await["manual"], false);
    let (status, detail) = bench.refused("clock", json!({"advance": 1})).await;
    assert_eq!((status, &detail["code"]), (409, &json!("clock_not_manual")));
}
