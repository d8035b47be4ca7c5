//! Every code of a failed request and what to do about it: the table behind `/docs/errors`, to whose
//! lines `doc_url` leads.
//!
//! INVARIANT: every code of an answer has a line here; `ApiError` asserts it where it is made.

/// The path under which the table is served. A code is an anchor of it.
pub const ERRORS_PATH: &str = "/docs/errors";

/// A code of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorCode {
    /// The word in the answer.
    pub code: &'static str,
    /// The status that it comes with; of a field's code 400.
    pub status: u16,
    /// Its meaning and its remedy, as a sentence.
    pub meaning: &'static str,
}

/// The line of a code; none where there is no such code.
pub fn error_code(code: &str) -> Option<&'static ErrorCode> {
    let place = ERROR_CODES.binary_search_by_key(&code, |known| known.code).ok()?;
    ERROR_CODES.get(place)
}

macro_rules! codes {
    ($($code:literal $status:literal $meaning:literal)*) => {
        /// All codes, in the order of the alphabet.
        pub const ERROR_CODES: &[ErrorCode] = &[
            $(ErrorCode { code: $code, status: $status, meaning: $meaning },)*
        ];
    };
}

codes! {
    "after_end_date" 400 "The first day is after the last one. Swap them."
    "after_end_time" 400 "The window would end before it begins. Move one of both ends."
    "allowance_ended" 409 "The card's `end_time` is past. Set a later one before you activate the card."
    "app_changed" 409 "The app was edited since it was read. Read it again, then repeat."
    "batch_too_long" 400 "A batch has too many requests. Send several batches."
    "before_start_time" 400 "The window would end before it begins. Move one of both ends."
    "blank" 400 "The text has nothing but blanks."
    "body_too_large" 413 "The body is longer than the operation accepts."
    "body_too_slow" 408 "The body did not arrive in time. Send it again."
    "busy" 503 "Too many requests are being answered. Wait for `Retry-After`, then repeat."
    "card_not_virtual" 409 "Only virtual cards show their number; a physical card has it printed."
    "card_terminated" 409 "A terminated card stays so. Create another card."
    "cell_down" 503 "The cell that the token or id names does not answer. Wait for `Retry-After`, then repeat."
    "challenge_over" 401 "No answer is pending for this token: it is unknown, expired, or had too many wrong answers. Ask for a token again."
    "clock_not_manual" 409 "The clock follows the system. Start the switch with `--clock manual` to set it."
    "code_taken" 409 "Another object of this kind has this code."
    "company_closed" 409 "A closed company makes no cards, members, links, apps, endpoints or tokens. Its cards show no number and take no PIN."
    "conflicting" 400 "Two fields contradict each other. Send one of them."
    "control_character" 400 "The text has control characters or direction overrides. Remove them."
    "cycle" 400 "An object would be its own ancestor. Choose another parent."
    "duplicate" 400 "An entry of the list appears twice."
    "email_taken" 409 "Another member has this email address."
    "empty" 400 "The list needs at least one entry."
    "external_id_taken" 409 "Another member has this external id."
    "full" 503 "The switch has no room for another object of this kind."
    "has_credentials" 400 "The address must not have a user name or password."
    "has_fragment" 400 "The address must not have a fragment."
    "idempotency_key_in_flight" 409 "The first request with this `Idempotency-Key` is not answered yet. Repeat a little later."
    "idempotency_key_reused" 400 "The `Idempotency-Key` was used for another request within 24 hours. Draw a new key."
    "immutable" 400 "The attribute cannot be changed."
    "in_the_past" 400 "The clock only moves forward."
    "incomplete_body" 400 "The body ended before it was complete."
    "insufficient_scope" 403 "The access token lacks the scope that the operation needs. Use another token."
    "internal" 500 "The switch failed. Its log has the cause under the `request-id` of the answer."
    "invalid_client" 401 "No app has this `client_id` and `client_secret`."
    "invalid_fields" 400 "Several fields are wrong. `errors` lists each with its own code."
    "invalid_filter" 400 "The SCIM filter cannot be parsed."
    "invalid_grant" 400 "The authorization code or password is wrong, used or expired."
    "invalid_path" 400 "The SCIM path names no attribute."
    "invalid_scope" 400 "The scope is unknown, or not available to this app or grant."
    "key_replaced" 503 "The key of card numbers was replaced while the request ran. Repeat it."
    "last_administrator" 409 "The company would be left without an active administrator."
    "malformed_body" 400 "The body is not a JSON object, or not the form that its type says."
    "malformed_host" 400 "The header `Host` names no host."
    "malformed_query" 400 "The query string cannot be decoded."
    "member_deleted" 409 "A deleted member cannot be changed."
    "member_inactive" 409 "An inactive member has no role. Activate the member in the same request."
    "method_not_allowed" 405 "The path does not serve this method; `Allow` lists those it serves."
    "negative" 400 "The amount is below zero."
    "network_not_supported" 400 "Requisitions need cards of the configured card network."
    "no_leader" 503 "No node of the cluster leads, or it cannot reach etcd. Wait for `Retry-After`, then repeat."
    "no_target" 400 "A SCIM `remove` needs a path."
    "not_a_boolean" 400 "The value must be `true` or `false`."
    "not_a_card_number" 400 "A card number has 8 to 19 digits."
    "not_a_category" 400 "A merchant category code has four digits."
    "not_a_country" 400 "A country is a code of two letters, such as `US`."
    "not_a_cursor" 400 "The cursor is not one that an earlier answer had."
    "not_a_date" 400 "A date is written as `2026-12-31`."
    "not_a_domain" 400 "The value is no domain name, such as `example.com`."
    "not_a_duration" 400 "A duration is seconds, or text such as `36h` or `7d`."
    "not_a_number" 400 "The value must be a decimal number."
    "not_a_pin" 400 "A PIN has 4 to 12 digits, as text."
    "not_a_reference" 400 "A reference is an object with an `id`."
    "not_a_time" 400 "A time is RFC 3339 with an offset, such as `2026-12-31T23:59:00Z`."
    "not_a_whole_number" 400 "The value must be a whole number of 0 or more."
    "not_an_address" 400 "The value is no web address."
    "not_an_array" 400 "The value must be an array."
    "not_an_authorization_id" 400 "An authorization id has six letters and digits."
    "not_an_email" 400 "The value is no email address."
    "not_an_id" 400 "An id is a UUID."
    "not_an_object" 400 "The value must be an object."
    "not_attributes" 400 "The SCIM attributes cannot be parsed."
    "not_digits" 400 "The value must have digits only."
    "not_found" 404 "There is no such path, or no such object in this company. In `errors`: the field names an object that does not exist."
    "not_https" 400 "The address must begin with `https://`, unless the switch allows local webhooks."
    "not_integers" 400 "The value must be an array of merchant category numbers."
    "not_of_app" 403 "A token of an app changes the app's own webhook endpoints only. Use a token of the company."
    "not_operations" 400 "A SCIM PATCH needs an array of operations."
    "not_positive" 400 "The amount must be above zero."
    "not_public" 400 "The address leads to a private network."
    "not_resettable" 400 "Only an allowance without an interval is reset by hand."
    "not_settable" 400 "The field cannot be set to this value here."
    "not_text" 400 "The value must be text."
    "not_theirs" 400 "The card belongs to another member."
    "not_unique" 400 "Another entry of the list has this name."
    "not_visible_ascii" 400 "The header may have visible ASCII characters only."
    "not_visible_yet" 503 "The change is durable but not readable yet. Read the object a little later; do not repeat the change."
    "not_xml" 400 "The value must be well-formed XML without a document type."
    "not_zero" 400 "A verification has no amount."
    "null" 400 "The value must not be null."
    "one_of" 400 "Exactly one of the fields is allowed."
    "out_of_bounds" 400 "The amount is beyond what the books can keep."
    "out_of_range" 400 "The number is outside the range that the message names."
    "outcome_unknown" 503 "The disk failed while the request was written: it may or may not have taken effect. Repeat it with the same `Idempotency-Key` after a restart."
    "overloaded" 503 "Too many requests are waiting. Wait for `Retry-After`, then repeat."
    "password_changed" 409 "The password or a second factor was changed in the meantime."
    "past" 400 "The time must be in the future."
    "precondition_failed" 412 "The object was changed since it was read, so nothing was done. Read it again, then decide."
    "range_too_long" 400 "The range has too many days. Ask for several ranges."
    "recovering" 503 "The switch is starting. Repeat in a moment."
    "repeated" 400 "A key or parameter appears more than once."
    "repeated_header" 400 "The header may appear only once."
    "required" 400 "The field is missing."
    "requisition_decided" 409 "The requisition was approved, denied or canceled before."
    "requisition_ended" 409 "The requisition's `end_time` is past. Approve it with a later one."
    "step_used" 409 "The one-time password was used before. Wait for the next one."
    "stopped" 503 "The switch has stopped."
    "tables_behind" 503 "The tables behind reads lack what the request needs. Nothing was done. Repeat it later; where `/readyz` tells of tables that stand still, only a restart helps."
    "ticket_spent" 409 "The link or session was used, ended or has expired."
    "too_deep" 400 "The tree would have too many levels."
    "too_large" 400 "The number is larger than any accepted amount."
    "too_long" 400 "The text or list is longer than the message allows."
    "too_many" 400 "The list has more entries than the message allows."
    "too_many_cards" 409 "The member holds as many cards as allowed."
    "too_many_children" 409 "The parent would have too many children. Move some of them first."
    "too_many_decimals" 400 "The amount has more decimals than its currency."
    "too_many_lines" 400 "A PDF statement of this range would be too long. Ask for fewer days, or for CSV."
    "too_many_links_to_address" 409 "The company has sent this address as many shared links as allowed. Delete one first."
    "too_many_password_links" 409 "The company has sent as many invitations as allowed. Wait until some are used, or have expired after 7 days."
    "too_many_requests" 429 "The caller asks too often. Wait for `Retry-After`, then repeat."
    "too_many_requisitions" 409 "The member has as many pending requisitions as allowed."
    "too_many_rows" 400 "The combination of filters would read too many rows. Narrow it down."
    "too_many_shared_links" 409 "The card has as many shared links as allowed. Delete one first."
    "too_many_tokens" 409 "Too many access tokens are in use. Revoke one first."
    "too_many_webhook_endpoints" 409 "The company has as many webhook endpoints as allowed. Delete one first."
    "too_many_webhook_secrets" 409 "Four replaced secrets of the endpoint sign still. Rotate again once one has ended."
    "too_much_at_once" 409 "The change would affect too many objects. Delete shared links first."
    "transfer_concluded" 409 "The transfer was declined or returned before."
    "unauthorized" 401 "The token or network key is missing, unknown or revoked."
    "unauthorized_client" 400 "The company that registered the app is closed. Nobody can let the app in."
    "unknown_currency" 400 "The value is no currency code, such as `USD`."
    "unknown_field" 400 "The request has a field that the operation does not know. Check its spelling."
    "unknown_value" 400 "The value is not one of those that the message lists."
    "unsupported_grant_type" 400 "`grant_type` is `authorization_code` or `password`."
    "unsupported_media_type" 415 "The `Content-Type` is not one that the operation accepts."
    "unsupported_transfer_coding" 400 "`Transfer-Encoding` may be `chunked` only."
    "webhook_endpoint_disabled" 409 "The webhook endpoint is disabled. Enable it first."
    "wrong_answer" 403 "The answer is wrong. Another try may be left."
    "wrong_length" 400 "The header is shorter or longer than the message allows."
    "zero" 400 "The amount must not be zero."
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_in_order_and_found() {
        for pair in ERROR_CODES.windows(2) {
            assert!(pair[0].code < pair[1].code, "{} before {}", pair[0].code, pair[1].code);
        }
        for known in ERROR_CODES {
            assert_eq!(error_code(known.code), Some(known));
            assert!(known.meaning.ends_with('.') && known.status >= 400, "{}", known.code);
        }
        assert_eq!(error_code("no_such_code"), None);
    }
}
