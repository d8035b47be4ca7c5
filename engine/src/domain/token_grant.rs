//! How an access token came to be: by which app, for which member, on what proof.
//!
//! It stands beside the token's own row. A token that an operator made for nobody has none.

use serde::{Deserialize, Serialize};

use super::ids::{AccessTokenId, AppSlot, CompanySlot, MemberSlot};

/// What an access token was given for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenGrant {
    /// The token's record.
    pub token: AccessTokenId,
    /// SHA-256 of the token's text.
    pub digest: [u8; 32],
    /// Whose data it opens.
    pub company: CompanySlot,
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
    /// Whoever has the command line.
    Operator,
}
