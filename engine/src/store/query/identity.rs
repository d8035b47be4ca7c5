//! People and programs: users, members, tickets, apps, access tokens and their grants.
//!
//! Rows of tickets may outlive their expiration a little: every reader looks at the end of a
//! ticket.

use super::list::{ListPage, Page};
use crate::directory::access_token::AccessToken;
use crate::directory::app::App;
use crate::directory::member::Member;
use crate::directory::row::by_id;
use crate::directory::ticket::{Ticket, TicketKind};
use crate::directory::user::User;
use crate::domain::company::Company;
use crate::domain::email::email_key;
use crate::domain::ids::{AccessTokenId, AppId, CompanySlot, UserId, UserSlot};
use crate::store::directory::StoredRow as _;
use crate::store::error::StoreError;
use crate::store::query::Snapshot;

impl Snapshot {
    /// Finds a user by its id.
    pub fn user_by_id(&self, id: UserId) -> Result<Option<User>, StoreError> {
        self.row_by_id(id.0)
    }

    /// Finds a user by its e-mail address, in any case.
    pub fn user_by_email(&self, email: &str) -> Result<Option<User>, StoreError> {
        self.first_row(&User::BY_EMAIL, &email_key(email))
    }

    /// The members of any company that take part and have this e-mail address, the oldest first.
    pub fn memberships(&self, email: &str) -> Result<Vec<(Company, Member)>, StoreError> {
        let members = self.rows_under(&Member::OF_PERSON, &email_key(email))?;
        let taking_part = members.into_iter().filter(Member::takes_part);
        let with_company = taking_part.map(|member| {
            let company =
                self.company(member.company)?.ok_or_else(|| StoreError::Inconsistent {
                    what: format!("companies has no row {}", member.company.0),
                })?;
            Ok((company, member))
        });
        with_company.collect()
    }

    /// Whether members of any company have this e-mail address, deactivated ones among them;
    /// deleted ones have none any more.
    pub fn is_of_members(&self, email: &str) -> Result<bool, StoreError> {
        Ok(self.first_row(&Member::OF_PERSON, &email_key(email))?.is_some())
    }

    /// Finds a ticket, also one that opens nothing any more, by the SHA-256 of its secret.
    pub fn ticket(&self, digest: &[u8; 32]) -> Result<Option<Ticket>, StoreError> {
        self.find(&Ticket::ROWS, *digest)
    }

    /// A user's sessions that were not ended, the newest first.
    pub fn sessions_of(&self, user: UserSlot) -> Result<Vec<Ticket>, StoreError> {
        let mut sessions = self.rows_under(&Ticket::OPEN_OF_USER, &(user, TicketKind::Session))?;
        sessions.reverse();
        Ok(sessions)
    }

    /// Finds an app of any company by its id, not a deleted one.
    pub fn app_by_id(&self, id: AppId) -> Result<Option<App>, StoreError> {
        Ok(self.row_by_id(id.0)?.filter(|app: &App| !app.is_deleted))
    }

    /// Finds an access token of a company by the id of its record, also a revoked one.
    pub fn access_token_by_id(
        &self,
        company: CompanySlot,
        id: AccessTokenId,
    ) -> Result<Option<AccessToken>, StoreError> {
        Ok(self.any_access_token(id)?.filter(|token| token.company == company))
    }

    /// Finds an access token of any company by the id of its record, also a revoked one; the newest,
    /// where the id was free again.
    pub fn any_access_token(&self, id: AccessTokenId) -> Result<Option<AccessToken>, StoreError> {
        self.last_row(&by_id(), &id.0, |_| true)
    }

    /// Lists a company's access tokens, without revoked ones.
    /// Cost: O(tokens of the company).
    pub fn access_tokens(
        &self,
        company: CompanySlot,
        page: &Page,
    ) -> Result<ListPage<AccessToken>, StoreError> {
        self.list_rows(&AccessToken::OF_COMPANY, &company, page, |_| true)
    }

    /// Finds a member of a company, not a deleted one, by what a directory of identities calls it.
    pub fn member_by_external_id(
        &self,
        company: CompanySlot,
        id: &str,
    ) -> Result<Option<Member>, StoreError> {
        self.first_row(&Member::BY_EXTERNAL_ID, &(company, id.to_owned()))
    }

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
