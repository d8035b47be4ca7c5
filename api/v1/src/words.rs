//! The words that a field of `/v1` may hold, beside those of `wire::words`: each set is taken from the
//! code that renders it.

use cardswitch_engine::decision::DecidedBy;
use cardswitch_engine::domain::transaction_tags::ReceiptType;
use cardswitch_identity::oauth::scope::NAMES;
use cardswitch_identity::receipts::media_type;
use cardswitch_identity::webhook_endpoints::STATES;
use cardswitch_notify::webhooks::attempt_words::{FAILURES, KINDS};
pub use cardswitch_notify::webhooks::composing::EventName;
pub use cardswitch_wire::words::*;

use crate::routes::access_tokens::ORIGINS;
use crate::routes::allowances::INTERVALS;
use crate::routes::audit_events::ACTOR_KINDS;
use crate::routes::decision::render_decided_by;
use crate::routes::members::ROLES;
use crate::routes::requisitions::STATUSES;

cardswitch_wire::words! {
    /// How often the budget resets.
    Interval: INTERVALS.map(|(name, _)| name);
    /// The role of a member.
    MemberRole: ROLES.map(|(name, _)| name);
    /// What a member's role can be set to.
    SettableMemberRole: ["member", "reviewer"];
    /// The status of a requisition.
    RequisitionStatus: STATUSES.map(|(name, _)| name);
    /// What a requisition's status can be set to.
    RequisitionVerdict: ["approved", "denied"];
    /// What kind of file a receipt is.
    ReceiptMediaType: [ReceiptType::Png, ReceiptType::Jpeg, ReceiptType::Pdf].map(media_type);
    /// Whether a webhook endpoint is told of events; one is gone if its receiver has said so.
    WebhookEndpointState: STATES;
    /// Why a webhook was sent.
    WebhookAttemptKind: KINDS;
    /// Why a webhook got no answer.
    WebhookFailure: FAILURES;
    /// A scope of an access token.
    ScopeName: NAMES;
    /// How an access token came to be.
    TokenOriginName: ORIGINS;
    /// Who acted.
    ActorKind: ACTOR_KINDS;
    /// Whose word a decision was.
    DecidedByName: [DecidedBy::Rules, DecidedBy::Network, DecidedBy::Transfer]
        .map(render_decided_by);
}
