//! The switch that tests of the API ask, with two companies, their members and tokens.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, header};
use cardswitch_engine::clock::Clock;
use cardswitch_engine::command::Command;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::network::{
    AuthorizationKind, Authorize, CardRef, MessageAmounts, NetworkCommand, NetworkRequest,
    PartialApproval, PurchaseFacts,
};
use cardswitch_engine::command::reply::{NetworkReply, Reply};
use cardswitch_engine::directory::access_token::AccessScope;
use cardswitch_engine::directory::company::{CompanyCommand, NewCompany};
use cardswitch_engine::directory::member::MemberCommand;
use cardswitch_engine::domain::account::FundingSource;
use cardswitch_engine::domain::credential::PresentedCredentials;
use cardswitch_engine::domain::ids::{AccountId, CardId, CompanyId, MemberId};
use cardswitch_engine::domain::merchant::{Mcc, Merchant};
use cardswitch_engine::domain::money::{CurrencyCode, Minor};
use cardswitch_engine::domain::network_key::NetworkTrace;
use cardswitch_identity::state::AppState;
use cardswitch_site::overview::LiveOverviews;
use cardswitch_wire::time::parse_time;
use serde_json::{Value, json};
use tempfile::TempDir;
use tower::ServiceExt;
use uuid::Uuid;

use crate::test_world::{TestSwitch, access_token, company, new_member, token_id};

pub(crate) const COMPANY: Uuid = Uuid::from_u128(1);
pub(crate) const ACCOUNT: Uuid = Uuid::from_u128(2);
pub(crate) const MEMBER: Uuid = Uuid::from_u128(3);
pub(crate) const OTHER_COMPANY: Uuid = Uuid::from_u128(11);
pub(crate) const OTHER_MEMBER: Uuid = Uuid::from_u128(13);
pub(crate) const USD: CurrencyCode = CurrencyCode(840);
pub(crate) const JPY: CurrencyCode = CurrencyCode(392);

/// A switch with two companies, one in dollars and one in yen. Tokens: `admin`, `read`, `other`.
pub(crate) struct Bench {
    pub(crate) state: AppState,
    pub(crate) routes: Router,
    pub(crate) overviews: Arc<LiveOverviews>,
    _directory: TempDir,
}

impl Bench {
    pub(crate) async fn new() -> Self {
        // A Wednesday, noon in Los Angeles.
        let clock = Clock::manual(parse_time("2026-03-04T20:00:00Z").unwrap());
        let commands = vec![
            AdminCommand::Company(CompanyCommand::Create(spending(COMPANY, ACCOUNT, USD))),
            AdminCommand::Company(CompanyCommand::Create(spending(
                OTHER_COMPANY,
                Uuid::from_u128(12),
                JPY,
            ))),
            ada(MEMBER, COMPANY),
            ada(OTHER_MEMBER, OTHER_COMPANY),
            token("admin", COMPANY, true),
            token("read", COMPANY, false),
            token("other", OTHER_COMPANY, true),
        ];
        let TestSwitch { state, routes, overviews, directory } =
            TestSwitch::start(clock, commands).await;
        Self { state, routes, overviews, _directory: directory }
    }

    /// Asks with the token `admin`.
    pub(crate) async fn ask(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let (status, text) = self.ask_as("Token admin", method, path, body).await;
        let value =
            if text.is_empty() { Value::Null } else { serde_json::from_str(&text).unwrap() };
        (status, value)
    }

    pub(crate) async fn ask_as(
        &self,
        authorization: &str,
        method: &str,
        path: &str,
        body: Value,
    ) -> (u16, String) {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::AUTHORIZATION, authorization)
            .header(header::CONTENT_TYPE, "application/json");
        if authorization.is_empty() {
            request.headers_mut().unwrap().remove(header::AUTHORIZATION);
        }
        let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
        let response = self.routes.clone().oneshot(request.body(body).unwrap()).await.unwrap();
        assert!(response.headers().contains_key("request-id"), "{method} {path}");
        let status = response.status().as_u16();
        let bytes = axum::body::to_bytes(response.into_body(), 10_000_000).await.unwrap();
        (status, String::from_utf8(bytes.to_vec()).unwrap())
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let (status, body) = self.ask("GET", path, Value::Null).await;
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    /// Orders a card and returns its body.
    pub(crate) async fn order(&self, body: Value) -> Value {
        let (status, body) = self.ask("POST", "/v1/cards", body).await;
        assert_eq!(status, 201, "{body}");
        body
    }

    /// Asks for an authorization and returns whether it was approved.
    pub(crate) async fn authorize(&self, card: &Value, amounts: MessageAmounts) -> bool {
        let command = NetworkCommand::Authorize(Authorize {
            facts: purchase_facts(card, amounts),
            kind: AuthorizationKind::Purchase,
            credentials: PresentedCredentials::default(),
            partial: PartialApproval::default(),
        });
        format!("{:?}", self.network(command).await).contains("response_code: Approved")
    }

    /// Sends a message of the network.
    pub(crate) async fn network(&self, command: NetworkCommand) -> NetworkReply {
        let request = NetworkRequest { command, fingerprint: None };
        let command = Command::Network(Box::new(request));
        match self.state.switch.ask(command.into()).await.unwrap() {
            Reply::Network(reply) => reply,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn advance(&self, time: &str) {
        self.state.switch.engine.clock.advance_to(parse_time(time).unwrap());
    }
}

/// A company with a budget and a line of credit.
fn spending(id: Uuid, account: Uuid, currency: CurrencyCode) -> NewCompany {
    let mut spending = company(CompanyId(id), AccountId(account), currency, 100_000);
    spending.account.credit_limit = Minor(50_000);
    spending.account.funding_source =
        Some(FundingSource { name: "Bank".parse().unwrap(), is_verified: true });
    spending
}

fn ada(id: Uuid, company: Uuid) -> AdminCommand {
    AdminCommand::Member(MemberCommand::Create(new_member(
        MemberId(id),
        CompanyId(company),
        "ada@example.com",
    )))
}

fn token(text: &str, company: Uuid, admin: bool) -> AdminCommand {
    let scope = AccessScope { admin, ..AccessScope::default() };
    access_token(token_id(), text, CompanyId(company), scope)
}

/// The facts of a purchase with a card.
pub(crate) fn purchase_facts(card: &Value, amounts: MessageAmounts) -> PurchaseFacts {
    PurchaseFacts {
        card: CardRef::Id(CardId(id_of(card).parse().unwrap())),
        amounts,
        merchant: merchant(),
        trace: NetworkTrace::default(),
    }
}

fn merchant() -> Merchant {
    Merchant {
        mid: 123_456,
        mcc: Some(Mcc(5812)),
        card_acceptor_id: "000000000123456".parse().unwrap(),
        name: "Luigi".parse().unwrap(),
        city: "Oakland".parse().unwrap(),
        state: "CA".parse().unwrap(),
        country: "US".parse().unwrap(),
        zip: "94601".parse().unwrap(),
    }
}

pub(crate) fn amount(minor: i64) -> MessageAmounts {
    MessageAmounts { amount: Minor(minor), currency: None, billing: None }
}

pub(crate) fn id_of(body: &Value) -> &str {
    body["id"].as_str().unwrap()
}

pub(crate) fn code_of(body: &Value) -> &str {
    body["detail"]["code"].as_str().unwrap()
}

pub(crate) fn virtual_card() -> Value {
    json!({"allowance": {"amount": 100}, "description": "Lunch", "is_virtual": true})
}
