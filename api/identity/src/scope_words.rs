//! The effects of scopes, in words for people who are asked to allow them.

use cardswitch_engine::directory::access_token::AccessScope;

/// A scope that apps can request.
#[derive(Clone, Copy, Debug)]
pub struct ScopeWords {
    /// Its name on the wire and in forms.
    pub name: &'static str,
    /// The access that it allows besides reading.
    pub allows: &'static str,
    /// Its place in a set of scopes.
    pub(crate) flag: fn(&mut AccessScope) -> &mut bool,
}

impl ScopeWords {
    /// Whether `scope` has it.
    pub fn is_in(&self, mut scope: AccessScope) -> bool {
        *(self.flag)(&mut scope)
    }

    /// The scope that has it alone.
    pub fn alone(&self) -> AccessScope {
        let mut scope = AccessScope::default();
        *(self.flag)(&mut scope) = true;
        scope
    }
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
        flag: |scope| &mut scope.accountant,
    },
    ScopeWords {
        name: "admin",
        allows: "Act as an administrator: see card numbers, create and close cards, change \
                 budgets, invite and remove members, decide requisitions, share cards, \
                 revoke access",
        flag: |scope| &mut scope.admin,
    },
    ScopeWords {
        name: "scim",
        allows: "Add, change and deactivate members on behalf of your identity provider",
        flag: |scope| &mut scope.scim,
    },
    ScopeWords {
        name: "iam",
        allows: "Set how members sign in (single sign-on)",
        flag: |scope| &mut scope.iam,
    },
];

/// The rights of a holder of `scope`, one sentence each.
pub fn allowed(scope: AccessScope) -> Vec<&'static str> {
    let chosen = SCOPES.iter().filter(|words| words.is_in(scope));
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

    #[test]
    fn each_scope_allows_its_own_and_reading() {
        for words in SCOPES {
            assert_eq!(allowed(words.alone()), [READING, words.allows]);
        }
        assert_eq!(allowed(AccessScope::default()), [READING]);
    }

    #[test]
    fn only_who_changes_nothing_is_said_to() {
        for words in SCOPES {
            assert!(!forbidden(words.alone()).contains(&"Change anything"));
        }
        assert!(forbidden(AccessScope::default()).contains(&"Change anything"));
        let admin = AccessScope { admin: true, ..AccessScope::default() };
        assert!(!forbidden(admin).contains(&"See card numbers"));
    }
}
