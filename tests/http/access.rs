//! The rights to ask `/v1`, and the form of every refusal: one shape, a request id, nothing internal.

use cardswitch_harness::{HttpClient, HttpRequest, Installation};
use serde_json::json;

#[test]
fn every_path_asks_for_a_token() {
    let installation = Installation::init(60, 801);
    let switch = installation.serve();
    let card = &installation.cards.ordinary().card_id;
    let allowance = &installation.cards.ordinary().allowance_id;
    let paths = [
        "/v1/cards".to_owned(),
        format!("/v1/cards/{card}"),
        format!("/v1/allowances/{allowance}"),
        "/v1/transactions".to_owned(),
        "/v1/accounts".to_owned(),
        "/v1/company".to_owned(),
    ];
    let wrong = HttpClient::with_authorization(switch.http, "Token wrong");
    let malformed = HttpClient::with_authorization(switch.http, "nonsense");
    for path in &paths {
        for stranger in [switch.anonymous(), wrong.clone(), malformed.clone()] {
            let answer = stranger.get(path);
            assert_eq!(answer.header("cardswitch-seq"), None, "it tells how busy the switch is");
            answer.expect_error(401);
        }
        let answer = switch.api().get(path);
        assert!(answer.header("cardswitch-seq").is_some());
        answer.expect(200);
    }
    // Apps come there before they have a token.
    let anonymous = switch.anonymous();
    for answer in
        [anonymous.get("/v1/oauth/authorize"), anonymous.post("/v1/oauth/token", &json!({}))]
    {
        assert_eq!(answer.header("cardswitch-seq"), None, "{answer:?}");
        assert!(answer.status >= 400, "{answer:?}");
    }
}

#[test]
fn bearer_is_taken_for_token() {
    let installation = Installation::init(60, 802);
    let switch = installation.serve();
    let bearer = format!("Bearer {}", installation.credentials.access_token);
    HttpClient::with_authorization(switch.http, &bearer).get("/v1/company").expect(200);
}

#[test]
fn every_answer_has_a_request_id_of_its_own() {
    let installation = Installation::init(60, 803);
    let switch = installation.serve();
    let id = |path: &str| {
        let answer = switch.api().get(path);
        answer.header("request-id").expect("a request-id").to_owned()
    };
    let ids = [id("/v1/company"), id("/v1/company"), id("/v1/nothing")];
    assert!(ids[0] != ids[1] && ids[1] != ids[2], "{ids:?}");
}

#[test]
fn trailing_slash_serves_the_same() {
    let installation = Installation::init(60, 804);
    let switch = installation.serve();
    let card = &installation.cards.ordinary().card_id;
    for path in ["/v1/company".to_owned(), format!("/v1/cards/{card}")] {
        let plain = switch.api().get(&path).expect(200);
        assert_eq!(switch.api().get(&format!("{path}/")).expect(200), plain);
    }
    let cards = switch.api().get("/v1/cards/?limit=1").expect(200);
    assert_eq!(cards["results"].as_array().map(Vec::len), Some(1));
}

#[test]
fn refusals_tell_nothing_internal() {
    let installation = Installation::init(60, 808);
    let switch = installation.serve();
    let api = switch.api();
    let headers = &[("content-type", "application/json")];
    let broken = HttpRequest { method: "POST", path: "/v1/cards", headers, body: b"{\"a\":" };
    for answer in [api.send(&broken), api.get("/v1/cards?limit=x"), api.get("/v1/cards/%00")] {
        let text = answer.text();
        for word in ["src/", ".rs", "panicked", "serde", "redb", "Error("] {
            assert!(!text.contains(word), "`{word}` in {text}");
        }
    }
}
