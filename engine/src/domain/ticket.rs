//! A ticket: what a random secret opens for a while. Sessions, links to set a password,
//! authorization codes.
//!
//! Only the SHA-256 of the secret is kept. A ticket is open until it is used, is ended or expires;
//! nothing opens it again. A spent one is forgotten at once, an expired one with the next record, by
//! the shard and the tables alike; only used codes are remembered for a while, without their texts.

use serde::{Deserialize, Serialize};

use super::ids::{AppSlot, CompanySlot, MemberSlot, TicketId, Timestamp, UserSlot};
use super::member::AccessScope;

/// How long a used code is remembered after its end, so that a replay still takes back what it
/// gave. Units: microseconds. Source: RFC 6749, 4.1.2.
pub const USED_CODE_MEMORY: i64 = Timestamp::DAY;

/// A ticket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    /// SHA-256 of the secret.
    pub digest: [u8; 32],
    /// The id of this record.
    pub id: TicketId,
    /// Whose it is.
    pub user: UserSlot,
    /// When it was issued.
    pub made_at: Timestamp,
    /// From when on it opens nothing.
    pub expires_at: Timestamp,
    /// Where it was asked for; empty where nobody did.
    pub address: String,
    /// How it stands.
    pub state: TicketState,
    /// What it opens.
    pub content: TicketContent,
}

/// How a ticket stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TicketState {
    /// It opens what it is for, until it expires.
    Open,
    /// It did, and was for one use.
    Used,
    /// It was taken back.
    Ended,
}

/// What a ticket opens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TicketContent {
    /// The pages of the site, as its user.
    Session {
        /// What the browser says it is.
        user_agent: String,
    },
    /// Setting a password, once.
    PasswordLink {
        /// Whether it is the first one, for somebody who was invited.
        is_invite: bool,
    },
    /// An access token, once.
    AuthorizationCode(Box<AuthorizationCode>),
}

/// What an app gets for a code. Source: RFC 6749, 4.1; RFC 7636.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuthorizationCode {
    /// Who it was given to.
    pub app: AppSlot,
    /// Whose data the token opens.
    pub company: CompanySlot,
    /// Who allowed it.
    pub member: MemberSlot,
    /// Where it was sent, as the app asked for; none where the app left it out.
    pub redirect_uri: Option<String>,
    /// What was allowed.
    pub scope: AccessScope,
    /// What the app has to prove, by S256.
    pub code_challenge: Option<String>,
    /// SHA-256 of the token it gave.
    pub token: Option<[u8; 32]>,
}

impl Ticket {
    /// Whether it opens anything at the instant `at`.
    #[must_use]
    pub fn is_open(&self, at: Timestamp) -> bool {
        self.state == TicketState::Open && at < self.expires_at
    }

    /// From when on it is forgotten.
    #[must_use]
    pub const fn forgotten_at(&self) -> Timestamp {
        match (self.state, &self.content) {
            (TicketState::Open, _) => self.expires_at,
            (TicketState::Used, TicketContent::AuthorizationCode(_)) => {
                self.expires_at.plus(USED_CODE_MEMORY)
            }
            // At once: it opens nothing any more, and coming back with it does nothing.
            (TicketState::Used | TicketState::Ended, _) => self.made_at,
        }
    }

    /// Whether it is remembered as it stands, until it is forgotten by time.
    #[must_use]
    pub fn is_remembered(&self) -> bool {
        self.forgotten_at() > self.made_at
    }

    /// Which of the kinds of tickets it is.
    #[must_use]
    pub const fn kind(&self) -> TicketKind {
        match self.content {
            TicketContent::Session { .. } => TicketKind::Session,
            TicketContent::PasswordLink { .. } => TicketKind::PasswordLink,
            TicketContent::AuthorizationCode(_) => TicketKind::AuthorizationCode,
        }
    }

    /// The code, where it is one.
    #[must_use]
    pub fn code(&self) -> Option<&AuthorizationCode> {
        match &self.content {
            TicketContent::AuthorizationCode(code) => Some(code),
            TicketContent::Session { .. } | TicketContent::PasswordLink { .. } => None,
        }
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

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn ticket(state: TicketState, content: TicketContent) -> Ticket {
        Ticket {
            digest: [1; 32],
            id: TicketId(Uuid::nil()),
            user: UserSlot(0),
            made_at: Timestamp(5),
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
        let late = 10 + USED_CODE_MEMORY;
        let rows = [
            (ticket(TicketState::Open, session()), 10, true),
            (ticket(TicketState::Ended, session()), 5, false),
            (ticket(TicketState::Used, TicketContent::PasswordLink { is_invite: true }), 5, false),
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
