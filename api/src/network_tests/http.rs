//! The HTTP door as a whole against a real engine on a manual clock: who may come in, what is
//! offered, batches, and requests that come again.

use axum::body::Body;
use axum::http::{Request, header};
use cardswitch_network::limits;
use serde_json::{Value, json};

use super::world::{DoorBench, purchase};

#[tokio::test]
async fn only_the_network_key_opens_the_door() {
    let bench = DoorBench::new().await;
    let card = bench.card(100).await;
    let body = purchase(&card, json!(1)).to_string();
    let paths = ["authorizations", "advices", "reversals", "presentments", "refunds", "batch"];
    for authorization in ["", "Bearer token", "Token token", "Bearer nonsense", "key"] {
        for path in paths {
            let path = format!("/network/v1/{path}");
            let (status, answer) = bench.ask(authorization, "POST", &path, &body).await;
            assert_eq!((status, &answer["detail"]["code"]), (401, &json!("unauthorized")));
        }
        for path in [&format!("cards/{}", card.id), "clock"] {
            let path = format!("/network/v1/{path}");
            assert_eq!(bench.ask(authorization, "GET", &path, "").await.0, 401, "{path}");
        }
    }
    for authorization in ["Bearer key", "Token key", "bearer key"] {
        let path = "/network/v1/authorizations";
        assert_eq!(bench.ask(authorization, "POST", path, &body).await.0, 200);
    }
    assert_eq!(bench.ask("Bearer key", "GET", "/v1/cards", "").await.0, 401);
}

#[tokio::test]
async fn what_is_not_offered_is_not_found() {
    let bench = DoorBench::new().await;
    for path in ["disputes", "nothing"] {
        assert_eq!(bench.refused(path, json!({})).await.0, 404, "{path}");
    }
    for path in ["cards/01890000-0000-7000-8000-000000000000", "cards/x", "cards/x/transactions"] {
        let path = format!("/network/v1/{path}");
        assert_eq!(bench.ask("Bearer key", "GET", &path, "").await.0, 404, "{path}");
    }
    assert_eq!(bench.ask("Bearer key", "GET", "/network/v1/authorizations", "").await.0, 405);
}

#[tokio::test]
async fn a_batch_is_answered_in_order_and_each_request_stands_for_itself() {
    let bench = DoorBench::new().await;
    let card = bench.card(10).await;
    let typed = |kind: &str, mut body: Value| {
        body["type"] = json!(kind);
        body
    };
    let reversal = json!({"card_number": card.number, "rrn": "606412000042", "acquirer": "12345"});
    let batch = json!([
        typed("authorization", purchase(&card, json!(8))),
        typed("authorization", purchase(&card, json!("ten"))),
        typed("authorization", purchase(&card, json!(8))),
        typed("reversal", reversal),
        typed("party", json!({})),
        {"amount": 1},
        "no object",
        typed("reversal", json!({"transaction_id": "01890000-0000-7000-8000-000000000000"})),
        typed("presentment", purchase(&card, json!(3))),
        typed("refund", purchase(&card, json!(3))),
        typed("advice", purchase(&card, json!(3))),
    ]);
    let answers = bench.post("batch", batch).await;
    let answers = answers.as_array().unwrap();
    let told: Vec<Value> = answers
        .iter()
        .map(|answer| match &answer["detail"] {
            Value::Null => answer["response_code"].clone(),
            detail => detail["code"].clone(),
        })
        .collect();
    let expected = json!([
        0,
        "not_a_number",
        1502,
        0,
        "unknown_value",
        "required",
        "malformed_body",
        "not_found",
        0,
        0,
        0
    ]);
    assert_eq!(json!(told), expected);
    assert_eq!(bench.post("batch", json!([])).await, json!([]));
    assert_eq!(bench.refused("batch", json!({})).await.0, 400);
    let too_long = vec![json!({}); limits::BATCH_LEN_MAX + 1];
    assert_eq!(bench.refused("batch", json!(too_long)).await.1["code"], "batch_too_long");
}

#[tokio::test]
async fn a_marked_request_is_carried_out_once() {
    let bench = DoorBench::new().await;
    let card = bench.card(100).await;
    let send = async |path: &str, key: &str, body: &Value| {
        let request = Request::builder()
            .method("POST")
            .uri(format!("/network/v1/{path}"))
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::AUTHORIZATION, "Bearer key")
            .header("Idempotency-Key", key)
            .body(Body::from(body.to_string()))
            .unwrap();
        bench.send(request).await
    };
    let body = purchase(&card, json!(10));
    let first = send("authorizations", "one", &body).await;
    assert_eq!((first.0, &first.1["allowance_balance"]), (200, &json!(90.0)));
    assert_eq!(send("authorizations", "one", &body).await, first);
    let (status, answer) = send("authorizations", "one", &purchase(&card, json!(11))).await;
    assert_eq!((status, &answer["detail"]["code"]), (400, &json!("idempotency_key_reused")));
    assert_eq!(send("advices", "one", &body).await.0, 400, "another path is another request");
    let second = send("authorizations", "two", &body).await;
    assert_eq!(second.1["allowance_balance"], 80.0);

    let mut typed = body.clone();
    typed["type"] = json!("authorization");
    let batch = json!([typed, typed]);
    let first = send("batch", "three", &batch).await;
    assert_eq!(first.1[1]["allowance_balance"], 60.0, "both of a batch are carried out");
    assert_eq!(send("batch", "three", &batch).await, first);
    assert_eq!(send("authorizations", "", &body).await.0, 400);

    // What was not understood has changed nothing: put right, it is carried out under its key.
    let mut part = json!({"transaction_id": second.1["transaction_id"]});
    assert_eq!(send("presentments", "four", &part).await.0, 200);
    for name in ["presentment_number", "presentment_count"] {
        part[name] = json!(2);
    }
    assert_eq!(send("presentments", "five", &part).await.0, 400, "nothing is held");
    part["amount"] = json!(5);
    assert_eq!(send("presentments", "five", &part).await.1["posted"], 5.0);
}

#[tokio::test]
async fn a_stopped_engine_is_not_available() {
    let bench = DoorBench::new().await;
    let card = bench.card(100).await;
    bench.state.switch.engine.shut_down();
    let (status, detail) = bench.refused("authorizations", purchase(&card, json!(1))).await;
    assert_eq!((status, &detail["code"]), (503, &json!("stopped")));
}
