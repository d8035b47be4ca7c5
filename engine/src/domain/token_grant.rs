//! How an access token came to be: by which app, for which member, on what proof.
//!
//! It is part of the token's row. A token that an operator made for nobody has none.

use serde::{Deserialize, Serialize};

use super::ids::{AppSlot, MemberSlot};

/// What an access token was given for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenGrant {
    /// Which app has it.
    pub app: Option<AppSlot>,
    /// Who it acts for.
    pub member: Option<MemberSlot>,
    /// On what proof it was given.
    pub origin: TokenOrigin,
    /// What people tell it by.
    pub label: String,
}

/// On what proof a token was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TokenOrigin {
    /// An authorization code.
    Code,
    /// A member's e-mail address and password.
    Password,
    /// A company's own app, by who administers it.
    OwnCompany,
    /// An operator at the command line.
    Operator,
}
