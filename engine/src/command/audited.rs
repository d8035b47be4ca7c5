//! What an audit says of each admin command: whose it is, what was done, to which object, and the
//! names of what was changed. One match over all commands: whoever adds one says what it tells.
//!
//! INVARIANT: names only. No value of a command ever gets into an audit, ids apart.

use uuid::Uuid;

use super::admin::{AdminCommand, NewMember, VelocityChanges};
use super::identity::{NewTicket, NewTicketContent, SignInProof};
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

    fn of_user(user: UserId, what: (&'static str, &'static str), object: Uuid) -> Self {
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
            Admin::CreateMember(new) => {
                of(new.company, ("member", "member.created"), new.id.0).with(new_member_fields(new))
            }
            Admin::UpdateMember(company, id, changes) => {
                of(*company, ("member", "member.updated"), id.0).with(changes.names())
            }
            Admin::DeleteMember(company, id) => of(*company, ("member", "member.deleted"), id.0),
            Admin::CreateAccessToken(new) => {
                of(new.company, ("access_token", "access_token.created"), new.id.0)
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
            Admin::CreateUser(_)
            | Admin::UpdateUser(..)
            | Admin::NoteSignInFailed(..)
            | Admin::UseTotpStep(..)
            | Admin::IssueTicket(_)
            | Admin::EndTicket(..)
            | Admin::EndSessions(_)
            | Admin::UsePasswordLink(_) => self.audited_person(),
            Admin::ExchangeCode(_)
            | Admin::RevokeCode(_)
            | Admin::GrantToken(_)
            | Admin::RevokeToken(..)
            | Admin::RevokeAppTokens(..)
            | Admin::CreateApp(_)
            | Admin::UpdateApp(..)
            | Admin::ApproveApp(..)
            | Admin::DeleteApp(..) => self.audited_app(),
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

    /// Of users and their tickets.
    fn audited_person(&self) -> Audited<'_> {
        match self {
            Self::CreateUser(new) => {
                Audited::new(AuditedPlace::Email(&new.email), ("user", "user.created"), new.id.0)
            }
            Self::UpdateUser(id, changes) => {
                Audited::of_user(*id, ("user", "user.updated"), id.0).with(changes.names())
            }
            Self::NoteSignInFailed(id, proof) => {
                Audited::of_user(*id, ("user", "user.sign_in_failed"), id.0)
                    .with(vec![proof_field(*proof)])
            }
            Self::UseTotpStep(id, _) => Audited::of_user(*id, ("user", "user.totp_used"), id.0),
            Self::IssueTicket(new) => audited_ticket(new),
            Self::EndTicket(user, id) => {
                Audited::of_user(*user, ("session", "session.ended"), id.0)
            }
            Self::EndSessions(user) => {
                Audited::of_user(*user, ("user", "user.sessions_ended"), user.0)
            }
            Self::UsePasswordLink(used) => {
                let place = AuditedPlace::Ticket(used.digest);
                Audited::new(place, ("user", "user.password_set"), Uuid::nil())
                    .about(AuditedObject::Holder)
                    .with(vec!["password"])
            }
            _ => unreachable!("no command about people"),
        }
    }

    /// Of apps and what they are given.
    fn audited_app(&self) -> Audited<'_> {
        let of = Audited::of_company;
        let created = ("access_token", "access_token.created");
        match self {
            Self::ExchangeCode(exchange) => {
                of(exchange.token.company, created, exchange.token.id.0)
            }
            Self::RevokeCode(digest) => {
                let what = ("authorization_code", "authorization_code.revoked");
                Audited::new(AuditedPlace::Ticket(*digest), what, Uuid::nil())
                    .about(AuditedObject::Ticket)
            }
            Self::GrantToken(new) => of(new.token.company, created, new.token.id.0),
            Self::RevokeToken(company, id) => {
                of(*company, ("access_token", "access_token.revoked"), id.0)
            }
            Self::RevokeAppTokens(id, company) => of(*company, ("app", "app.tokens_revoked"), id.0),
            Self::CreateApp(new) => of(new.company, ("app", "app.created"), new.id.0),
            Self::UpdateApp(company, id, changes) => {
                of(*company, ("app", "app.updated"), id.0).with(changes.names())
            }
            Self::ApproveApp(company, id, _) => {
                of(*company, ("app", "app.approved"), id.0).with(vec!["approved_scope"])
            }
            Self::DeleteApp(company, id) => of(*company, ("app", "app.deleted"), id.0),
            _ => unreachable!("no command about apps"),
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

const fn proof_field(proof: SignInProof) -> &'static str {
    match proof {
        SignInProof::Password => "password",
        SignInProof::Totp => "totp",
        SignInProof::SecurityQuestion => "security_question",
    }
}

fn audited_ticket(new: &NewTicket) -> Audited<'_> {
    match &new.content {
        NewTicketContent::Session { .. } => {
            Audited::of_user(new.user, ("session", "session.created"), new.id.0)
        }
        NewTicketContent::PasswordLink { .. } => {
            Audited::of_user(new.user, ("password_link", "password_link.created"), new.id.0)
        }
        NewTicketContent::AuthorizationCode(code) => {
            let what = ("authorization_code", "authorization_code.created");
            Audited::of_company(code.company, what, new.id.0)
        }
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

fn new_member_fields(new: &NewMember) -> Vec<&'static str> {
    named([("invitation", new.invite.is_some()), ("external_id", new.external_id.is_some())])
}

fn tag_fields(changes: &TagChanges) -> Vec<&'static str> {
    let TagChanges { dimensions, note, receipt } = changes;
    let fields = [("note", note.is_some()), ("receipt", receipt.is_some())];
    named_with_dimensions(fields, dimensions)
}
