//! Access to the HTTP door: holders of the network key. An API token opens nothing here.

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use bytes::Bytes;
use cardswitch_edge::bearer::bearer_of;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::input::BODY_BYTES_MAX;
use cardswitch_edge::request_body::{read_json_body, read_json_text};
use cardswitch_secrets::{digests_equal, token_digest};
use cardswitch_wire::fields::Fields;

use super::state::DoorState;

/// The request carries the network key.
#[derive(Clone, Copy, Debug)]
pub(super) struct NetworkAccess;

impl FromRequestParts<DoorState> for NetworkAccess {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &DoorState) -> Result<Self, ApiError> {
        check_access(&parts.headers, state).map(|()| Self)
    }
}

/// Whether a request with these headers carries the network key.
/// Errors: it does not; the tables cannot be read.
pub(super) fn check_access(headers: &HeaderMap, state: &DoorState) -> Result<(), ApiError> {
    let key = bearer_of(headers).ok_or_else(ApiError::network_key_needed)?;
    match state.switch.network_key()? {
        Some(expected) if digests_equal(&expected, &token_digest(key)) => Ok(()),
        _ => Err(ApiError::network_key_needed()),
    }
}

/// A body of type `application/json` and at most `BYTES_MAX` bytes, not yet read.
#[derive(Clone)]
pub(super) struct NetworkBody<const BYTES_MAX: usize = BODY_BYTES_MAX>(Bytes);

impl<const BYTES_MAX: usize> NetworkBody<BYTES_MAX> {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl<S: Send + Sync, const BYTES_MAX: usize> FromRequest<S> for NetworkBody<BYTES_MAX> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _state: &S) -> Result<Self, ApiError> {
        read_json_body(request, BYTES_MAX).await.map(Self)
    }
}

/// A body that says nothing: none, or an object without fields.
#[derive(Clone, Copy, Debug)]
pub(super) struct EmptyBody;

impl<S: Send + Sync> FromRequest<S> for EmptyBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, _state: &S) -> Result<Self, ApiError> {
        let body = read_json_text(request.into_body(), BODY_BYTES_MAX).await?;
        if !body.is_empty() {
            let mut fields = Fields::parse(&body).ok_or_else(ApiError::malformed_body)?;
            fields.refuse_unread();
            fields.finish()?;
        }
        Ok(Self)
    }
}
