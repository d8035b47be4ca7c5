//! The handlers against a real engine on a manual clock: shapes as clients see them, and who may
//! do what.

use cardswitch_engine::command::network::MessageAmounts;
use cardswitch_engine::domain::money::{CurrencyAmount, Minor};
use serde_json::{Value, json};

use crate::bench::{
    ACCOUNT, Bench, COMPANY, JPY, MEMBER, OTHER_MEMBER, USD, amount, code_of, id_of, virtual_card,
};
use crate::test_world::BASE;

#[tokio::test]
async fn only_tokens_open_data_and_only_admins_change_it() {
    let bench = Bench::new().await;
    let card = bench.order(virtual_card()).await;
    let card_path = format!("/v1/cards/{}", id_of(&card));
    let allowance_path = format!("/v1/allowances/{}", id_of(&card["allowance"]));
    let account_path = format!("/v1/accounts/{ACCOUNT}");
    let rows = [
        ("", "GET", "/v1/cards", 401),
        ("Token", "GET", "/v1/cards", 401),
        ("Token wrong", "GET", "/v1/cards", 401),
        ("Basic admin", "GET", "/v1/cards", 401),
        ("Bearer admin", "GET", "/v1/cards", 200),
        ("Token read", "GET", "/v1/cards", 200),
        ("Token read", "POST", "/v1/cards", 403),
        ("Token read", "PUT", &card_path, 403),
        ("Token read", "DELETE", &card_path, 403),
        ("Token read", "PUT", &allowance_path, 403),
        ("Token other", "GET", &card_path, 404),
        ("Token other", "PUT", &card_path, 404),
        ("Token other", "DELETE", &card_path, 404),
        ("Token other", "GET", &allowance_path, 404),
        ("Token other", "PUT", &allowance_path, 404),
        ("Token other", "GET", &account_path, 404),
        ("Token admin", "GET", "/v1/cards/5", 404),
        ("Token admin", "GET", "/v1/transactions/01900000-0000-7000-8000-000000000000", 404),
        ("Token admin", "PATCH", &card_path, 405),
        ("Token admin", "GET", "/v1/unknown", 404),
        ("", "GET", "/v1/unknown", 404),
    ];
    for (authorization, method, path, expected) in rows {
        let body = if matches!(method, "POST" | "PUT") { json!({}) } else { Value::Null };
        let (status, text) = bench.ask_as(authorization, method, path, body).await;
        assert_eq!(status, expected, "{authorization} {method} {path}");
        if status >= 400 {
            let body: Value = serde_json::from_str(&text).unwrap();
            assert!(body["detail"]["message"].is_string(), "{text}");
            assert_eq!(body["detail"]["errors"], json!([]), "{text}");
        }
    }
    assert_eq!(bench.get(&card_path).await["state"], "active");
}

#[tokio::test]
async fn a_transaction_has_the_shape_of_the_specification() {
    let bench = Bench::new().await;
    let mut order = virtual_card();
    order["assigned_to"] = json!({"id": MEMBER});
    let card = bench.order(order).await;
    bench.advance("2026-03-04T20:10:00Z");
    let foreign = MessageAmounts {
        amount: Minor(1_500),
        currency: Some(JPY),
        billing: Some(CurrencyAmount { amount: Minor(1_025), currency: USD }),
    };
    assert!(bench.authorize(&card, foreign).await);
    bench.advance("2026-03-04T20:20:00Z");
    assert!(!bench.authorize(&card, amount(10_001)).await);

    let list = bench.get("/v1/transactions").await;
    assert_eq!(list["count"], 3);
    let [declined, pending, opening] = list["results"].as_array().unwrap().as_slice() else {
        panic!("{list}");
    };
    let id = id_of(pending);
    let expected = json!({
        "id": id,
        "url": format!("{BASE}/v1/transactions/{id}"),
        "amount": -10.25,
        "foreign_amount": -1500,
        "foreign_currency_code": "JPY",
        "state": "pending",
        "card": {"id": id_of(&card), "url": card["url"], "state": "active",
            "description": "Lunch", "last_four": card["last_four"]},
        "member": card["assigned_to"],
        "category": null,
        "department": null,
        "location": null,
        "label": null,
        "receipt": null,
        "note": "",
        "merchant": {"mid": 123_456, "mcc": 5812, "name": "Luigi", "address": "",
            "city": "Oakland", "state": "CA", "zip": "94601", "zip_code": "94601",
            "country": "US", "card_acceptor_id": "000000000123456"},
        "time": "2026-03-04T20:10:00.000000Z",
        "posted_at": null,
        "created_at": "2026-03-04T20:10:00.000000Z",
        "kind": "purchase",
        "flags": [],
    });
    assert_eq!(*pending, expected);
    assert_eq!(bench.get(&format!("/v1/transactions/{id}")).await, expected);

    assert_eq!(declined["state"], "declined");
    assert_eq!(declined["amount"], json!(-100.01));
    assert_eq!(declined["response_code"], 1502);
    assert_eq!(declined["failed_rules"], json!(["allowance_balance"]));
    assert_eq!(declined["posted_at"], Value::Null);

    assert_eq!(opening["amount"], json!(1000.0));
    assert_eq!((&opening["card"], &opening["kind"]), (&Value::Null, &json!("bank_transfer")));
    let bank = json!({"description": "Opening balance", "name": "Bank", "number": ""});
    assert_eq!(opening["bank_account"], bank);
    assert_eq!(opening["posted_at"], opening["time"]);
    assert!(opening.get("merchant").is_none() && opening.get("response_code").is_none());

    let path = format!("/v1/transactions/{id}");
    let (status, _) = bench.ask_as("Token other", "GET", &path, Value::Null).await;
    assert_eq!(status, 404);
}

#[tokio::test]
async fn transactions_are_listed_by_filter_and_time() {
    let bench = Bench::new().await;
    let mut order = virtual_card();
    order["assigned_to"] = json!({"id": MEMBER});
    let (first, second) = (bench.order(order).await, bench.order(virtual_card()).await);
    for (minute, card) in [(1, &first), (2, &second), (3, &first)] {
        bench.advance(&format!("2026-03-04T20:0{minute}:00Z"));
        assert!(bench.authorize(card, amount(100 * minute)).await);
    }
    let of_first = format!("card={}", id_of(&first));
    let rows: &[(&str, &[f64])] = &[
        ("", &[-3.0, -2.0, -1.0, 1_000.0]),
        ("ordering=time", &[1_000.0, -1.0, -2.0, -3.0]),
        ("ordering=-time&limit=1&offset=1", &[-2.0]),
        (&of_first, &[-3.0, -1.0]),
        (&format!("member={MEMBER}"), &[-3.0, -1.0]),
        ("after=2026-03-04T20:02:00Z", &[-3.0, -2.0]),
        ("before=2026-03-04T20:02:00Z&after=2026-03-04T20:01:00Z", &[-1.0]),
        (&format!("{of_first}&before=2026-03-04T21:03:00+01:00"), &[-1.0]),
        (&format!("card={COMPANY}"), &[]),
        (&format!("member={OTHER_MEMBER}"), &[]),
        (&format!("label={COMPANY}"), &[]),
    ];
    for (query, expected) in rows {
        let list = bench.get(&format!("/v1/transactions?{query}")).await;
        let found: Vec<_> =
            list["results"].as_array().unwrap().iter().map(|row| &row["amount"]).collect();
        assert_eq!(found, *expected, "{query}");
    }
    let (status, body) = bench.ask("GET", "/v1/transactions?before=today", Value::Null).await;
    assert_eq!((status, &body["detail"]["param"]), (400, &json!("before")));
}

#[tokio::test]
async fn accounts_and_company_have_the_shapes_of_the_specification() {
    let bench = Bench::new().await;
    let card = bench.order(virtual_card()).await;
    assert!(bench.authorize(&card, amount(1_050)).await);
    let list = bench.get("/v1/accounts").await;
    let account = &list["results"][0];
    let expected = json!({
        "id": ACCOUNT,
        "url": format!("{BASE}/v1/accounts/{ACCOUNT}"),
        "name": "Spending",
        "number": "000123456789",
        "currency": "USD",
        "ledger_balance": 1000.0,
        "available_balance": 989.5,
        "available_credit": 1489.5,
        "pending_credits": 0.0,
        "credit_limit": 500.0,
        "funding_source": {"name": "Bank", "is_verified": true},
        "created_at": account["created_at"],
    });
    assert_eq!(*account, expected);
    assert_eq!((&list["count"], &list["next"]), (&json!(1), &Value::Null));
    assert_eq!(bench.get(&format!("/v1/accounts/{ACCOUNT}")).await, expected);
    let empty = bench.get("/v1/accounts?created_before=2026-03-04T19:00:00Z").await;
    assert_eq!(empty["count"], 0);

    let company = bench.get("/v1/company").await;
    let address_id = id_of(&company["shipping_address"]).to_owned();
    let expected = json!({
        "id": COMPANY,
        "url": format!("{BASE}/v1/company"),
        "name": "Acme",
        "website": "https://acme.example.com",
        "currency": "USD",
        "time_zone": "America/Los_Angeles",
        "shipping_address": {"id": address_id,
            "url": format!("{BASE}/v1/shipping-addresses/{address_id}"),
            "address_1": "1 Market Street", "address_2": "", "city": "San Francisco",
            "state": "CA", "zip_code": "94105", "country": "US"},
        "sso": null,
        "risk": {"per_minute": null, "per_hour": null},
        "created_at": company["created_at"],
    });
    assert_eq!(company, expected);
    let address = bench.get(&format!("/v1/shipping-addresses/{address_id}")).await;
    assert_eq!(address, expected["shipping_address"]);

    let (_, yen) = bench.ask_as("Token other", "GET", "/v1/accounts", Value::Null).await;
    assert!(yen.contains("\"ledger_balance\":100000,"), "{yen}");
}

#[tokio::test]
async fn merchant_categories_are_paged_by_number() {
    let bench = Bench::new().await;
    let list = bench.get("/v1/merchant-categories?limit=1000").await;
    let ids: Vec<_> =
        list["results"].as_array().unwrap().iter().map(|row| row["id"].as_u64().unwrap()).collect();
    assert!(ids.is_sorted() && ids.len() > 900, "{}", ids.len());
    let last = bench.get("/v1/merchant-categories?ordering=-id&limit=1").await;
    assert_eq!(last["results"][0]["id"].as_u64(), ids.iter().copied().max());
}

#[tokio::test]
async fn a_stopped_switch_says_so() {
    let bench = Bench::new().await;
    bench.state.switch.engine.shut_down();
    let (status, body) = bench.ask("POST", "/v1/cards", virtual_card()).await;
    assert_eq!((status, code_of(&body)), (503, "stopped"));
}

#[tokio::test]
async fn a_decision_names_every_rule_and_the_least_change() {
    let bench = Bench::new().await;
    let mut order = virtual_card();
    order["allowance"] = json!({"amount": 100, "daily_limit": 44.9, "scope": [5812]});
    let card = bench.order(order).await;
    assert!(bench.authorize(&card, amount(3_490)).await);
    bench.advance("2026-03-04T20:10:00Z");
    assert!(!bench.authorize(&card, amount(1_510)).await);
    let list = bench.get("/v1/transactions").await;
    let [declined, approved, opening] = list["results"].as_array().unwrap().as_slice() else {
        panic!("{list}");
    };
    let path = |transaction: &Value| format!("/v1/transactions/{}/decision", id_of(transaction));
    let mut decision = bench.get(&path(declined)).await;
    let rules = decision["rules"].take();
    let rules = rules.as_array().unwrap();
    assert_eq!(rules.len(), 22);
    let failed: Vec<_> = rules.iter().filter(|rule| rule["passed"] == false).collect();
    let daily_limit = json!({
        "rule": "daily_limit", "response_code": 1502, "passed": false,
        "input": 15.1, "threshold": 44.9, "usage_before": 34.9, "usage_after": 34.9,
        "explanation": "the amount is over what daily_limit leaves \
            (15.10 requested; 34.90 of 44.90 spent before)",
    });
    assert_eq!(failed, [&daily_limit]);
    let allowance = json!({"amount": 100.0, "interval": null, "daily_limit": 44.9,
        "transaction_limit": null, "single_use": false, "start_time": null, "end_time": null,
        "scope": [5812]});
    let expected = json!({
        "transaction": {"id": declined["id"], "url": declined["url"]},
        "decided_at": "2026-03-04T20:10:00.000000Z",
        "decided_by": "rules",
        "response_code": 1502,
        "approved": false,
        "amount": 15.1, "approved_amount": null,
        "currency": "USD",
        "rules": null,
        "least_change": [{
            "rule": "daily_limit",
            "text": "raise daily_limit by 5.10, or wait until after 2026-03-05T00:00-08:00",
            "change": {"type": "raise", "by": 5.1, "to": 50.0},
            "after": "2026-03-05T08:00:00.000000Z",
        }],
        "approvable_amount": 10.0,
        "facts": {
            "card_state": "active", "suspension_reason": null, "valid_through": "2029-03-31",
            "allowance": allowance,
            "usage": {"spent": 34.9, "period_started_on": "2026-03-04", "spent_today": 34.9,
                "day": "2026-03-04"},
            "available_credit": 1_465.1, "held": 34.9, "credentials": [],
        },
        "increments": [],
    });
    assert_eq!(decision, expected);

    let decision = bench.get(&path(approved)).await;
    assert_eq!((&decision["approved"], &decision["least_change"]), (&json!(true), &json!([])));
    let of = |rule: &str| {
        let rules = decision["rules"].as_array().unwrap();
        rules.iter().find(|found| found["rule"] == rule).unwrap().clone()
    };
    let usage = ["usage_before", "usage_after"].map(|key| of("allowance_balance")[key].clone());
    assert_eq!(usage, [json!(0.0), json!(34.9)]);
    assert_eq!(of("out_of_scope")["threshold"], json!([5812]));

    let decision = bench.get(&path(opening)).await;
    assert_eq!(decision["decided_by"], "bank_transfer");
    assert_eq!((&decision["rules"], &decision["facts"]), (&json!([]), &Value::Null));

    let unknown = "/v1/transactions/01900000-0000-7000-8000-000000000000/decision".to_owned();
    for (token, path) in [("Token other", path(declined)), ("Token admin", unknown)] {
        assert_eq!(bench.ask_as(token, "GET", &path, Value::Null).await.0, 404, "{path}");
    }
    assert_eq!(bench.ask_as("", "GET", &path(declined), Value::Null).await.0, 401);
}
