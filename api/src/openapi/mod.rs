//! The published description of the API: OpenAPI 3.1 for `/v1` and for the network door, and a
//! reference made from it that any browser shows without a script.
//!
//! Schemas come from the structs that answers are serialized from, operations from the handlers they
//! stand at (`#[utoipa::path]`), which ones and their rights from `operations`. What is true of all
//! operations is added in one place:
//!
//! | file | what |
//! |---|---|
//! | `finish` | rights, errors, headers, ids in paths, formats, names |
//! | `example` | an example for every body, made from its schema |
//! | `reference` | the document as pages to read |

mod example;
mod finish;
mod reference;

use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use cardswitch_edge::operation::document_of;
use cardswitch_identity::state::AppState;
use cardswitch_v1::operations::{About, OPERATIONS};
use cardswitch_wire::urls::Urls;
use serde_json::Value;
use utoipa::OpenApi;

pub use self::finish::Door;

/// Pages load their style and nothing else.
const PAGE_POLICY: &str = "default-src 'none'; style-src 'self'; base-uri 'none'; \
                           form-action 'none'; frame-ancestors 'none'";

/// The document of a door.
#[must_use]
pub fn document(door: Door, urls: &Urls) -> Value {
    let plain = match door {
        Door::Company => document_of(About::openapi(), &OPERATIONS),
        Door::Network => cardswitch_network::http::document(),
    };
    finish::finish(plain, door, urls)
}

/// Where the documents and the pages are. Nobody needs a token to read them.
pub fn document_routes(urls: &Urls) -> Router<AppState> {
    let company = Arc::new(Published::new(Door::Company, urls));
    let network = Arc::new(Published::new(Door::Network, urls));
    let (company_page, network_page) = (Arc::clone(&company), Arc::clone(&network));
    Router::new()
        .route("/openapi.json", get(async move || json(company.json())))
        .route("/network/v1/openapi.json", get(async move || json(network.json())))
        .route("/docs", get(async move || page(company_page.page())))
        .route("/docs/network", get(async move || page(network_page.page())))
        .route("/docs/reference.css", get(async || text("text/css", reference::STYLE.into())))
}

fn json(body: Bytes) -> Response {
    text("application/json", body)
}

fn page(body: Bytes) -> Response {
    text("text/html; charset=utf-8", body)
}

/// A document as it is served, made when it is first asked for.
struct Published {
    door: Door,
    urls: Urls,
    json: OnceLock<Bytes>,
    page: OnceLock<Bytes>,
}

impl Published {
    fn new(door: Door, urls: &Urls) -> Self {
        Self { door, urls: urls.clone(), json: OnceLock::new(), page: OnceLock::new() }
    }

    fn json(&self) -> Bytes {
        let made = || Bytes::from(format!("{:#}\n", document(self.door, &self.urls)));
        self.json.get_or_init(made).clone()
    }

    fn page(&self) -> Bytes {
        let made = || Bytes::from(reference::page(&document(self.door, &self.urls), self.door));
        self.page.get_or_init(made).clone()
    }
}

fn text(content_type: &'static str, body: Bytes) -> Response {
    let headers = [
        (CONTENT_TYPE, content_type),
        (CONTENT_SECURITY_POLICY, PAGE_POLICY),
        (CACHE_CONTROL, "no-cache"),
    ];
    (headers, body).into_response()
}

#[cfg(test)]
mod bad_input_tests;
#[cfg(test)]
mod document_tests;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod matrix_tests;
#[cfg(test)]
mod world;
