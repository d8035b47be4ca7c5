//! Who may use the HTTP door: holders of the network key. An API token opens nothing here.

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use bytes::Bytes;

use crate::error::ApiError;
use crate::network::limits;
use crate::request_body::read_json_body;
use crate::secrets::{digests_equal, token_digest};
use crate::state::AppState;

/// The request carries the network key.
#[derive(Clone, Copy, Debug)]
pub(super) struct NetworkAccess;

impl FromRequestParts<AppState> for NetworkAccess {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        let header = parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let key = header.and_then(key_of).ok_or_else(ApiError::network_key_needed)?;
        let expected = state.switch.read_at_once(|snapshot| snapshot.network_key())?;
        match expected {
            Some(expected) if digests_equal(&expected, &token_digest(key)) => Ok(Self),
            _ => Err(ApiError::network_key_needed()),
        }
    }
}

/// The key in an Authorization header, under the scheme `Token` or `Bearer`.
fn key_of(header: &str) -> Option<&str> {
    let (scheme, key) = header.trim().split_once(' ')?;
    let is_known = ["token", "bearer"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
    Some(key.trim()).filter(|key| is_known && !key.is_empty())
}

/// A body of type `application/json`, not yet read.
#[derive(Clone)]
pub(super) struct NetworkBody(Bytes);

impl NetworkBody {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl<S: Send + Sync> FromRequest<S> for NetworkBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, _state: &S) -> Result<Self, ApiError> {
        read_json_body(request, limits::BODY_BYTES_MAX).await.map(Self)
    }
}
