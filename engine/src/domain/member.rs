//! A member: a person who can be assigned cards.

use serde::{Deserialize, Serialize};

use super::card::Dimensions;
use super::ids::{AccessTokenId, AppSlot, CompanySlot, MemberId, MemberSlot, Timestamp};
use super::token_grant::{TokenGrant, TokenOrigin};

/// What a member may do. Source: spec "Member", role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemberRole {
    /// Everything in the company.
    Administrator,
    /// Books and read access.
    Accountant,
    /// Reviews requisitions.
    Reviewer,
    /// Uses cards.
    Member,
}

impl MemberRole {
    /// Whether a member of this role may let a program act for them within a scope. Who may do
    /// nothing with a scope of their own may not give it either; to read is part of every scope.
    #[must_use]
    pub const fn may_allow(self, scope: AccessScope) -> bool {
        match self {
            Self::Administrator => true,
            Self::Accountant => !scope.admin && !scope.scim && !scope.iam,
            Self::Reviewer | Self::Member => false,
        }
    }
}

/// Whether a member takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemberState {
    /// Takes part.
    Active,
    /// Deactivated.
    Inactive,
    /// Gone from lists; cards and transactions keep referring to it.
    Deleted,
}

/// A member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Where it stands.
    pub slot: MemberSlot,
    /// Its public id.
    pub id: MemberId,
    /// Whose member it is.
    pub company: CompanySlot,
    /// First name.
    pub first_name: String,
    /// Last name.
    pub last_name: String,
    /// E-mail address, unique within the company.
    pub email: String,
    /// What it may do.
    pub role: MemberRole,
    /// Employee id: digits only.
    pub code: Option<String>,
    /// What the company's identity provider calls it; none of a deleted one. Source: RFC 7643, 3.1.
    pub external_id: Option<String>,
    /// Whether it takes part.
    pub state: MemberState,
    /// Its department, label and location.
    pub dimensions: Dimensions,
    /// When it was made.
    pub created_at: Timestamp,
}

impl Member {
    /// Whether it takes part.
    #[must_use]
    pub fn takes_part(&self) -> bool {
        self.state == MemberState::Active
    }
}

/// An e-mail address as it is compared: in any case it is the same.
#[must_use]
pub fn email_key(email: &str) -> String {
    email.to_lowercase()
}

/// What an access token may do. Source: spec "Authentication", scopes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessScope {
    /// Books: dimensions, tags, notes, statements.
    pub accountant: bool,
    /// All spending, organizational and accounting endpoints.
    pub admin: bool,
    /// The SCIM endpoints.
    pub scim: bool,
    /// Identity and access management.
    pub iam: bool,
}

impl AccessScope {
    /// What both allow.
    #[must_use]
    pub const fn common(self, other: Self) -> Self {
        Self {
            accountant: self.accountant && other.accountant,
            admin: self.admin && other.admin,
            scim: self.scim && other.scim,
            iam: self.iam && other.iam,
        }
    }
}

/// An access token as it is kept: by the hash of its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessToken {
    /// SHA-256 of the token's text.
    pub digest: [u8; 32],
    /// The id of this record.
    pub id: AccessTokenId,
    /// Whose data it opens.
    pub company: CompanySlot,
    /// What it may do.
    pub scope: AccessScope,
    /// Whether it was revoked.
    pub is_revoked: bool,
    /// When it was made.
    pub created_at: Timestamp,
    /// What it was given for; none of one that an operator made.
    pub grant: Option<TokenGrant>,
}

impl AccessToken {
    /// The app that has it.
    #[must_use]
    pub fn app(&self) -> Option<AppSlot> {
        self.grant.as_ref()?.app
    }

    /// The member it acts for.
    #[must_use]
    pub fn member(&self) -> Option<MemberSlot> {
        self.grant.as_ref()?.member
    }

    /// On what proof it was given; none of one that an operator made.
    #[must_use]
    pub fn origin(&self) -> Option<TokenOrigin> {
        Some(self.grant.as_ref()?.origin)
    }

    /// What people tell it by; blank of one that an operator made.
    #[must_use]
    pub fn label(&self) -> &str {
        self.grant.as_ref().map_or("", |grant| &grant.label)
    }

    /// Whether it was given for a member's password.
    #[must_use]
    pub fn is_of_password(&self) -> bool {
        self.origin() == Some(TokenOrigin::Password)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_allows_no_more_than_it_may_itself() {
        let none = AccessScope::default();
        let rows = [
            (none, true),
            (AccessScope { accountant: true, ..none }, true),
            (AccessScope { admin: true, ..none }, false),
            (AccessScope { scim: true, ..none }, false),
            (AccessScope { iam: true, ..none }, false),
        ];
        for (scope, of_accountants) in rows {
            assert!(MemberRole::Administrator.may_allow(scope), "{scope:?}");
            assert_eq!(MemberRole::Accountant.may_allow(scope), of_accountants, "{scope:?}");
            assert!(!MemberRole::Reviewer.may_allow(scope), "{scope:?}");
            assert!(!MemberRole::Member.may_allow(scope), "{scope:?}");
        }
    }
}
