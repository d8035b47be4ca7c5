//! The world of the tests of the HTTP door: a switch of their own with one company, its cards, and a
//! purchase with one of them.

use axum::Router;
use axum::body::Body;
use axum::http::{Request, header};
use cardswitch_engine::clock::Clock;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::access_token::AccessScope;
use cardswitch_engine::directory::company::CompanyCommand;
use cardswitch_engine::domain::ids::{AccessTokenId, AccountId, CompanyId};
use cardswitch_engine::domain::money::CurrencyCode;
use cardswitch_engine::engine::{Engine, EngineOptions, OpenError};
use cardswitch_identity::state::AppState;
use cardswitch_network::http::{answer_directly, is_direct};
use cardswitch_secrets::pan::Pan;
use cardswitch_secrets::token_digest;
use cardswitch_wire::time::parse_time;
use serde_json::{Value, json};
use tempfile::TempDir;
use tower::ServiceExt;
use uuid::Uuid;

use crate::test_world::{TestSwitch, access_token, company};

pub(super) const COMPANY: CompanyId = CompanyId(Uuid::from_u128(1));
const ACCOUNT: AccountId = AccountId(Uuid::from_u128(2));
pub(super) const START: &str = "2026-03-04T20:00:00Z";

/// A switch with one company in dollars. API token `token`, network key `key`.
pub(super) struct DoorBench {
    pub(super) state: AppState,
    pub(super) routes: Router,
    _directory: TempDir,
}

/// A card as its cardholder knows it.
pub(super) struct Card {
    pub(super) id: String,
    pub(super) number: String,
    pub(super) expiration: String,
    pub(super) cvv: String,
}

impl DoorBench {
    pub(super) async fn new() -> Self {
        Self::with_clock(Clock::manual(parse_time(START).unwrap())).await
    }

    pub(super) async fn with_clock(clock: Clock) -> Self {
        Self::with(Engine::open, clock).await
    }

    /// One whose engine `open` opens.
    pub(super) async fn with(
        open: impl FnOnce(EngineOptions) -> Result<Engine, OpenError>,
        clock: Clock,
    ) -> Self {
        let scope = AccessScope { admin: true, ..AccessScope::default() };
        let commands = vec![
            AdminCommand::Company(CompanyCommand::Create(company(
                COMPANY,
                ACCOUNT,
                CurrencyCode(840),
                1_000_000,
            ))),
            access_token(AccessTokenId(Uuid::from_u128(3)), "token", COMPANY, scope),
            AdminCommand::SetNetworkKey(token_digest("key")),
        ];
        let TestSwitch { state, routes, directory, .. } =
            TestSwitch::start_with(open, clock, commands).await;
        Self { state, routes, _directory: directory }
    }

    pub(super) async fn send(&self, request: Request<Body>) -> (u16, Value) {
        // As the server does.
        let response = match is_direct(&request) {
            true => answer_directly(&self.state.network_door(), request).await,
            false => self.routes.clone().oneshot(request).await.unwrap(),
        };
        let status = response.status().as_u16();
        assert!(response.headers().contains_key("request-id"));
        let bytes = axum::body::to_bytes(response.into_body(), 10_000_000).await.unwrap();
        (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    pub(super) async fn ask(
        &self,
        authorization: &str,
        method: &str,
        path: &str,
        body: &str,
    ) -> (u16, Value) {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, "application/json");
        if !authorization.is_empty() {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        self.send(request.body(Body::from(body.to_owned())).unwrap()).await
    }

    pub(super) async fn post(&self, path: &str, body: Value) -> Value {
        let path = format!("/network/v1/{path}");
        let (status, answer) = self.ask("Bearer key", "POST", &path, &body.to_string()).await;
        assert_eq!(status, 200, "{path} {body}: {answer}");
        answer
    }

    pub(super) async fn refused(&self, path: &str, body: Value) -> (u16, Value) {
        let path = format!("/network/v1/{path}");
        let (status, answer) = self.ask("Bearer key", "POST", &path, &body.to_string()).await;
        assert!(status >= 400, "{path} {body}: {answer}");
        (status, answer["detail"].clone())
    }

    pub(super) async fn get(&self, path: &str) -> Value {
        let (status, answer) =
            self.ask("Bearer key", "GET", &format!("/network/v1/{path}"), "").await;
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    pub(super) const fn account_id(&self) -> Uuid {
        ACCOUNT.0
    }

    pub(super) async fn card(&self, budget: i64) -> Card {
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
}

pub(super) fn purchase(card: &Card, amount: Value) -> Value {
    json!({"card_number": card.number, "amount": amount,
        "merchant": {"mid": 42, "mcc": 5812, "name": "Diner", "city": "Oakland", "state": "CA",
            "country": "US", "zip": "94601"},
        "stan": "000042", "rrn": "606412000042", "acquirer": "12345"})
}
