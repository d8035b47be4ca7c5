//! The handlers of cards and their allowances against a real engine on a manual clock: shapes as clients see them.

use serde_json::{Value, json};

use crate::bench::{Bench, COMPANY, MEMBER, OTHER_MEMBER, amount, code_of, id_of, virtual_card};
use crate::test_world::BASE;

#[tokio::test]
async fn a_card_has_the_shape_of_the_specification() {
    let bench = Bench::new().await;
    let card = bench
        .order(json!({
            "allowance": {"amount": "250.00", "interval": "weekly", "transaction_limit": 20.5,
                "daily_limit": null, "end_time": "2026-12-31T23:59:59+01:00", "scope": [5812, 3],
                "single_use": false},
            "description": "Team lunches",
            "is_virtual": true,
            "assigned_to": {"id": MEMBER},
            "category": null,
            "billing_address": {"address_1": "2 Side St", "city": "Berkeley", "state": "CA",
                "zip_code": "94704"},
            "id": "ignored", "surprise": 1,
        }))
        .await;
    let (id, allowance_id) = (id_of(&card).to_owned(), id_of(&card["allowance"]).to_owned());
    let expected = json!({
        "id": id,
        "url": format!("{BASE}/v1/cards/{id}"),
        "allowance": {
            "id": allowance_id,
            "url": format!("{BASE}/v1/allowances/{allowance_id}"),
            "amount": 250.0,
            "interval": "weekly",
            "balance": 250.0,
            "daily_limit": null,
            "transaction_limit": 20.5,
            "single_use": false,
            "start_time": null,
            "end_time": "2026-12-31T22:59:59.000000Z",
            "scope": [5812, 3],
            "next_reset_at": "2026-03-09T07:00:00.000000Z",
            "usage": {"spent": 0.0, "spent_today": 0.0, "daily_balance": null, "held": 0.0,
                "period_start": "2026-03-04T08:00:00.000000Z",
                "period_end": "2026-03-09T07:00:00.000000Z"},
            "created_at": card["created_at"],
        },
        "description": "Team lunches",
        "expiration": "2029-03-31",
        "is_virtual": true,
        "last_four": card["last_four"],
        "state": "active",
        "suspension_reason": null,
        "assigned_to": {"id": MEMBER, "url": format!("{BASE}/v1/members/{MEMBER}"),
            "email": "ada@example.com", "first_name": "Ada", "last_name": "Byron"},
        "category": null,
        "department": null,
        "location": null,
        "label": null,
        "billing_address": {"address_1": "2 Side St", "address_2": "", "city": "Berkeley",
            "state": "CA", "zip_code": "94704"},
        "created_at": card["created_at"],
    });
    assert_eq!(card, expected);
    assert_eq!(card["last_four"].as_str().unwrap().len(), 4);
    assert!(card["created_at"].as_str().unwrap().starts_with("2026-03-04T20:00:00."));
    assert_eq!(bench.get(&format!("/v1/cards/{id}/")).await, expected);
    let (_, text) =
        bench.ask_as("bearer read", "GET", &format!("/v1/cards/{id}"), Value::Null).await;
    assert!(text.contains("\"amount\":250.00,"), "{text}");
    assert!(text.contains("\"transaction_limit\":20.50,"), "{text}");
}

#[tokio::test]
async fn physical_cards_start_unactivated_and_need_an_assignee_to_be_opened() {
    let bench = Bench::new().await;
    let shipping = bench.get("/v1/company").await["shipping_address"]["id"].clone();
    let card = bench
        .order(json!({"allowance": {"amount": 1}, "description": "Van", "is_virtual": false,
            "shipping_address": {"id": shipping}}))
        .await;
    assert_eq!(card["state"], "unactivated");
    let path = format!("/v1/cards/{}", id_of(&card));
    let (status, body) = bench.ask("PUT", &path, json!({"state": "active"})).await;
    assert_eq!((status, &body["detail"]["param"]), (400, &json!("assigned_to")));
    let change = json!({"state": "active", "assigned_to": {"id": MEMBER}});
    let (status, body) = bench.ask("PUT", &path, change).await;
    assert_eq!((status, &body["state"]), (200, &json!("active")));
}

#[tokio::test]
async fn orders_are_checked_field_by_field() {
    let bench = Bench::new().await;
    let with = |changes: Value| {
        let mut body = virtual_card();
        body.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        body
    };
    let rows = [
        (json!({}), vec!["allowance", "description", "is_virtual"]),
        (with(json!({"allowance": null})), vec!["allowance"]),
        (with(json!({"allowance": 5})), vec!["allowance"]),
        (with(json!({"allowance": {}})), vec!["allowance.amount"]),
        (with(json!({"allowance": {"amount": -1}})), vec!["allowance.amount"]),
        (with(json!({"allowance": {"amount": 1, "scope": [1, 1]}})), vec!["allowance.scope"]),
        (with(json!({"description": ""})), vec!["description"]),
        (with(json!({"description": 5, "is_virtual": "yes"})), vec!["description", "is_virtual"]),
        (with(json!({"is_virtual": false})), vec!["shipping_address"]),
        (
            with(json!({"is_virtual": false, "shipping_address": {"city": "X"}})),
            vec![
                "shipping_address.address_1",
                "shipping_address.state",
                "shipping_address.zip_code",
            ],
        ),
        (
            with(json!({"is_virtual": false, "shipping_address": {"id": COMPANY}})),
            vec!["shipping_address.id"],
        ),
        (with(json!({"billing_name": "x".repeat(41)})), vec!["billing_name"]),
        (with(json!({"billing_address": {}})), {
            let fields = ["address_1", "city", "state", "zip_code"];
            fields.map(|name| ["billing_address.", name].concat().leak() as &str).to_vec()
        }),
        (with(json!({"assigned_to": MEMBER})), vec!["assigned_to"]),
        (with(json!({"assigned_to": {"id": OTHER_MEMBER}})), vec!["assigned_to"]),
        (with(json!({"category": {"id": COMPANY}})), vec!["category"]),
        (with(json!({"label": "x", "description": null})), vec!["description", "label"]),
    ];
    for (body, expected) in rows {
        let (status, answer) = bench.ask("POST", "/v1/cards", body.clone()).await;
        assert_eq!(status, 400, "{body}");
        let errors = answer["detail"]["errors"].as_array().unwrap();
        let named: Vec<_> = errors.iter().map(|error| error["param"].as_str().unwrap()).collect();
        assert_eq!(named, expected, "{body}");
        let param = if let [one] = expected.as_slice() { json!(one) } else { Value::Null };
        assert_eq!(answer["detail"]["param"], param, "{body}");
    }
    assert_eq!(bench.get("/v1/cards").await["count"], 0);
    let fine = with(json!({"billing_name": "x".repeat(40), "assigned_to": null, "label": null}));
    bench.order(fine).await;
}

#[tokio::test]
async fn cards_are_listed_by_filter_and_page() {
    let bench = Bench::new().await;
    let mut ids = Vec::new();
    for number in 0..5 {
        let mut body = virtual_card();
        body["description"] = json!(format!("Card {number}"));
        if number % 2 == 0 {
            body["assigned_to"] = json!({"id": MEMBER});
        }
        ids.push(id_of(&bench.order(body).await).to_owned());
        bench.advance(&format!("2026-03-04T20:0{}:00Z", number + 1));
    }
    let (status, _) = bench.ask("DELETE", &format!("/v1/cards/{}", ids[4]), Value::Null).await;
    assert_eq!(status, 204);
    let (status, _) = bench.ask("DELETE", &format!("/v1/cards/{}", ids[4]), Value::Null).await;
    assert_eq!(status, 204);
    let rows: &[(&str, &[usize])] = &[
        ("", &[4, 3, 2, 1, 0]),
        ("?ordering=created_at", &[0, 1, 2, 3, 4]),
        ("?state=active", &[3, 2, 1, 0]),
        ("?state=terminated,suspended", &[4]),
        ("?description=CARD%203", &[3]),
        ("?description=nothing", &[]),
        ("?created_after=2026-03-04T20:02:00Z", &[4, 3, 2]),
        ("?created_before=2026-03-04T21:02:00+01:00", &[1, 0]),
        ("?created_before=2026-03-04T21:02:00%2B01:00&created_after=2026-03-04T20:01:00Z", &[1]),
    ];
    for (query, expected) in rows {
        let list = bench.get(&format!("/v1/cards{query}")).await;
        let found: Vec<_> = list["results"].as_array().unwrap().iter().map(id_of).collect();
        let expected: Vec<_> = expected.iter().map(|at| ids[*at].as_str()).collect();
        assert_eq!(found, expected, "{query}");
        assert_eq!(list["count"], expected.len(), "{query}");
        assert_eq!(list["next"], Value::Null, "{query}");
    }
    let list = bench.get(&format!("/v1/cards?assigned_to={MEMBER}")).await;
    assert_eq!(list["count"], 3);
    for stranger in [OTHER_MEMBER, COMPANY] {
        let list = bench.get(&format!("/v1/cards?assigned_to={stranger}")).await;
        let empty = json!({"count": 0, "next": null, "previous": null, "results": []});
        assert_eq!(list, empty);
    }
    let list = bench.get("/v1/cards?limit=2&offset=2&state=active,terminated").await;
    let link =
        |offset| json!(format!("{BASE}/v1/cards?state=active,terminated&limit=2&offset={offset}"));
    assert_eq!((&list["next"], &list["previous"]), (&link(4), &link(0)));
    let (status, body) =
        bench.ask("GET", "/v1/cards?state=open&limit=-1&category=x", Value::Null).await;
    assert_eq!(status, 400);
    assert_eq!(body["detail"]["errors"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn a_card_changes_only_where_it_is_told_to() {
    let bench = Bench::new().await;
    let card = bench.order(virtual_card()).await;
    let path = format!("/v1/cards/{}", id_of(&card));
    let (status, same) = bench.ask("PUT", &path, json!({"last_four": "1", "x": {}})).await;
    assert_eq!((status, &same), (200, &card));

    let change = json!({"state": "suspended", "description": "Closed",
        "assigned_to": {"id": MEMBER}, "billing_address": {"address_1": "2 Side St", "city": "Berkeley", "state": "CA",
            "zip_code": "94704", "address_2": "Floor 3"}});
    let (_, changed) = bench.ask("PUT", &path, change).await;
    let mut expected = card.clone();
    expected["state"] = json!("suspended");
    expected["suspension_reason"] = json!("manual");
    expected["description"] = json!("Closed");
    expected["assigned_to"] = changed["assigned_to"].clone();
    expected["billing_address"] = json!({"address_1": "2 Side St", "address_2": "Floor 3",
        "city": "Berkeley", "state": "CA", "zip_code": "94704"});
    assert_eq!(changed, expected);
    assert_eq!(changed["assigned_to"]["id"], json!(MEMBER));

    let change = json!({"state": "active", "description": "Lunch", "assigned_to": null,
        "billing_address": null});
    let (_, restored) = bench.ask("PUT", &path, change).await;
    assert_eq!(restored, card);

    let rows = [
        (json!({"state": "terminated"}), 400, "not_settable"),
        (json!({"state": "unactivated"}), 400, "not_settable"),
        (json!({"state": "open"}), 400, "unknown_value"),
        (json!({"state": null}), 400, "null"),
        (json!({"description": " "}), 400, "blank"),
        (json!({"assigned_to": {"id": OTHER_MEMBER}}), 400, "not_found"),
        (json!({"department": {"id": COMPANY}}), 400, "not_found"),
        (json!({"location": null}), 200, ""),
    ];
    for (change, status, code) in rows {
        let (told, body) = bench.ask("PUT", &path, change.clone()).await;
        assert_eq!(told, status, "{change}");
        if status != 200 {
            assert_eq!(code_of(&body), code, "{change}");
        }
    }
    bench.ask("DELETE", &path, Value::Null).await;
    let (status, body) = bench.ask("PUT", &path, json!({"state": "active"})).await;
    assert_eq!((status, code_of(&body)), (409, "card_terminated"));
    let (status, body) = bench.ask("PUT", &path, json!({"description": "Gone"})).await;
    assert_eq!(
        (status, &body["description"], &body["state"]),
        (200, &json!("Gone"), &json!("terminated"))
    );
}

#[tokio::test]
async fn an_allowance_shows_what_is_left_and_takes_changes_in_part() {
    let bench = Bench::new().await;
    let card = bench.order(virtual_card()).await;
    let path = format!("/v1/allowances/{}", id_of(&card["allowance"]));
    assert_eq!(bench.get(&path).await, card["allowance"]);
    assert!(bench.authorize(&card, amount(3_025)).await);

    let (status, body) = bench.ask("PUT", &path, json!({"daily_limit": 50, "amount": 30})).await;
    assert_eq!(status, 200);
    let mut expected = card["allowance"].clone();
    expected["amount"] = json!(30.0);
    expected["balance"] = json!(-0.25);
    expected["daily_limit"] = json!(50.0);
    expected["usage"] = json!({"spent": 30.25, "spent_today": 30.25, "daily_balance": 19.75,
        "held": 30.25, "period_start": "2026-03-04T08:00:00.000000Z", "period_end": null});
    assert_eq!(body, expected);

    let (_, body) = bench.ask("PUT", &path, json!({"reset": true})).await;
    assert_eq!((&body["balance"], &body["usage"]["spent_today"]), (&json!(30.0), &json!(30.25)));
    let (status, body) = bench.ask("PUT", &path, json!({"reset": true, "interval": "daily"})).await;
    assert_eq!((status, &body["detail"]["param"]), (400, &json!("reset")));

    assert!(bench.authorize(&card, amount(1_000)).await);
    let (_, body) = bench.ask("PUT", &path, json!({"interval": "daily"})).await;
    assert_eq!(body["balance"], json!(20.0));
    assert_eq!(body["next_reset_at"], "2026-03-05T08:00:00.000000Z");
    bench.advance("2026-03-05T08:00:00Z");
    let body = bench.get(&path).await;
    assert_eq!((&body["balance"], &body["usage"]["spent_today"]), (&json!(30.0), &json!(0.0)));
    assert_eq!(body["next_reset_at"], "2026-03-06T08:00:00.000000Z");

    let (status, body) = bench.ask("PUT", &path, json!({"amount": -1, "scope": [699]})).await;
    assert_eq!((status, body["detail"]["errors"].as_array().unwrap().len()), (400, 2));
}

/// Only the log told who was shown a number by a token, and a terminated card showed its number.
#[tokio::test]
async fn numbers_shown_to_tokens_are_audited_and_no_terminated_card_shows_one() {
    let bench = Bench::new().await;
    let card = bench.order(virtual_card()).await;
    let path = format!("/v1/cards/{}", id_of(&card));
    let looks =
        async || bench.get("/v1/audit-events?action=card.number_shown").await["results"].clone();
    for count in 1..3 {
        bench.get(&format!("{path}/number")).await;
        let events = looks().await;
        assert_eq!(events.as_array().unwrap().len(), count, "{events}");
        let [actor, object] = ["actor", "object"].map(|key| &events[0][key]);
        assert_eq!(
            (&actor["kind"], id_of(object)),
            (&json!("access_token"), id_of(&card)),
            "{events}"
        );
    }
    bench.ask("DELETE", &path, Value::Null).await;
    let (status, body) = bench.ask("GET", &format!("{path}/number"), Value::Null).await;
    assert_eq!((status, code_of(&body)), (409, "card_terminated"), "{body}");
    assert_eq!(looks().await.as_array().unwrap().len(), 2, "what is not shown is not audited");
}
