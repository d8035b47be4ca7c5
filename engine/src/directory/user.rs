//! Users.

use super::entry::{Entries, Index};
use super::row::Indexed;

use crate::domain::member::email_key;
use crate::domain::user::User;

impl User {
    /// The user with an e-mail address, by its `email_key`.
    pub const BY_EMAIL: Index<Self, String> = Index::new(1);
}

impl Indexed for User {
    const CHANGES_ACCESS: bool = true;

    fn index(&self, entries: &mut Entries) {
        entries.add(&Self::BY_EMAIL, &email_key(&self.email));
    }
}
