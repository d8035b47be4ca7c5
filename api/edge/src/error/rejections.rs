//! The answers to changes that the engine rejects: the code, the text and the field at fault of
//! each rejection. Statuses stay with `ApiError`'s own constructors.

use cardswitch_engine::command::reply::Rejection;
use cardswitch_engine::limits;
use cardswitch_wire::fault::{Flaw, window_faults};

use super::ApiError;

/// When a company may try again whose idempotency keys are used up: the oldest expire one by one.
/// Units: seconds.
const KEYS_RETRY_AFTER_S: u32 = 60;

impl ApiError {
    /// The answer to a refused change.
    #[expect(clippy::too_many_lines, reason = "an arm for each rejection")]
    pub fn rejected(rejection: Rejection) -> Self {
        let fault = |param, code, message: &str| {
            Self::invalid_field(param, Flaw::new(code, message.to_owned()))
        };
        let taken = |param, code, message| Self {
            status: Self::new(code, message).status,
            ..fault(param, code, message)
        };
        match rejection {
            Rejection::NotFound
            | Rejection::CompanyNotFound
            | Rejection::CardNotFound
            | Rejection::AllowanceNotFound
            | Rejection::TransactionNotFound
            | Rejection::UserNotFound
            | Rejection::TicketNotFound
            | Rejection::AppNotFound
            | Rejection::TokenNotFound => Self::not_found(),
            Rejection::MemberNotFound => {
                Self::invalid_field("assigned_to", Flaw::not_found("member"))
            }
            Rejection::DimensionNotFound(kind) => {
                Self::invalid_field(kind.word(), Flaw::not_found(kind.word()))
            }
            Rejection::StartsAfterEnd => Self::invalid(window_faults().into()),
            Rejection::IdTaken | Rejection::CardNumberTaken => {
                Self::internal(&"no free id or card number was drawn")
            }
            Rejection::ZoneKeyRepeated => Self::internal(&"no request exchanges zone keys"),
            Rejection::KeyTaken => Self::idempotency_key_in_flight(),
            Rejection::TooManyKeys => Self::too_many_requests(KEYS_RETRY_AFTER_S),
            Rejection::Full => Self::new("full", "the switch has no more room"),
            Rejection::PanKeyOutdated | Rejection::PanKeyUnknown => {
                Self::new("key_replaced", "the key of card numbers was replaced meanwhile")
            }
            Rejection::CompanyClosed => Self::company_closed(),
            Rejection::CardTerminated => Self::new("card_terminated", "the card is terminated"),
            Rejection::AllowanceEnded => {
                Self::new("allowance_ended", "the allowance's `end_time` is past")
            }
            Rejection::EmailTaken => taken("email", "email_taken", "is that of another member"),
            Rejection::TooManySharedLinks => {
                Self::new("too_many_shared_links", "the card has no room for another link")
            }
            Rejection::TooManyLinksToAddress => {
                Self::new("too_many_links_to_address", "the recipient has the most links allowed")
            }
            Rejection::DimensionCodeTaken => {
                taken("code", "code_taken", "is that of another object of this kind")
            }
            Rejection::TooManyChildren => Self::new(
                "too_many_children",
                "one parent would have more children than it may: move some of them first",
            ),
            Rejection::MemberDeleted => {
                Self::new("member_deleted", "a deleted member cannot be changed")
            }
            Rejection::MemberCodeTaken => taken("code", "code_taken", "is that of another member"),
            Rejection::LastAdministrator => {
                Self::new("last_administrator", "the company would have no active administrator")
            }
            Rejection::TooManyCards => {
                Self::new("too_many_cards", "the member holds the most cards allowed")
            }
            Rejection::TooManyTokens => Self::new(
                "too_many_tokens",
                "so many access tokens are in use that one of them has to be revoked first",
            ),
            Rejection::ScopeNotAllowed => {
                Self::invalid_scope("the member's role does not allow this scope")
            }
            Rejection::TooManyPasswordLinks => Self::new(
                "too_many_password_links",
                "as many links to set a password are open as one company may send",
            ),
            Rejection::TooManyWebhookEndpoints => Self::new(
                "too_many_webhook_endpoints",
                "the company has the most webhook endpoints allowed; delete one first",
            ),
            Rejection::TooManyWebhookSecrets => Self::new(
                "too_many_webhook_secrets",
                "the most replaced secrets allowed sign still; rotate again once one has ended",
            ),
            Rejection::TooMuchAtOnce => Self::new(
                "too_much_at_once",
                "too many objects depend on it: delete shared links first",
            ),
            Rejection::RequisitionDecided => Self::new(
                "requisition_decided",
                "an approved, denied or canceled requisition cannot be changed",
            ),
            Rejection::RequisitionEnded => Self::new(
                "requisition_ended",
                "the requisition's `end_time` is past: it can be approved with a later one",
            ),
            Rejection::TooManyRequisitions => Self::new(
                "too_many_requisitions",
                "the member has the most pending requisitions allowed",
            ),
            Rejection::TicketSpent => {
                Self::new("ticket_spent", "it was used, was ended or has expired")
            }
            Rejection::AppChanged => {
                Self::new("app_changed", "the app was edited since it was looked at")
            }
            Rejection::PasswordChanged => Self::new(
                "password_changed",
                "the password or a second factor was changed since it was given",
            ),
            Rejection::ChangedMeanwhile => Self::precondition_failed(),
            Rejection::MemberInactive => Self::new(
                "member_inactive",
                "an inactive member has no role: activate the member with it",
            ),
            Rejection::StepUsed => Self::new("step_used", "this one-time password was used before"),
            Rejection::ExternalIdTaken => {
                Self::new("external_id_taken", "another member has this external id")
            }
            Rejection::AssigneeMissing => {
                fault("assigned_to", "required", "is required before the card can be activated")
            }
            Rejection::ResetNeedsNoInterval => {
                fault("reset", "not_resettable", "needs an allowance whose `interval` is null")
            }
            Rejection::OutOfBounds => {
                fault("amount", "out_of_bounds", "is beyond what can be kept")
            }
            Rejection::CardsTooLong => {
                fault("cards", "too_long", "have more text than is kept at once: send fewer")
            }
            Rejection::ReviewerNotFound => fault(
                "reviewed_by",
                "not_found",
                "names no administrator or reviewer of this company",
            ),
            Rejection::ParentNotFound => {
                fault("parent", "not_found", "names nothing of this kind and company")
            }
            Rejection::ParentCycle => {
                fault("parent", "cycle", "must not be the object itself or one of its descendants")
            }
            Rejection::TreeTooDeep => {
                let levels = limits::DIMENSION_LEVELS_MAX;
                fault("parent", "too_deep", &format!("would make more than {levels} levels"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use cardswitch_engine::domain::card::DimensionKind;

    use super::*;

    #[test]
    fn every_rejection_has_its_status_and_code() {
        let rows = [
            (Rejection::CompanyNotFound, 404, "not_found", None),
            (Rejection::CompanyClosed, 409, "company_closed", None),
            (Rejection::CardNotFound, 404, "not_found", None),
            (Rejection::MemberDeleted, 409, "member_deleted", None),
            (Rejection::MemberInactive, 409, "member_inactive", None),
            (Rejection::AppChanged, 409, "app_changed", None),
            (Rejection::ChangedMeanwhile, 412, "precondition_failed", None),
            (Rejection::PasswordChanged, 409, "password_changed", None),
            (Rejection::MemberCodeTaken, 409, "code_taken", Some("code")),
            (Rejection::LastAdministrator, 409, "last_administrator", None),
            (Rejection::TooManyCards, 409, "too_many_cards", None),
            (Rejection::TooManyTokens, 409, "too_many_tokens", None),
            (Rejection::TooMuchAtOnce, 409, "too_much_at_once", None),
            (Rejection::UserNotFound, 404, "not_found", None),
            (Rejection::TicketNotFound, 404, "not_found", None),
            (Rejection::AppNotFound, 404, "not_found", None),
            (Rejection::TokenNotFound, 404, "not_found", None),
            (Rejection::TooManyWebhookEndpoints, 409, "too_many_webhook_endpoints", None),
            (Rejection::TooManyWebhookSecrets, 409, "too_many_webhook_secrets", None),
            (Rejection::ScopeNotAllowed, 400, "invalid_scope", Some("scope")),
            (Rejection::TooManyPasswordLinks, 409, "too_many_password_links", None),
            (Rejection::TicketSpent, 409, "ticket_spent", None),
            (Rejection::StepUsed, 409, "step_used", None),
            (Rejection::ExternalIdTaken, 409, "external_id_taken", None),
            (Rejection::RequisitionDecided, 409, "requisition_decided", None),
            (Rejection::RequisitionEnded, 409, "requisition_ended", None),
            (Rejection::ReviewerNotFound, 400, "not_found", Some("reviewed_by")),
            (Rejection::TooManyRequisitions, 409, "too_many_requisitions", None),
            (Rejection::AllowanceNotFound, 404, "not_found", None),
            (Rejection::MemberNotFound, 400, "not_found", Some("assigned_to")),
            (Rejection::DimensionNotFound(DimensionKind::Label), 400, "not_found", Some("label")),
            (Rejection::CardTerminated, 409, "card_terminated", None),
            (Rejection::AssigneeMissing, 400, "required", Some("assigned_to")),
            (Rejection::AllowanceEnded, 409, "allowance_ended", None),
            (Rejection::ResetNeedsNoInterval, 400, "not_resettable", Some("reset")),
            (Rejection::EmailTaken, 409, "email_taken", Some("email")),
            (Rejection::StartsAfterEnd, 400, "invalid_fields", None),
            (Rejection::OutOfBounds, 400, "out_of_bounds", Some("amount")),
            (Rejection::IdTaken, 500, "internal", None),
            (Rejection::CardNumberTaken, 500, "internal", None),
            (Rejection::ZoneKeyRepeated, 500, "internal", None),
            (Rejection::KeyTaken, 409, "idempotency_key_in_flight", None),
            (Rejection::TooManyKeys, 429, "too_many_requests", None),
            (Rejection::Full, 503, "full", None),
            (Rejection::PanKeyOutdated, 503, "key_replaced", None),
            (Rejection::CardsTooLong, 400, "too_long", Some("cards")),
            (Rejection::NotFound, 404, "not_found", None),
            (Rejection::TooManySharedLinks, 409, "too_many_shared_links", None),
            (Rejection::TooManyLinksToAddress, 409, "too_many_links_to_address", None),
            (Rejection::TransactionNotFound, 404, "not_found", None),
            (Rejection::DimensionCodeTaken, 409, "code_taken", Some("code")),
            (Rejection::ParentNotFound, 400, "not_found", Some("parent")),
            (Rejection::ParentCycle, 400, "cycle", Some("parent")),
            (Rejection::TreeTooDeep, 400, "too_deep", Some("parent")),
            (Rejection::TooManyChildren, 409, "too_many_children", None),
        ];
        for (rejection, status, code, param) in rows {
            let error = ApiError::rejected(rejection);
            assert_eq!(error.status.as_u16(), status, "{rejection:?}");
            let detail = &error.body()["detail"];
            assert_eq!(detail["code"], code, "{rejection:?}");
            assert_eq!(detail["param"].as_str(), param, "{rejection:?}");
        }
    }
}
