//! Tickets: temporary rights held by a random secret. They are sessions, links to set a password,
//! and authorization codes.
//!
//! Only the SHA-256 of the secret is kept. A ticket is open until it is used, is ended or expires;
//! nothing opens it again. A spent ticket is forgotten at once, an expired one with the next
//! record, by the shard and the tables alike. Only used codes are remembered for a while, without
//! their texts.
//!
//! The number of open tickets of a user and kind is bounded; one more ends the oldest. So no user
//! is locked out, and ending all of them fits one record. The open links that a company sent are
//! bounded too, so that no company takes the room of the others. Source: spec "Authentication".

use serde::{Deserialize, Serialize};

use super::access_token::{
    NewAccessToken, TokenOwners, find_displaced, make, push_granted, revoke,
};
use super::app::find_admissible_app;
use super::change::{PartitionView, StateChange};
use super::company::{check_open, find_open_company};
use super::entry::{EntryBytes, Index, IndexKey};
use super::row::indexes;
use super::secret_rows::SecretRows;
use super::user::{User, check_takes_part, find_user};
use crate::command::audit_line::{AuditLine, AuditTarget, AuditedPlace};
use crate::command::reply::Rejection;
use crate::command::resource::commands;
use crate::directory::access_token::{AccessScope, TokenGrant, TokenOrigin};
use crate::directory::member::find_granting_member;
use crate::domain::email::email_key;
use crate::domain::ids::{
    AppId, AppSlot, CompanyId, CompanySlot, MemberId, MemberSlot, TicketId, Timestamp, UserId,
    UserSlot,
};
use crate::domain::text::LineText;
use crate::limits;

/// The time for which a used code is remembered after its end, so that a replay still revokes its
/// token. Units: microseconds. Source: RFC 6749, 4.1.2.
pub const USED_CODE_MEMORY: i64 = Timestamp::DAY;

/// A ticket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    /// SHA-256 of the secret.
    pub digest: [u8; 32],
    /// The id of this record.
    pub id: TicketId,
    /// The user of the ticket.
    pub user: UserSlot,
    /// The time of issue.
    pub created_at: Timestamp,
    /// The time of expiry.
    pub expires_at: Timestamp,
    /// The network address of the request; empty without a request.
    pub address: String,
    /// Its state.
    pub state: TicketState,
    /// The right that it gives.
    pub content: TicketContent,
}

/// The state of a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TicketState {
    /// Valid until it expires.
    Open,
    /// Used, for a ticket that allows one use.
    Used,
    /// Ended before its expiry.
    Ended,
}

/// The right that a ticket gives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TicketContent {
    /// The pages of the site, as its user.
    Session {
        /// The browser's name for itself.
        user_agent: String,
    },
    /// Setting a password, once.
    PasswordLink {
        /// Whether it sets the first password, for an invited user.
        is_invite: bool,
        /// The company that sent it; none where its user or an operator asked for it.
        sent_by: Option<CompanySlot>,
    },
    /// An access token, once.
    AuthorizationCode(Box<AuthorizationCode>),
}

/// The terms of an authorization code. Source: RFC 6749, 4.1; RFC 7636.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuthorizationCode {
    /// The app that gets the code.
    pub app: AppSlot,
    /// The company whose data the token opens.
    pub company: CompanySlot,
    /// The member who allowed it.
    pub member: MemberSlot,
    /// The redirect address of the code, as the app requested it; none if the app left it out.
    pub redirect_uri: Option<String>,
    /// The allowed scope.
    pub scope: AccessScope,
    /// The challenge that the app has to answer, by S256.
    pub code_challenge: Option<String>,
    /// SHA-256 of the token made for the code.
    pub token: Option<[u8; 32]>,
}

impl Ticket {
    /// Whether the ticket is valid at the instant `at`.
    pub fn is_open(&self, at: Timestamp) -> bool {
        self.state == TicketState::Open && at < self.expires_at
    }

    /// The time at which the ticket is forgotten.
    pub const fn forgotten_at(&self) -> Timestamp {
        match (self.state, &self.content) {
            (TicketState::Open, _) => self.expires_at,
            (TicketState::Used, TicketContent::AuthorizationCode(_)) => {
                self.expires_at.plus(USED_CODE_MEMORY)
            }
            // A spent ticket is forgotten at once: it opens nothing, and repeating it has no
            // effect.
            (TicketState::Used | TicketState::Ended, _) => self.created_at,
        }
    }

    /// The kind of the ticket.
    pub const fn kind(&self) -> TicketKind {
        match self.content {
            TicketContent::Session { .. } => TicketKind::Session,
            TicketContent::PasswordLink { .. } => TicketKind::PasswordLink,
            TicketContent::AuthorizationCode(_) => TicketKind::AuthorizationCode,
        }
    }

    /// The company that sent the link, if the ticket is one.
    const fn sent_by(&self) -> Option<CompanySlot> {
        match self.content {
            TicketContent::PasswordLink { sent_by, .. } => sent_by,
            TicketContent::Session { .. } | TicketContent::AuthorizationCode(_) => None,
        }
    }

    fn is_unused(&self) -> bool {
        self.state == TicketState::Open
    }

    fn open_code(&self) -> Option<&AuthorizationCode> {
        self.code().filter(|_| self.is_unused())
    }

    /// The terms of the code, if the ticket is one.
    pub fn code(&self) -> Option<&AuthorizationCode> {
        match &self.content {
            TicketContent::AuthorizationCode(code) => Some(code),
            TicketContent::Session { .. } | TicketContent::PasswordLink { .. } => None,
        }
    }
}

indexes! {
    Ticket(ticket), CHANGES_ACCESS: true, found if true;
    /// A user's unspent tickets, by kind.
    OPEN_OF_USER = 1: (UserSlot, TicketKind) =>
        ticket.is_unused().then(|| (ticket.user, ticket.kind()));
    /// The unspent codes that a member allowed.
    OPEN_CODES_OF_MEMBER = 2: MemberSlot => ticket.open_code().map(|code| code.member);
    /// The unspent codes of an app, with the company whose data they are for.
    OPEN_CODES_OF_APP = 3: (AppSlot, CompanySlot) =>
        ticket.open_code().map(|code| (code.app, code.company));
    /// A user's used codes.
    USED_CODES_OF_USER = 4: UserSlot => (!ticket.is_unused()).then_some(ticket.user);
    /// The unspent links to set a password that a company sent.
    OPEN_LINKS_OF_COMPANY = 5: CompanySlot => ticket.sent_by().filter(|_| ticket.is_unused());
    and {
        fn forgotten_at(&self) -> Timestamp {
            self.forgotten_at()
        }

        fn is_remembered(&self) -> bool {
            self.forgotten_at() > self.created_at
        }
    }
}

impl SecretRows<Ticket> {
    /// A user's open tickets of a kind at `at`, the oldest first.
    pub(crate) fn open_of(
        &self,
        user: UserSlot,
        kind: TicketKind,
        at: Timestamp,
    ) -> impl Iterator<Item = &Ticket> {
        self.open_under(&Ticket::OPEN_OF_USER, &(user, kind), at)
    }

    /// The open tickets under a key at `at`, the oldest first.
    pub(crate) fn open_under<K: IndexKey>(
        &self,
        index: &Index<Ticket, K>,
        key: &K,
        at: Timestamp,
    ) -> impl Iterator<Item = &Ticket> + use<'_, K> {
        self.under(index, key).filter(move |ticket| ticket.is_open(at))
    }
}

/// The kinds of tickets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TicketKind {
    /// A session.
    Session,
    /// A link to set a password.
    PasswordLink,
    /// An authorization code.
    AuthorizationCode,
}

impl IndexKey for TicketKind {
    fn append(&self, bytes: &mut EntryBytes) {
        bytes.push(match self {
            Self::Session => 0,
            Self::PasswordLink => 1,
            Self::AuthorizationCode => 2,
        });
    }
}

commands! {
    /// The commands on tickets.
    #[derive(Clone, Debug)]
    pub enum TicketCommand(change) {
        /// Issues a ticket.
        Issue(new: NewTicket) =>
            new.audited(),
            issue_new(change, new);
        /// Ends one of a user's tickets.
        End(user: UserId, id: TicketId) =>
            AuditLine::of_user(*user, "session.ended", id.0),
            end_ticket(change, (*user, *id));
        /// Makes an access token for an authorization code.
        ExchangeCode(exchange: Box<CodeExchange>) =>
            exchange.token.audited(),
            exchange_code(change, exchange);
        /// Revokes an authorization code, with the token made for it.
        RevokeCode(digest: [u8; 32]) =>
            AuditLine::new(
                AuditedPlace::Ticket(*digest),
                "authorization_code.revoked",
                AuditTarget::Ticket,
            ),
            revoke_code(change, digest);
    }
}

/// A ticket to issue.
#[derive(Clone, Debug)]
pub struct NewTicket {
    /// SHA-256 of its secret.
    pub digest: [u8; 32],
    /// Its id.
    pub id: TicketId,
    /// The user of the ticket.
    pub user: UserId,
    /// The time of expiry.
    pub expires_at: Timestamp,
    /// The network address of the request.
    pub address: String,
    /// The right that it gives.
    pub content: NewTicketContent,
}

/// The right that a ticket to issue gives.
#[derive(Clone, Debug)]
pub enum NewTicketContent {
    /// The pages of the site.
    Session {
        /// The browser's name for itself.
        user_agent: LineText,
    },
    /// Setting a password, as its user or an operator asks for.
    PasswordLink {
        /// Whether it sets the first password.
        is_invite: bool,
    },
    /// An access token.
    AuthorizationCode(Box<NewAuthorizationCode>),
}

/// An authorization code to give to an app.
#[derive(Clone, Debug)]
pub struct NewAuthorizationCode {
    /// The app that gets the code.
    pub app: AppId,
    /// The company whose data the token will open.
    pub company: CompanyId,
    /// The member who allows it: a membership of the ticket's user.
    pub member: MemberId,
    /// The redirect address of the code, as the app requested it; none if the app left it out.
    pub redirect_uri: Option<String>,
    /// The allowed scope.
    pub scope: AccessScope,
    /// The challenge that the app has to answer, by S256.
    pub code_challenge: Option<String>,
}

/// The exchange of an authorization code for an access token.
#[derive(Clone, Debug)]
pub struct CodeExchange {
    /// SHA-256 of the code.
    pub digest: [u8; 32],
    /// The token. Its company must be the code's; its scope comes from the code.
    pub token: NewAccessToken,
    /// The label shown to people.
    pub label: LineText,
}

impl NewTicket {
    fn audited(&self) -> AuditLine<'_> {
        match &self.content {
            NewTicketContent::Session { .. } => {
                AuditLine::of_user(self.user, "session.created", self.id.0)
            }
            NewTicketContent::PasswordLink { .. } => {
                AuditLine::of_user(self.user, "password_link.created", self.id.0)
            }
            NewTicketContent::AuthorizationCode(code) => {
                AuditLine::of_company(code.company, "authorization_code.created", self.id.0)
            }
        }
    }
}

fn issue_new(change: &mut StateChange<'_>, new: &NewTicket) -> Result<(), Rejection> {
    let user = find_user(change.state, new.user)?;
    let content = match &new.content {
        NewTicketContent::Session { user_agent } => {
            check_takes_part(change.state, user)?;
            TicketContent::Session { user_agent: user_agent.to_string() }
        }
        NewTicketContent::PasswordLink { is_invite } => {
            TicketContent::PasswordLink { is_invite: *is_invite, sent_by: None }
        }
        NewTicketContent::AuthorizationCode(code) => {
            TicketContent::AuthorizationCode(Box::new(code_for(change.state, user, code)?))
        }
    };
    let ticket = Ticket {
        digest: new.digest,
        id: new.id,
        user: user.slot,
        created_at: change.moment.at,
        expires_at: new.expires_at,
        address: new.address.clone(),
        state: TicketState::Open,
        content,
    };
    issue(change, ticket)
}

/// Issues a ticket. A company's link takes the place of its own earlier one to the same user: no
/// company ends the links of another. Errors: its secret is known, it has expired, or there are too
/// many.
pub(crate) fn issue(change: &mut StateChange<'_>, ticket: Ticket) -> Result<(), Rejection> {
    let tickets = &change.state.directory().tickets;
    if tickets.find(&ticket.digest, change.moment.at).is_some() {
        return Err(Rejection::IdTaken);
    }
    if ticket.expires_at <= change.moment.at {
        return Err(Rejection::TicketSpent);
    }
    // Tickets that expired since the last record are removed with this one.
    if tickets.iter().len() >= limits::TICKETS_MAX && tickets.first_end > change.moment.at {
        return Err(Rejection::Full);
    }
    let open: Vec<_> = tickets.open_of(ticket.user, ticket.kind(), change.moment.at).collect();
    let company = ticket.sent_by();
    let is_own = |link: &&Ticket| company.is_some() && link.sent_by() == company;
    if let Some(earlier) = open.iter().copied().find(is_own) {
        end(change, earlier);
    } else {
        company.map_or(Ok(()), |company| check_links_of(change, company))?;
        if open.len() >= limits::TICKETS_OF_USER_MAX {
            end(change, open[0]);
        }
    }
    change.put(ticket);
    Ok(())
}

/// Errors: `TooManyPasswordLinks` if the company has as many open links as allowed.
/// Cost: O(open links of the company), which are bounded.
fn check_links_of(change: &StateChange<'_>, company: CompanySlot) -> Result<(), Rejection> {
    let tickets = &change.state.directory().tickets;
    let mut open = tickets.open_under(&Ticket::OPEN_LINKS_OF_COMPANY, &company, change.moment.at);
    let is_full = open.nth(limits::PASSWORD_LINKS_OF_COMPANY_MAX - 1).is_some();
    if is_full { Err(Rejection::TooManyPasswordLinks) } else { Ok(()) }
}

/// The terms of a new code. Errors: no such app or open company, the app's company is closed,
/// another user's member, one whose role does not allow the scope, or no room for its token.
fn code_for(
    state: &dyn PartitionView,
    user: &User,
    new: &NewAuthorizationCode,
) -> Result<AuthorizationCode, Rejection> {
    let app = find_admissible_app(state, new.app)?.slot;
    let company = find_open_company(state, new.company)?;
    let member = find_granting_member(state, (company, new.member), new.scope)?;
    if email_key(&member.email) != email_key(&user.email) {
        return Err(Rejection::MemberNotFound);
    }
    let owners = TokenOwners { app: Some(app), company, member: Some(member.slot) };
    find_displaced(state, owners, TokenOrigin::Code)?;
    Ok(AuthorizationCode {
        app,
        company,
        member: member.slot,
        redirect_uri: new.redirect_uri.clone(),
        scope: new.scope,
        code_challenge: new.code_challenge.clone(),
        token: None,
    })
}

/// Ends one of a user's tickets. Errors: no open ticket of the user has this id.
fn end_ticket(
    change: &mut StateChange<'_>,
    (user, id): (UserId, TicketId),
) -> Result<(), Rejection> {
    let user = find_user(change.state, user)?.slot;
    let kinds = [TicketKind::Session, TicketKind::PasswordLink, TicketKind::AuthorizationCode];
    let tickets = &change.state.directory().tickets;
    let mut open = kinds.into_iter().flat_map(|kind| tickets.open_of(user, kind, change.moment.at));
    end(change, open.find(|ticket| ticket.id == id).ok_or(Rejection::TicketNotFound)?);
    Ok(())
}

/// Ends an open ticket. Its texts are cleared, so that one record can end all tickets of a user.
pub(crate) fn end(change: &mut StateChange<'_>, ticket: &Ticket) {
    assert!(ticket.state == TicketState::Open, "a ticket ends once");
    let content = match &ticket.content {
        TicketContent::Session { .. } => TicketContent::Session { user_agent: String::new() },
        TicketContent::PasswordLink { .. } => ticket.content.clone(),
        TicketContent::AuthorizationCode(code) => {
            let (redirect_uri, code_challenge) = (None, None);
            let code = AuthorizationCode { redirect_uri, code_challenge, ..(**code).clone() };
            TicketContent::AuthorizationCode(Box::new(code))
        }
    };
    let (address, state) = (String::new(), TicketState::Ended);
    change.put(Ticket { address, state, content, ..ticket.clone() });
}

/// Exchanges a code for its token; the code opens nothing afterwards.
/// Errors: `TicketSpent`; the app's company is closed; the code is for another company's data; the
/// id or text is in use.
fn exchange_code(change: &mut StateChange<'_>, exchange: &CodeExchange) -> Result<(), Rejection> {
    let ticket = change.state.directory().tickets.get(&exchange.digest);
    let ticket =
        ticket.filter(|ticket| ticket.is_open(change.moment.at)).ok_or(Rejection::TicketSpent)?;
    let code = ticket.code().ok_or(Rejection::TicketSpent)?;
    let app = change.state.directory().apps.get(code.app);
    if app.is_deleted {
        return Err(Rejection::TicketSpent);
    }
    check_open(change.state, app.company)?;
    let token = make(change.state, change.moment, &exchange.token, code.scope)?;
    if token.company != code.company {
        return Err(Rejection::CompanyNotFound);
    }
    let digest = token.digest;
    let (app, member, label) = (Some(code.app), Some(code.member), exchange.label.clone());
    let grant = TokenGrant { app, member, origin: TokenOrigin::Code, label: label.into() };
    push_granted(change, token, grant)?;
    // The data of the request is of no use any more.
    let (redirect_uri, code_challenge, token) = (None, None, Some(digest));
    let code = AuthorizationCode { redirect_uri, code_challenge, token, ..code.clone() };
    forget_used_code(change, ticket.user);
    change.put(Ticket {
        state: TicketState::Used,
        address: String::new(),
        content: TicketContent::AuthorizationCode(Box::new(code)),
        ..ticket.clone()
    });
    Ok(())
}

/// Forgets the oldest of a user's used codes once they reach the limit.
fn forget_used_code(change: &mut StateChange<'_>, user: UserSlot) {
    let mut used = change.state.directory().tickets.under(&Ticket::USED_CODES_OF_USER, &user);
    let Some(oldest) = used.next() else { return };
    if used.count() + 1 >= limits::USED_CODES_OF_USER_MAX {
        let ended = Ticket { state: TicketState::Ended, ..oldest.clone() };
        change.put(ended);
    }
}

/// Revokes a code, with its token, after a wrong party presented it.
/// Source: RFC 6749, 4.1.2. Errors: no such code.
fn revoke_code(change: &mut StateChange<'_>, digest: &[u8; 32]) -> Result<(), Rejection> {
    let ticket = change.state.directory().tickets.find(digest, change.moment.at);
    let ticket = ticket.ok_or(Rejection::TicketNotFound)?;
    let code = ticket.code().ok_or(Rejection::TicketNotFound)?;
    if ticket.is_open(change.moment.at) {
        end(change, ticket);
    }
    if let Some(token) =
        code.token.and_then(|digest| change.state.directory().access_tokens.get(&digest))
    {
        revoke(change, token);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::directory::row::IndexedRow as _;

    fn ticket(state: TicketState, content: TicketContent) -> Ticket {
        Ticket {
            digest: [1; 32],
            id: TicketId(Uuid::nil()),
            user: UserSlot(0),
            created_at: Timestamp(5),
            expires_at: Timestamp(10),
            address: String::new(),
            state,
            content,
        }
    }

    #[test]
    fn a_used_code_outlives_its_end_and_whatever_else_is_spent_is_forgotten() {
        let code = || {
            TicketContent::AuthorizationCode(Box::new(AuthorizationCode {
                app: AppSlot(0),
                company: CompanySlot(0),
                member: MemberSlot(0),
                redirect_uri: None,
                scope: AccessScope::default(),
                code_challenge: None,
                token: None,
            }))
        };
        let session = || TicketContent::Session { user_agent: String::new() };
        let link = TicketContent::PasswordLink { is_invite: true, sent_by: None };
        let late = 10 + USED_CODE_MEMORY;
        let rows = [
            (ticket(TicketState::Open, session()), 10, true),
            (ticket(TicketState::Ended, session()), 5, false),
            (ticket(TicketState::Used, link), 5, false),
            (ticket(TicketState::Open, code()), 10, true),
            (ticket(TicketState::Ended, code()), 5, false),
            (ticket(TicketState::Used, code()), late, false),
        ];
        for (ticket, forgotten_at, is_open) in rows {
            assert_eq!(ticket.forgotten_at(), Timestamp(forgotten_at), "{ticket:?}");
            assert_eq!(ticket.is_remembered(), forgotten_at > 5, "{ticket:?}");
            assert_eq!(ticket.is_open(Timestamp(9)), is_open, "{ticket:?}");
            assert!(!ticket.is_open(Timestamp(10)), "{ticket:?}");
        }
    }
}
