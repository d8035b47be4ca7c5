//! Members. A deleted one is found by its id alone: its address and its code are free again.
//! Source: spec "States and transitions".

use super::entry::{Entries, Index};
use super::row::Indexed;
use crate::domain::ids::CompanySlot;
use crate::domain::member::{Member, MemberState, email_key};

impl Member {
    /// Those of a company.
    pub const OF_COMPANY: Index<Self, CompanySlot> = Index::new(1);
    /// A company's member with an e-mail address, by its `email_key`.
    pub const BY_EMAIL: Index<Self, (CompanySlot, String)> = Index::new(2);
    /// Members of any company with an e-mail address, by its `email_key`.
    pub const OF_PERSON: Index<Self, String> = Index::new(3);
    /// A company's member with a code.
    pub const BY_CODE: Index<Self, (CompanySlot, String)> = Index::new(4);
    /// A company's member with an id that its identity provider gave.
    pub const BY_EXTERNAL_ID: Index<Self, (CompanySlot, String)> = Index::new(5);
}

impl Indexed for Member {
    const CHANGES_ACCESS: bool = true;

    fn index(&self, entries: &mut Entries) {
        if self.state == MemberState::Deleted {
            return;
        }
        entries.add(&Self::OF_COMPANY, &self.company);
        let email = email_key(&self.email);
        entries.add(&Self::OF_PERSON, &email);
        entries.add(&Self::BY_EMAIL, &(self.company, email));
        if let Some(code) = &self.code {
            entries.add(&Self::BY_CODE, &(self.company, code.clone()));
        }
        if let Some(id) = &self.external_id {
            entries.add(&Self::BY_EXTERNAL_ID, &(self.company, id.clone()));
        }
    }
}
