//! Shared links.

use super::entry::{Entries, Index};
use super::row::Indexed;
use crate::domain::ids::{CardSlot, CompanySlot};
use crate::domain::member::email_key;
use crate::domain::shared_link::SharedLink;

impl SharedLink {
    /// Those of a company that are not deleted.
    pub const OF_COMPANY: Index<Self, CompanySlot> = Index::new(1);
    /// The same of a card.
    pub const OF_CARD: Index<Self, CardSlot> = Index::new(2);
    /// The one with a key, by the key's keyed hash.
    pub const BY_KEY: Index<Self, [u8; 16]> = Index::new(3);
    /// A company's links that were sent to an e-mail address, by its `email_key`.
    pub const BY_RECIPIENT: Index<Self, (CompanySlot, String)> = Index::new(4);
}

impl Indexed for SharedLink {
    const CHANGES_ACCESS: bool = false;

    fn index(&self, entries: &mut Entries) {
        if self.is_deleted {
            return;
        }
        entries.add(&Self::OF_COMPANY, &self.company);
        entries.add(&Self::OF_CARD, &self.card);
        entries.add(&Self::BY_KEY, &self.key_digest);
        if let Some(recipient) = &self.recipient {
            entries.add(&Self::BY_RECIPIENT, &(self.company, email_key(&recipient.email)));
        }
    }
}
