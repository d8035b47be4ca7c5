//! The common parts of all answers of the token endpoints: no cache keeps them, and failures carry,
//! beside the shape of every failure, the two members that stock clients read.
//! Source: RFC 6749, 5.1 and 5.2.

use axum::http::header::{CACHE_CONTROL, PRAGMA, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use cardswitch_edge::error::ApiError;
use cardswitch_edge::json::Json;
use cardswitch_engine::directory::access_token::AccessScope;
use cardswitch_wire::time::render_time;
use serde::Serialize;
use utoipa::ToSchema;

use super::scope;
use crate::auth::second_factor::Challenge;
use crate::state::AppState;

/// A token, shown this once.
#[derive(Serialize, ToSchema)]
pub(crate) struct TokenBody {
    access_token: String,
    token_type: &'static str,
    /// Scopes of the token besides reading.
    scope: Vec<&'static str>,
    /// Pending challenge, before whose answer the token does not work; only with second factors.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    challenge: Option<ChallengeBody>,
}

impl TokenBody {
    pub(super) fn new(access_token: &str, scope: AccessScope) -> Self {
        Self {
            access_token: access_token.to_owned(),
            token_type: "Bearer",
            scope: scope::names(scope),
            challenge: None,
        }
    }

    pub(super) fn pending(access_token: &str, challenge: ChallengeBody) -> Self {
        let token = Self::new(access_token, AccessScope::default());
        Self { challenge: Some(challenge), ..token }
    }
}

/// A question that waits for its answer.
#[derive(Serialize, ToSchema)]
pub(crate) struct ChallengeBody {
    /// Kind of question: `totp` or `security_question`.
    key: &'static str,
    /// Address for the answer.
    url: String,
    question: String,
    /// End of the time for an answer.
    expires_at: String,
}

impl ChallengeBody {
    pub(super) fn new(challenge: &Challenge, state: &AppState) -> Self {
        Self {
            key: challenge.factor.name(),
            url: state.urls().path("/v1/oauth/token/challenge"),
            question: challenge.question.clone(),
            expires_at: render_time(challenge.expires_at),
        }
    }
}

/// An answer, or a failure as stock clients understand it.
pub(super) fn reply<B: Serialize>(answered: Result<(StatusCode, B), ApiError>) -> Response {
    let mut response = match answered {
        Ok((status, body)) => (status, Json(body)).into_response(),
        Err(error) => failure(error),
    };
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(PRAGMA, HeaderValue::from_static("no-cache"));
    response
}

/// A failure as stock clients read it.
pub fn failure(error: ApiError) -> Response {
    let word = error_word(&error);
    let mut body = error.body();
    // Quotes and backslashes may not stand in a description, and ours are backticks.
    body["error_description"] = body["detail"]["message"].clone();
    body["error"] = word.into();
    let is_client = word == "invalid_client";
    let mut response = error.into_response();
    if is_client {
        let scheme = HeaderValue::from_static("Basic realm=\"cardswitch\", charset=\"UTF-8\"");
        response.headers_mut().insert(WWW_AUTHENTICATE, scheme);
    }
    let (mut parts, _) = response.into_parts();
    parts.headers.remove(axum::http::header::CONTENT_LENGTH);
    Response::from_parts(parts, body.to_string().into())
}

/// The word of RFC 6749, 5.2, where it has one; else those of 4.1.2.1 and RFC 6750.
fn error_word(error: &ApiError) -> &'static str {
    const OWN: [&str; 5] = [
        "invalid_client",
        "invalid_grant",
        "unauthorized_client",
        "unsupported_grant_type",
        "invalid_scope",
    ];
    if let Some(word) = OWN.into_iter().find(|word| *word == error.code) {
        return word;
    }
    match error.status {
        StatusCode::UNAUTHORIZED => "invalid_token",
        StatusCode::FORBIDDEN | StatusCode::CONFLICT => "access_denied",
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            "temporarily_unavailable"
        }
        StatusCode::INTERNAL_SERVER_ERROR => "server_error",
        _ => "invalid_request",
    }
}

#[cfg(test)]
mod tests {
    use cardswitch_wire::fault::Flaw;
    use serde_json::Value;

    use super::*;

    #[tokio::test]
    async fn failures_are_those_of_the_api_and_of_stock_clients() {
        let rows = [
            (ApiError::invalid_client(), 401, "invalid_client", Some("Basic")),
            (ApiError::invalid_grant("the code is unknown"), 400, "invalid_grant", None),
            (ApiError::unsupported_grant_type(), 400, "unsupported_grant_type", None),
            (ApiError::invalid_scope("there is no such scope"), 400, "invalid_scope", None),
            (ApiError::invalid_field("code", Flaw::required()), 400, "invalid_request", None),
            (ApiError::malformed_body(), 400, "invalid_request", None),
            (ApiError::not_a_form(), 415, "invalid_request", None),
            (ApiError::challenge_over(), 401, "invalid_token", Some("Token")),
            (ApiError::wrong_answer(), 403, "access_denied", None),
            (ApiError::too_many_requests(5), 429, "temporarily_unavailable", None),
            (ApiError::internal(&"x"), 500, "server_error", None),
            (ApiError::outcome_unknown(), 503, "temporarily_unavailable", None),
        ];
        for (error, status, word, scheme) in rows {
            let plain = error.body();
            let response = reply::<()>(Err(error));
            assert_eq!(response.status().as_u16(), status, "{word}");
            assert_eq!(response.headers()[CACHE_CONTROL], "no-store");
            let told = response.headers().get(WWW_AUTHENTICATE);
            let told = told.and_then(|value| value.to_str().ok()?.split(' ').next());
            assert_eq!(told, scheme, "{word}");
            let bytes = axum::body::to_bytes(response.into_body(), 10_000).await.unwrap();
            let body: Value = serde_json::from_slice(&bytes).unwrap();
            assert_eq!(body["detail"], plain["detail"]);
            assert_eq!(body["error"], word);
            let description = body["error_description"].as_str().unwrap();
            let is_allowed =
                |byte: u8| (0x20..0x7f).contains(&byte) && byte != b'"' && byte != b'\\';
            assert!(
                !description.is_empty() && description.bytes().all(is_allowed),
                "{description}"
            );
        }
    }
}
