//! Each kind of request against a real engine: what is decided, in which words it is told, and
//! which faults are named.

use std::collections::BTreeSet;

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::card::CardCommand;
use cardswitch_engine::domain::credential::PinVerifier;
use cardswitch_engine::domain::ids::CardId;
use cardswitch_secrets::pan::Pan;
use serde_json::{Value, json};

use super::world::{COMPANY, Card, DoorBench, purchase};
use crate::openapi::{DocumentedDoor, document};
use crate::test_world::by_switch;

#[tokio::test]
async fn an_approval_tells_what_was_decided() {
    let bench = DoorBench::new().await;
    let card = bench.card(100).await;
    let mut answer = bench.post("authorizations", purchase(&card, json!("12.50"))).await;
    let answer = answer.as_object_mut().unwrap();
    let id = answer.remove("transaction_id").unwrap();
    let authorization_id = answer.remove("authorization_id").unwrap();
    assert_eq!(authorization_id.as_str().unwrap().len(), 6);
    let expected = json!({"response_code": 0, "sub_reason": null, "approved": true,
        "approved_amount": 12.50, "failed_rules": [], "allowance_balance": 87.50});
    assert_eq!(json!(answer), expected);

    let listed = bench.get(&format!("cards/{}/transactions", card.id)).await;
    let row = &listed["results"][0];
    assert_eq!(listed["count"], 1);
    assert_eq!((&row["transaction_id"], &row["authorization_id"]), (&id, &authorization_id));
    assert_eq!((&row["state"], &row["rrn"]), (&json!("pending"), &json!("606412000042")));
    assert_eq!((&row["amount"], &row["held"]), (&json!(12.5), &json!(12.5)));
    assert_eq!((&row["posted"], &row["response_code"]), (&json!(0.0), &json!(0)));
}

#[tokio::test]
async fn a_decline_is_an_answer_with_every_failed_rule() {
    let bench = DoorBench::new().await;
    let card = bench.card(10).await;
    let mut body = purchase(&card, json!(11));
    body["cvv"] = json!(if card.cvv == "123" { "124" } else { "123" });
    let answer = bench.post("authorizations", body).await;
    assert_eq!((&answer["approved"], &answer["response_code"]), (&json!(false), &json!(1303)));
    assert_eq!(answer["failed_rules"].as_array().unwrap().len(), 2, "{answer}");
    assert_eq!(answer["authorization_id"], Value::Null);

    let unknown = Card { number: "5500000000000004".into(), ..card };
    let answer = bench.post("authorizations", purchase(&unknown, json!(1))).await;
    assert_eq!(answer["response_code"], 1000);
    assert_eq!(answer["sub_reason"], "unknown_card");
    assert_eq!(
        (&answer["transaction_id"], &answer["allowance_balance"]),
        (&json!(null), &json!(null))
    );
}

#[tokio::test]
async fn credentials_are_compared_whichever_way_the_card_is_named() {
    let bench = DoorBench::new().await;
    let card = bench.card(1_000).await;
    let pan = Pan::parse(card.number.as_bytes()).unwrap();
    let verifier: PinVerifier = bench.state.secrets.pin_verifier(&pan, b"4321");
    let card_id = CardId(card.id.parse().unwrap());
    let set_pin = AdminCommand::Card(CardCommand::SetPin(COMPANY, card_id, verifier));
    by_switch(&bench.state).carry_out(set_pin).await.unwrap();
    let wrong_cvv = if card.cvv == "123" { "124" } else { "123" };
    let rows = [
        ("expiration", card.expiration.as_str(), 0),
        ("expiration", &card.expiration[..7], 0),
        ("expiration", "2031-01-31", 1301),
        ("cvv", card.cvv.as_str(), 0),
        ("cvv", wrong_cvv, 1303),
        ("cvv", "", 1303),
        ("pin", "4321", 0),
        ("pin", "1234", 1302),
        ("zip", "94105-0001", 0),
        ("zip", "10001", 1304),
    ];
    for by_id in [false, true] {
        // Five wrong ones in an hour would close the card.
        bench.post("clock", json!({"advance": "2h"})).await;
        for (field, value, code) in rows {
            let mut body = purchase(&card, json!(1));
            if by_id {
                body.as_object_mut().unwrap().remove("card_number");
                body["card_id"] = json!(card.id);
            }
            body[field] = json!(value);
            let answer = bench.post("authorizations", body).await;
            assert_eq!(answer["response_code"], code, "{field} {value} {by_id}");
        }
    }
}

#[tokio::test]
async fn kinds_are_told_apart() {
    let bench = DoorBench::new().await;
    let card = bench.card(100).await;
    let kind = |kind: &str, amount: Value| {
        let mut body = purchase(&card, amount);
        body["kind"] = json!(kind);
        body
    };
    assert_eq!(bench.post("authorizations", kind("cash", json!(5))).await["response_code"], 1702);
    let mut verification = kind("verification", json!(0));
    verification.as_object_mut().unwrap().remove("amount");
    for body in [verification, kind("purchase", json!(0))] {
        let answer = bench.post("authorizations", body).await;
        assert_eq!(
            (&answer["approved"], &answer["allowance_balance"]),
            (&json!(true), &json!(100.0))
        );
    }
    let (_, detail) = bench.refused("authorizations", kind("verification", json!(1))).await;
    assert_eq!(detail["param"], "amount");
    let (_, detail) = bench.refused("authorizations", kind("gift", json!(1))).await;
    assert_eq!(detail["param"], "kind");
}

#[tokio::test]
async fn a_foreign_purchase_needs_the_billing_amount() {
    let bench = DoorBench::new().await;
    let card = bench.card(100).await;
    let mut body = purchase(&card, json!(1500));
    body["currency"] = json!("JPY");
    let (status, detail) = bench.refused("authorizations", body.clone()).await;
    assert_eq!((status, &detail["param"]), (400, &json!("billing_amount")));
    body["billing_amount"] = json!(10.25);
    let answer = bench.post("authorizations", body.clone()).await;
    assert_eq!(
        (&answer["approved_amount"], &answer["allowance_balance"]),
        (&json!(10.25), &json!(89.75))
    );
    body["amount"] = json!(1500.5);
    assert_eq!(bench.refused("authorizations", body).await.1["param"], "amount", "a yen is whole");
}

#[tokio::test]
async fn reversals_presentments_and_refunds_follow_a_purchase() {
    let bench = DoorBench::new().await;
    let card = bench.card(100).await;
    let approved = bench.post("authorizations", purchase(&card, json!(20))).await;
    let id = &approved["transaction_id"];
    let named = |more: Value| {
        let mut body = json!({"transaction_id": id});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };

    let answer = bench.post("reversals", named(json!({"amount": 5}))).await;
    let expected = json!({"transaction_id": id, "response_code": 0, "outcome": "reversed",
        "given_back": 5.0, "remaining": 15.0, "allowance_balance": 85.0});
    assert_eq!(answer, json!(expected));
    let answer = bench.post("reversals", named(json!({"remaining": 10}))).await;
    assert_eq!((&answer["given_back"], &answer["remaining"]), (&json!(5.0), &json!(10.0)));
    let answer = bench.post("reversals", named(json!({"amount": 11}))).await;
    assert_eq!(
        (&answer["outcome"], &answer["response_code"]),
        (&json!("amount_out_of_range"), &json!(1000))
    );

    let answer = bench.post("presentments", named(json!({}))).await;
    let expected = json!({"transaction_id": id, "response_code": 0, "outcome": "posted",
        "posted": 10.0, "allowance_balance": 90.0});
    assert_eq!(answer, expected);
    let answer = bench.post("reversals", named(json!({}))).await;
    assert_eq!(
        (&answer["outcome"], &answer["response_code"]),
        (&json!("nothing_held"), &json!(1000))
    );

    let answer = bench.post("refunds", named(json!({"amount": 4}))).await;
    assert_eq!((&answer["outcome"], &answer["posted"]), (&json!("posted"), &json!(4.0)));
    assert_ne!(&answer["transaction_id"], id);
    let states: Vec<Value> = bench.get(&format!("cards/{}/transactions", card.id)).await["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| json!([row["state"], row["amount"], row["posted"]]))
        .collect();
    assert_eq!(json!(states), json!([["completed", -4.0, -4.0], ["completed", 10.0, 10.0]]));
}

/// A presentment or refund that named a purchase, and the number of another card, was a forced posting on that card.
#[tokio::test]
async fn a_purchase_and_another_card_are_not_named_together() {
    let bench = DoorBench::new().await;
    let (card, other) = (bench.card(100).await, bench.card(100).await);
    let approved = bench.post("authorizations", purchase(&card, json!(20))).await;
    for path in ["presentments", "refunds", "advices", "increments", "reversals"] {
        for name in [json!({"card_number": other.number}), json!({"card_id": other.id})] {
            let mut body = json!({"transaction_id": approved["transaction_id"], "amount": 10});
            body.as_object_mut().unwrap().extend(name.as_object().unwrap().clone());
            let (status, detail) = bench.refused(path, body).await;
            let told = (&detail["param"], &detail["code"]);
            assert_eq!((status, told), (400, (&json!("transaction_id"), &json!("conflicting"))));
        }
        let mut own = json!({"transaction_id": approved["transaction_id"], "amount": 10});
        own["card_number"] = json!(card.number);
        if ["presentments", "refunds"].contains(&path) {
            assert_eq!(bench.post(path, own).await["outcome"], "posted");
        }
    }
    let untouched = bench.get(&format!("cards/{}/transactions", other.id)).await;
    assert_eq!(untouched["results"], json!([]));
}

/// A reversal that named a message of a purchase by its marks, and the purchase by its id, took back the purchase: the
/// marks counted for nothing where no card was named.
#[tokio::test]
async fn a_message_is_reversed_by_its_marks_where_its_purchase_is_named_by_id() {
    let bench = DoorBench::new().await;
    let card = bench.card(500).await;
    let id =
        bench.post("authorizations", purchase(&card, json!(100))).await["transaction_id"].take();
    let marks = |stan: u32| {
        json!({"transaction_id": id, "stan": stan, "acquirer": "12345",
        "transmission_time": "0324000003"})
    };
    let with = |mut body: Value, more: Value| {
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    bench.post("increments", with(marks(2), json!({"amount": 50}))).await;
    let part = json!({"amount": 40, "presentment_number": 1, "presentment_count": 2});
    bench.post("presentments", with(marks(3), part)).await;
    for (stan, outcome, given_back, remaining) in [
        (3, "reversed", 40.0, 110.0),
        (2, "reversed", 50.0, 60.0),
        (9, "not_found", 0.0, 0.0),
        (42, "reversed", 60.0, 0.0),
    ] {
        let mut named = marks(stan);
        let fields = named.as_object_mut().unwrap();
        let stan = fields.remove("stan").unwrap();
        fields.insert("original_stan".to_owned(), stan.clone());
        let time = fields.remove("transmission_time").filter(|_| stan != 42);
        time.map(|time| fields.insert("original_transmission_time".to_owned(), time));
        let answer = bench.post("reversals", named).await;
        let told = json!([answer["outcome"], answer["given_back"], answer["remaining"]]);
        assert_eq!(told, json!([outcome, given_back, remaining]), "{stan}");
    }
}

#[tokio::test]
async fn an_unknown_original_is_told_by_how_it_was_named() {
    let bench = DoorBench::new().await;
    let card = bench.card(100).await;
    let nobody = json!({"transaction_id": "01890000-0000-7000-8000-000000000000"});
    for path in ["reversals", "presentments", "refunds"] {
        assert_eq!(bench.refused(path, nobody.clone()).await.0, 404, "{path}");
    }
    let reversal = json!({"card_number": card.number, "rrn": "606412000042", "acquirer": "12345"});
    let answer = bench.post("reversals", reversal).await;
    assert_eq!((&answer["outcome"], &answer["response_code"]), (&json!("not_found"), &json!(1000)));
    let overtaken = bench.post("authorizations", purchase(&card, json!(1))).await;
    assert_eq!(
        (&overtaken["approved"], &overtaken["sub_reason"]),
        (&json!(false), &json!("reversed_before"))
    );
    let forced = bench.post("presentments", purchase(&card, json!(7))).await;
    assert_eq!(forced["outcome"], "posted");
    assert_eq!(forced["allowance_balance"], 93.0);
}

#[tokio::test]
async fn advices_are_recorded_without_the_rules() {
    let bench = DoorBench::new().await;
    let card = bench.card(1).await;
    let mut body = purchase(&card, json!(5));
    let answer = bench.post("advices", body.clone()).await;
    assert_eq!((&answer["approved"], &answer["allowance_balance"]), (&json!(true), &json!(-4.0)));
    body["approved"] = json!(false);
    body["rrn"] = json!("606412000043");
    body["stan"] = json!(43);
    let answer = bench.post("advices", body).await;
    assert_eq!(
        (&answer["approved"], &answer["sub_reason"]),
        (&json!(false), &json!("network_declined"))
    );
}

#[tokio::test]
async fn each_fault_is_named_once() {
    let bench = DoorBench::new().await;
    let card = bench.card(100).await;
    let rows: [(&str, Value, Value); 22] = [
        ("amount", json!("ten"), json!(["amount"])),
        ("amount", json!(-1), json!(["amount"])),
        ("amount", json!(1.005), json!(["amount"])),
        ("amount", json!(null), json!(["amount"])),
        ("card_number", json!(null), json!(["card_number"])),
        ("card_number", json!("4111"), json!(["card_number"])),
        ("card_number", json!(4111), json!(["card_number"])),
        ("card_id", json!(card.id), json!(["card_id"])),
        ("currency", json!("dollars"), json!(["currency"])),
        ("expiration", json!("soon"), json!(["expiration"])),
        ("stan", json!("1234567"), json!(["stan"])),
        ("rrn", json!("1234567890123"), json!(["rrn"])),
        ("acquirer", json!("bank"), json!(["acquirer"])),
        ("terminal", json!("123456789"), json!(["terminal"])),
        ("transmission_time", json!("0305"), json!(["transmission_time"])),
        ("time", json!("now"), json!(["time"])),
        ("merchant", json!("Diner"), json!(["merchant"])),
        ("merchant", json!({"mcc": "food"}), json!(["merchant.mcc"])),
        ("merchant", json!({"mid": 1.5}), json!(["merchant.mid"])),
        (
            "merchant",
            json!({"name": "x".repeat(65), "zip": 1}),
            json!(["merchant.name", "merchant.zip"]),
        ),
        ("partial", json!("yes"), json!(["partial"])),
        ("pin", json!(1234), json!(["pin"])),
    ];
    for (field, value, expected) in rows {
        let mut body = purchase(&card, json!(1));
        body[field] = value.clone();
        let (status, detail) = bench.refused("authorizations", body).await;
        let named: Vec<_> =
            detail["errors"].as_array().unwrap().iter().map(|fault| &fault["param"]).collect();
        assert_eq!((status, json!(named)), (400, expected), "{field} = {value}");
    }
    let reversal_rows = [
        (json!({}), json!(["card_number", "transaction_id"])),
        (json!({"card_id": card.id}), json!(["transaction_id"])),
        (json!({"rrn": "1"}), json!(["card_number"])),
        (
            json!({"card_id": card.id, "rrn": "1", "amount": 1, "remaining": 1}),
            json!(["remaining"]),
        ),
        (json!({"card_id": card.id, "authorization_id": "no"}), json!(["authorization_id"])),
        (json!({"card_id": card.id, "rrn": "1", "amount": 0}), json!(["amount"])),
    ];
    for (body, expected) in reversal_rows {
        let (_, detail) = bench.refused("reversals", body.clone()).await;
        let named: Vec<_> =
            detail["errors"].as_array().unwrap().iter().map(|fault| &fault["param"]).collect();
        assert_eq!(json!(named), expected, "{body}");
    }
    let numbered = json!({"card_id": card.id, "amount": 1, "presentment_number": 2,
        "presentment_count": 1});
    assert_eq!(bench.refused("presentments", numbered).await.1["param"], "presentment_number");
    // Half a statement is none: a first of many was once taken for the last, and freed the rest of the hold.
    for (given, absent) in
        [("presentment_number", "presentment_count"), ("presentment_count", "presentment_number")]
    {
        let half = json!({"card_id": card.id, "amount": 1, given: 1});
        assert_eq!(bench.refused("presentments", half).await.1["param"], absent);
    }
    let timed = json!({"card_id": card.id, "rrn": "1", "original_transmission_time": "0304200000"});
    assert_eq!(bench.refused("reversals", timed).await.1["param"], "original_stan");
    assert_eq!(bench.get(&format!("cards/{}/transactions", card.id)).await["count"], 0);
}

/// `dry_run: true` spent the money: what nobody reads must not look as if it were heeded.
#[tokio::test]
async fn unknown_fields_are_refused_and_spend_nothing() {
    let bench = DoorBench::new().await;
    let card = bench.card(100).await;
    let with = |mut body: Value, name: &str| {
        body[name] = json!(true);
        body
    };
    let mut inner = purchase(&card, json!(1));
    inner["merchant"]["category"] = json!("food");
    let transfer = json!({"account_id": card.id, "amount": 1});
    let mut to_bank = transfer.clone();
    to_bank["bank_account"] = json!({"iban": "x"});
    let rows = [
        ("authorizations", with(purchase(&card, json!(1)), "dry_run"), "dry_run"),
        ("authorizations", with(purchase(&card, json!(1)), "Amount"), "Amount"),
        ("authorizations", with(purchase(&card, json!(1)), "type"), "type"),
        ("authorizations", inner, "merchant.category"),
        ("advices", with(purchase(&card, json!(1)), "partial"), "partial"),
        ("presentments", with(purchase(&card, json!(1)), "kind"), "kind"),
        ("reversals", with(purchase(&card, json!(1)), "merchant"), "merchant"),
        ("transfers", with(transfer, "currency"), "currency"),
        ("transfers", to_bank, "bank_account.iban"),
        ("transfers/0198f2a0-1b2c-7d3e-8f40-5a6b7c8d9e0f/settle", json!({"amount": 1}), "amount"),
        ("clock", json!({"advance": 1, "dry_run": true}), "dry_run"),
    ];
    for (path, body, param) in rows {
        let (status, detail) = bench.refused(path, body.clone()).await;
        let named: Vec<_> =
            detail["errors"].as_array().unwrap().iter().map(|fault| &fault["param"]).collect();
        assert_eq!((status, json!(named)), (400, json!([param])), "{path} {body}");
        assert_eq!(detail["errors"][0]["code"], "unknown_field", "{path} {body}");
    }
    let mut item = purchase(&card, json!(1));
    item["type"] = json!("authorization");
    let answers = bench.post("batch", json!([item, with(item.clone(), "dry_run")])).await;
    assert_eq!(answers[0]["approved"], true, "{answers}");
    assert_eq!(answers[1]["detail"]["param"], "dry_run", "{answers}");
    assert_eq!(bench.get(&format!("cards/{}/transactions", card.id)).await["count"], 1);
}

/// The document shows of a body exactly the fields that the operation reads.
#[tokio::test]
async fn the_fields_of_the_document_are_those_that_are_read() {
    let bench = DoorBench::new().await;
    let document = document(DocumentedDoor::Network, bench.state.urls());
    let operations = [
        "authorizations",
        "advices",
        "reversals",
        "presentments",
        "refunds",
        "increments",
        "transfers",
        "clock",
    ];
    let shown = operations.map(|operation| {
        let path = format!("/network/v1/{operation}");
        let schema = &document["paths"][path]["post"]["requestBody"]["content"]["application/json"]
            ["schema"];
        let mut names = BTreeSet::new();
        collect_names(&document, schema, &mut names);
        assert!(names.len() > 1, "{operation}: {schema}");
        (operation, names)
    });
    let all: BTreeSet<_> = shown.iter().flat_map(|(_, names)| names.clone()).collect();
    for (operation, names) in &shown {
        for name in &all {
            // Of no use as a value, so that nothing comes of it.
            let (_, detail) = bench.refused(operation, json!({name: [true]})).await;
            let faults = detail["errors"].as_array().unwrap();
            let is_unknown = faults
                .iter()
                .any(|fault| fault["param"] == **name && fault["code"] == "unknown_field");
            assert_eq!(is_unknown, !names.contains(name), "{operation} {name}: {detail}");
        }
    }
}

/// The names of an object's fields, also of the objects that it is put together from.
fn collect_names(document: &Value, schema: &Value, names: &mut BTreeSet<String>) {
    if let Some(path) = schema["$ref"].as_str() {
        collect_names(document, document.pointer(&path[1..]).unwrap(), names);
    }
    for part in schema["allOf"].as_array().into_iter().flatten() {
        collect_names(document, part, names);
    }
    names.extend(
        schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name.clone()),
    );
}
