//! GET /.well-known/oauth-authorization-server: the facts that a client needs before it asks.
//! Source: RFC 8414; RFC 9207, 3.
//!
//! A site below a path has its document where RFC 8414, 3.1 puts it only if the proxy before it does;
//! the switch answers at its own root.

use axum::extract::State;
use cardswitch_edge::json::Json;
use serde::Serialize;

use crate::scope_words::SCOPES;
use crate::state::AppState;

/// The path of the document.
pub(super) const METADATA_PATH: &str = "/.well-known/oauth-authorization-server";
/// How apps prove themselves, under the names of RFC 7591.
const CLIENT_PROOFS: [&str; 2] = ["client_secret_basic", "client_secret_post"];

/// The metadata of the authorization server.
#[derive(Debug, Serialize)]
pub(super) struct ServerMetadata {
    /// The value of `iss` in answers to authorization requests.
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    revocation_endpoint: String,
    scopes_supported: [&'static str; 4],
    response_types_supported: [&'static str; 1],
    response_modes_supported: [&'static str; 1],
    grant_types_supported: [&'static str; 2],
    token_endpoint_auth_methods_supported: [&'static str; 2],
    revocation_endpoint_auth_methods_supported: [&'static str; 2],
    code_challenge_methods_supported: [&'static str; 1],
    authorization_response_iss_parameter_supported: bool,
}

/// Describes the authorization server.
pub(super) async fn get_metadata(State(state): State<AppState>) -> Json<ServerMetadata> {
    let urls = state.urls();
    Json(ServerMetadata {
        issuer: urls.app.to_owned(),
        authorization_endpoint: urls.page("/v1/oauth/authorize"),
        token_endpoint: urls.path("/v1/oauth/token"),
        revocation_endpoint: urls.path("/v1/oauth/token/revoke"),
        scopes_supported: SCOPES.map(|scope| scope.name),
        response_types_supported: ["code"],
        response_modes_supported: ["query"],
        grant_types_supported: ["authorization_code", "password"],
        token_endpoint_auth_methods_supported: CLIENT_PROOFS,
        revocation_endpoint_auth_methods_supported: CLIENT_PROOFS,
        code_challenge_methods_supported: ["S256"],
        authorization_response_iss_parameter_supported: true,
    })
}
