//! The words that a field of `/v1` may hold, beside those of `wire::words`: each set is taken from the
//! code that renders it.

use cardswitch_engine::decision::DecisionMaker;
use cardswitch_engine::directory::member::MemberRole as Role;
use cardswitch_engine::directory::requisition::RequisitionStatus as Status;
use cardswitch_engine::domain::transaction_tags::ReceiptType;
use cardswitch_identity::receipts::media_type;
use cardswitch_identity::scope_words::SCOPES;
use cardswitch_identity::webhook_endpoints::STATES;
use cardswitch_notify::webhooks::attempt::{AttemptFailure, AttemptKind};
pub use cardswitch_notify::webhooks::composing::EventName;
pub use cardswitch_wire::words::*;

use crate::routes::access_tokens::ORIGINS;
use crate::routes::allowances::INTERVALS;
use crate::routes::audit_events::ACTOR_KINDS;
use crate::routes::decision::render_decided_by;

cardswitch_wire::words! {
    /// How often the budget resets.
    Interval: INTERVALS.map(|(name, _)| name);
    /// The role of a member.
    MemberRole: Role::WORDS;
    /// Role that a request can set for a member.
    SettableMemberRole: ["member", "reviewer"];
    /// The status of a requisition.
    RequisitionStatus: Status::WORDS;
    /// Status that a request can set for a requisition.
    RequisitionVerdict: ["approved", "denied"];
    /// The kind of a receipt's file.
    ReceiptMediaType: [ReceiptType::Png, ReceiptType::Jpeg, ReceiptType::Pdf].map(media_type);
    /// Whether a webhook endpoint gets events; `gone` if its receiver answered 410.
    WebhookEndpointState: STATES;
    /// Why a webhook was sent.
    WebhookAttemptKind: AttemptKind::WORDS;
    /// Why a webhook got no answer.
    WebhookFailure: AttemptFailure::WORDS;
    /// A scope of an access token.
    ScopeName: SCOPES.map(|scope| scope.name);
    /// Origin of an access token.
    TokenOriginName: ORIGINS;
    /// The acting user, token or program.
    ActorKind: ACTOR_KINDS;
    /// The party that decided.
    DecidedByName: [DecisionMaker::Rules, DecisionMaker::Network, DecisionMaker::Transfer]
        .map(render_decided_by);
}
