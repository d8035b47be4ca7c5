//! What scopes allow, in words for people who are asked to allow it.

use cardswitch_engine::domain::member::AccessScope;

/// A scope that can be asked for.
#[derive(Clone, Copy, Debug)]
pub struct ScopeWords {
    /// Its name on the wire, and of its field in forms.
    pub name: &'static str,
    /// What it allows besides reading.
    pub allows: &'static str,
    /// Whether an operator has to approve it for an app. Source: spec "Authentication", rule 8.
    pub needs_approval: bool,
}

/// What every access token allows.
pub const READING: &str = "See cards without their numbers, transactions, requisitions, members, \
                           balances and statements";
/// What no access token allows that has no scope.
pub const READING_ONLY: &str = "Change anything";

/// Every scope, the narrowest first.
pub const SCOPES: [ScopeWords; 4] = [
    ScopeWords {
        name: "accountant",
        allows: "Keep the books: categories, departments, labels, locations, and what notes, \
                 receipts and tags transactions carry",
        needs_approval: false,
    },
    ScopeWords {
        name: "admin",
        allows: "Act as an administrator: see card numbers, make, change and end cards and their \
                 budgets, invite and remove members, decide requisitions, share cards, revoke \
                 access",
        needs_approval: true,
    },
    ScopeWords {
        name: "scim",
        allows: "Add, change and deactivate members on behalf of your identity provider",
        needs_approval: true,
    },
    ScopeWords {
        name: "iam",
        allows: "Set how members sign in (single sign-on)",
        needs_approval: true,
    },
];

/// Whether `scope` has the scope of this name.
#[must_use]
pub fn has(scope: AccessScope, name: &str) -> bool {
    match name {
        "accountant" => scope.accountant,
        "admin" => scope.admin,
        "scim" => scope.scim,
        "iam" => scope.iam,
        _ => false,
    }
}

/// The scope that has those named.
#[must_use]
pub fn scope_of(names: &[String]) -> AccessScope {
    let named = |name: &str| names.iter().any(|known| known == name);
    AccessScope {
        accountant: named("accountant"),
        admin: named("admin"),
        scim: named("scim"),
        iam: named("iam"),
    }
}

/// The names of what `scope` has, the narrowest first.
#[must_use]
pub fn names(scope: AccessScope) -> Vec<&'static str> {
    let chosen = SCOPES.iter().filter(|words| has(scope, words.name));
    chosen.map(|words| words.name).collect()
}

/// What whoever holds `scope` may do, one sentence each.
#[must_use]
pub fn allowed(scope: AccessScope) -> Vec<&'static str> {
    let chosen = SCOPES.iter().filter(|words| has(scope, words.name));
    std::iter::once(READING).chain(chosen.map(|words| words.allows)).collect()
}

/// What an app with these approvals may be given: all that needs no approval, and what it has.
#[must_use]
pub const fn grantable(approved: AccessScope) -> AccessScope {
    AccessScope { accountant: true, ..approved }
}

/// What both have.
#[must_use]
pub const fn both(one: AccessScope, other: AccessScope) -> AccessScope {
    AccessScope {
        accountant: one.accountant && other.accountant,
        admin: one.admin && other.admin,
        scim: one.scim && other.scim,
        iam: one.iam && other.iam,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: AccessScope =
        AccessScope { accountant: false, admin: false, scim: false, iam: false };

    #[test]
    fn every_scope_has_words_and_comes_back_from_its_name() {
        for words in SCOPES {
            let scope = scope_of(&[words.name.to_owned()]);
            assert_ne!(scope, NONE, "{}", words.name);
            assert_eq!(names(scope), [words.name]);
            assert_eq!(allowed(scope), [READING, words.allows]);
        }
        let every: Vec<_> = SCOPES.iter().map(|words| words.name.to_owned()).collect();
        let all = AccessScope { accountant: true, admin: true, scim: true, iam: true };
        assert_eq!(scope_of(&every), all);
        assert_eq!(scope_of(&["Admin".to_owned(), "sso".to_owned()]), NONE);
        assert_eq!(allowed(NONE), [READING]);
    }

    #[test]
    fn only_accountant_needs_no_approval() {
        assert_eq!(names(grantable(NONE)), ["accountant"]);
        for words in SCOPES {
            assert_eq!(words.needs_approval, !has(grantable(NONE), words.name));
        }
        let approved = AccessScope { iam: true, ..NONE };
        assert_eq!(names(grantable(approved)), ["accountant", "iam"]);
        assert_eq!(both(grantable(approved), AccessScope { admin: true, ..approved }), approved);
    }
}
