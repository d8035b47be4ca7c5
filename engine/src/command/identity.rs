//! What is asked about people and programs: users, tickets, apps, and the tokens they are given.

use crate::domain::app::AppProfile;
use crate::domain::ids::{AppId, CompanyId, MemberId, TicketId, Timestamp, UserId};
use crate::domain::member::AccessScope;
use crate::domain::text::LineText;
use crate::domain::token_grant::TokenOrigin;
use crate::domain::user::{SecurityQuestion, Totp};

use super::admin::NewAccessToken;
use super::audited::changes;

/// A user to make.
#[derive(Clone)]
pub struct NewUser {
    /// Its id.
    pub id: UserId,
    /// E-mail address.
    pub email: String,
    /// First name.
    pub first_name: LineText,
    /// Last name.
    pub last_name: LineText,
    /// An encoded Argon2id hash of the password.
    pub password_hash: Option<String>,
    /// For which companies it may register apps without administering them.
    pub developer_of: Vec<CompanyId>,
}

impl std::fmt::Debug for NewUser {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "NewUser({})", self.id.0)
    }
}

changes! {
    /// What to change about a user; absent stays.
    #[derive(Clone, Default)]
    pub struct UserChanges {
        /// First name.
        first_name: Option<LineText>,
        /// Last name.
        last_name: Option<LineText>,
        /// A new password, as an encoded Argon2id hash: ends every way in that the old one may have
        /// opened.
        password_hash as "password": Option<String>,
        /// One-time passwords; ends the user's other sessions.
        totp: Option<Option<Totp>>,
        /// What is asked besides; ends the user's other sessions.
        security_question: Option<Option<SecurityQuestion>>,
        /// For which companies it may register apps without administering them.
        developer_of: Option<Vec<CompanyId>>,
        | /// The session in which it is changed, which goes on. Has to be open: whatever ended it in the
        /// meantime wins.
        keep_session: Option<[u8; 32]>,
    }
}

impl std::fmt::Debug for UserChanges {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("UserChanges(..)")
    }
}

/// The proof of a sign-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignInProof {
    /// The password.
    Password,
    /// A one-time code.
    Totp,
    /// The answer to the security question.
    SecurityQuestion,
}

/// The invitation of a new member to sign in.
#[derive(Clone, Debug)]
pub struct NewInvite {
    /// The id of the user, where there is none with the member's address.
    pub user: UserId,
    /// SHA-256 of the key in the link, which is issued where the user has no password.
    pub digest: [u8; 32],
    /// The id of the link's ticket.
    pub ticket: TicketId,
    /// Until when the link opens.
    pub expires_at: Timestamp,
}

/// A ticket to issue.
#[derive(Clone, Debug)]
pub struct NewTicket {
    /// SHA-256 of its secret.
    pub digest: [u8; 32],
    /// Its id.
    pub id: TicketId,
    /// Whose it is.
    pub user: UserId,
    /// From when on it opens nothing.
    pub expires_at: Timestamp,
    /// Where it was asked for.
    pub address: String,
    /// What it opens.
    pub content: NewTicketContent,
}

/// What a ticket to issue opens.
#[derive(Clone, Debug)]
pub enum NewTicketContent {
    /// The pages of the site.
    Session {
        /// What the browser says it is.
        user_agent: LineText,
    },
    /// Setting a password.
    PasswordLink {
        /// Whether it is the first one.
        is_invite: bool,
    },
    /// An access token.
    AuthorizationCode(Box<NewAuthorizationCode>),
}

/// An authorization code to give to an app.
#[derive(Clone, Debug)]
pub struct NewAuthorizationCode {
    /// Who it is given to.
    pub app: AppId,
    /// Whose data the token will open.
    pub company: CompanyId,
    /// Who allows it: a membership of the ticket's user.
    pub member: MemberId,
    /// Where it is sent, as the app asked for; none where the app left it out.
    pub redirect_uri: Option<String>,
    /// What is allowed.
    pub scope: AccessScope,
    /// What the app has to prove, by S256.
    pub code_challenge: Option<String>,
}

/// The use of a link to set a password.
#[derive(Clone)]
pub struct PasswordLinkUse {
    /// SHA-256 of the key in the link.
    pub digest: [u8; 32],
    /// An encoded Argon2id hash of the new password.
    pub password_hash: String,
}

impl std::fmt::Debug for PasswordLinkUse {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("PasswordLinkUse(..)")
    }
}

/// The exchange of an authorization code for an access token.
#[derive(Clone, Debug)]
pub struct CodeExchange {
    /// SHA-256 of the code.
    pub digest: [u8; 32],
    /// The token. Its company has to be the code's; its scope is taken from the code.
    pub token: NewAccessToken,
    /// What people tell it by.
    pub label: LineText,
}

/// An access token to make, with what it is given for.
#[derive(Clone, Debug)]
pub struct NewTokenGrant {
    /// The token.
    pub token: NewAccessToken,
    /// Which app has it.
    pub app: Option<AppId>,
    /// Who it acts for.
    pub member: Option<MemberId>,
    /// On what proof it is given.
    pub origin: TokenOrigin,
    /// What people tell it by.
    pub label: LineText,
}

/// An app to register.
#[derive(Clone, Debug)]
pub struct NewApp {
    /// Its id.
    pub id: AppId,
    /// Who registers it.
    pub company: CompanyId,
    /// Its name.
    pub name: LineText,
    /// Its web site.
    pub website: LineText,
    /// SHA-256 of its secret.
    pub secret_digest: [u8; 32],
    /// Where codes may be sent.
    pub redirect_urls: Vec<String>,
    /// What it wants to be allowed at most.
    pub requested: AccessScope,
}

changes! {
    /// Changes of an app; absent stays. While an approval stands, name, web site and redirect
    /// addresses wait for the next one.
    #[derive(Clone, Debug, Default)]
    pub struct AppChanges {
        /// Its name.
        name: Option<LineText>,
        /// Its web site.
        website: Option<LineText>,
        /// Where codes may be sent.
        redirect_urls: Option<Vec<String>>,
        /// What it wants to be allowed at most.
        requested as "requested_scope": Option<AccessScope>,
        /// SHA-256 of its secret.
        secret_digest as "secret": Option<[u8; 32]>,
    }
}

/// An operator's approval of an app.
#[derive(Clone, Debug)]
pub struct AppApproval {
    /// The profile that the operator has seen. Has to be the one that waits, else the one that stands.
    pub profile: AppProfile,
    /// The approved part of the requested scope.
    pub scope: AccessScope,
}
