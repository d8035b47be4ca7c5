//! What an audit says of each admin command: whose it is, what was done, to which object, and the
//! names of what was changed. One match over all commands: whoever adds one says what it tells.
//!
//! INVARIANT: names only. No value of a command ever gets into an audit, ids apart.

use uuid::Uuid;

use super::admin::AdminCommand;
use crate::domain::ids::{CompanyId, UserId};

/// What an audit says of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audited<'a> {
    /// In whose audit it stands.
    pub place: AuditedPlace<'a>,
    /// What is done, such as `card.updated`.
    pub action: &'static str,
    /// To what kind of thing.
    pub object_kind: &'static str,
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
    pub(crate) fn new(
        place: AuditedPlace<'a>,
        (object_kind, action): (&'static str, &'static str),
        object: Uuid,
    ) -> Self {
        let object = AuditedObject::One(object);
        Self { place, action, object_kind, object, fields: Vec::new() }
    }

    pub(crate) fn of_company(
        company: CompanyId,
        what: (&'static str, &'static str),
        object: Uuid,
    ) -> Self {
        Self::new(AuditedPlace::Company(company), what, object)
    }

    pub(crate) fn of_user(user: UserId, what: (&'static str, &'static str), object: Uuid) -> Self {
        Self::new(AuditedPlace::User(user), what, object)
    }

    pub(crate) fn with(self, fields: Vec<&'static str>) -> Self {
        Self { fields, ..self }
    }

    pub(crate) fn about(self, object: AuditedObject) -> Self {
        Self { object, ..self }
    }
}

impl AdminCommand {
    /// What an audit says of the command.
    #[must_use]
    pub fn audited(&self) -> Audited<'_> {
        match self {
            Self::WithPassword(_, command) => command.audited(),
            Self::SetNetworkKey(_) => {
                let what = ("network_key", "network_key.set");
                Audited::new(AuditedPlace::Switch, what, Uuid::nil()).about(AuditedObject::Unnamed)
            }
            Self::Company(command) => command.audited(),
            Self::Card(command) => command.audited(),
            Self::Allowance(command) => command.audited(),
            Self::Transaction(command) => command.audited(),
            Self::PanKey(command) => command.audited(),
            Self::Member(command) => command.audited(),
            Self::AccessToken(command) => command.audited(),
            Self::User(command) => command.audited(),
            Self::Ticket(command) => command.audited(),
            Self::App(command) => command.audited(),
            Self::Dimension(command) => command.audited(),
            Self::SharedLink(command) => command.audited(),
            Self::Requisition(command) => command.audited(),
            Self::WebhookEndpoint(command) => command.audited(),
        }
    }
}

/// The names of those that are there.
pub(crate) fn named<const N: usize>(fields: [(&'static str, bool); N]) -> Vec<&'static str> {
    fields.into_iter().filter(|field| field.1).map(|field| field.0).collect()
}
