//! The world of the tests of the token endpoints: people of every role with passwords, and apps.

use axum::body::Body;
use axum::http::{HeaderMap, Request, header};
use cardswitch_edge::client_address::ClientAddress;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::access_token::AccessScope;
use cardswitch_engine::directory::app::{AppApproval, AppCommand, NewApp};
use cardswitch_engine::directory::member::{MemberCommand, MemberRole, NewMember};
use cardswitch_engine::directory::user::{
    NewUser, SecurityQuestion, Totp, User, UserChanges, UserCommand,
};
use cardswitch_engine::domain::audit::Actor;
use cardswitch_engine::domain::ids::{AppId, CompanyId, MemberId, Timestamp, UserId};
use cardswitch_engine::store::query::{AuditFilter, Page};
use cardswitch_identity::auth::passwords;
use cardswitch_identity::auth::second_factor::normal_answer;
use cardswitch_identity::auth::totp::Seed;
use cardswitch_identity::oauth::authorize::{AuthorizationRequest, RequestCheck, check};
use cardswitch_secrets::issuing::SystemRandom;
use cardswitch_secrets::token_digest;
use serde_json::Value;
use tokio::sync::OnceCell;
use tower::ServiceExt;
use url::form_urlencoded;
use uuid::Uuid;

use crate::bench::{Bench, COMPANY, OTHER_COMPANY};
use crate::test_world::{by_switch, new_member};

/// Everybody's.
pub(super) const PASSWORD: &str = "correct horse battery";
pub(super) const ANSWER: &str = "Rex";
pub(super) const REDIRECT: &str = "https://books.example.com/callback";
/// Apps by number; the secret of app 1 is `secret-1`.
pub(super) const APP: u128 = 101;
pub(super) const OTHER_APP: u128 = 102;

/// Hashing is slow: once for all tests of a process.
static HASHES: OnceCell<[String; 2]> = OnceCell::const_new();

async fn hashes() -> &'static [String; 2] {
    HASHES
        .get_or_init(async || {
            [
                passwords::hash(PASSWORD).await.unwrap(),
                passwords::hash(&normal_answer(ANSWER)).await.unwrap(),
            ]
        })
        .await
}

/// Fields of a form, and the status and the word that refuse them.
pub(super) type RefusalCase<'a> = (&'a [(&'a str, &'a str)], (u16, &'a str));

pub(super) struct TokenWorld {
    pub(super) bench: Bench,
}

/// An answer of a token endpoint.
#[derive(Clone, Debug)]
pub(super) struct TokenAnswer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Value,
}

impl TokenAnswer {
    /// The word for stock clients; the answer is refused.
    #[track_caller]
    pub(super) fn error(&self) -> (u16, &str) {
        assert!(self.body["detail"]["message"].is_string(), "{self:?}");
        assert_eq!(self.body["error_description"], self.body["detail"]["message"], "{self:?}");
        (self.status, self.body["error"].as_str().unwrap())
    }

    #[track_caller]
    pub(super) fn token(&self) -> String {
        self.body["access_token"].as_str().unwrap_or_else(|| panic!("{self:?}")).to_owned()
    }
}

impl TokenWorld {
    pub(super) async fn new() -> Self {
        let world = Self { bench: Bench::new().await };
        let people = [
            ("grace", MemberRole::Administrator),
            ("anna", MemberRole::Accountant),
            ("rita", MemberRole::Reviewer),
            ("mia", MemberRole::Member),
        ];
        for (name, role) in people {
            world.add_member(COMPANY, name, role).await;
            world.add_user(name, Some(hashes().await[0].clone())).await;
        }
        for number in [APP, OTHER_APP] {
            world.add_app(number).await;
        }
        world
    }

    pub(super) async fn carry_out(&self, command: AdminCommand) {
        by_switch(&self.bench.state).carry_out(command).await.unwrap();
    }

    pub(super) async fn add_member(&self, company: Uuid, name: &str, role: MemberRole) {
        let id = MemberId(Uuid::now_v7());
        let new = new_member(id, CompanyId(company), &email_of(name));
        let new = NewMember { first_name: name.parse().unwrap(), role, ..new };
        self.carry_out(AdminCommand::Member(MemberCommand::Create(new))).await;
    }

    pub(super) async fn add_user(&self, name: &str, password_hash: Option<String>) {
        let user = NewUser {
            id: UserId(Uuid::now_v7()),
            email: email_of(name),
            first_name: name.parse().unwrap(),
            last_name: "Byron".parse().unwrap(),
            password_hash,
            developer_of: Vec::new(),
        };
        self.carry_out(AdminCommand::User(UserCommand::Create(user))).await;
    }

    async fn add_app(&self, number: u128) {
        let (id, company) = (AppId(Uuid::from_u128(number)), CompanyId(OTHER_COMPANY));
        let app = NewApp {
            id,
            company,
            name: "Books".parse().unwrap(),
            website: "https://books.example.com".parse().unwrap(),
            secret_digest: token_digest(&secret_of(number)),
            redirect_urls: vec![REDIRECT.into(), format!("{REDIRECT}/second")],
            requested: AccessScope { admin: true, ..AccessScope::default() },
        };
        self.carry_out(AdminCommand::App(AppCommand::Create(app))).await;
        self.approve(number, AccessScope { admin: true, ..AccessScope::default() }).await;
    }

    pub(super) async fn approve(&self, number: u128, scope: AccessScope) {
        let (id, company) = (AppId(Uuid::from_u128(number)), CompanyId(OTHER_COMPANY));
        let found = self.bench.state.switch.read_at_once(|snapshot| snapshot.app_by_id(id));
        let profile = found.unwrap().unwrap().edited_profile();
        let approval = AppApproval { profile, scope };
        self.carry_out(AdminCommand::App(AppCommand::Approve(company, id, approval))).await;
    }

    pub(super) fn user(&self, name: &str) -> User {
        let found = self
            .bench
            .state
            .switch
            .read_at_once(|snapshot| snapshot.user_by_email(&email_of(name)));
        found.unwrap().unwrap()
    }

    /// Somebody's member, with its company.
    pub(super) fn member(&self, name: &str) -> (CompanyId, MemberId) {
        let email = email_of(name);
        let found = self.bench.state.switch.read_at_once(|snapshot| snapshot.memberships(&email));
        let (company, member) = &found.unwrap()[0];
        (company.id, member.id)
    }

    pub(super) async fn change(&self, name: &str, changes: UserChanges) {
        self.carry_out(AdminCommand::User(UserCommand::Update(self.user(name).id, changes))).await;
    }

    pub(super) async fn give_totp(&self, name: &str) -> Seed {
        let seed = Seed::draw(&mut SystemRandom).unwrap();
        let sealed_seed = seed.seal(&self.bench.state.secrets, self.user(name).id).unwrap();
        let totp = Some(Some(Totp { sealed_seed, last_step: 0 }));
        self.change(name, UserChanges { totp, ..UserChanges::default() }).await;
        seed
    }

    pub(super) async fn give_question(&self, name: &str) {
        let answer_hash = hashes().await[1].clone();
        let asked = SecurityQuestion { question: "First pet?".parse().unwrap(), answer_hash };
        let security_question = Some(Some(asked));
        self.change(name, UserChanges { security_question, ..UserChanges::default() }).await;
    }

    /// The author of the company's newest change.
    pub(super) fn newest_actor(&self) -> Actor {
        let filter = AuditFilter::default();
        let page = Page::first(1);
        let found = self.bench.state.switch.read_at_once(|snapshot| {
            let company = snapshot.company_by_id(CompanyId(COMPANY))?.unwrap();
            snapshot.audit_events(Some(company.slot), &filter, &page)
        });
        found.unwrap().rows[0].actor
    }

    pub(super) fn now(&self) -> Timestamp {
        self.bench.state.now()
    }

    pub(super) fn advance(&self, micros: i64) {
        self.bench.state.switch.engine.clock.advance_to(self.now().plus(micros));
    }

    pub(super) fn request(&self, query: &str) -> AuthorizationRequest {
        let query = format!("response_type=code&client_id={}&{query}", id_of(APP));
        match check(&self.bench.state, &query).unwrap() {
            RequestCheck::Ask(request) => *request,
            other => panic!("{other:?}"),
        }
    }

    /// A code for app 1, as the consent page makes it.
    pub(super) async fn code(&self, name: &str, query: &str) -> String {
        let (request, user) = (self.request(query), self.user(name));
        let memberships =
            self.bench.state.switch.read_at_once(|snapshot| snapshot.memberships(&user.email));
        let granted = request.grantable(&memberships.unwrap()).unwrap();
        let (company, member) = &granted[0];
        let address = request
            .grant(&by_switch(&self.bench.state), user.id, (company, member), "203.0.113.7")
            .await;
        let address = address.unwrap();
        let (_, query) = address.split_once('?').unwrap();
        let mut pairs = form_urlencoded::parse(query.as_bytes());
        pairs.find(|(name, _)| name == "code").unwrap().1.into_owned()
    }

    pub(super) async fn exchange(&self, code: &str, more: &[(&str, &str)]) -> TokenAnswer {
        let given = [("grant_type", "authorization_code"), ("code", code)];
        self.post("/v1/oauth/token", &[&given, more].concat()).await
    }

    pub(super) async fn sign_in(&self, username: &str, password: &str) -> TokenAnswer {
        let given = [("grant_type", "password"), ("username", username), ("password", password)];
        self.post("/v1/oauth/token", &given).await
    }

    /// Posts a form as app 1, unless the fields say otherwise.
    pub(super) async fn post(&self, path: &str, fields: &[(&str, &str)]) -> TokenAnswer {
        let own = [("client_id", id_of(APP)), ("client_secret", secret_of(APP))];
        let own = own.iter().filter(|(name, _)| !fields.iter().any(|(given, _)| given == name));
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.extend_pairs(own).extend_pairs(fields);
        let form_type = (header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        self.send("POST", path, &[form_type], form.finish()).await
    }

    /// Answers the question that waits under a token.
    pub(super) async fn answer(&self, token: &str, answer: &str) -> TokenAnswer {
        let authorization = format!("Token {token}");
        let headers = [
            (header::AUTHORIZATION, authorization.as_str()),
            (header::CONTENT_TYPE, "application/json"),
        ];
        let body = serde_json::json!({"answer": answer}).to_string();
        self.send("POST", "/v1/oauth/token/challenge", &headers, body).await
    }

    pub(super) async fn get(&self, token: &str, path: &str) -> TokenAnswer {
        let authorization = format!("Bearer {token}");
        let headers = [(header::AUTHORIZATION, authorization.as_str())];
        self.send("GET", path, &headers, String::new()).await
    }

    /// Whether a token opens the data of the company.
    pub(super) async fn opens(&self, token: &str) -> bool {
        let told = self.get(token, "/v1/company").await;
        assert!([200, 401].contains(&told.status), "{told:?}");
        told.status == 200
    }

    pub(super) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(header::HeaderName, &str)],
        body: String,
    ) -> TokenAnswer {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        self.ask(request.body(Body::from(body)).unwrap()).await
    }

    /// Asks for a token for a password from somewhere, with a secret of app 1.
    pub(super) async fn sign_in_from(
        &self,
        from: Option<ClientAddress>,
        username: &str,
        password: &str,
        secret: &str,
    ) -> TokenAnswer {
        let body = serde_json::json!({"grant_type": "password", "username": username,
            "password": password, "client_id": id_of(APP), "client_secret": secret});
        let mut request = Request::post("/v1/oauth/token")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(body.to_string()))
            .unwrap();
        if let Some(from) = from {
            request.extensions_mut().insert(from);
        }
        self.ask(request).await
    }

    async fn ask(&self, request: Request<Body>) -> TokenAnswer {
        let response = self.bench.routes.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        assert!(parts.headers.contains_key("request-id"));
        let bytes = axum::body::to_bytes(body, 1_000_000).await.unwrap();
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        TokenAnswer { status: parts.status.as_u16(), headers: parts.headers, body }
    }
}

pub(super) fn email_of(name: &str) -> String {
    format!("{name}@example.com")
}

pub(super) fn id_of(number: u128) -> String {
    Uuid::from_u128(number).to_string()
}

pub(super) fn secret_of(number: u128) -> String {
    format!("secret-{number}")
}
