//! Members and their access tokens.

use crate::directory::access_token::AccessToken;
use crate::directory::member::Member;
use crate::domain::email::email_key;
use crate::domain::ids::{CompanySlot, MemberSlot};
use crate::store::directory::StoredRow as _;
use crate::store::error::StoreError;
use crate::store::query::Snapshot;

impl Snapshot {
    /// Finds a member of a company, not a deleted one, by its e-mail address in any case.
    pub fn member_by_email(
        &self,
        company: CompanySlot,
        email: &str,
    ) -> Result<Option<Member>, StoreError> {
        self.first_row(&Member::BY_EMAIL, &(company, email_key(email)))
    }

    /// Finds an access token, also a revoked one, by the SHA-256 of its text.
    pub fn access_token(&self, digest: &[u8; 32]) -> Result<Option<AccessToken>, StoreError> {
        self.find(&AccessToken::ROWS, *digest)
    }
}
