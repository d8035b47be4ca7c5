//! Requisitions.

use super::entry::{Entries, Index};
use super::row::Indexed;
use crate::domain::ids::{CardSlot, CompanySlot, MemberSlot};
use crate::domain::requisition::{Requisition, RequisitionStatus};

impl Requisition {
    /// Those of a company.
    pub const OF_COMPANY: Index<Self, CompanySlot> = Index::new(1);
    /// Those that a member asked for.
    pub const OF_MEMBER: Index<Self, MemberSlot> = Index::new(2);
    /// Those that a card fulfils.
    pub const OF_CARD: Index<Self, CardSlot> = Index::new(3);
    /// Those that a member asked for and nobody has decided.
    pub const PENDING_OF_MEMBER: Index<Self, MemberSlot> = Index::new(4);
}

impl Indexed for Requisition {
    const CHANGES_ACCESS: bool = false;

    fn index(&self, entries: &mut Entries) {
        entries.add(&Self::OF_COMPANY, &self.company);
        entries.add(&Self::OF_MEMBER, &self.member);
        if let Some(card) = &self.card {
            entries.add(&Self::OF_CARD, card);
        }
        if self.status == RequisitionStatus::Pending {
            entries.add(&Self::PENDING_OF_MEMBER, &self.member);
        }
    }
}
