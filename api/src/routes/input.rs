//! What handlers take from a request: an id in the path, a JSON body, a query that asks for a list.

use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use bytes::Bytes;
use uuid::Uuid;

use crate::error::ApiError;
use crate::wire::fields::{self, Fields};
use crate::wire::page::ListAddress;
use crate::wire::query::Query;

/// The longest JSON body. Units: bytes.
pub const BODY_BYTES_MAX: usize = 64 * 1024;

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

/// A body of type `application/json`, not yet read.
#[derive(Clone, Debug)]
pub struct JsonBody(Bytes);

impl JsonBody {
    /// The fields of the object in the body.
    /// Errors: the body is not a JSON object.
    pub fn fields(&self) -> Result<Fields<'_>, ApiError> {
        Fields::parse(&self.0).ok_or_else(ApiError::malformed_body)
    }
}

impl<S: Send + Sync> FromRequest<S> for JsonBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        if !is_json(request.headers()) {
            return Err(ApiError::unsupported_media_type());
        }
        match Bytes::from_request(request, state).await {
            Ok(bytes) => Ok(Self(bytes)),
            Err(rejection) => match rejection.into_response().status() {
                StatusCode::PAYLOAD_TOO_LARGE => Err(ApiError::body_too_large(BODY_BYTES_MAX)),
                _ => Err(ApiError::incomplete_body()),
            },
        }
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let sent = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = sent.split(';').next().unwrap_or_default().trim();
    media_type.eq_ignore_ascii_case("application/json")
}

/// What asks for a list: its query, and where it was asked.
#[derive(Debug)]
pub struct ListQuery {
    /// The parameters.
    pub query: Query,
    /// Where.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_json_whatever_its_parameters() {
        let rows = [
            (Some("application/json"), true),
            (Some("Application/JSON; charset=utf-8"), true),
            (Some("application/x-www-form-urlencoded"), false),
            (Some("text/plain"), false),
            (Some("application/jsonl"), false),
            (Some(""), false),
            (None, false),
        ];
        for (value, expected) in rows {
            let mut headers = HeaderMap::new();
            if let Some(value) = value {
                headers.insert(CONTENT_TYPE, value.parse().unwrap());
            }
            assert_eq!(is_json(&headers), expected, "{value:?}");
        }
    }
}
