//! Scopes by their names. Source: spec "Authentication", scopes; RFC 6749, 3.3.
//!
//! Reading needs no name: a request without scopes asks for that. `accountant` any app may ask for;
//! the others only where an operator has approved it.

use cardswitch_engine::directory::access_token::AccessScope;
use cardswitch_engine::directory::member::MemberRole;

use crate::scope_words::SCOPES;

/// Why scopes are not given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScopeFault {
    /// There is no such scope. The word is not repeated: an answer's characters are few, and it may be anything.
    #[error("there is no such scope")]
    Unknown(String),
    /// The app was not approved for it.
    #[error("the app is not approved for the scope {0}")]
    NotApproved(&'static str),
}

/// Reads scopes with commas or spaces between them.
/// Errors: one that there is not.
pub fn parse(text: &str) -> Result<AccessScope, ScopeFault> {
    let mut found = AccessScope::default();
    for name in text.split([' ', ',']).filter(|name| !name.is_empty()) {
        let known = SCOPES.iter().find(|known| known.name == name);
        let known = known.ok_or_else(|| ScopeFault::Unknown(name.to_owned()))?;
        *(known.flag)(&mut found) = true;
    }
    Ok(found)
}

/// The names of scopes; none for reading alone.
pub fn names(scope: AccessScope) -> Vec<&'static str> {
    SCOPES.iter().filter(|known| known.is_in(scope)).map(|known| known.name).collect()
}

/// Checks the scopes that an app requests, of which `approved` were approved.
/// Errors: the first one that it may not request.
pub fn check_approved(asked: AccessScope, approved: AccessScope) -> Result<(), ScopeFault> {
    let free = AccessScope { accountant: true, ..approved };
    let refused = SCOPES.iter().find(|known| known.is_in(asked) && !known.is_in(free));
    refused.map_or(Ok(()), |known| Err(ScopeFault::NotApproved(known.name)))
}

/// Whether a member of this role may let an app at its company's data.
/// Source: spec "Authentication", 5.
pub const fn may_authorize(role: MemberRole) -> bool {
    matches!(role, MemberRole::Administrator | MemberRole::Accountant)
}

/// Whether a member of this role may give an app these scopes.
// CHOICE: the specification lets accountants authorize apps; a member cannot give scopes they do
// not have.
pub const fn may_give(role: MemberRole, scope: AccessScope) -> bool {
    match role {
        MemberRole::Administrator => true,
        MemberRole::Accountant => !(scope.admin || scope.scim || scope.iam),
        MemberRole::Reviewer | MemberRole::Member => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: AccessScope = from_flags([false; 4]);

    const fn from_flags([accountant, admin, scim, iam]: [bool; 4]) -> AccessScope {
        AccessScope { accountant, admin, scim, iam }
    }

    #[test]
    fn scopes_come_with_commas_or_spaces_between() {
        let both = AccessScope { accountant: true, iam: true, ..NONE };
        let rows = [
            ("", Ok(NONE)),
            (" ", Ok(NONE)),
            ("accountant iam", Ok(both)),
            ("iam,accountant", Ok(both)),
            ("iam, accountant,iam", Ok(both)),
            ("accountant admin scim iam", Ok(from_flags([true; 4]))),
        ];
        for (text, expected) in rows {
            assert_eq!(parse(text), expected, "{text}");
        }
        for text in ["none", "read", "Admin", "admin;iam", "admin+iam", "admin\tiam", "admin iam x"]
        {
            assert!(matches!(parse(text), Err(ScopeFault::Unknown(_))), "{text}");
        }
    }

    #[test]
    fn names_are_read_back() {
        for bits in 0..16_u8 {
            let scope = from_flags([0, 1, 2, 3].map(|place| bits >> place & 1 == 1));
            assert_eq!(parse(&names(scope).join(" ")), Ok(scope));
        }
    }

    #[test]
    fn all_but_accountant_need_approval() {
        for name in ["accountant", "admin", "scim", "iam"] {
            let only = parse(name).unwrap();
            let is_free = name == "accountant";
            let expected = if is_free { Ok(()) } else { Err(ScopeFault::NotApproved(name)) };
            assert_eq!(check_approved(only, NONE), expected, "{name}");
            assert_eq!(check_approved(only, only), Ok(()));
            for other in ["admin", "scim", "iam"].into_iter().filter(|other| *other != name) {
                let asked = parse(other).unwrap();
                assert!(check_approved(asked, only).is_err(), "{name} gives no other");
            }
        }
        assert_eq!(check_approved(NONE, NONE), Ok(()));
    }

    #[test]
    fn nobody_gives_what_they_do_not_have() {
        let admin = AccessScope { admin: true, ..NONE };
        let accountant = AccessScope { accountant: true, ..NONE };
        let rows = [
            (MemberRole::Administrator, [true, true, true]),
            (MemberRole::Accountant, [true, true, false]),
            (MemberRole::Reviewer, [false; 3]),
            (MemberRole::Member, [false; 3]),
        ];
        for (role, expected) in rows {
            let given = [NONE, accountant, admin].map(|scope| may_give(role, scope));
            assert_eq!(given, expected, "{role:?}");
            assert_eq!(may_authorize(role), expected[0], "{role:?}");
        }
        for (scim, iam) in [(true, false), (false, true)] {
            assert!(!may_give(MemberRole::Accountant, AccessScope { scim, iam, ..NONE }));
        }
    }
}
