//! Apps.

use super::entry::{Entries, Index};
use super::row::Indexed;
use crate::domain::app::App;
use crate::domain::ids::CompanySlot;

impl App {
    /// Those that a company has registered and not deleted.
    pub const OF_COMPANY: Index<Self, CompanySlot> = Index::new(1);
}

impl Indexed for App {
    const CHANGES_ACCESS: bool = true;

    fn index(&self, entries: &mut Entries) {
        if !self.is_deleted {
            entries.add(&Self::OF_COMPANY, &self.company);
        }
    }
}
