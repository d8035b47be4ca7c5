//! A user: a person who signs in, with what they prove it by.
//!
//! A user and a member belong together by their e-mail address: the *memberships* of a user are the
//! active members, in any company, who have it. Passwords and second factors are the user's, roles
//! are the membership's. Hashes and seals are made at the edge and unreadable here.

use serde::{Deserialize, Serialize};

use super::ids::{CompanySlot, Timestamp, UserId, UserSlot};
use super::text::LineText;

/// A user.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// Where it stands.
    pub slot: UserSlot,
    /// Its public id.
    pub id: UserId,
    /// E-mail address, unique over the whole switch. Never changes.
    pub email: String,
    /// First name.
    pub first_name: String,
    /// Last name.
    pub last_name: String,
    /// An encoded Argon2id hash of the password, once one is set.
    pub password_hash: Option<String>,
    /// One-time passwords by the clock, where they are asked for.
    pub totp: Option<Totp>,
    /// What is asked besides.
    pub security_question: Option<SecurityQuestion>,
    /// For which companies it may register apps without administering them, in their order.
    pub developer_of: Vec<CompanySlot>,
    /// When it was made.
    pub created_at: Timestamp,
}

/// A generator of one-time passwords. Source: RFC 6238.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totp {
    /// What it is generated from, sealed.
    pub sealed_seed: Vec<u8>,
    /// The newest step of the clock that was used: no step is accepted twice.
    pub last_step: u64,
}

/// A question only the user knows the answer to.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecurityQuestion {
    /// What is asked.
    pub question: LineText,
    /// An encoded Argon2id hash of the answer, trimmed and in lower case.
    pub answer_hash: String,
}

impl std::fmt::Debug for User {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "User({}, {})", self.slot.0, self.id.0)
    }
}

impl std::fmt::Debug for Totp {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Totp(step {})", self.last_step)
    }
}

impl std::fmt::Debug for SecurityQuestion {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("SecurityQuestion(..)")
    }
}
