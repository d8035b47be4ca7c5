//! The answers to requests that fail.
//!
//! Every failure has the same body, `{"detail": {code, message, param, errors, doc_url}}`. A code means
//! one cause: `wire/error_codes` has its status and explains it. Nothing internal is ever in a message:
//! causes of 500s go to the log. The answers to the engine's rejections are in `rejections`.

mod rejections;

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use cardswitch_bounds::TooManyTries;
use cardswitch_engine::store::StoreError;
use cardswitch_engine::submission::SubmitError;
use cardswitch_secrets::issuing::IssueError;
use cardswitch_wire::error_codes::{ERRORS_PATH, error_code};
use cardswitch_wire::fault::{Fault, Flaw};
use serde::Serialize;
use utoipa::ToSchema;

use crate::json::Json;
use crate::write_error::{UnshownChange, WriteError};

/// When a client may try again after the switch was too busy. Units: seconds.
const RETRY_AFTER_S: u32 = 1;

/// A request that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// The status of the answer.
    pub status: StatusCode,
    /// The word that programs know the failure by.
    pub code: &'static str,
    message: String,
    /// The fields at fault.
    pub faults: Vec<Fault>,
    retry_after_s: Option<u32>,
}

/// Answer to a failed request.
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
    /// Explanation of the code: an address relative to this switch's.
    #[schema(format = "uri-reference")]
    doc_url: String,
}

#[derive(Serialize, ToSchema)]
struct FieldError<'a> {
    param: &'a str,
    code: &'a str,
    message: String,
}

/// Why the present state is in the way of a request, for those that see only answers.
#[derive(Clone, Debug)]
pub struct ConflictMessage(pub String);

/// The code of a change that was made but cannot be shown.
const NOT_VISIBLE_YET: &str = "not_visible_yet";

impl ApiError {
    /// A failure of this code, which has its status from the table of codes.
    fn new(code: &'static str, message: impl Into<String>) -> Self {
        let known = error_code(code);
        debug_assert!(known.is_some(), "`{code}` is not explained");
        let status = known.and_then(|known| StatusCode::from_u16(known.status).ok());
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let is_short = status == StatusCode::SERVICE_UNAVAILABLE;
        let retry_after_s = is_short.then_some(RETRY_AFTER_S);
        Self { status, code, message: message.into(), faults: Vec::new(), retry_after_s }
    }

    /// Fields of the request are at fault; the code is the field's where it is one.
    pub fn invalid(faults: Vec<Fault>) -> Self {
        let (code, message) = match faults.as_slice() {
            [fault] => (fault.flaw.code, fault.message()),
            _ => ("invalid_fields", format!("{} fields are at fault", faults.len())),
        };
        let is_explained = |fault: &Fault| error_code(fault.flaw.code).is_some();
        debug_assert!(faults.iter().all(is_explained), "a code is not explained: {faults:?}");
        Self { status: StatusCode::BAD_REQUEST, faults, ..Self::new(code, message) }
    }

    /// One field of the request is at fault.
    pub fn invalid_field(param: &str, flaw: Flaw) -> Self {
        Self::invalid(vec![Fault::new(param, flaw)])
    }

    /// A field of the request names an object that does not exist, where that answers as a path to
    /// it would.
    pub fn named_not_found(param: &str, noun: &str) -> Self {
        let flaw = Flaw::new("not_found", format!("names no {noun}"));
        Self { status: StatusCode::NOT_FOUND, ..Self::invalid_field(param, flaw) }
    }

    /// The journal failed under the request.
    pub fn outcome_unknown() -> Self {
        WriteError::OutcomeUnknown.into()
    }

    /// Reads do not show what the request needs, or what it would change.
    pub fn tables_behind() -> Self {
        Self::new("tables_behind", "the tables behind reads lack what this needs; nothing was done")
    }

    /// A statement has more than `lines_max` lines, which is more than its format takes.
    pub fn statement_too_long(lines_max: u64) -> Self {
        let message = format!("has more than {lines_max} lines in this range: ask for fewer days");
        Self::invalid_field("start_date", Flaw::new("too_many_lines", message))
    }

    /// Tokens are not given for this.
    pub fn unsupported_grant_type() -> Self {
        let message = "must be `authorization_code` or `password`";
        Self::invalid_field("grant_type", Flaw::new("unsupported_grant_type", message))
    }

    /// A scope is asked for that is not given.
    pub fn invalid_scope(message: &str) -> Self {
        Self::invalid_field("scope", Flaw::new("invalid_scope", message))
    }

    /// The caller asks too often.
    pub fn too_many_requests(retry_after_s: u32) -> Self {
        let failed = Self::new("too_many_requests", "too many requests");
        Self { retry_after_s: Some(retry_after_s), ..failed }
    }

    /// Something of the switch's own failed; `cause` goes to the log, not to the client.
    pub fn internal(cause: &dyn std::fmt::Display) -> Self {
        tracing::error!(%cause, "a request failed");
        Self::new("internal", "the switch failed to answer; the log has the cause")
    }
}

/// Declares failures: the name of each here, its parts, the code, the message.
macro_rules! failures {
    ($($(#[$about:meta])+
        $name:ident($($part:ident: $type:ty)?) $code:literal $message:expr;)*) => {
        impl ApiError {$(
            $(#[$about])+
            pub fn $name($($part: $type)?) -> Self {
                Self::new($code, $message)
            }
        )*}
    };
}

failures! {
    /// The body is no JSON object.
    malformed_body() "malformed_body" "the body is not a JSON object";
    /// The body ended before it was whole.
    incomplete_body() "incomplete_body" "the body could not be read";
    /// The body did not come in time.
    body_too_slow() "body_too_slow" "the body did not come in time";
    /// The body of a batch is no JSON array.
    not_an_array() "malformed_body" "the body is not a JSON array";
    /// A field of the head that may come once came again.
    repeated_header(name: &HeaderName) "repeated_header"
        format!("the header `{name}` came more than once");
    /// The head names no host, or none that there could be.
    malformed_host() "malformed_host" "the header `Host` must name a host";
    /// The body is coded for its way otherwise than in chunks.
    unsupported_transfer_coding() "unsupported_transfer_coding"
        "the header `Transfer-Encoding` may be `chunked` only";
    /// A batch has more than `len_max` requests.
    batch_too_long(len_max: usize) "batch_too_long"
        format!("a batch has at most {len_max} requests");
    /// The idempotency key came with another request before.
    idempotency_key_reused() "idempotency_key_reused"
        "the header `Idempotency-Key` came with another request before";
    /// A request with the same idempotency key is under way.
    idempotency_key_in_flight() "idempotency_key_in_flight"
        "a request with this `Idempotency-Key` is under way; ask again";
    /// The transfer cannot be concluded any more.
    transfer_concluded() "transfer_concluded" "the transfer was declined or has come back";
    /// Requisitions are for cards of another network.
    network_not_supported(network: &str) "network_not_supported"
        format!("requisitions are for cards of the network `{network}` only");
    /// The system's clock cannot be turned.
    clock_not_manual() "clock_not_manual" "the clock can be set only with `serve --clock manual`";
    /// The query cannot be decoded.
    malformed_query() "malformed_query" "the query cannot be decoded";
    /// No token, or one that opens nothing.
    unauthorized() "unauthorized"
        "an access token is needed: `Authorization: Token <ACCESS_TOKEN>`";
    /// No network key, or not the right one.
    network_key_needed() "unauthorized"
        "the network key is needed: `Authorization: Bearer <NETWORK_KEY>`";
    /// The token's scope is too small.
    scope_too_small(needed: &str) "insufficient_scope"
        format!("the access token lacks the scope `{needed}`");
    /// An app's token changes what is not the app's.
    not_of_app() "not_of_app" "a token of an app changes the app's webhook endpoints only";
    /// Nothing is found there, or nothing of the caller's company.
    not_found() "not_found" "there is no such object or path";
    /// The path is there, but does not take this method.
    method_not_allowed() "method_not_allowed" "this path does not take this method";
    /// The body is longer than `bytes_max`.
    body_too_large(bytes_max: usize) "body_too_large"
        format!("the body is longer than {bytes_max} bytes");
    /// The body is of a type the path does not take.
    unsupported_media_type() "unsupported_media_type"
        "the header `Content-Type` must be `application/json`";
    /// The body of a token endpoint is of a type that is not taken there.
    not_a_form() "unsupported_media_type"
        "the header `Content-Type` must be `application/json` or \
            `application/x-www-form-urlencoded`";
    /// An app did not say which it is, or not with the right secret.
    invalid_client() "invalid_client" "no app has this `client_id` and `client_secret`";
    /// An app's company is closed.
    unauthorized_client() "unauthorized_client" "the company that registered the app is closed";
    /// The grant with which an app asks for a token is not valid.
    invalid_grant(message: &str) "invalid_grant" message;
    /// The token of a question awaits no answer any more, or never did.
    challenge_over() "challenge_over"
        "no answer is waited for under this access token: it is unknown, its time is over, or \
            its answers were wrong";
    /// The answer to a question was wrong.
    wrong_answer() "wrong_answer" "the answer is wrong; another may be given";
    /// The uploaded file is no receipt.
    not_a_receipt() "unsupported_media_type"
        "a receipt is a PNG, a JPEG or a PDF file, sent as such or as the field `file` of \
            `multipart/form-data`";
    /// The body is no whole `multipart/form-data`.
    malformed_form() "malformed_body" "the body is not what `multipart/form-data` says";
    /// The data directory is still being opened.
    recovering() "recovering" "the switch is starting";
    /// No node leads the cluster, or none that can make sure of it.
    no_leader() "no_leader" "no node of the cluster leads for certain";
    /// The cell that the request names is not there.
    cell_down() "cell_down" "the cell of this request does not answer";
    /// So many requests are being answered that this one was not begun.
    busy() "busy" "too many requests are being answered";
    /// Nothing is sent to a webhook endpoint that is off.
    webhook_endpoint_disabled() "webhook_endpoint_disabled"
        "the webhook endpoint is off: enable it first";
    /// The part of the switch that would answer has too much to do.
    overloaded() "overloaded" "too many requests are waiting";
    /// The object is not as the client has seen it.
    precondition_failed() "precondition_failed" "the object was changed since it was read";
    /// A closed company makes nothing more, and its cards show no secrets.
    company_closed() "company_closed" "the company is closed";
    /// A physical card keeps its number to itself.
    card_not_virtual() "card_not_virtual"
        "the number of a physical card is on the card alone";
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

impl From<TooManyTries> for ApiError {
    fn from(TooManyTries { retry_after_s }: TooManyTries) -> Self {
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
            SubmitError::Stopped => Self::new("stopped", "the switch has stopped"),
            SubmitError::TablesStandStill => Self::tables_behind(),
        }
    }
}

impl From<WriteError> for ApiError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Rejected(rejection) => Self::rejected(rejection),
            WriteError::NotTaken(error) => error.into(),
            WriteError::OutcomeUnknown => Self::new(
                "outcome_unknown",
                "whether the change was made is known after the switch restarts",
            ),
            WriteError::NotVisibleYet => {
                Self::new(NOT_VISIBLE_YET, "the change was made but cannot be shown yet")
            }
        }
    }
}

impl ApiError {
    /// The message for people.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The same about fields that have other names in the request.
    #[must_use]
    pub fn renamed(self, names: &[(&str, &str)]) -> Self {
        let name_of = |param: &str| names.iter().find(|(known, _)| *known == param);
        let rename = |fault: Fault| match name_of(&fault.param) {
            Some((_, name)) => Fault::new(*name, fault.flaw),
            None => fault,
        };
        let faults: Vec<_> = self.faults.into_iter().map(rename).collect();
        match faults.as_slice() {
            [fault] => Self { message: fault.message(), faults, ..self },
            _ => Self { faults, ..self },
        }
    }

    /// The body of the answer: the shape of every failure.
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
        let doc_url = format!("{ERRORS_PATH}#{code}");
        ErrorBody { detail: Detail { code, message, param, errors: errors.collect(), doc_url } }
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
        if self.code == NOT_VISIBLE_YET {
            response.extensions_mut().insert(UnshownChange);
        }
        if self.status == StatusCode::CONFLICT {
            response.extensions_mut().insert(ConflictMessage(self.message));
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
            "doc_url": "/docs/errors#required",
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
            "doc_url": "/docs/errors#invalid_fields",
        }});
        assert_eq!(told(ApiError::invalid(faults.into())).await, (400, expected));
    }

    #[test]
    fn who_may_try_again_is_told_when() {
        let errors = [SubmitError::Overloaded, SubmitError::Stopped, SubmitError::TablesStandStill];
        for error in errors {
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
