//! The extractors of handlers: an id in the path, a JSON body, a query that asks for a list.

use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::request::Parts;
use bytes::Bytes;
use cardswitch_wire::fields::{self, Fields};
use cardswitch_wire::page::ListAddress;
use cardswitch_wire::query::Query;
use uuid::Uuid;

use crate::error::ApiError;
use crate::request_body::read_json_body;

/// The longest JSON body, where a path takes no longer one. Units: bytes.
pub const BODY_BYTES_MAX: usize = 64 * 1024;

/// The result of a handler.
pub type Answer<T> = Result<T, ApiError>;

/// The id in a path. A path without a UUID there leads nowhere.
#[derive(Clone, Copy, Debug)]
pub struct PathId(pub Uuid);

impl<S: Send + Sync> FromRequestParts<S> for PathId {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        let id = path.ok().and_then(|Path(text)| fields::parse_id(&text));
        id.map(Self).ok_or_else(ApiError::not_found)
    }
}

/// The two ids in a path, as those of a card and its link. A path without UUIDs there leads nowhere.
#[derive(Clone, Copy, Debug)]
pub struct PathIds(pub Uuid, pub Uuid);

impl<S: Send + Sync> FromRequestParts<S> for PathIds {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let path = Path::<(String, String)>::from_request_parts(parts, state).await;
        let ids = path.ok().and_then(|Path((first, second))| {
            fields::parse_id(&first).zip(fields::parse_id(&second))
        });
        ids.map(|(first, second)| Self(first, second)).ok_or_else(ApiError::not_found)
    }
}

/// A body of type `application/json` and at most `BYTES_MAX` bytes, not yet read.
#[derive(Clone, Debug)]
pub struct JsonBody<const BYTES_MAX: usize = BODY_BYTES_MAX>(Bytes);

impl<const BYTES_MAX: usize> JsonBody<BYTES_MAX> {
    /// The fields of the object in the body.
    /// Errors: the body is not a JSON object.
    pub fn fields(&self) -> Result<Fields<'_>, ApiError> {
        Fields::parse(&self.0).ok_or_else(ApiError::malformed_body)
    }
}

impl<S: Send + Sync, const BYTES_MAX: usize> FromRequest<S> for JsonBody<BYTES_MAX> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _state: &S) -> Result<Self, ApiError> {
        read_json_body(request, BYTES_MAX).await.map(Self)
    }
}

/// A request for a list: its query and its address.
#[derive(Debug)]
pub struct ListQuery {
    /// The parameters.
    pub query: Query,
    /// The address of the list.
    pub address: ListAddress,
}

impl<S: Send + Sync> FromRequestParts<S> for ListQuery {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        let parameters = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(&parts.uri)
            .map_err(|_| ApiError::malformed_query())?;
        let address = ListAddress {
            path: parts.uri.path().to_owned(),
            query: parts.uri.query().unwrap_or_default().to_owned(),
        };
        Ok(Self { query: Query::new(parameters.0), address })
    }
}
