//! A member: a person who can be assigned cards.

use serde::{Deserialize, Serialize};
use unicode_normalization::UnicodeNormalization as _;

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
    /// The id that the company's identity provider gave it; none of a deleted one. Source: RFC 7643, 3.1.
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

/// An e-mail address as it is compared: the same in any case, and however its letters are composed
/// (Unicode NFC). Every comparison, table and index of addresses goes through here.
#[must_use]
pub fn email_key(email: &str) -> String {
    if email.is_ascii() {
        return email.to_ascii_lowercase();
    }
    // Small letters may be composed otherwise than the capitals they stand for.
    let small = email.nfc().collect::<String>().to_lowercase();
    small.nfc().collect()
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
    /// Whether an app gets some of it only after an operator's approval.
    /// Source: spec "Authentication", scopes.
    #[must_use]
    pub const fn needs_approval(self) -> bool {
        self.admin || self.scim || self.iam
    }

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
    /// The grant; none of a token that an operator made for nobody.
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

    /// The proof of the grant; none without one.
    #[must_use]
    pub fn origin(&self) -> Option<TokenOrigin> {
        Some(self.grant.as_ref()?.origin)
    }

    /// The label of the grant; blank without one.
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
    use proptest::prelude::*;

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

    #[test]
    fn addresses_are_one_in_any_case_and_composition() {
        let rows = [
            ("ada@example.com", "ADA@Example.COM"),
            ("j\u{fc}rgen@example.com", "ju\u{308}rgen@example.com"),
            ("j\u{fc}rgen@example.com", "JU\u{308}RGEN@EXAMPLE.COM"),
            ("\u{1e69}@example.com", "s\u{307}\u{323}@example.com"),
        ];
        for (one, other) in rows {
            assert_eq!(email_key(one), email_key(other), "{one} {other}");
        }
        assert_ne!(email_key("ada@example.com"), email_key("adb@example.com"));
        assert_ne!(email_key("j\u{fc}rgen@example.com"), email_key("jurgen@example.com"));
    }

    proptest! {
        /// A key is its own key, whatever composition the address came in.
        #[test]
        fn keys_are_the_same_however_letters_are_composed(email in "\\PC{0,20}@\\PC{0,10}") {
            let key = email_key(&email);
            prop_assert_eq!(&email_key(&key), &key);
            prop_assert_eq!(email_key(&email.nfd().collect::<String>()), key);
        }
    }
}
