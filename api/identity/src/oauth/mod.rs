//! OAuth 2.0: how third-party apps come by access tokens, and give them back. Source: spec "OAuth";
//! RFC 6749, 7636 (S256 only), 7009.
//!
//! | file | what |
//! |---|---|
//! | `authorize` | an app's request for a member's consent, and the addresses its answer goes to |
//! | `redirect_urls` | the addresses to which an app may have codes sent |
//! | `scope` | scopes by name, and those that need an operator's approval |
//! | `parameters` | bodies, JSON and forms alike |
//! | `client` | the proof of the app that asks: judged before anything else |
//! | `metadata` | the addresses of all of it, for clients that discover them |
//! | `token` | `POST /v1/oauth/token`: the choice of the grant |
//! | `code_grant`, `pkce` | a token for an authorization code |
//! | `password_grant` | a token for a member's e-mail address and password |
//! | `challenge` | `/v1/oauth/token/challenge`: the questions after the password |
//! | `revoke` | `POST /v1/oauth/token/revoke` |
//! | `reply` | the common parts of all answers |
//!
//! The token endpoints ask for no access token, and no idempotency key counts there: a code and a
//! one-time code work once, and a token is shown once.

pub mod authorize;
mod challenge;
mod client;
mod code_grant;
mod metadata;
mod parameters;
pub mod password_grant;
mod pkce;
pub mod redirect_urls;
mod reply;
pub mod revoke;
pub mod scope;
mod token;

use std::net::IpAddr;

use axum::Router;
use axum::http::Extensions;
use axum::routing::get;
use cardswitch_edge::client_address::ClientAddress;

pub use self::challenge::{__path_answer_challenge, __path_get_challenge};
pub use self::challenge::{answer_challenge, get_challenge};
use self::metadata::{METADATA_PATH, get_metadata};
pub use self::reply::failure;
pub use self::revoke::{__path_revoke_tokens, revoke_tokens};
pub use self::token::{__path_create_token, create_token};
use crate::state::AppState;

/// The route of the metadata, by which apps discover the token endpoints.
pub fn oauth_routes() -> Router<AppState> {
    Router::new().route(METADATA_PATH, get(get_metadata))
}

/// The address from which a request comes.
fn address_of(extensions: &Extensions) -> Option<IpAddr> {
    extensions.get::<ClientAddress>().map(|address| address.0)
}
