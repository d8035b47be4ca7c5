//! What an audit says of an admin command: whose it is, what was done, to which object, and the names
//! of what was changed. Each command says it where it is declared.
//!
//! INVARIANT: names only. No value of a command gets into an audit by this, ids apart; values before and
//! after are taken from its effects (`shard/audit_values.rs`).

use uuid::Uuid;

use crate::domain::ids::{CompanyId, UserId};

/// What an audit says of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audited<'a> {
    /// In whose audit it stands.
    pub place: AuditedPlace<'a>,
    /// What is done, such as `card.updated`.
    pub action: &'static str,
    /// To which.
    pub object: AuditedObject,
    /// The names of what is changed.
    pub fields: Vec<&'static str>,
}

/// In whose audit something stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditedPlace<'a> {
    /// A company's.
    Company(CompanyId),
    /// Of each company in which a user is a member.
    User(UserId),
    /// Of each company that has a member with this address.
    Email(&'a str),
    /// A ticket's, by the hash of its secret: of the code's company, else as for its user.
    Ticket([u8; 32]),
    /// Nobody's: the switch's.
    Switch,
}

/// What something is done to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditedObject {
    /// Something without an id.
    Unnamed,
    /// One object.
    One(Uuid),
    /// Several, each with an event of its own.
    Each(Vec<Uuid>),
    /// The ticket that is named by its hash.
    Ticket,
    /// The user whose ticket that is.
    Holder,
}

impl<'a> Audited<'a> {
    pub(crate) const fn new(
        place: AuditedPlace<'a>,
        action: &'static str,
        object: AuditedObject,
    ) -> Self {
        Self { place, action, object, fields: Vec::new() }
    }

    pub(crate) const fn of_company(company: CompanyId, action: &'static str, object: Uuid) -> Self {
        Self::new(AuditedPlace::Company(company), action, AuditedObject::One(object))
    }

    pub(crate) const fn of_user(user: UserId, action: &'static str, object: Uuid) -> Self {
        Self::new(AuditedPlace::User(user), action, AuditedObject::One(object))
    }

    /// Of what is nobody's news: no event comes of it.
    pub(crate) const fn silent(action: &'static str) -> Self {
        Self::new(AuditedPlace::Switch, action, AuditedObject::Each(Vec::new()))
    }

    /// To what kind of thing it is done: the first word of the action.
    #[must_use]
    pub fn object_kind(&self) -> &'static str {
        self.action.split_once('.').map_or(self.action, |(kind, _)| kind)
    }

    pub(crate) fn with(self, fields: Vec<&'static str>) -> Self {
        Self { fields, ..self }
    }
}

/// The names of those that are there.
pub(crate) fn named<const N: usize>(fields: [(&'static str, bool); N]) -> Vec<&'static str> {
    fields.into_iter().filter(|field| field.1).map(|field| field.0).collect()
}
