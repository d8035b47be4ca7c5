//! Answers in JSON.

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::error::ApiError;

/// Room for most bodies, so that they are not moved while they are written. Units: bytes.
const ROOM_BYTES: usize = 64 << 10;

/// An answer with this body.
#[derive(Clone, Debug)]
pub struct Json<T>(pub T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        let mut body = Vec::with_capacity(ROOM_BYTES);
        match serde_json::to_writer(&mut body, &self.0) {
            Ok(()) => {
                body.shrink_to_fit();
                ([(CONTENT_TYPE, "application/json")], body).into_response()
            }
            Err(error) => ApiError::internal(&error).into_response(),
        }
    }
}
