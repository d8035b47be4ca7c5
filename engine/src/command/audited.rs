//! What an audit says of each admin command: whose it is, what was done, to which object, and the
//! names of what was changed. One match over all commands: whoever adds one says what it tells.
//!
//! INVARIANT: names only. No value of a command ever gets into an audit, ids apart.

use uuid::Uuid;

use super::admin::{AdminCommand, VelocityChanges};
use crate::domain::ids::{CompanyId, DimensionId, UserId};
use crate::domain::transaction_tags::TagChanges;

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
        use AdminCommand as Admin;
        let of = Audited::of_company;
        match self {
            Admin::CreateCompany(new) => of(new.id, ("company", "company.created"), new.id.0),
            Admin::SetCompany(id, changes) => {
                of(*id, ("company", "company.updated"), id.0).with(changes.names())
            }
            Admin::SetNetworkKey(_) => {
                let what = ("network_key", "network_key.set");
                Audited::new(AuditedPlace::Switch, what, Uuid::nil()).about(AuditedObject::Unnamed)
            }
            Admin::RotatePanKey(_) | Admin::ForgetPanKeys(_) | Admin::ResealCards(_) => {
                self.audited_pan_key()
            }
            Admin::TagTransaction(company, id, changes) => {
                of(*company, ("transaction", "transaction.updated"), id.0).with(tag_fields(changes))
            }
            Admin::IssueCard(_)
            | Admin::IssueCards(_)
            | Admin::UpdateCard(..)
            | Admin::TerminateCard(..)
            | Admin::SetPin(..)
            | Admin::UpdateAllowance(..)
            | Admin::NoteCardShown(..) => self.audited_card(),
            Admin::SharedLink(command) => command.audited(),
            Admin::Requisition(command) => command.audited(),
            Admin::Dimension(command) => command.audited(),
            Admin::WithPassword(_, command) => command.audited(),
            Admin::Member(command) => command.audited(),
            Admin::AccessToken(command) => command.audited(),
            Admin::User(command) => command.audited(),
            Admin::Ticket(command) => command.audited(),
            Admin::App(command) => command.audited(),
            Admin::WebhookEndpoint(command) => command.audited(),
        }
    }

    /// Of a card and its allowance.
    fn audited_card(&self) -> Audited<'_> {
        let of = Audited::of_company;
        match self {
            Self::IssueCard(new) => of(new.company, ("card", "card.created"), new.id.0),
            Self::IssueCards(cards) => {
                // Cards made at once are of one company.
                let company = cards.first().map_or(CompanyId(Uuid::nil()), |new| new.company);
                let ids = cards.iter().map(|new| new.id.0).collect();
                of(company, ("card", "card.created"), Uuid::nil()).about(AuditedObject::Each(ids))
            }
            Self::UpdateCard(company, id, changes) => {
                of(*company, ("card", "card.updated"), id.0).with(changes.names())
            }
            Self::TerminateCard(company, id) => of(*company, ("card", "card.terminated"), id.0),
            Self::SetPin(company, id, _) => {
                of(*company, ("card", "card.updated"), id.0).with(vec!["pin"])
            }
            Self::UpdateAllowance(company, id, changes) => {
                of(*company, ("allowance", "allowance.updated"), id.0).with(changes.names())
            }
            Self::NoteCardShown(company, id) => of(*company, ("card", "card.number_shown"), id.0),
            _ => unreachable!("no command about cards"),
        }
    }

    /// Of the key of card numbers. That a card's number is sealed anew is nobody's news.
    fn audited_pan_key(&self) -> Audited<'_> {
        let (action, object) = match self {
            Self::RotatePanKey(_) => ("pan_key.rotated", AuditedObject::Unnamed),
            Self::ForgetPanKeys(_) => ("pan_key.forgotten", AuditedObject::Unnamed),
            _ => ("pan_key.used", AuditedObject::Each(Vec::new())),
        };
        Audited::new(AuditedPlace::Switch, ("pan_key", action), Uuid::nil()).about(object)
    }
}

/// A part of a change, which an audit names where it is made.
pub(crate) trait Change {
    /// Adds the names of what is changed; the part itself is called `name`.
    fn note(&self, name: &'static str, names: &mut Vec<&'static str>);
}

impl<T> Change for Option<T> {
    fn note(&self, name: &'static str, names: &mut Vec<&'static str>) {
        self.is_some().note(name, names);
    }
}

impl Change for bool {
    fn note(&self, name: &'static str, names: &mut Vec<&'static str>) {
        names.extend(self.then_some(name));
    }
}

impl Change for VelocityChanges {
    fn note(&self, name: &'static str, names: &mut Vec<&'static str>) {
        (!self.is_empty()).note(name, names);
    }
}

impl Change for [Option<Option<DimensionId>>; 4] {
    fn note(&self, _: &'static str, names: &mut Vec<&'static str>) {
        names.extend(named_with_dimensions([], self));
    }
}

/// Declares what can be changed of something. An audit names each field by its own name, or as it is
/// called `as`; a field after the bar is not named.
macro_rules! changes {
    (
        $(#[$attribute:meta])*
        pub struct $type:ident {
            $($(#[$about:meta])+ $field:ident $(as $called:literal)?: $part:ty,)*
            $(| $(#[$silent_about:meta])+ $silent:ident: $silent_part:ty,)*
        }
    ) => {
        $(#[$attribute])*
        pub struct $type {
            $($(#[$about])+ pub $field: $part,)*
            $($(#[$silent_about])+ pub $silent: $silent_part,)*
        }

        impl $type {
            /// The names of what is changed.
            pub(crate) fn names(&self) -> Vec<&'static str> {
                let mut names = Vec::new();
                $(
                    let name = [$($called,)? stringify!($field)][0];
                    $crate::command::audited::Change::note(&self.$field, name, &mut names);
                )*
                names
            }
        }
    };
}
pub(crate) use changes;

/// The names of those that are there.
pub(crate) fn named<const N: usize>(fields: [(&'static str, bool); N]) -> Vec<&'static str> {
    fields.into_iter().filter(|field| field.1).map(|field| field.0).collect()
}

/// The same, and of the dimensions that are changed.
pub(crate) fn named_with_dimensions<const N: usize>(
    fields: [(&'static str, bool); N],
    dimensions: &[Option<Option<DimensionId>>; 4],
) -> Vec<&'static str> {
    let names = ["category", "department", "label", "location"];
    let changed = names.into_iter().zip(dimensions).filter(|(_, change)| change.is_some());
    named(fields).into_iter().chain(changed.map(|(name, _)| name)).collect()
}

fn tag_fields(changes: &TagChanges) -> Vec<&'static str> {
    let TagChanges { dimensions, note, receipt } = changes;
    let fields = [("note", note.is_some()), ("receipt", receipt.is_some())];
    named_with_dimensions(fields, dimensions)
}
