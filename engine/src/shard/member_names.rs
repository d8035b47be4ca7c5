//! By what a company's members differ: their e-mail addresses and their codes.
//!
//! It follows from the members, so it is no part of the logical state. A deleted member is not in
//! it: address and code are free again.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::ids::{CompanySlot, MemberSlot};
use crate::domain::member::{Member, MemberState, email_key};

/// Company and name, and whose it is.
type Names = BTreeMap<(CompanySlot, String), MemberSlot>;

/// Who has which address and which code.
#[derive(Clone, Debug, Default)]
pub(super) struct MemberNames {
    by_email: Names,
    by_code: Names,
    /// The same addresses over all companies.
    of_people: BTreeSet<(String, MemberSlot)>,
}

impl MemberNames {
    /// A company's member with this e-mail address, in any case.
    pub(super) fn find_by_email(&self, company: CompanySlot, email: &str) -> Option<MemberSlot> {
        self.by_email.get(&(company, email_key(email))).copied()
    }

    /// Members of any company with this e-mail address, in any case.
    pub(super) fn memberships(&self, email: &str) -> impl Iterator<Item = MemberSlot> {
        let key = |slot| (email_key(email), MemberSlot(slot));
        self.of_people.range(key(0)..=key(u32::MAX)).map(|(_, slot)| *slot)
    }

    /// A company's member with this code.
    pub(super) fn find_by_code(&self, company: CompanySlot, code: &str) -> Option<MemberSlot> {
        self.by_code.get(&(company, code.to_owned())).copied()
    }

    /// Puts what a member is called now in the place of what it was called before.
    pub(super) fn replace(&mut self, before: Option<&Member>, now: &Member) {
        if let Some(before) = before {
            let Member { slot, company, .. } = *before;
            let email = email_key(&before.email);
            remove_own(&mut self.by_email, (company, email.clone()), slot);
            self.of_people.remove(&(email, slot));
            if let Some(code) = &before.code {
                remove_own(&mut self.by_code, (company, code.clone()), slot);
            }
        }
        if now.state == MemberState::Deleted {
            return;
        }
        let email = email_key(&now.email);
        self.of_people.insert((email.clone(), now.slot));
        self.by_email.insert((now.company, email), now.slot);
        if let Some(code) = &now.code {
            self.by_code.insert((now.company, code.clone()), now.slot);
        }
    }
}

fn remove_own(names: &mut Names, key: (CompanySlot, String), owner: MemberSlot) {
    if names.get(&key) == Some(&owner) {
        names.remove(&key);
    }
}
