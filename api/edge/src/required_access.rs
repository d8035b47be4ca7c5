//! The access that a caller may need for an operation. `operations.rs` has the need of each
//! operation.

use cardswitch_engine::directory::access_token::AccessScope;

use self::RequiredAccess::{Accountant, Admin, Open, Read, Settings};

/// The access that the scope of a token must have. Source: spec "Authentication", scopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequiredAccess {
    /// Not even an access token: the handler itself admits clients.
    Open,
    /// Nothing: every token reads.
    Read,
    /// The books: dimensions, tags, notes and receipts.
    Accountant,
    /// Everything else that can be changed, and what is secret.
    Admin,
    /// The company's settings: how its people sign in needs `iam`, the rest `admin`. The handler looks
    /// which of them a body has.
    Settings,
}

impl RequiredAccess {
    /// The scopes of which one suffices; none where any token does.
    pub const fn scopes(self) -> &'static [&'static str] {
        match self {
            Open | Read => &[],
            Accountant => &["accountant", "admin"],
            Admin => &["admin"],
            Settings => &["iam", "admin"],
        }
    }

    /// Whether a token of this scope will do.
    pub const fn is_met_by(self, scope: AccessScope) -> bool {
        match self {
            Open | Read => true,
            Accountant => scope.accountant || scope.admin,
            Admin => scope.admin,
            Settings => scope.iam || scope.admin,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCOPES: [(&str, AccessScope); 5] = {
        let none = AccessScope { accountant: false, admin: false, scim: false, iam: false };
        [
            ("", none),
            ("accountant", AccessScope { accountant: true, ..none }),
            ("admin", AccessScope { admin: true, ..none }),
            ("scim", AccessScope { scim: true, ..none }),
            ("iam", AccessScope { iam: true, ..none }),
        ]
    };

    #[test]
    fn the_scopes_named_are_those_that_suffice() {
        for needed in [Open, Read, Accountant, Admin, Settings] {
            for (name, scope) in SCOPES {
                let is_named = needed.scopes().is_empty() || needed.scopes().contains(&name);
                assert_eq!(needed.is_met_by(scope), is_named, "{needed:?} {name}");
            }
        }
    }
}
