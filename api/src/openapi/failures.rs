//! The failures that operations share, in documents and their answers.

/// A failure that operations share.
pub(super) struct SharedFailure {
    pub(super) status: &'static str,
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    pub(super) code: &'static str,
}

const fn failure(
    status: &'static str,
    name: &'static str,
    code: &'static str,
    description: &'static str,
) -> SharedFailure {
    SharedFailure { status, name, description, code }
}

pub(super) const FAILURES: &[SharedFailure] = &[
    failure(
        "400",
        "BadRequest",
        "invalid_fields",
        "A value is wrong or missing; `errors` lists every field at fault.",
    ),
    failure("401", "Unauthorized", "unauthorized", "No token, or one that is unknown or revoked."),
    failure("403", "Forbidden", "insufficient_scope", "The token's scope is too small."),
    failure("404", "NotFound", "not_found", "No such object, or none of this company."),
    failure("408", "BodyTooSlow", "body_too_slow", "The body did not come in time."),
    failure("409", "Conflict", "code_taken", "The object's state does not allow the change."),
    failure(
        "412",
        "PreconditionFailed",
        "precondition_failed",
        "The object has changed since it was read; nothing was done.",
    ),
    failure("413", "BodyTooLarge", "body_too_large", "The body is too long."),
    failure(
        "415",
        "UnsupportedMediaType",
        "unsupported_media_type",
        "The body's `Content-Type` is not one that is taken here.",
    ),
    failure(
        "429",
        "TooManyRequests",
        "too_many_requests",
        "More requests a second than a token may send, or more idempotency keys in a day than are kept; \
         `Retry-After` says when to come back.",
    ),
    failure("500", "Internal", "internal", "The switch failed; its log has the cause."),
    failure(
        "503",
        "Unavailable",
        "overloaded",
        "Overloaded or stopping, or the outcome is unknown; `Retry-After` says when to come back.",
    ),
];
