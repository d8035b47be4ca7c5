//! All routes together, and their common layers: bounded bodies, the error body for unknown
//! paths and methods, an id on every answer.

use std::sync::Arc;

use axum::extract::Request;
use axum::handler::Handler;
use axum::http::Uri;
use axum::http::uri::PathAndQuery;
use axum::middleware::{self, from_fn_with_state, map_response};
use axum::response::Response;
use axum::{Extension, Router};
use cardswitch_acquiring::peer_board::PeerBoard;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::min_seq::read_as_asked;
use cardswitch_edge::operation::routes_of;
use cardswitch_edge::request_id::with_request_id;
use cardswitch_identity::auth::check_access;
use cardswitch_identity::idempotency::{RouteManners, once_per_key};
use cardswitch_identity::oauth::oauth_routes;
use cardswitch_identity::state::AppState;
use cardswitch_network::http::network_routes;
use cardswitch_site::error_page::unknown_path;
use cardswitch_site::overview::LiveOverviews;
use cardswitch_site::{headers, site_routes};
use cardswitch_v1::compat;
use cardswitch_v1::operations::{LONG_BODIES, guarded, open};
use cardswitch_v1::scim::scim_routes;
use tower::Layer;
use tower::util::MapRequestLayer;

use crate::config::Compat;
use crate::openapi::{PublishedDocuments, document_routes, documentation_routes};

/// The parts behind HTTP; cheap to clone.
#[derive(Clone)]
pub struct RouterParts {
    /// The state of handlers.
    pub state: AppState,
    /// Overviews that follow the switch.
    pub overviews: Arc<LiveOverviews>,
    /// The peers that speak ISO 8583 with the switch.
    pub peers: Arc<PeerBoard>,
    /// The older client whose habits are followed besides.
    pub compat: Option<Compat>,
}

/// Everything that is served over HTTP.
pub fn whole(served: RouterParts) -> Router {
    let RouterParts { state, overviews, peers, compat } = served;
    let v1 = v1_routes()
        .route_layer(from_fn_with_state(state.switch.clone(), read_as_asked))
        .route_layer(from_fn_with_state(state.clone(), check_access));
    // Around the check, so that a repeat gets the same refusal; within the layer for older clients.
    let manners = RouteManners { long_bodies: &LONG_BODIES, ..RouteManners::V1 };
    let v1 = once_per_key(v1, state.clone(), manners);
    let v1 = as_clients_expect(v1, compat, &state);
    let published = Arc::new(PublishedDocuments::new(state.urls()));
    let documents = document_routes(&published).layer(map_response(secured));
    // Apps come without access tokens, and their keys count for nothing.
    let v1 = v1.merge(oauth_routes().merge(routes_of(open())));
    let others = network_routes()
        .with_state(state.network_door())
        .merge(documents)
        .merge(scim_routes(&state));
    let site = site_routes(&state, documentation_routes(&published));
    let site = site.layer(Extension(overviews)).layer(Extension(peers));
    let unknown = state.clone();
    finish(v1.merge(others).merge(site).with_state(state), async move |request| {
        unknown_path(unknown, request).await
    })
}

async fn secured(mut response: Response) -> Response {
    headers::secure(response.headers_mut());
    response
}

/// Routes of `/v1`, with the habits of an older client around them if there is one.
pub(crate) fn as_clients_expect(
    v1: Router<AppState>,
    client: Option<Compat>,
    state: &AppState,
) -> Router<AppState> {
    match client {
        Some(Compat::LegacyClient) => compat::follow(v1, state.clone()),
        None => v1,
    }
}

/// The routes of `/v1`, but those under `/v1/oauth`.
pub fn v1_routes() -> Router<AppState> {
    routes_of(guarded())
}

/// Adds the rules of every path: `unknown` answers unknown ones, unknown methods have the error body, a slash
/// at the end changes nothing, every answer has its id.
pub fn finish<T: 'static>(routes: Router, unknown: impl Handler<T, ()>) -> Router {
    let routes = routes
        .fallback(unknown)
        .method_not_allowed_fallback(|| async { ApiError::method_not_allowed() })
        .layer(middleware::from_fn(with_request_id));
    // Paths are changed before the routes see them, so this stands around the router, not in it.
    Router::new().fallback_service(MapRequestLayer::new(without_last_slash).layer(routes))
}

fn without_last_slash(mut request: Request) -> Request {
    let path = request.uri().path();
    let trimmed = path.trim_end_matches('/');
    if trimmed.len() == path.len() || trimmed.is_empty() {
        return request;
    }
    let query = request.uri().query().map_or(String::new(), |query| format!("?{query}"));
    let Ok(target) = PathAndQuery::try_from(format!("{trimmed}{query}")) else { return request };
    let mut parts = request.uri().clone().into_parts();
    parts.path_and_query = Some(target);
    if let Ok(uri) = Uri::from_parts(parts) {
        *request.uri_mut() = uri;
    }
    request
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::{StatusCode, header};
    use axum::routing::{get, post};
    use cardswitch_edge::input::{BODY_BYTES_MAX, JsonBody};
    use tower::ServiceExt;

    use super::*;

    fn small_router() -> Router {
        let take = |body: JsonBody| async move { body.fields().map(|_| "taken") };
        let routes = Router::new()
            .route("/v1/things", get(|request: Request| async move { request.uri().to_string() }))
            .route("/v1/bodies", post(take))
            .route("/v1/broken", get(async || -> &'static str { panic!("card 4111") }));
        finish(routes, async || ApiError::not_found())
    }

    async fn ask(method: &str, uri: &str) -> (StatusCode, axum::http::HeaderMap, String) {
        let request = Request::builder().method(method).uri(uri).body(Body::empty()).unwrap();
        let response = small_router().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = axum::body::to_bytes(body, 100_000).await.unwrap();
        (parts.status, parts.headers, String::from_utf8(bytes.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn a_slash_at_the_end_changes_nothing() {
        for uri in ["/v1/things?a=b%2F/", "/v1/things/?a=b%2F/"] {
            let (status, _, body) = ask("GET", uri).await;
            assert_eq!((status, body.as_str()), (StatusCode::OK, "/v1/things?a=b%2F/"));
        }
    }

    #[tokio::test]
    async fn unknown_paths_and_methods_have_the_error_body_and_an_id() {
        let rows = [
            ("GET", "/v1/nothing", 404, "not_found"),
            ("GET", "/", 404, "not_found"),
            ("GET", "//", 404, "not_found"),
            ("DELETE", "/v1/things/", 405, "method_not_allowed"),
        ];
        let mut ids = Vec::new();
        for (method, uri, status, code) in rows {
            let (told, headers, body) = ask(method, uri).await;
            assert_eq!(told.as_u16(), status, "{method} {uri}");
            let body: serde_json::Value = serde_json::from_str(&body).unwrap();
            assert_eq!(body["detail"]["code"], code);
            ids.push(headers["request-id"].to_str().unwrap().to_owned());
        }
        let (_, headers, _) = ask("DELETE", "/v1/things").await;
        assert!(headers[header::ALLOW].to_str().unwrap().contains("GET"));
        ids.dedup();
        assert_eq!(ids.len(), rows.len());
    }

    #[tokio::test]
    async fn a_handler_that_panics_is_a_500_that_tells_nothing() {
        let (status, headers, body) = ask("GET", "/v1/broken").await;
        assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
        assert!(headers.contains_key("request-id") && !body.contains("4111"), "{body}");
    }

    #[tokio::test]
    async fn bodies_are_bounded_json_objects() {
        let long = format!("{{\"a\": \"{}\"}}", "x".repeat(BODY_BYTES_MAX));
        let rows = [
            (Some("application/json"), "{}", 200),
            (Some("application/json"), "{", 400),
            (Some("application/json"), "[]", 400),
            (Some("application/json"), "", 400),
            (Some("application/json"), long.as_str(), 413),
            (Some("text/plain"), "{}", 415),
            (None, "{}", 415),
        ];
        for (content_type, body, status) in rows {
            let mut request = Request::builder().method("POST").uri("/v1/bodies");
            if let Some(content_type) = content_type {
                request = request.header(header::CONTENT_TYPE, content_type);
            }
            let request = request.body(Body::from(body.to_owned())).unwrap();
            let response = small_router().oneshot(request).await.unwrap();
            assert_eq!(response.status().as_u16(), status, "{content_type:?}");
            assert!(response.headers().contains_key("request-id"));
        }
    }
}
