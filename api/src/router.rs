//! Every method and path of `/v1`, one line each, and what is true of all of them: bounded bodies,
//! the error body for unknown paths and methods, an id on every answer.

use axum::Router;
use axum::extract::Request;
use axum::http::Uri;
use axum::http::uri::PathAndQuery;
use axum::middleware::{self, from_fn_with_state, map_response};
use axum::response::Response;
use axum::routing::{get, post, put};
use cardswitch_engine::domain::card::DimensionKind;
use tower::Layer;
use tower::util::MapRequestLayer;

use crate::auth::actor::from_somewhere;
use crate::auth::check_access;
use crate::compat;
use crate::error::ApiError;
use crate::idempotency::once_per_key;
use crate::network::http::network_routes;
use crate::oauth::oauth_routes;
use crate::openapi::document_routes;
use crate::request_id::with_request_id;
use crate::routes::{
    access_tokens, accounts, allowances, audit_events, card_secrets, cards, cards_at_once, company,
    decision, dimensions, events, members, merchant_categories, receipts, requisitions,
    shared_links, shipping_addresses, statement_lines, statements, transaction_tags, transactions,
    webhook_attempts, webhook_endpoints,
};
use crate::scim::scim_routes;
use crate::site::error_page::unknown_path;
use crate::site::{headers, site_routes};
use crate::state::AppState;
use crate::wire::reference::{DIMENSION_FIELDS, plural_of};

/// Everything that is served over HTTP.
pub fn whole(state: AppState) -> Router {
    let v1 = v1_routes().route_layer(from_fn_with_state(state.clone(), check_access));
    // Around the check, so that a repeat gets the same refusal; within what only some clients see.
    let v1 = once_per_key(v1, state.clone());
    let v1 = match state.config.compat {
        Some(compat) => compat::follow(compat, v1, state.clone()),
        None => v1,
    };
    let documents = document_routes(state.urls());
    let documents = documents.layer(map_response(secured));
    // Apps come without access tokens, and their keys count for nothing.
    let v1 = v1.merge(oauth_routes().layer(middleware::from_fn(from_somewhere)));
    let others = network_routes().merge(documents).merge(scim_routes(&state));
    // Who asks for a page is found out by the page; from where, is known before.
    let site = site_routes(&state).layer(middleware::from_fn(from_somewhere));
    finish(v1.merge(others).merge(site).with_state(state))
}

async fn secured(mut response: Response) -> Response {
    headers::secure(response.headers_mut());
    response
}

/// The routes of `/v1`.
pub fn v1_routes() -> Router<AppState> {
    Router::new()
        .route("/v1/cards", get(cards::list_cards).post(cards::create_card))
        .route(
            "/v1/cards/{card_id}",
            get(cards::get_card).put(cards::update_card).delete(cards::delete_card),
        )
        .route("/v1/cards/bulk", post(cards_at_once::create_cards))
        .route("/v1/cards/{card_id}/number", get(card_secrets::get_number))
        .route("/v1/cards/{card_id}/pin", put(card_secrets::set_pin))
        .route(
            "/v1/allowances/{allowance_id}",
            get(allowances::get_allowance).put(allowances::update_allowance),
        )
        .route("/v1/transactions", get(transactions::list_transactions))
        .route(
            "/v1/transactions/{transaction_id}",
            get(transactions::get_transaction).put(transaction_tags::tag_transaction),
        )
        .route(
            "/v1/transactions/{transaction_id}/receipt",
            get(receipts::get_receipt)
                .post(receipts::upload_receipt)
                .put(receipts::lose_receipt)
                .delete(receipts::delete_receipt),
        )
        .route("/v1/transactions/{transaction_id}/decision", get(decision::get_decision))
        .merge(account_routes())
        .route("/v1/company", get(company::get_company).put(company::update_company))
        .route(
            "/v1/shared-links",
            get(shared_links::list_shared_links).post(shared_links::create_shared_link),
        )
        .route(
            "/v1/shared-links/{shared_link_id}",
            get(shared_links::get_shared_link)
                .put(shared_links::update_shared_link)
                .delete(shared_links::delete_shared_link),
        )
        .route(
            "/v1/shipping-addresses/{shipping_address_id}",
            get(shipping_addresses::get_shipping_address),
        )
        .route("/v1/merchant-categories", get(merchant_categories::list_merchant_categories))
        .route("/v1/members", get(members::list_members).post(members::create_member))
        .route(
            "/v1/members/{member_id}",
            get(members::get_member).put(members::update_member).delete(members::delete_member),
        )
        .route(
            "/v1/requisitions",
            get(requisitions::list_requisitions).post(requisitions::create_requisition),
        )
        .route(
            "/v1/requisitions/{requisition_id}",
            get(requisitions::get_requisition)
                .put(requisitions::update_requisition)
                .delete(requisitions::delete_requisition),
        )
        .merge(dimension_routes())
        .route("/v1/access-tokens", get(access_tokens::list_access_tokens))
        .route(
            "/v1/access-tokens/{access_token_id}",
            get(access_tokens::get_access_token).delete(access_tokens::revoke_access_token),
        )
        .route("/v1/audit-events", get(audit_events::list_audit_events))
        .merge(webhook_routes())
}

/// Accounts, and what was posted to them.
fn account_routes() -> Router<AppState> {
    Router::new()
        .route("/v1/accounts", get(accounts::list_accounts))
        .route("/v1/accounts/{account_id}", get(accounts::get_account))
        .route(
            "/v1/accounts/{account_id}/statement-lines",
            get(statement_lines::list_statement_lines),
        )
        .route(
            "/v1/accounts/{account_id}/statement-lines/{statement_line_id}",
            get(statement_lines::get_statement_line),
        )
        .route("/v1/accounts/{account_id}/statement.csv", get(statements::get_csv_statement))
        .route("/v1/accounts/{account_id}/statement.ofx", get(statements::get_ofx_statement))
        .route("/v1/accounts/{account_id}/statement.pdf", get(statements::get_pdf_statement))
}

/// Events, and where they are sent.
fn webhook_routes() -> Router<AppState> {
    let one = "/v1/webhook-endpoints/{webhook_endpoint_id}";
    Router::new()
        .route("/v1/events", get(events::list_events))
        .route("/v1/events/stream", get(events::stream_events))
        .route(
            "/v1/webhook-endpoints",
            get(webhook_endpoints::list_webhook_endpoints)
                .post(webhook_endpoints::create_webhook_endpoint),
        )
        .route(
            one,
            get(webhook_endpoints::get_webhook_endpoint)
                .put(webhook_endpoints::update_webhook_endpoint)
                .delete(webhook_endpoints::delete_webhook_endpoint),
        )
        .route(&format!("{one}/rotate-secret"), post(webhook_endpoints::rotate_webhook_secret))
        .route(&format!("{one}/recover"), post(webhook_endpoints::recover_webhook_endpoint))
        .route(&format!("{one}/test"), post(webhook_attempts::send_webhook_example))
        .route(&format!("{one}/attempts"), get(webhook_attempts::list_webhook_attempts))
        .route(
            &format!("{one}/attempts/{{attempt_id}}/resend"),
            post(webhook_attempts::resend_webhook),
        )
}

/// Four resources of one shape.
fn dimension_routes() -> Router<AppState> {
    let mut routes = Router::new();
    for (kind, singular) in DimensionKind::ALL.into_iter().zip(DIMENSION_FIELDS) {
        let plural = plural_of(kind);
        routes = routes
            .route(
                &format!("/v1/{plural}"),
                get(dimensions::list_dimensions).post(dimensions::create_dimension),
            )
            .route(
                &format!("/v1/{plural}/{{{singular}_id}}"),
                get(dimensions::get_dimension)
                    .put(dimensions::update_dimension)
                    .delete(dimensions::delete_dimension),
            );
    }
    routes
}

/// Adds what is true of every path: unknown ones and unknown methods have the error body, a slash
/// at the end changes nothing, every answer has its id.
pub fn finish(routes: Router) -> Router {
    let routes = routes
        .fallback(unknown_path)
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
    use tower::ServiceExt;

    use super::*;
    use crate::routes::input::{BODY_BYTES_MAX, JsonBody};

    fn small_router() -> Router {
        let take = |body: JsonBody| async move { body.fields().map(|_| "taken") };
        let routes = Router::new()
            .route("/v1/things", get(|request: Request| async move { request.uri().to_string() }))
            .route("/v1/bodies", post(take))
            .route("/v1/broken", get(async || -> &'static str { panic!("card 4111") }));
        finish(routes)
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
