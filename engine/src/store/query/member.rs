//! Members and their access tokens.

use crate::domain::ids::{CompanySlot, MemberId, MemberSlot};
use crate::domain::member::{AccessToken, Member, email_key};
use crate::store::error::StoreError;
use crate::store::query::Snapshot;
use crate::store::tables::{ACCESS_TOKENS, MEMBER_EMAILS, MEMBER_IDS, MEMBERS};

impl Snapshot {
    /// Finds a member, also a deleted one.
    pub fn member(&self, slot: MemberSlot) -> Result<Option<Member>, StoreError> {
        self.find(&MEMBERS, slot.0)
    }

    /// Finds a member of a company by its id, also a deleted one.
    pub fn member_by_id(
        &self,
        company: CompanySlot,
        id: MemberId,
    ) -> Result<Option<Member>, StoreError> {
        let member = self.find_by(MEMBER_IDS, id.0.as_u128(), &MEMBERS)?;
        Ok(member.filter(|member| member.company == company))
    }

    /// Finds a member of a company, not a deleted one, by its e-mail address in any case.
    pub fn member_by_email(
        &self,
        company: CompanySlot,
        email: &str,
    ) -> Result<Option<Member>, StoreError> {
        let email = email_key(email);
        let slot = self.table(MEMBER_EMAILS)?.get((company.0, email.as_str()))?;
        slot.map_or(Ok(None), |slot| self.member(MemberSlot(slot.value())))
    }

    /// Finds an access token, also a revoked one, by the SHA-256 of its text.
    pub fn access_token(&self, digest: &[u8; 32]) -> Result<Option<AccessToken>, StoreError> {
        self.find(&ACCESS_TOKENS, *digest)
    }
}
