//! The extractors of handlers: an id, a query, a body. They differ from those of `/v1` in the shape
//! of a failure and in the media type of a body.

use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use bytes::Bytes;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::input::{BODY_BYTES_MAX, ListQuery};
use cardswitch_edge::request_body::{media_type, read_json_text};
use cardswitch_engine::domain::ids::MemberId;
use cardswitch_wire::fields;
use cardswitch_wire::query::Query;
use serde_json::{Map, Value};

use super::error::{SCIM_JSON, ScimError};

/// The id of a user. A path without one leads nowhere.
pub(super) struct ScimId(pub(super) MemberId);

impl<S: Send + Sync> FromRequestParts<S> for ScimId {
    type Rejection = ScimError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ScimError> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        let id = path.ok().and_then(|Path(text)| fields::parse_id(&text));
        id.map(|id| Self(MemberId(id))).ok_or_else(|| ApiError::not_found().into())
    }
}

/// The parameters of a query.
pub(super) struct ScimQuery(pub(super) Query);

impl<S: Send + Sync> FromRequestParts<S> for ScimQuery {
    type Rejection = ScimError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ScimError> {
        Ok(Self(ListQuery::from_request_parts(parts, state).await?.query))
    }
}

/// A body, not yet read.
pub(super) struct ScimBody(Bytes);

impl ScimBody {
    /// The object in the body.
    /// Errors: there is none.
    pub(super) fn object(&self) -> Result<Map<String, Value>, ApiError> {
        serde_json::from_slice(&self.0).map_err(|_| ApiError::malformed_body())
    }
}

impl<S: Send + Sync> FromRequest<S> for ScimBody {
    type Rejection = ScimError;

    async fn from_request(request: Request, _state: &S) -> Result<Self, ScimError> {
        let (parts, body) = request.into_parts();
        if !is_taken(&parts.headers) {
            return Err(ApiError::unsupported_media_type().into());
        }
        Ok(Self(read_json_text(body, BODY_BYTES_MAX).await?))
    }
}

/// The type that the standard has for bodies, and the one that many clients have.
fn is_taken(headers: &HeaderMap) -> bool {
    let sent = media_type(headers);
    [SCIM_JSON, "application/json"].iter().any(|known| sent.eq_ignore_ascii_case(known))
}
