//! The audit: notes that travel with commands, and the events they become.
//!
//! An event names the changed fields. It holds the values of limits, states, roles and holders, and
//! never a text that a person typed.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::business_date::Interval;
use super::card::CardState;
use super::company::CompanyState;
use super::hold_table::HoldTable;
use super::ids::{AccessTokenId, AppId, CompanySlot, MemberId, Timestamp, UserId};
use super::money::Minor;
use crate::directory::member::{MemberRole, MemberState};
use crate::directory::requisition::RequisitionStatus;
use crate::directory::webhook_endpoint::EndpointState;

/// The author of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Actor {
    /// The operator at the command line.
    Operator,
    /// The holder of an access token.
    Token {
        /// The record of the token.
        id: AccessTokenId,
        /// The member for whom the token acts.
        member: Option<MemberId>,
    },
    /// A user who is signed in, or is signing in.
    User {
        /// The user.
        id: UserId,
        /// The membership under which the user acts.
        member: Option<MemberId>,
    },
    /// The switch itself.
    Switch,
    /// An app that authenticated itself, on behalf of no member.
    App {
        /// The app.
        id: AppId,
    },
}

impl Actor {
    /// The acting member, if there is one.
    pub const fn member(&self) -> Option<MemberId> {
        match *self {
            Self::Operator | Self::Switch | Self::App { .. } => None,
            Self::Token { member, .. } | Self::User { member, .. } => member,
        }
    }

    /// The ids under which the actor is indexed: token, user or app, and member.
    pub fn ids(&self) -> [Option<Uuid>; 2] {
        match *self {
            Self::Operator | Self::Switch => [None, None],
            Self::App { id } => [Some(id.0), None],
            Self::Token { id, member } => [Some(id.0), member.map(|member| member.0)],
            Self::User { id, member } => [Some(id.0), member.map(|member| member.0)],
        }
    }
}

/// The author of a request, with the network address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditNote {
    /// The author.
    pub actor: Actor,
    /// The network address of the request, if it has one.
    pub address: Option<String>,
}

/// The audit event of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEvent {
    /// The company of the change; none for the switch itself and for users without a company.
    pub company: Option<CompanySlot>,
    /// The time of the change.
    pub at: Timestamp,
    /// The author.
    pub actor: Actor,
    /// The network address of the request.
    pub address: Option<String>,
    /// The action, such as `card.updated`.
    pub action: String,
    /// The kind of the changed object.
    pub object_kind: String,
    /// The changed object.
    pub object: Option<Uuid>,
    /// The names of the changed fields.
    pub fields: Vec<String>,
    /// The changed values, as far as an audit holds them.
    pub values: Vec<ValueChange>,
}

/// One audit event of several objects: short where a change closes thousands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditGroup {
    /// The event, without its object.
    pub event: AuditEvent,
    /// The ids of the objects.
    pub objects: Vec<uuid::Bytes>,
}

impl AuditGroup {
    /// The event of each object.
    pub fn events(&self) -> impl Iterator<Item = AuditEvent> + '_ {
        self.objects
            .iter()
            .map(|id| AuditEvent { object: Some(Uuid::from_bytes(*id)), ..self.event.clone() })
    }
}

/// A changed value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValueChange {
    /// The name of the field.
    pub field: String,
    /// The value before.
    pub old: AuditValue,
    /// The value after.
    pub new: AuditValue,
}

/// A value of a field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AuditValue {
    /// No value: no limit, no bound, no member.
    None,
    /// Money. Units: minor units of the account's currency.
    Amount(Minor),
    /// The length of a budget period.
    Interval(Interval),
    /// An instant.
    Instant(Timestamp),
    /// A truth value.
    Flag(bool),
    /// The lifetimes of holds.
    HoldTable(HoldTable),
    /// Merchant categories and groups of them.
    Categories(Vec<u16>),
    /// A card's state.
    CardState(CardState),
    /// A member's role.
    Role(MemberRole),
    /// The state of a member.
    MemberState(MemberState),
    /// A member.
    Member(Uuid),
    /// A number of attempts.
    Count(u16),
    /// The state of a company.
    CompanyState(CompanyState),
    /// The status of a requisition.
    RequisitionStatus(RequisitionStatus),
    /// The state of a webhook endpoint.
    EndpointState(EndpointState),
}
