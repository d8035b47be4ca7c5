//! The effects of scopes, in words for people who are asked to allow them.

use cardswitch_engine::directory::access_token::AccessScope;

/// A scope that apps can request.
#[derive(Clone, Copy, Debug)]
pub struct ScopeWords {
    /// Its name on the wire and in forms.
    pub name: &'static str,
    /// The access that it allows besides reading.
    pub allows: &'static str,
    /// Whether an operator has to approve it for an app. Source: spec "Authentication", rule 8.
    pub needs_approval: bool,
}

/// The access that every token allows.
const READING: &str = "See cards without their numbers, transactions, requisitions, members, \
                       balances and statements";

/// Every scope, the narrowest first.
pub const SCOPES: [ScopeWords; 4] = [
    ScopeWords {
        name: "accountant",
        allows: "Keep the books: change categories, departments, labels and locations, and what \
                 notes, receipts and tags transactions carry",
        needs_approval: false,
    },
    ScopeWords {
        name: "admin",
        allows: "Act as an administrator: see card numbers, create and close cards, change \
                 budgets, invite and remove members, decide requisitions, share cards, \
                 revoke access",
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
pub fn has(scope: AccessScope, name: &str) -> bool {
    match name {
        "accountant" => scope.accountant,
        "admin" => scope.admin,
        "scim" => scope.scim,
        "iam" => scope.iam,
        _ => false,
    }
}

/// The rights of a holder of `scope`, one sentence each.
pub fn allowed(scope: AccessScope) -> Vec<&'static str> {
    let chosen = SCOPES.iter().filter(|words| has(scope, words.name));
    std::iter::once(READING).chain(chosen.map(|words| words.allows)).collect()
}

/// The rights that a holder of `scope` does not have, as far as people may fear them.
pub fn forbidden(scope: AccessScope) -> Vec<&'static str> {
    if scope.admin {
        return vec!["See your password"];
    }
    let changes = match scope {
        AccessScope { accountant: false, scim: false, iam: false, .. } => "Change anything",
        _ => "Change cards, budgets or balances",
    };
    vec![changes, "See card numbers", "See your password"]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oauth::scope::{names, parse};

    #[test]
    fn every_scope_has_words() {
        let all = AccessScope { accountant: true, admin: true, scim: true, iam: true };
        assert_eq!(names(all), SCOPES.map(|words| words.name));
        for words in SCOPES {
            let scope = parse(words.name).unwrap();
            assert!(has(scope, words.name) && scope != AccessScope::default());
            assert_eq!(allowed(scope), [READING, words.allows]);
        }
        assert_eq!(allowed(AccessScope::default()), [READING]);
    }

    #[test]
    fn only_who_changes_nothing_is_said_to() {
        for words in SCOPES {
            assert!(!forbidden(parse(words.name).unwrap()).contains(&"Change anything"));
        }
        assert!(forbidden(AccessScope::default()).contains(&"Change anything"));
        let admin = AccessScope { admin: true, ..AccessScope::default() };
        assert!(!forbidden(admin).contains(&"See card numbers"));
    }
}
