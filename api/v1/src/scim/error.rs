//! A failed request of SCIM as its clients read it. Statuses and causes are those of `ApiError`;
//! only the shape is another. Source: RFC 7644, 3.12.

use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use cardswitch_edge::error::ApiError;

/// The media type of bodies in both directions.
pub(super) const SCIM_JSON: &str = "application/scim+json";
const ERROR_SCHEMA: &str = "urn:ietf:params:scim:api:messages:2.0:Error";

/// A request of SCIM that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ScimError(pub(super) ApiError);

impl<E: Into<ApiError>> From<E> for ScimError {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl ScimError {
    /// The body of the answer.
    pub(super) fn body(&self) -> serde_json::Value {
        let Self(error) = self;
        let mut body = json!({
            "schemas": [ERROR_SCHEMA],
            "status": error.status.as_str(),
            "detail": error.message(),
        });
        if let Some(scim_type) = scim_type(error) {
            body["scimType"] = json!(scim_type);
        }
        body
    }
}

/// The word for the cause; none where the standard has none.
fn scim_type(error: &ApiError) -> Option<&'static str> {
    let word = match error.code {
        "email_taken" | "code_taken" | "external_id_taken" => "uniqueness",
        "malformed_body" | "incomplete_body" => "invalidSyntax",
        "invalid_filter" => "invalidFilter",
        "invalid_path" => "invalidPath",
        "no_target" => "noTarget",
        "immutable" => "mutability",
        _ if error.status.as_u16() == 400 => "invalidValue",
        _ => return None,
    };
    Some(word)
}

impl IntoResponse for ScimError {
    fn into_response(self) -> Response {
        let body = self.body().to_string();
        let mut response = self.0.into_response();
        *response.body_mut() = Body::from(body);
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(SCIM_JSON));
        response
    }
}

/// A failure as providers read it.
pub fn failure(error: ApiError) -> Response {
    ScimError(error).into_response()
}

#[cfg(test)]
mod tests {
    use cardswitch_engine::command::reply::Rejection;
    use cardswitch_wire::fault::Flaw;

    use super::*;

    #[test]
    fn causes_have_the_words_of_the_standard() {
        let flaw = |code| ApiError::invalid_field("x", Flaw::new(code, "is wrong"));
        let taken = ApiError::rejected;
        let rows = [
            (flaw("invalid_filter"), "400", Some("invalidFilter")),
            (flaw("invalid_path"), "400", Some("invalidPath")),
            (flaw("no_target"), "400", Some("noTarget")),
            (flaw("immutable"), "400", Some("mutability")),
            (flaw("not_an_email"), "400", Some("invalidValue")),
            (ApiError::malformed_body(), "400", Some("invalidSyntax")),
            (taken(Rejection::EmailTaken), "409", Some("uniqueness")),
            (taken(Rejection::MemberCodeTaken), "409", Some("uniqueness")),
            (taken(Rejection::LastAdministrator), "409", None),
            (ApiError::not_found(), "404", None),
            (ApiError::unauthorized(), "401", None),
            (ApiError::body_too_large(5), "413", None),
        ];
        for (error, status, scim_type) in rows {
            let body = ScimError(error).body();
            assert_eq!(body["status"], status, "{body}");
            assert_eq!(body["scimType"].as_str(), scim_type, "{body}");
            assert_eq!(body["schemas"], json!([ERROR_SCHEMA]), "{body}");
        }
    }
}
