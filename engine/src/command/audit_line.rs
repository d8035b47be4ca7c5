//! The audit line of an admin command: its company, the action, the object, and the names of the
//! changed fields. Each command declares its own.
//!
//! INVARIANT: a line holds names only, and no value of a command but ids. The values before and
//! after come from its effects (`shard/audit_values.rs`).

use uuid::Uuid;

use crate::domain::ids::{CompanyId, UserId};

/// The audit line of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditLine<'a> {
    /// The audit in which the line stands.
    pub place: AuditedPlace<'a>,
    /// The action, such as `card.updated`.
    pub action: &'static str,
    /// The changed object.
    pub object: AuditTarget,
    /// The names of the changed fields.
    pub fields: Vec<&'static str>,
}

/// The audit in which a line stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditedPlace<'a> {
    /// The company's audit.
    Company(CompanyId),
    /// The audit of the company for which a user acts, else of the user's oldest.
    User(UserId),
    /// The same of the user with this address.
    Email(&'a str),
    /// The audit of a ticket, by the hash of its secret: that of the code's company, else those of
    /// its user.
    Ticket([u8; 32]),
    /// The switch's own audit.
    Switch,
}

/// The object of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditTarget {
    /// An object without an id.
    Unnamed,
    /// One object.
    One(Uuid),
    /// Several objects, each with an event of its own.
    Each(Vec<Uuid>),
    /// The ticket that is named by its hash.
    Ticket,
    /// The user of that ticket.
    Holder,
}

impl<'a> AuditLine<'a> {
    pub(crate) const fn new(
        place: AuditedPlace<'a>,
        action: &'static str,
        object: AuditTarget,
    ) -> Self {
        Self { place, action, object, fields: Vec::new() }
    }

    pub(crate) const fn of_company(company: CompanyId, action: &'static str, object: Uuid) -> Self {
        Self::new(AuditedPlace::Company(company), action, AuditTarget::One(object))
    }

    pub(crate) const fn of_user(user: UserId, action: &'static str, object: Uuid) -> Self {
        Self::new(AuditedPlace::User(user), action, AuditTarget::One(object))
    }

    /// The line of a command that is not audited: it leaves no event.
    pub(crate) const fn silent(action: &'static str) -> Self {
        Self::new(AuditedPlace::Switch, action, AuditTarget::Each(Vec::new()))
    }

    /// The kind of the object: the first word of the action.
    pub fn object_kind(&self) -> &'static str {
        kind_of_action(self.action)
    }

    pub(crate) fn with(self, fields: Vec<&'static str>) -> Self {
        Self { fields, ..self }
    }
}

/// The kind of the objects of an action.
pub(crate) fn kind_of_action(action: &str) -> &str {
    action.split_once('.').map_or(action, |(kind, _)| kind)
}

/// The names of the fields that are present.
pub(crate) fn named<const N: usize>(fields: [(&'static str, bool); N]) -> Vec<&'static str> {
    fields.into_iter().filter(|field| field.1).map(|field| field.0).collect()
}
