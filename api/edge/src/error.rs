//! What a client is told when a request fails. The only file that knows statuses of failures.
//!
//! Every failure has the same body, `{"detail": {code, message, param, errors}}`. A code means one
//! cause. Nothing internal is ever in a message: causes of 500s go to the log. What the engine's
//! rejections are told as is in `rejections`.

mod rejections;

use axum::Json;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use cardswitch_engine::store::StoreError;
use cardswitch_engine::submission::SubmitError;
use cardswitch_secrets::issuing::IssueError;
use cardswitch_wire::fault::{Fault, Flaw};
use serde::Serialize;
use utoipa::ToSchema;

use crate::bounded::TooMany;
use crate::write_error::WriteError;

/// When a client may try again after the switch was too busy. Units: seconds.
const RETRY_AFTER_S: u32 = 1;

/// A request that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
    faults: Vec<Fault>,
    retry_after_s: Option<u32>,
}

/// What a request that failed is answered with.
#[derive(Serialize, ToSchema)]
pub struct ErrorBody<'a> {
    detail: Detail<'a>,
}

#[derive(Serialize, ToSchema)]
struct Detail<'a> {
    code: &'a str,
    message: &'a str,
    /// The field at fault, where it is one.
    param: Option<&'a str>,
    errors: Vec<FieldError<'a>>,
}

#[derive(Serialize, ToSchema)]
struct FieldError<'a> {
    param: &'a str,
    code: &'a str,
    message: String,
}

impl ApiError {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), faults: Vec::new(), retry_after_s: None }
    }

    /// Fields of the request are at fault; the code is the field's where it is one.
    #[must_use]
    pub fn invalid(faults: Vec<Fault>) -> Self {
        let (code, message) = match faults.as_slice() {
            [fault] => (fault.flaw.code, fault.message()),
            _ => ("invalid_fields", format!("{} fields are at fault", faults.len())),
        };
        Self { faults, ..Self::new(StatusCode::BAD_REQUEST, code, message) }
    }

    /// One field of the request is at fault.
    #[must_use]
    pub fn invalid_field(param: &str, flaw: Flaw) -> Self {
        Self::invalid(vec![Fault::new(param, flaw)])
    }

    /// The body is no JSON object.
    #[must_use]
    pub fn malformed_body() -> Self {
        Self::new(StatusCode::BAD_REQUEST, "malformed_body", "the body is not a JSON object")
    }

    /// The body ended before it was whole.
    #[must_use]
    pub fn incomplete_body() -> Self {
        Self::new(StatusCode::BAD_REQUEST, "incomplete_body", "the body could not be read")
    }

    /// The body did not come in time.
    #[must_use]
    pub fn body_too_slow() -> Self {
        let message = "the body did not come in time";
        Self::new(StatusCode::REQUEST_TIMEOUT, "body_too_slow", message)
    }

    /// The body of a batch is no JSON array.
    #[must_use]
    pub fn not_an_array() -> Self {
        Self::new(StatusCode::BAD_REQUEST, "malformed_body", "the body is not a JSON array")
    }

    /// A field of the head that may come once came again.
    #[must_use]
    pub fn repeated_header(name: &HeaderName) -> Self {
        let message = format!("the header `{name}` came more than once");
        Self::new(StatusCode::BAD_REQUEST, "repeated_header", message)
    }

    /// The head names no host, or none that there could be.
    #[must_use]
    pub fn malformed_host() -> Self {
        let message = "the header `Host` must name a host";
        Self::new(StatusCode::BAD_REQUEST, "malformed_host", message)
    }

    /// The body is coded for its way otherwise than in chunks.
    #[must_use]
    pub fn unsupported_transfer_coding() -> Self {
        let message = "the header `Transfer-Encoding` may be `chunked` only";
        Self::new(StatusCode::BAD_REQUEST, "unsupported_transfer_coding", message)
    }

    /// A batch has more than `len_max` requests.
    #[must_use]
    pub fn batch_too_long(len_max: usize) -> Self {
        let message = format!("a batch has at most {len_max} requests");
        Self::new(StatusCode::BAD_REQUEST, "batch_too_long", message)
    }

    /// The idempotency key came with another request before.
    #[must_use]
    pub fn idempotency_key_reused() -> Self {
        let message = "the header `Idempotency-Key` came with another request before";
        Self::new(StatusCode::BAD_REQUEST, "idempotency_key_reused", message)
    }

    /// A request with the same idempotency key is under way.
    #[must_use]
    pub fn idempotency_key_in_flight() -> Self {
        let message = "a request with this `Idempotency-Key` is under way; ask again";
        Self::conflict("idempotency_key_in_flight", message)
    }

    /// The transfer cannot be concluded any more.
    #[must_use]
    pub fn transfer_concluded() -> Self {
        Self::conflict("transfer_concluded", "the transfer was declined or has come back")
    }

    /// Requisitions are for cards of another network.
    #[must_use]
    pub fn network_not_supported(network: &str) -> Self {
        let message = format!("requisitions are for cards of the network `{network}` only");
        Self::new(StatusCode::BAD_REQUEST, "network_not_supported", message)
    }

    /// The system's clock cannot be turned.
    #[must_use]
    pub fn clock_not_manual() -> Self {
        Self::conflict("clock_not_manual", "the clock can be set only with `serve --clock manual`")
    }

    /// The journal failed under the request.
    #[must_use]
    pub fn outcome_unknown() -> Self {
        WriteError::OutcomeUnknown.into()
    }

    /// The query cannot be decoded.
    #[must_use]
    pub fn malformed_query() -> Self {
        Self::new(StatusCode::BAD_REQUEST, "malformed_query", "the query cannot be decoded")
    }

    /// A statement has more than `lines_max` lines, which is more than its format takes.
    #[must_use]
    pub fn statement_too_long(lines_max: u64) -> Self {
        let message = format!("has more than {lines_max} lines in this range: ask for fewer days");
        Self::invalid_field("start_date", Flaw::new("too_many_lines", message))
    }

    /// No token, or one that opens nothing.
    #[must_use]
    pub fn unauthorized() -> Self {
        let message = "an access token is needed: `Authorization: Token <ACCESS_TOKEN>`";
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
    }

    /// No network key, or not the right one.
    #[must_use]
    pub fn network_key_needed() -> Self {
        let message = "the network key is needed: `Authorization: Bearer <NETWORK_KEY>`";
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
    }

    /// The token's scope is too small.
    #[must_use]
    pub fn scope_too_small(needed: &str) -> Self {
        let message = format!("the access token lacks the scope `{needed}`");
        Self::new(StatusCode::FORBIDDEN, "insufficient_scope", message)
    }

    /// Nothing is found there, or nothing of the caller's company.
    #[must_use]
    pub fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", "there is no such object or path")
    }

    /// The path is there, but does not take this method.
    #[must_use]
    pub fn method_not_allowed() -> Self {
        let message = "this path does not take this method";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
    }

    /// The body is longer than `bytes_max`.
    #[must_use]
    pub fn body_too_large(bytes_max: usize) -> Self {
        let message = format!("the body is longer than {bytes_max} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message)
    }

    /// The body is of a type the path does not take.
    #[must_use]
    pub fn unsupported_media_type() -> Self {
        let message = "the header `Content-Type` must be `application/json`";
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message)
    }

    /// The body of a token endpoint is of a type that is not taken there.
    #[must_use]
    pub fn not_a_form() -> Self {
        let message = "the header `Content-Type` must be `application/json` or \
                       `application/x-www-form-urlencoded`";
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message)
    }

    /// An app did not say which it is, or not with the right secret.
    #[must_use]
    pub fn invalid_client() -> Self {
        let message = "no app has this `client_id` and `client_secret`";
        Self::new(StatusCode::UNAUTHORIZED, "invalid_client", message)
    }

    /// What an app asks a token with is no good.
    #[must_use]
    pub fn invalid_grant(message: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_grant", message)
    }

    /// Tokens are not given for this.
    #[must_use]
    pub fn unsupported_grant_type() -> Self {
        let message = "must be `authorization_code` or `password`";
        Self::invalid_field("grant_type", Flaw::new("unsupported_grant_type", message))
    }

    /// A scope is asked for that is not given.
    #[must_use]
    pub fn invalid_scope(message: &str) -> Self {
        Self::invalid_field("scope", Flaw::new("invalid_scope", message))
    }

    /// No answer is waited for under this token any more, or never was.
    #[must_use]
    pub fn challenge_over() -> Self {
        let message = "no answer is waited for under this access token: it is unknown, its time is \
                       over, or its answers were wrong";
        Self::new(StatusCode::UNAUTHORIZED, "challenge_over", message)
    }

    /// The answer to a question was wrong.
    #[must_use]
    pub fn wrong_answer() -> Self {
        let message = "the answer is wrong; another may be given";
        Self::new(StatusCode::FORBIDDEN, "wrong_answer", message)
    }

    /// What was uploaded is no receipt.
    #[must_use]
    pub fn not_a_receipt() -> Self {
        let message = "a receipt is a PNG, a JPEG or a PDF file, sent as such or as the field \
                       `file` of `multipart/form-data`";
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message)
    }

    /// The body is no whole `multipart/form-data`.
    #[must_use]
    pub fn malformed_form() -> Self {
        let message = "the body is not what `multipart/form-data` says";
        Self::new(StatusCode::BAD_REQUEST, "malformed_body", message)
    }

    /// The caller asks too often.
    #[must_use]
    pub fn too_many_requests(retry_after_s: u32) -> Self {
        let message = "too many requests";
        Self {
            retry_after_s: Some(retry_after_s),
            ..Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many_requests", message)
        }
    }

    /// The data directory is still being opened.
    #[must_use]
    pub fn recovering() -> Self {
        Self::unavailable("recovering", "the switch is starting")
    }

    /// So many requests are being answered that this one was not begun.
    #[must_use]
    pub fn busy() -> Self {
        Self::unavailable("busy", "too many requests are being answered")
    }

    /// Something of the switch's own failed; `cause` goes to the log, not to the client.
    #[must_use]
    pub fn internal(cause: &dyn std::fmt::Display) -> Self {
        tracing::error!(%cause, "a request failed");
        let message = "the switch failed to answer; the log has the cause";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
    }

    /// Nothing is sent to a webhook endpoint that is off.
    #[must_use]
    pub fn webhook_endpoint_disabled() -> Self {
        Self::conflict("webhook_endpoint_disabled", "the webhook endpoint is off: enable it first")
    }

    /// What would answer has too much to do.
    #[must_use]
    pub fn overloaded() -> Self {
        Self::unavailable("overloaded", "too many requests are waiting")
    }

    /// A physical card keeps its number to itself.
    #[must_use]
    pub fn card_not_virtual() -> Self {
        Self::conflict("card_not_virtual", "the number of a physical card is on the card alone")
    }

    fn conflict(code: &'static str, message: &str) -> Self {
        Self::new(StatusCode::CONFLICT, code, message)
    }

    fn unavailable(code: &'static str, message: &str) -> Self {
        Self {
            retry_after_s: Some(RETRY_AFTER_S),
            ..Self::new(StatusCode::SERVICE_UNAVAILABLE, code, message)
        }
    }
}

impl From<Vec<Fault>> for ApiError {
    fn from(faults: Vec<Fault>) -> Self {
        Self::invalid(faults)
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        Self::internal(&error)
    }
}

impl From<TooMany> for ApiError {
    fn from(TooMany { retry_after_s }: TooMany) -> Self {
        Self::too_many_requests(retry_after_s)
    }
}

impl From<IssueError> for ApiError {
    fn from(error: IssueError) -> Self {
        Self::internal(&error)
    }
}

impl From<SubmitError> for ApiError {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::Overloaded => Self::overloaded(),
            SubmitError::Stopped => Self::unavailable("stopped", "the switch has stopped"),
        }
    }
}

impl From<WriteError> for ApiError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Rejected(rejection) => Self::rejected(rejection, &[]),
            WriteError::NotTaken(error) => error.into(),
            WriteError::OutcomeUnknown => Self::unavailable(
                "outcome_unknown",
                "whether the change was made is known after the switch restarts",
            ),
            WriteError::NotVisibleYet => {
                Self::unavailable("not_visible_yet", "the change was made but cannot be shown yet")
            }
        }
    }
}

impl ApiError {
    /// The status of the answer.
    #[must_use]
    pub const fn status(&self) -> StatusCode {
        self.status
    }

    /// The word that programs know the failure by.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        self.code
    }

    /// What people are told.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The fields at fault.
    #[must_use]
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// The body of the answer: the shape of every failure.
    #[must_use]
    pub fn body(&self) -> serde_json::Value {
        // INVARIANT: texts and nulls alone always render.
        serde_json::to_value(self.error_body()).unwrap_or_default()
    }

    fn error_body(&self) -> ErrorBody<'_> {
        let errors = self.faults.iter().map(|fault| FieldError {
            param: &fault.param,
            code: fault.flaw.code,
            message: fault.message(),
        });
        let param = match self.faults.as_slice() {
            [fault] => Some(fault.param.as_str()),
            _ => None,
        };
        let (code, message) = (self.code, self.message.as_str());
        ErrorBody { detail: Detail { code, message, param, errors: errors.collect() } }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.error_body())).into_response();
        if let Some(seconds) = self.retry_after_s {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Token");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    async fn told(error: ApiError) -> (u16, Value) {
        let response = error.into_response();
        let status = response.status().as_u16();
        let bytes = axum::body::to_bytes(response.into_body(), 10_000).await.unwrap();
        (status, serde_json::from_slice(&bytes).unwrap())
    }

    #[tokio::test]
    async fn one_fault_is_the_error_and_several_are_listed() {
        let one = ApiError::invalid_field("amount", Flaw::required());
        let expected = json!({"detail": {
            "code": "required",
            "message": "`amount` is required",
            "param": "amount",
            "errors": [
                {"param": "amount", "code": "required", "message": "`amount` is required"},
            ],
        }});
        assert_eq!(told(one).await, (400, expected));

        let faults =
            ["a", "b.c"].map(|name| Fault::new(name, Flaw::new("not_text", "must be text")));
        let expected = json!({"detail": {
            "code": "invalid_fields",
            "message": "2 fields are at fault",
            "param": null,
            "errors": [
                {"param": "a", "code": "not_text", "message": "`a` must be text"},
                {"param": "b.c", "code": "not_text", "message": "`b.c` must be text"},
            ],
        }});
        assert_eq!(told(ApiError::invalid(faults.into())).await, (400, expected));
    }

    #[test]
    fn who_may_try_again_is_told_when() {
        for error in [SubmitError::Overloaded, SubmitError::Stopped] {
            let response = ApiError::from(error).into_response();
            assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
            assert!(response.headers().contains_key(header::RETRY_AFTER));
        }
        let response = ApiError::too_many_requests(30).into_response();
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(response.headers()[header::RETRY_AFTER], "30");
        let response = ApiError::not_found().into_response();
        assert!(!response.headers().contains_key(header::RETRY_AFTER));
    }

    #[tokio::test]
    async fn causes_of_failures_stay_inside() {
        let (status, body) = told(ApiError::internal(&"row 7 of table cards")).await;
        assert_eq!(status, 500);
        assert!(!body.to_string().contains("row 7"));
    }
}
