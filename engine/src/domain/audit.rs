//! Who did what: notes that ride with commands, and the events they become.
//!
//! An event names what was changed. It has the values of limits, states, roles and holders, and never a
//! text that somebody typed.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::business_date::Interval;
use super::card::CardState;
use super::ids::{AccessTokenId, AppId, CompanySlot, MemberId, Timestamp, UserId};
use super::money::Minor;
use crate::directory::member::{MemberRole, MemberState};

/// Who acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Actor {
    /// Whoever has the command line.
    Operator,
    /// Whoever holds an access token.
    Token {
        /// Its record.
        id: AccessTokenId,
        /// Who it acts for.
        member: Option<MemberId>,
    },
    /// Somebody who signed in, or is about to.
    User {
        /// Who.
        id: UserId,
        /// As which member.
        member: Option<MemberId>,
    },
    /// The switch itself.
    Switch,
    /// An app that proved to be itself, for nobody.
    App {
        /// Which.
        id: AppId,
    },
}

impl Actor {
    /// The member who acts, where one does.
    #[must_use]
    pub const fn member(&self) -> Option<MemberId> {
        match *self {
            Self::Operator | Self::Switch | Self::App { .. } => None,
            Self::Token { member, .. } | Self::User { member, .. } => member,
        }
    }

    /// The ids it can be found by: token, user or app, and member.
    #[must_use]
    pub fn ids(&self) -> [Option<Uuid>; 2] {
        match *self {
            Self::Operator | Self::Switch => [None, None],
            Self::App { id } => [Some(id.0), None],
            Self::Token { id, member } => [Some(id.0), member.map(|member| member.0)],
            Self::User { id, member } => [Some(id.0), member.map(|member| member.0)],
        }
    }
}

/// Who asks for a change, and from where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditNote {
    /// Who.
    pub actor: Actor,
    /// The address they come from, where there is one.
    pub address: Option<String>,
}

/// What somebody changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEvent {
    /// Whose; none where it is the switch's, or of somebody without a company.
    pub company: Option<CompanySlot>,
    /// When.
    pub at: Timestamp,
    /// Who did it.
    pub actor: Actor,
    /// From where.
    pub address: Option<String>,
    /// What was done, such as `card.updated`.
    pub action: String,
    /// What kind of thing it was done to.
    pub object_kind: String,
    /// To which.
    pub object: Option<Uuid>,
    /// The names of what was changed.
    pub fields: Vec<String>,
    /// The values that were changed, as far as an audit has them.
    pub values: Vec<ValueChange>,
}

/// A value that was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValueChange {
    /// What it is, by the name of the field.
    pub field: String,
    /// Before.
    pub old: AuditValue,
    /// After.
    pub new: AuditValue,
}

/// A value of a field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AuditValue {
    /// None: no limit, no bound, nobody.
    None,
    /// Money. Units: minor units of the account's currency.
    Amount(Minor),
    /// How often a budget starts anew.
    Interval(Interval),
    /// An instant.
    Instant(Timestamp),
    /// Yes or no.
    Flag(bool),
    /// Merchant categories and groups of them.
    Categories(Vec<u16>),
    /// A card's state.
    CardState(CardState),
    /// A member's role.
    Role(MemberRole),
    /// Whether a member takes part.
    MemberState(MemberState),
    /// A member.
    Member(Uuid),
}
