//! OAuth 2.0: how third-party apps come by access tokens, and give them back. Source: spec "OAuth";
//! RFC 6749, 7636 (S256 only), 7009.
//!
//! | file | what |
//! |---|---|
//! | `authorize` | an app's request for a member's consent, and the addresses its answer goes to |
//! | `redirect_urls` | what an app may have codes sent to |
//! | `scope` | scopes by name, and which need an operator's approval |
//! | `parameters` | bodies, JSON and forms alike |
//! | `client` | which app asks: judged before anything else |
//! | `metadata` | where all of it is, for clients that find out by themselves |
//! | `token` | `POST /v1/oauth/token`: which grant |
//! | `code_grant`, `pkce` | a token for an authorization code |
//! | `password_grant` | a token for a member's e-mail address and password |
//! | `challenge` | `/v1/oauth/token/challenge`: what is asked after the password |
//! | `revoke` | `POST /v1/oauth/token/revoke` |
//! | `reply` | what all answers have in common |
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
pub use self::revoke::{__path_revoke_tokens, revoke_tokens};
pub use self::token::{__path_create_token, create_token};
use crate::state::AppState;

/// Where apps find out about the token endpoints.
pub fn oauth_routes() -> Router<AppState> {
    Router::new().route(METADATA_PATH, get(get_metadata))
}

/// From where a request comes.
fn address_of(extensions: &Extensions) -> Option<IpAddr> {
    extensions.get::<ClientAddress>().map(|address| address.0)
}
