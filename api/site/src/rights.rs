//! The rights on the site: by the role of the membership, and by whether the user is a developer.
//! Handlers demand a right by extractor; visitors without it get the page of a refusal.
//!
//! | right | administrator | accountant | reviewer | member | developer, whatever the role |
//! |---|---|---|---|---|---|
//! | see all of the company | yes | yes | no | no | |
//! | manage cards | yes | no | no | no | |
//! | tag transactions | yes | yes | no | no | |
//! | review requisitions | yes | no | yes | no | |
//! | see members | yes | yes | yes | no | |
//! | manage members | yes | no | no | no | |
//! | manage dimensions | yes | yes | no | no | |
//! | see statements | yes | yes | no | no | |
//! | manage webhooks | yes | no | no | no | yes |
//! | manage apps | yes | no | no | no | yes |
//! | see peers | yes | no | no | no | yes |
//! | see tokens | yes | yes | no | no | |
//! | revoke tokens | yes | no | no | no | |
//! | read the audit log | yes | no | no | no | |
//!
//! One's own things need no right: cards, transactions and requisitions of one's own member.
//! Another member's are not found: their pages are those of things that nobody has. `oauth::scope`
//! says who may let apps at a company's data.

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::lasting_access::LastingAccess;
use cardswitch_engine::directory::member::{Member, MemberRole};
use cardswitch_engine::directory::ticket::TicketState;
use cardswitch_engine::directory::user::User;
use cardswitch_engine::domain::company::Company;
use cardswitch_engine::domain::ids::{CompanyId, MemberSlot};
use cardswitch_engine::store::StoreError;
use cardswitch_identity::actor_state::ActorState;
use cardswitch_identity::state::AppState;
use cardswitch_v1::routes::view::{Reader, View, read_lists_during, read_view};
use serde::Deserialize;
use uuid::Uuid;

use super::error_page::error_page;
use super::fresh_id;
use super::notice::{Notice, go_on};
use super::sent_forms::with_mark;
use super::session::{RequiredSession, Session};

/// A right that not every visitor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Right {
    /// See all cards and transactions, and the overview of them.
    SeeCompany,
    /// Make, change, close and share cards.
    ManageCards,
    /// Sort transactions of others into the books.
    TagTransactions,
    /// Approve and deny requisitions.
    ReviewRequisitions,
    /// See the members.
    SeeMembers,
    /// Invite, change and deactivate members.
    ManageMembers,
    /// Make, change and delete categories, departments, labels and locations.
    ManageDimensions,
    /// See balances and statements.
    SeeStatements,
    /// Say where events are sent to.
    ManageWebhooks,
    /// Register, change and delete apps. Source: spec "Authentication", developer permissions.
    ManageApps,
    /// See the peers that speak ISO 8583 with the switch.
    SeePeers,
    /// See the tokens with access to the company's data.
    SeeTokens,
    /// Take access away. Source: spec "Authentication", rule 5.
    RevokeTokens,
    /// Read the audit log.
    ReadAudit,
}

impl Right {
    /// Whether it belongs to members of this role.
    pub(super) const fn is_of(self, role: MemberRole, is_developer: bool) -> bool {
        let is_administrator = matches!(role, MemberRole::Administrator);
        let keeps_books = is_administrator || matches!(role, MemberRole::Accountant);
        let reviews = is_administrator || matches!(role, MemberRole::Reviewer);
        match self {
            Self::ManageCards | Self::ManageMembers | Self::RevokeTokens | Self::ReadAudit => {
                is_administrator
            }
            Self::SeeCompany
            | Self::TagTransactions
            | Self::ManageDimensions
            | Self::SeeStatements
            | Self::SeeTokens => keeps_books,
            Self::ReviewRequisitions => reviews,
            Self::SeeMembers => keeps_books || reviews,
            Self::ManageWebhooks | Self::ManageApps | Self::SeePeers => {
                is_administrator || is_developer
            }
        }
    }

    /// Whether a visitor has it for the company they act for.
    pub(super) fn is_with(self, session: &Session) -> bool {
        session.current.as_ref().is_some_and(|(company, member)| {
            self.is_of(member.role, session.user.developer_of.contains(&company.slot))
        })
    }
}

/// A signed-in visitor, and the company they act for. As an extractor it takes every member: they
/// see their own things unless they have a right to more.
#[derive(Debug)]
pub(super) struct ActingMember {
    /// The state in their hands.
    pub(super) state: ActorState,
    /// The session of the acting user.
    pub(super) session: Session,
    pub(super) company: Company,
    /// The member as whom they act.
    pub(super) member: Member,
}

/// The company of the page with an address that reads more of it.
#[derive(Debug, Default, Deserialize)]
pub(super) struct CompanyQuery {
    company: Option<Uuid>,
}

impl CompanyQuery {
    /// Whether the visitor still acts for that company.
    pub(super) fn is_current(&self, acting: &ActingMember) -> bool {
        self.company.is_none_or(|company| CompanyId(company) == acting.company.id)
    }
}

impl ActingMember {
    /// Errors: the way to sign-in, or the page of a refusal.
    async fn with_right(
        parts: &mut Parts,
        state: &AppState,
        right: Right,
    ) -> Result<Self, Response> {
        let acting = Self::from_request_parts(parts, state).await?;
        if acting.may(right) { Ok(acting) } else { Err(not_allowed(&acting.company)) }
    }

    /// Reads the data of the company as `/v1` shows it to them.
    /// Errors: the tables cannot be read.
    pub(super) async fn read<T: Send>(
        &self,
        read: impl FnOnce(&View<'_>) -> Result<T, StoreError> + Send,
    ) -> Result<T, ApiError> {
        read_view(self, read).await
    }

    /// The same for pages with lists, which may be long.
    /// Errors: the tables cannot be read; a right was given or taken meanwhile.
    pub(super) async fn read_lists<T: Send>(
        &self,
        read: impl Fn(&View<'_>) -> Result<T, StoreError> + Send,
    ) -> Result<T, ApiError> {
        let own = (self.member.role, self.session.user.developer_of.contains(&self.company.slot));
        let access = self.access_while(move |role, is_developer| (role, is_developer) == own);
        read_lists_during((self.into(), access), read).await
    }

    /// The same by another state in their hands.
    pub(super) fn reader<'a>(&'a self, state: &'a ActorState) -> Reader<'a> {
        let shows_links = self.may(Right::ManageCards);
        Reader { state, company: &self.company, shows_links }
    }

    /// The value that forms of a page about the company carry.
    pub(super) fn csrf(&self) -> String {
        let value = self.session.company_csrf(&self.state, self.company.id);
        // Without a mark a form that comes twice is carried out twice.
        fresh_id(&self.state).map_or(value.clone(), |mark| with_mark(&value, mark))
    }

    /// The same for changes that do not carry the claim of the form: those behind an answer that shows a
    /// secret, several behind one form, and those that are made after the answer.
    pub(super) fn without_claim(self) -> Self {
        Self { state: self.state.with_claim(None), ..self }
    }

    /// Goes on to the page at `path`, which will say `notice`.
    pub(super) fn go_on(&self, path: &str, notice: Notice) -> Response {
        go_on(&self.state, path, notice)
    }

    /// Whether they have a right.
    pub(super) fn may(&self, right: Right) -> bool {
        right.is_with(&self.session)
    }

    /// Their access, by a right if it needs one, while an answer waits or is being sent: it ends with
    /// the session, with the membership and with the right.
    pub(super) fn lasting_access(&self, right: impl Into<Option<Right>>) -> LastingAccess {
        let right = right.into();
        self.access_while(move |role, is_developer| {
            right.is_none_or(|right| right.is_of(role, is_developer))
        })
    }

    /// Their access while role and developing are as `is_given` says.
    fn access_while(
        &self,
        is_given: impl Fn(MemberRole, bool) -> bool + Send + Sync + 'static,
    ) -> LastingAccess {
        let (ticket, member) = (&self.session.ticket, self.member.slot);
        let (digest, user, company) = (ticket.digest, ticket.user, self.company.slot);
        LastingAccess::new(&self.state.switch, Some(ticket.expires_at), move |snapshot| {
            let is_open =
                snapshot.ticket(&digest)?.is_some_and(|ticket| ticket.state == TicketState::Open);
            let user = snapshot.row::<User>(user)?;
            let is_developer = user.is_some_and(|user| user.developer_of.contains(&company));
            let member = snapshot.row::<Member>(member)?.filter(Member::takes_part);
            Ok(is_open && member.is_some_and(|member| is_given(member.role, is_developer)))
        })
    }

    /// The member to whose own things the view is limited; none where all is seen.
    pub(super) fn limited_to(&self) -> Option<MemberSlot> {
        (!self.may(Right::SeeCompany)).then_some(self.member.slot)
    }

    /// Checks that something of `owner` is theirs to see.
    /// Errors: it is another's, which is answered as if it did not exist.
    pub(super) fn check_owner(&self, owner: Option<MemberSlot>) -> Result<(), ApiError> {
        match self.limited_to() {
            Some(own) if owner != Some(own) => Err(ApiError::not_found()),
            _ => Ok(()),
        }
    }
}

impl FromRequestParts<AppState> for ActingMember {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Response> {
        let RequiredSession(state, session) =
            RequiredSession::from_request_parts(parts, state).await?;
        let (company, member) = session.current.clone().ok_or_else(no_company)?;
        let state = state.with_claim(parts.extensions.get().cloned());
        Ok(Self { state, session, company, member })
    }
}

/// Members read as `/v1` does.
impl<'a> From<&'a ActingMember> for Reader<'a> {
    fn from(acting: &'a ActingMember) -> Self {
        acting.reader(&acting.state)
    }
}

fn not_allowed(company: &Company) -> Response {
    let name = &company.name;
    let text = format!("Your role at {name} does not allow this. Ask one of its administrators.");
    error_page(StatusCode::FORBIDDEN, "You don’t have access", &text)
}

fn no_company() -> Response {
    let text = "You are not a member of any company. An administrator of one can invite you.";
    error_page(StatusCode::FORBIDDEN, "No company", text)
}

/// These names only say which of the rights above is needed.
macro_rules! acting_with {
    ($($(#[$doc:meta])* $name:ident $right:ident)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub(super) struct $name(pub(super) ActingMember);

        impl FromRequestParts<AppState> for $name {
            type Rejection = Response;

            async fn from_request_parts(
                parts: &mut Parts,
                state: &AppState,
            ) -> Result<Self, Response> {
                ActingMember::with_right(parts, state, Right::$right).await.map(Self)
            }
        }
    )*};
}

acting_with! {
    /// A visitor who sees all of the company.
    CompanyReader SeeCompany
    /// A visitor who manages cards.
    CardManager ManageCards
    /// A visitor who reviews requisitions.
    RequisitionReviewer ReviewRequisitions
    /// A visitor who sees members.
    MemberReader SeeMembers
    /// A visitor who manages members.
    MemberManager ManageMembers
    /// A visitor who manages dimensions.
    DimensionManager ManageDimensions
    /// A visitor who sees statements.
    StatementReader SeeStatements
    /// A visitor who manages webhooks.
    WebhookManager ManageWebhooks
    /// A visitor who manages apps.
    AppManager ManageApps
    /// A visitor who sees peers.
    PeerReader SeePeers
    /// A visitor who sees tokens.
    TokenReader SeeTokens
    /// A visitor who takes access away.
    TokenRevoker RevokeTokens
    /// A visitor who reads the audit log.
    AuditReader ReadAudit
}

#[cfg(test)]
mod tests {
    use MemberRole::{Accountant, Administrator, Member, Reviewer};

    use super::Right::*;
    use super::*;

    #[test]
    fn rights_are_those_of_the_table() {
        let rows = [
            (SeeCompany, [true, true, false, false], false),
            (ManageCards, [true, false, false, false], false),
            (TagTransactions, [true, true, false, false], false),
            (ReviewRequisitions, [true, false, true, false], false),
            (SeeMembers, [true, true, true, false], false),
            (ManageMembers, [true, false, false, false], false),
            (ManageDimensions, [true, true, false, false], false),
            (SeeStatements, [true, true, false, false], false),
            (ManageWebhooks, [true, false, false, false], true),
            (ManageApps, [true, false, false, false], true),
            (SeePeers, [true, false, false, false], true),
            (SeeTokens, [true, true, false, false], false),
            (RevokeTokens, [true, false, false, false], false),
            (ReadAudit, [true, false, false, false], false),
        ];
        for (right, by_role, of_developers) in rows {
            let roles = [Administrator, Accountant, Reviewer, Member];
            assert_eq!(roles.map(|role| right.is_of(role, false)), by_role, "{right:?}");
            let developers = by_role.map(|has| has || of_developers);
            assert_eq!(roles.map(|role| right.is_of(role, true)), developers, "{right:?}");
        }
    }
}
