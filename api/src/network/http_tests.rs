//! The HTTP door against a real engine on a manual clock, and both doors against each other. Each
//! test has a data directory of its own.

use axum::body::Body;
use axum::http::{Request, header};
use cardswitch_engine::clock::Clock;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::domain::credential::PinVerifier;
use cardswitch_engine::domain::ids::{AccessTokenId, AccountId, CardId, CompanyId};
use cardswitch_engine::domain::member::AccessScope;
use cardswitch_engine::domain::money::CurrencyCode;
use cardswitch_iso8583::{Dialect, Echo, MessageBuilder, Mti, OriginalData, decode};
use serde_json::{Value, json};
use tempfile::TempDir;
use tower::ServiceExt;
use uuid::Uuid;

use super::*;
use crate::network::mapping::{Mapped, map_message};
use crate::network::mapping_answer::AnswerElements;
use crate::pan::Pan;
use crate::secrets::token_digest;
use crate::test_world::{TestSwitch, access_token, company};
use crate::wire::time::parse_time;

const COMPANY: CompanyId = CompanyId(Uuid::from_u128(1));
const START: &str = "2026-03-04T20:00:00Z";

/// A switch with one company in dollars. API token `token`, network key `key`.
struct Bench {
    state: AppState,
    routes: Router,
    _directory: TempDir,
}

/// A card as its cardholder knows it.
struct Card {
    id: String,
    number: String,
    expiration: String,
    cvv: String,
}

impl Bench {
    async fn new() -> Self {
        Self::with_clock(Clock::manual(parse_time(START).unwrap())).await
    }

    async fn with_clock(clock: Clock) -> Self {
        let scope = AccessScope { admin: true, ..AccessScope::default() };
        let account = AccountId(Uuid::from_u128(2));
        let commands = vec![
            AdminCommand::CreateCompany(company(COMPANY, account, CurrencyCode(840), 1_000_000)),
            access_token(AccessTokenId(Uuid::from_u128(3)), "token", COMPANY, scope),
            AdminCommand::SetNetworkKey(token_digest("key")),
        ];
        let TestSwitch { state, routes, directory } = TestSwitch::start(clock, commands).await;
        Self { state, routes, _directory: directory }
    }

    async fn send(&self, request: Request<Body>) -> (u16, Value) {
        // As the server does.
        let response = match is_direct(&request) {
            true => answer_directly(&self.state, request).await,
            false => self.routes.clone().oneshot(request).await.unwrap(),
        };
        let status = response.status().as_u16();
        assert!(response.headers().contains_key("request-id"));
        let bytes = axum::body::to_bytes(response.into_body(), 10_000_000).await.unwrap();
        (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    async fn ask(&self, authorization: &str, method: &str, path: &str, body: &str) -> (u16, Value) {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, "application/json");
        if !authorization.is_empty() {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        self.send(request.body(Body::from(body.to_owned())).unwrap()).await
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        let path = format!("/network/v1/{path}");
        let (status, answer) = self.ask("Bearer key", "POST", &path, &body.to_string()).await;
        assert_eq!(status, 200, "{path} {body}: {answer}");
        answer
    }

    async fn refused(&self, path: &str, body: Value) -> (u16, Value) {
        let path = format!("/network/v1/{path}");
        let (status, answer) = self.ask("Bearer key", "POST", &path, &body.to_string()).await;
        assert!(status >= 400, "{path} {body}: {answer}");
        (status, answer["detail"].clone())
    }

    async fn get(&self, path: &str) -> Value {
        let (status, answer) =
            self.ask("Bearer key", "GET", &format!("/network/v1/{path}"), "").await;
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    async fn card(&self, budget: i64) -> Card {
        let body = json!({"allowance": {"amount": budget}, "description": "x", "is_virtual": true,
            "billing_address": {"address_1": "1 St", "city": "B", "state": "CA",
                "zip_code": "94105"}});
        let (status, made) = self.ask("Token token", "POST", "/v1/cards", &body.to_string()).await;
        assert_eq!(status, 201, "{made}");
        let id = made["id"].as_str().unwrap().to_owned();
        let secrets = self.get(&format!("cards/{id}")).await;
        let text = |key: &str| secrets[key].as_str().unwrap().to_owned();
        assert_eq!(text("card_id"), id);
        let card = Card {
            id,
            number: text("card_number"),
            expiration: text("expiration"),
            cvv: text("cvv"),
        };
        let pan = Pan::parse(card.number.as_bytes()).unwrap();
        assert!(pan.is_luhn_valid());
        card
    }

    /// Sends a message through the mapping of the ISO 8583 door; returns DE39.
    async fn ask_iso(&self, message: &MessageBuilder) -> String {
        let (mut frame, dialect) = (Vec::new(), Dialect::default());
        message.encode(&mut frame, &dialect).unwrap();
        let message = decode(&frame, &dialect).unwrap();
        let Mapped::Ask(command) = map_message(&message, &self.state.secrets) else {
            panic!("nothing is asked by {message:?}");
        };
        let reply = self.state.switch.ask(command).await.unwrap();
        let elements = AnswerElements::of_reply(&Echo::of(&message), &reply);
        String::from_utf8(elements.code.0.to_vec()).unwrap()
    }
}

fn purchase(card: &Card, amount: Value) -> Value {
    json!({"card_number": card.number, "amount": amount,
        "merchant": {"mid": 42, "mcc": 5812, "name": "Diner", "city": "Oakland", "state": "CA",
            "country": "US", "zip": "94601"},
        "stan": "000042", "rrn": "606412000042", "acquirer": "12345"})
}

fn iso(mti: &str, card: &Card, stan: u64) -> MessageBuilder {
    MessageBuilder::new(Mti::parse(mti.as_bytes()).unwrap())
        .set(2, card.number.as_bytes())
        .set_text(3, "000000")
        .set_number(4, 1_000)
        .set_text(7, "0304200000")
        .set_number(11, stan)
        .set_text(18, "5812")
        .set_text(32, "12345")
        .set_text(37, &format!("606412{stan:06}"))
}

#[tokio::test]
async fn only_the_network_key_opens_the_door() {
    let bench = Bench::new().await;
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
async fn an_approval_tells_what_was_decided() {
    let bench = Bench::new().await;
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
    let bench = Bench::new().await;
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
    let bench = Bench::new().await;
    let card = bench.card(1_000).await;
    let pan = Pan::parse(card.number.as_bytes()).unwrap();
    let verifier: PinVerifier = bench.state.secrets.pin_verifier(&pan, b"4321");
    let card_id = CardId(card.id.parse().unwrap());
    let set_pin = AdminCommand::SetPin(COMPANY, card_id, verifier);
    bench.state.carry_out(set_pin).await.unwrap();
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
    let bench = Bench::new().await;
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
    let bench = Bench::new().await;
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
    let bench = Bench::new().await;
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

#[tokio::test]
async fn an_unknown_original_is_told_by_how_it_was_named() {
    let bench = Bench::new().await;
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
    let bench = Bench::new().await;
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
async fn what_came_by_one_door_is_reversed_by_the_other() {
    let bench = Bench::new().await;
    let card = bench.card(100).await;
    let balance = async |bench: &Bench| {
        let inquiry =
            bench.ask("Token token", "GET", &format!("/v1/cards/{}", card.id), "").await.1;
        inquiry["allowance"]["balance"].clone()
    };

    // By reference and by original data, from ISO 8583 to HTTP.
    assert_eq!(bench.ask_iso(&iso("0100", &card, 1)).await, "00");
    assert_eq!(bench.ask_iso(&iso("0100", &card, 2)).await, "00");
    assert_eq!(balance(&bench).await, 80.0);
    let by_rrn = json!({"card_id": card.id, "rrn": "606412000001", "acquirer": "12345"});
    let by_stan = json!({"card_number": card.number, "original_stan": 2, "acquirer": 12345,
        "original_transmission_time": "0304200000"});
    for body in [by_rrn, by_stan] {
        assert_eq!(bench.post("reversals", body.clone()).await["outcome"], "reversed", "{body}");
    }
    assert_eq!(balance(&bench).await, 100.0);

    // By reference, by original data and by authorization id, from HTTP to ISO 8583.
    let original = OriginalData {
        mti: Mti::AUTHORIZATION_REQUEST,
        stan: 4,
        transmitted: *b"0000000000",
        acquirer: 12_345,
        forwarder: 0,
    };
    for way in 3..=5_u64 {
        let mut body = purchase(&card, json!(10));
        body["stan"] = json!(way);
        body["rrn"] = json!(format!("606412{way:06}"));
        let approved = bench.post("authorizations", body).await;
        assert_eq!(balance(&bench).await, 90.0);
        let reversal = iso("0400", &card, way);
        let reversal = match way {
            3 => reversal,
            4 => reversal.without(37).set(90, &original.to_content().unwrap()),
            _ => {
                let id = approved["authorization_id"].as_str().unwrap();
                reversal.without(37).set_text(38, id)
            }
        };
        assert_eq!(bench.ask_iso(&reversal).await, "00", "{way}");
        assert_eq!(balance(&bench).await, 100.0);
    }
}

#[tokio::test]
async fn a_batch_is_answered_in_order_and_each_request_stands_for_itself() {
    let bench = Bench::new().await;
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
    let bench = Bench::new().await;
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
}

#[tokio::test]
async fn each_fault_is_named_once() {
    let bench = Bench::new().await;
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
    assert_eq!(bench.get(&format!("cards/{}/transactions", card.id)).await["count"], 0);
}

#[tokio::test]
async fn what_is_not_offered_is_not_found() {
    let bench = Bench::new().await;
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
async fn a_manual_clock_is_turned_and_runs_what_is_due() {
    let bench = Bench::new().await;
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
    let bench = Bench::with_clock(Clock::System).await;
    assert_eq!(bench.get("clock").await["manual"], false);
    let (status, detail) = bench.refused("clock", json!({"advance": 1})).await;
    assert_eq!((status, &detail["code"]), (409, &json!("clock_not_manual")));
}

#[tokio::test]
async fn a_stopped_engine_is_not_available() {
    let bench = Bench::new().await;
    let card = bench.card(100).await;
    bench.state.switch.engine().shut_down();
    let (status, detail) = bench.refused("authorizations", purchase(&card, json!(1))).await;
    assert_eq!((status, &detail["code"]), (503, &json!("stopped")));
}

/// A request, to be made twice.
struct Sent {
    method: &'static str,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: String,
}

impl Sent {
    fn to(path: &str, body: impl Into<String>) -> Self {
        let headers = [("authorization", "Bearer key"), ("content-type", "application/json")];
        Self {
            method: "POST",
            path: format!("/network/v1/{path}"),
            headers: headers.map(|(name, value)| (name, value.to_owned())).into(),
            body: body.into(),
        }
    }

    fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.retain(|(other, _)| *other != name);
        self.headers.push((name, value.into()));
        self
    }

    fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(other, _)| *other != name);
        self
    }

    fn request(&self) -> Request<Body> {
        let request = Request::builder().method(self.method).uri(&self.path);
        let add = |request: axum::http::request::Builder, (name, value): &(&str, String)| {
            request.header(*name, value)
        };
        self.headers.iter().fold(request, add).body(Body::from(self.body.clone())).unwrap()
    }
}

/// Status, headers and body of an answer, without what no two answers share and what the server adds.
async fn answer_of(response: Response) -> (u16, Vec<(String, String)>, Value) {
    let (parts, body) = response.into_parts();
    let text = |value: &HeaderValue| value.to_str().unwrap().to_owned();
    let mut headers: Vec<_> =
        parts.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    headers.retain(|(name, _)| !["request-id", "content-length"].contains(&name.as_str()));
    headers.sort();
    assert!(parts.headers.contains_key("request-id"));
    let bytes = axum::body::to_bytes(body, 10_000_000).await.unwrap();
    let mut body: Value = serde_json::from_slice(&bytes).unwrap();
    if let Some(object) = body.as_object_mut() {
        object.remove("transaction_id");
        object.remove("authorization_id");
    }
    (parts.status.as_u16(), headers, body)
}

#[tokio::test]
async fn the_direct_way_answers_in_the_words_of_the_router() {
    let bench = Bench::new().await;
    let card = bench.card(1_000).await;
    let verification = || purchase(&card, json!(0)).to_string();
    let unknown = Card { number: "5500000000000004".into(), ..bench.card(1).await };
    let key = |len: usize| "k".repeat(len);
    let rows = [
        (Sent::to("authorizations", verification()), 200),
        (Sent::to("authorizations?x=1", verification()), 200),
        (Sent::to("authorizations", verification()).with("idempotency-key", "once"), 200),
        (Sent::to("authorizations", "{}").with("idempotency-key", "once"), 400),
        (Sent::to("authorizations", verification()).with("idempotency-key", key(255)), 200),
        (Sent::to("authorizations", verification()).with("idempotency-key", key(256)), 400),
        (Sent::to("authorizations", purchase(&unknown, json!(1)).to_string()), 200),
        (Sent::to("authorizations", purchase(&card, json!("ten")).to_string()), 400),
        (Sent::to("authorizations", "[]"), 400),
        (Sent::to("authorizations", "{"), 400),
        (Sent::to("authorizations", ""), 400),
        (Sent::to("authorizations", " ".repeat(limits::BODY_BYTES_MAX + 1)), 413),
        (Sent::to("authorizations", verification()).without("content-type"), 415),
        (Sent::to("authorizations", verification()).with("content-type", "text/plain"), 415),
        (Sent::to("authorizations", verification()).without("authorization"), 401),
        (Sent::to("authorizations", "{").with("authorization", "Bearer no"), 401),
        (Sent::to("reversals", json!({"card_id": card.id, "rrn": "1"}).to_string()), 200),
        (
            Sent::to("reversals", r#"{"transaction_id": "01890000-0000-7000-8000-000000000000"}"#),
            404,
        ),
        (Sent::to("advices", "{}"), 400),
        (Sent::to("presentments", "{}"), 400),
        (Sent::to("refunds", "{}"), 400),
    ];
    for (sent, status) in rows {
        assert!(is_direct(&sent.request()), "{}", sent.path);
        let routed = bench.routes.clone().oneshot(sent.request()).await.unwrap();
        let routed = answer_of(routed).await;
        let direct = answer_of(answer_directly(&bench.state, sent.request()).await).await;
        assert_eq!((direct.0, &direct), (status, &routed), "{} {:?}", sent.path, sent.headers);
    }
    for path in ["batch", "clock", "authorizations/", "authorizations/x", "nothing"] {
        assert!(!is_direct(&Sent::to(path, "").request()), "{path}");
    }
    let read = Sent { method: "GET", ..Sent::to("authorizations", "") };
    assert!(!is_direct(&read.request()));
}
