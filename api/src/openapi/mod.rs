//! The published description of the API: OpenAPI 3.1 for `/v1` and for the network door, pages made of
//! it in the frame of the site, and `/llms.txt`.
//!
//! Schemas come from the structs that answers are serialized from, operations from the handlers
//! they stand at (`#[utoipa::path]`), their list and their rights from `operations`. The parts that
//! all operations have in common are added in one place:
//!
//! | file | what |
//! |---|---|
//! | `finish` | rights, errors, headers, ids in paths, formats, names |
//! | `alternatives` | names for the forms of a schema |
//! | `example` | an example for every body, made from its schema |
//! | `reference` | the document as pages to read |

mod alternatives;
mod components;
mod example;
mod failures;
mod finish;
mod formats;
mod operation_parts;
mod reference;
mod schemas;

use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::extract::Path;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::operation::document_of;
use cardswitch_identity::state::AppState;
use cardswitch_site::frame::{self, Markup, WayOn, Ways};
use cardswitch_site::session::OptionalSession;
use cardswitch_v1::operations::{CompanyDocument, OPERATIONS};
use cardswitch_wire::urls::Urls;
use serde_json::Value;
use utoipa::OpenApi;

pub use self::finish::DocumentedDoor;
use self::reference::DocPage;

/// The document of a door.
pub fn document(door: DocumentedDoor, urls: &Urls) -> Value {
    let plain = match door {
        DocumentedDoor::Company => document_of(CompanyDocument::openapi(), &OPERATIONS),
        DocumentedDoor::Network => cardswitch_network::http::document(),
    };
    finish::finish(plain, door, urls)
}

/// The routes of the documents, which need no token.
pub fn document_routes(published: &Arc<PublishedDocuments>) -> Router<AppState> {
    let serve = |kind: &'static str, body: fn(&Documentation) -> &Bytes| {
        let published = Arc::clone(published);
        get(async move || text(kind, body(published.documentation()).clone()))
    };
    Router::new()
        .route("/openapi.json", serve("application/json", |made| &made.company))
        .route("/network/v1/openapi.json", serve("application/json", |made| &made.network))
        .route("/llms.txt", serve("text/plain; charset=utf-8", |made| &made.llms))
}

/// The routes of the documentation's pages, in the frame of the site.
pub fn documentation_routes(published: &Arc<PublishedDocuments>) -> Router<AppState> {
    let (first, below) = (Arc::clone(published), Arc::clone(published));
    Router::new().route("/docs", get(async move |_: OptionalSession| first.page(""))).route(
        "/docs/{page}",
        get(async move |Path(page): Path<String>, _: OptionalSession| below.page(&page)),
    )
}

/// The published documentation, made when it is first asked for.
pub struct PublishedDocuments {
    urls: Urls,
    made: OnceLock<Documentation>,
}

struct Documentation {
    company: Bytes,
    network: Bytes,
    llms: Bytes,
    pages: Vec<DocPage>,
}

impl PublishedDocuments {
    /// Nothing yet; links begin with what `urls` says.
    pub fn new(urls: &Urls) -> Self {
        Self { urls: urls.clone(), made: OnceLock::new() }
    }

    fn documentation(&self) -> &Documentation {
        self.made.get_or_init(|| {
            let company = document(DocumentedDoor::Company, &self.urls);
            let network = document(DocumentedDoor::Network, &self.urls);
            let json = |document: &Value| Bytes::from(format!("{document:#}\n"));
            let base = self.urls.page("");
            Documentation {
                llms: reference::llms_text(&company, &network, &base).into(),
                pages: reference::pages(&company, &network),
                company: json(&company),
                network: json(&network),
            }
        })
    }

    /// A page in the frame of the site.
    /// Errors: there is no such page.
    fn page(&self, slug: &str) -> Result<Response, ApiError> {
        let pages = &self.documentation().pages;
        let page = pages.iter().find(|page| page.slug == slug).ok_or_else(ApiError::not_found)?;
        let mut groups: Vec<Ways> = Vec::new();
        for known in pages {
            let way = WayOn {
                label: known.title.clone(),
                path: reference::path_of(&known.slug),
                is_here: known.slug == slug,
            };
            match groups.last_mut() {
                Some(group) if group.head == known.group => group.links.push(way),
                _ => groups.push(Ways { head: known.group, links: vec![way] }),
            }
        }
        let title = format!("{} · API", page.title);
        Ok(frame::reading_page(&title, groups, Markup(page.html.clone())))
    }
}

fn text(content_type: &'static str, body: Bytes) -> Response {
    ([(CONTENT_TYPE, content_type), (CACHE_CONTROL, "no-cache")], body).into_response()
}

#[cfg(test)]
mod bad_input_tests;
#[cfg(test)]
mod collection_tests;
#[cfg(test)]
mod document_tests;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod matrix_tests;
#[cfg(test)]
mod world;
