//! The base of the tests made from the document: two companies with an object of every kind and a
//! token of every scope, asked through the routes as clients ask.
//!
//! Objects are made by sending the document's own examples, so these are tested too.

use std::cell::Cell;
use std::collections::BTreeMap;

use axum::body::Body;
use axum::http::{Request, header};
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::access_token::{AccessScope, AccessTokenCommand, NewAccessToken};
use cardswitch_engine::domain::ids::{AccessTokenId, CompanyId};
use cardswitch_secrets::token_digest;
use cardswitch_v1::operations::is_open;
use cardswitch_wire::urls::Urls;
use serde_json::{Map, Value, json};
use tower::ServiceExt;
use uuid::Uuid;

use super::{DocumentedDoor, document};
use crate::bench::{Bench, COMPANY, OTHER_COMPANY, amount};
use crate::test_world::by_switch;

/// The scopes of a token that may change everything of a company.
pub(super) const ADMIN_AND_IAM: &str = "admin,iam";

/// Every scope by its name; the first is none.
pub(super) const SCOPES: [&str; 5] = ["read", "accountant", "admin", "iam", "scim"];

/// One of the two companies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Own,
    Foreign,
}

/// The ids of objects by the names that paths have for them.
pub(super) type Ids = BTreeMap<String, String>;

pub(super) struct World {
    bench: Bench,
    pub(super) document: Value,
    drawn: Cell<u32>,
}

/// An operation of the document.
#[derive(Clone, Debug)]
pub(super) struct DocumentOperation {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) value: Value,
}

impl DocumentOperation {
    /// The names of the ids in the path.
    pub(super) fn ids(&self) -> Vec<String> {
        let parts = self.path.split('/');
        let names = parts.filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        names.map(str::to_owned).collect()
    }

    /// The last part of the path, in a list's the name of its resources.
    fn resource(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// The path with these ids in it.
    #[track_caller]
    pub(super) fn at(&self, ids: &Ids) -> String {
        let parts = self.path.split('/').map(|part| {
            let Some(name) = part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) else {
                return part;
            };
            ids.get(name).unwrap_or_else(|| panic!("the world has no {name}"))
        });
        parts.collect::<Vec<_>>().join("/")
    }

    /// The schema of the JSON body, where the operation takes one.
    pub(super) fn body_schema(&self) -> Option<&Value> {
        self.value.pointer("/requestBody/content/application~1json/schema")
    }

    pub(super) fn example(&self) -> Option<&Value> {
        self.value.pointer("/requestBody/content/application~1json/example")
    }
}

/// An answer, as far as it is the same each time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RecordedAnswer {
    pub(super) status: u16,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: String,
}

impl RecordedAnswer {
    #[track_caller]
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }
}

impl World {
    pub(super) async fn new() -> Self {
        let bench = Bench::new().await;
        let document = document(DocumentedDoor::Company, bench.state.urls());
        let world = Self { bench, document, drawn: Cell::new(0) };
        for (side, company) in [(Side::Own, COMPANY), (Side::Foreign, OTHER_COMPANY)] {
            for scope in SCOPES.into_iter().chain([ADMIN_AND_IAM]) {
                let text = token_text(side, scope);
                let command =
                    AdminCommand::AccessToken(AccessTokenCommand::Create(NewAccessToken {
                        id: AccessTokenId(Uuid::now_v7()),
                        digest: token_digest(&text),
                        company: CompanyId(company),
                        scope: AccessScope {
                            accountant: scope == "accountant",
                            admin: ["admin", ADMIN_AND_IAM].contains(&scope),
                            iam: ["iam", ADMIN_AND_IAM].contains(&scope),
                            scim: scope == "scim",
                        },
                    }));
                by_switch(&world.bench.state).carry_out(command).await.unwrap();
            }
        }
        world
    }

    pub(super) fn urls(&self) -> &Urls {
        self.bench.state.urls()
    }

    /// Every operation that asks for an access token, reading ones first and deleting ones last.
    pub(super) fn operations(&self) -> Vec<DocumentOperation> {
        let mut all = self.all_operations();
        all.retain(|operation| !is_open(&operation.method, &operation.path));
        all
    }

    /// Every operation, in the same order.
    pub(super) fn all_operations(&self) -> Vec<DocumentOperation> {
        let mut all = Vec::new();
        for (path, item) in self.document["paths"].as_object().unwrap() {
            for (method, value) in item.as_object().unwrap() {
                let (method, path) = (method.to_uppercase(), path.clone());
                all.push(DocumentOperation { method, path, value: value.clone() });
            }
        }
        let order = ["GET", "PUT", "POST", "DELETE"];
        all.sort_by_key(|operation| order.iter().position(|name| *name == operation.method));
        all
    }

    pub(super) fn find(&self, method: &str, path: &str) -> Option<DocumentOperation> {
        let mut all = self.operations().into_iter();
        all.find(|operation| operation.method == method && operation.path == path)
    }

    /// Asks with the token of a scope; `""` asks without a token.
    pub(super) async fn ask(
        &self,
        (side, scope): (Side, &str),
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> RecordedAnswer {
        let text = body.map(|body| body.to_string().into_bytes());
        let content_type = body.map(|_| "application/json");
        let request = SampleRequest { method, path, content_type, body: text.unwrap_or_default() };
        self.send(side, scope, request).await
    }

    pub(super) async fn send(
        &self,
        side: Side,
        scope: &str,
        sent: SampleRequest<'_>,
    ) -> RecordedAnswer {
        let mut request = Request::builder().method(sent.method).uri(sent.path);
        if !scope.is_empty() {
            let token = format!("Token {}", token_text(side, scope));
            request = request.header(header::AUTHORIZATION, token);
        }
        if let Some(content_type) = sent.content_type {
            request = request.header(header::CONTENT_TYPE, content_type);
        }
        let request = request.body(Body::from(sent.body)).unwrap();
        let response = self.bench.routes.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        assert!(parts.headers.contains_key("request-id"), "{} {}", sent.method, sent.path);
        let headers = parts.headers.iter().filter(|(name, _)| *name != "request-id");
        let headers = headers
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
            .collect();
        let bytes = axum::body::to_bytes(body, 50_000_000).await.unwrap();
        let body = String::from_utf8_lossy(&bytes).into_owned();
        RecordedAnswer { status: parts.status.as_u16(), headers, body }
    }

    /// Whether the operation makes an object that has an address of its own.
    fn makes_object(&self, operation: &DocumentOperation) -> bool {
        let own = format!("{}/{{{}}}", operation.path, singular_id(operation.resource()));
        operation.method == "POST" && self.find("GET", &own).is_some()
    }

    /// Makes an object of every kind, as an administrator: what examples refer to first.
    pub(super) async fn make_objects(&self, side: Side) -> Ids {
        let mut ids = self.find_objects(side).await;
        let mut waiting: Vec<_> = self
            .operations()
            .into_iter()
            .filter(|operation| self.makes_object(operation))
            .collect();
        while !waiting.is_empty() {
            let makes =
                |name: &str| waiting.iter().any(|other| singular_id(other.resource()) == name);
            let is_ready =
                |operation: &DocumentOperation| !references(operation.example()).any(makes);
            let next = waiting.iter().position(is_ready).expect("examples refer to what is made");
            let operation = waiting.remove(next);
            let body = self.example_with(&operation, &ids);
            let made = self.ask((side, "admin"), "POST", &operation.path, Some(&body)).await;
            assert_eq!(made.status, 201, "{} {body:#}: {}", operation.path, made.body);
            let made = made.json();
            ids.insert(singular_id(operation.resource()), text(&made["id"]));
            if let Some(allowance) = made.get("allowance") {
                ids.insert("allowance_id".into(), text(&allowance["id"]));
            }
        }
        self.add_receipt(side, &ids).await;
        ids.insert("access_token_id".into(), self.add_token(side).await);
        ids.insert("attempt_id".into(), self.add_attempt(side, &ids).await);
        ids
    }

    /// Has the card of a company buy something, and approves a requisition with it.
    pub(super) async fn buy(&self, side: Side, ids: &Ids) {
        let path = format!("/v1/cards/{}", ids["card_id"]);
        let card = self.ask((side, "admin"), "GET", &path, None).await.json();
        assert!(self.bench.authorize(&card, amount(100)).await, "{card}");
        let path = format!("/v1/requisitions/{}", ids["requisition_id"]);
        let approval = json!({"status": "approved", "card": {"id": ids["card_id"]}});
        let approved = self.ask((side, "admin"), "PUT", &path, Some(&approval)).await;
        assert_eq!(approved.status, 200, "{approved:?}");
    }

    /// A try to send a webhook, to where nobody is.
    async fn add_attempt(&self, side: Side, ids: &Ids) -> String {
        let path = "/v1/webhook-endpoints/{webhook_endpoint_id}/test";
        let Some(operation) = self.find("POST", path) else { return String::new() };
        let sent = self.ask((side, "admin"), "POST", &operation.at(ids), None).await;
        // The receipt is an event, too: pictures are taken when that has been tried.
        let path = format!("/v1/webhook-endpoints/{}", ids["webhook_endpoint_id"]);
        for _ in 0..500 {
            let shown = self.ask((side, "admin"), "GET", &path, None).await.json();
            if !shown["delivery"]["failing_since"].is_null() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        text(&sent.json()["id"])
    }

    /// An access token that nobody asks with.
    async fn add_token(&self, side: Side) -> String {
        let id = Uuid::now_v7();
        let command = AdminCommand::AccessToken(AccessTokenCommand::Create(NewAccessToken {
            id: AccessTokenId(id),
            digest: token_digest(&id.to_string()),
            company: company_of(side),
            scope: AccessScope::default(),
        }));
        by_switch(&self.bench.state).carry_out(command).await.unwrap();
        id.to_string()
    }

    /// The objects that a company has from the start.
    async fn find_objects(&self, side: Side) -> Ids {
        let get = async |path: &str| self.ask((side, "admin"), "GET", path, None).await.json();
        let account = text(&get("/v1/accounts").await["results"][0]["id"]);
        let lines = get(&format!("/v1/accounts/{account}/statement-lines")).await;
        let line = &lines["results"][0];
        let company = get("/v1/company").await;
        let member = match side {
            Side::Own => Uuid::from_u128(3),
            Side::Foreign => Uuid::from_u128(13),
        };
        Ids::from([
            ("account_id".into(), account),
            ("member_id".into(), member.to_string()),
            ("statement_line_id".into(), text(&line["id"])),
            ("transaction_id".into(), text(&line["origin"]["id"])),
            ("shipping_address_id".into(), text(&company["shipping_address"]["id"])),
        ])
    }

    async fn add_receipt(&self, side: Side, ids: &Ids) {
        let path = "/v1/transactions/{transaction_id}/receipt";
        let Some(operation) = self.find("POST", path) else { return };
        let path = operation.at(ids);
        let sent = SampleRequest {
            method: "POST",
            path: &path,
            content_type: Some("image/png"),
            body: image(),
        };
        let answer = self.send(side, "admin", sent).await;
        assert_eq!(answer.status, 201, "{answer:?}");
    }

    /// Uploads a file as somebody of the own company.
    pub(super) async fn send_file(&self, scope: &str, path: &str) -> RecordedAnswer {
        let sent =
            SampleRequest { method: "POST", path, content_type: Some("image/png"), body: image() };
        self.send(Side::Own, scope, sent).await
    }

    /// The example of an operation's body with ids that are there.
    pub(super) fn example_with(&self, operation: &DocumentOperation, ids: &Ids) -> Value {
        let mut body = operation.example().unwrap_or(&Value::Null).clone();
        self.drawn.set(self.drawn.get() + 1);
        let unique = self.drawn.get();
        let mut waiting = vec![&mut body];
        while let Some(value) = waiting.pop() {
            match value {
                Value::Object(object) => {
                    name_objects(object, ids);
                    for (key, value) in object.iter_mut() {
                        match key.as_str() {
                            "email" => *value = json!(format!("person{unique}@example.com")),
                            "code" if value.is_string() => *value = json!(format!("{unique}")),
                            _ => {}
                        }
                    }
                    waiting.extend(object.values_mut());
                }
                Value::Array(items) => waiting.extend(items),
                _ => {}
            }
        }
        body
    }

    /// Everything that a company's lists show.
    pub(super) async fn picture(&self, side: Side) -> BTreeMap<String, String> {
        let mut shown = BTreeMap::new();
        for operation in self.operations() {
            if operation.method == "GET" && operation.ids().is_empty() {
                let path = format!("{}?limit=1000", operation.path);
                let answer = self.ask((side, "admin"), "GET", &path, None).await;
                assert_eq!(answer.status, 200, "{path}: {}", answer.body);
                shown.insert(operation.path, answer.body);
            }
        }
        shown
    }

    /// A schema of the document, its reference followed.
    pub(super) fn resolve<'a>(&'a self, schema: &'a Value) -> &'a Value {
        let pointer = schema["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
        pointer.and_then(|pointer| self.document.pointer(pointer)).unwrap_or(schema)
    }
}

fn company_of(side: Side) -> CompanyId {
    CompanyId(match side {
        Side::Own => COMPANY,
        Side::Foreign => OTHER_COMPANY,
    })
}

/// A request as it is sent.
pub(super) struct SampleRequest<'a> {
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    pub(super) content_type: Option<&'a str>,
    pub(super) body: Vec<u8>,
}

/// As much of an image as is looked at.
fn image() -> Vec<u8> {
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR and so on".to_vec()
}

fn token_text(side: Side, scope: &str) -> String {
    format!("{scope}-{side:?}")
}

/// The name of an id of the resources with this name.
pub(super) fn singular_id(plural: &str) -> String {
    match plural {
        "categories" => "category_id".to_owned(),
        _ => format!("{}_id", plural.trim_end_matches('s').replace('-', "_")),
    }
}

/// The name of the id of what a field refers to.
pub(super) fn id_name(field: &str) -> &str {
    match field {
        "assigned_to" | "member" => "member_id",
        "card" | "object" => "card_id",
        "category" => "category_id",
        "department" => "department_id",
        "label" => "label_id",
        "location" => "location_id",
        _ => "",
    }
}

/// Whether a value refers to an object by its id.
fn is_reference(value: &Value) -> bool {
    value.as_object().is_some_and(|object| object.keys().eq(["id"]))
}

/// The names of the ids of what an example refers to.
fn references(example: Option<&Value>) -> impl Iterator<Item = &str> {
    let fields = example.and_then(Value::as_object).into_iter().flatten();
    fields.filter(|(_, value)| is_reference(value)).map(|(key, _)| id_name(key))
}

/// Lets references lead to objects that are there; those to others are left out.
fn name_objects(object: &mut Map<String, Value>, ids: &Ids) {
    object.retain(|key, value| {
        if is_reference(value)
            && let Some(id) = ids.get(id_name(key))
        {
            value["id"] = json!(id);
        }
        !is_reference(value) || ids.contains_key(id_name(key))
    });
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}
