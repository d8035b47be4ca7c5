//! Access tokens: creation, grants, revocation. Source: RFC 6749; RFC 7009.
//!
//! The number of live tokens of a member, and of an app, is bounded, so that revoking all of them
//! fits one record. Each company has a share of an app's.

use serde::{Deserialize, Serialize};

use super::app::find_admissible_app;
use super::change::{PartitionView, StateChange};
use super::company::{find_company, find_open_company};
use super::member::find_granting_member;
use super::row::indexes;
use super::secret_rows::SecretRows;
use crate::command::Moment;
use crate::command::audit_line::AuditLine;
use crate::command::reply::Rejection;
use crate::command::resource::commands;
use crate::domain::ids::{
    AccessTokenId, AppId, AppSlot, CompanyId, CompanySlot, MemberId, MemberSlot, Timestamp,
};
use crate::domain::text::LineText;
use crate::limits;

/// The scope of an access token. Source: spec "Authentication", scopes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessScope {
    /// Books: dimensions, tags, notes, statements.
    pub accountant: bool,
    /// All spending, organizational and accounting endpoints.
    pub admin: bool,
    /// The SCIM endpoints.
    pub scim: bool,
    /// Identity and access management.
    pub iam: bool,
}

impl AccessScope {
    /// Whether an app gets any part of this scope only after an operator's approval.
    /// Source: spec "Authentication", scopes.
    pub const fn needs_approval(self) -> bool {
        self.admin || self.scim || self.iam
    }

    /// The intersection of two scopes.
    #[must_use]
    pub const fn common(self, other: Self) -> Self {
        Self {
            accountant: self.accountant && other.accountant,
            admin: self.admin && other.admin,
            scim: self.scim && other.scim,
            iam: self.iam && other.iam,
        }
    }
}

/// A stored access token, keyed by the hash of its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessToken {
    /// SHA-256 of the token's text.
    pub digest: [u8; 32],
    /// The id of this record.
    pub id: AccessTokenId,
    /// The company whose data the token opens.
    pub company: CompanySlot,
    /// The scope of the token.
    pub scope: AccessScope,
    /// Whether it was revoked.
    pub is_revoked: bool,
    /// The time of creation.
    pub created_at: Timestamp,
    /// The grant; none for a token that an operator made for nobody.
    pub grant: Option<TokenGrant>,
}

impl AccessToken {
    /// The app that holds the token.
    pub fn app(&self) -> Option<AppSlot> {
        self.grant.as_ref()?.app
    }

    /// The member for whom the token acts.
    pub fn member(&self) -> Option<MemberSlot> {
        self.grant.as_ref()?.member
    }

    /// The proof of the grant; none without one.
    pub fn origin(&self) -> Option<TokenOrigin> {
        Some(self.grant.as_ref()?.origin)
    }

    /// The label of the grant; blank without one.
    pub fn label(&self) -> &str {
        self.grant.as_ref().map_or("", |grant| &grant.label)
    }

    /// Whether the token was granted for a member's password.
    pub fn is_of_password(&self) -> bool {
        self.origin() == Some(TokenOrigin::Password)
    }
}

indexes! {
    AccessToken(token), CHANGES_ACCESS: true, found if !token.is_revoked;
    /// The live tokens of a company.
    OF_COMPANY = 1: CompanySlot => token.company;
    /// The live tokens of a member.
    OF_MEMBER = 2: MemberSlot => token.member();
    /// The live tokens of an app, by the company whose data they open.
    OF_APP = 3: (AppSlot, CompanySlot) => token.app().map(|app| (app, token.company));
    and {
        fn is_remembered(&self) -> bool {
            !self.is_revoked
        }
    }
}

impl SecretRows<AccessToken> {
    /// The live tokens of an app, grouped by company.
    pub(crate) fn of_app(&self, app: AppSlot) -> impl Iterator<Item = &AccessToken> {
        self.within(AccessToken::OF_APP.range_of(app, CompanySlot(0)))
    }
}

/// The grant of an access token: its holder, its member, its proof.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenGrant {
    /// The app that holds the token.
    pub app: Option<AppSlot>,
    /// The member for whom the token acts.
    pub member: Option<MemberSlot>,
    /// The proof for which the token was granted.
    pub origin: TokenOrigin,
    /// The label shown to people.
    pub label: String,
}

/// The proof for which a token was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TokenOrigin {
    /// An authorization code.
    Code,
    /// A member's e-mail address and password.
    Password,
    /// A company's own app, by a member who administers it.
    OwnCompany,
    /// An operator at the command line.
    Operator,
}

commands! {
    /// The commands on access tokens.
    #[derive(Clone, Debug)]
    pub enum AccessTokenCommand(change) {
        /// Makes a token without a grant.
        Create(new: NewAccessToken) makes new.id.0 =>
            new.audited(),
            create(change, new);
        /// Makes a token with its grant.
        Grant(new: Box<NewTokenGrant>) makes new.token.id.0 =>
            new.token.audited(),
            grant(change, new);
        /// Revokes a token.
        Revoke(company: CompanyId, id: AccessTokenId) =>
            AuditLine::of_company(*company, "access_token.revoked", id.0),
            revoke_by_id(change, (*company, *id));
    }
}

/// An access token to make.
#[derive(Clone, Debug)]
pub struct NewAccessToken {
    /// The id of its record.
    pub id: AccessTokenId,
    /// SHA-256 of its text.
    pub digest: [u8; 32],
    /// The company whose data the token opens.
    pub company: CompanyId,
    /// The scope of the token.
    pub scope: AccessScope,
}

/// An access token to make, with its grant.
#[derive(Clone, Debug)]
pub struct NewTokenGrant {
    /// The token.
    pub token: NewAccessToken,
    /// The app that gets the token.
    pub app: Option<AppId>,
    /// The member for whom the token acts.
    pub member: Option<MemberId>,
    /// The proof for which the token is granted.
    pub origin: TokenOrigin,
    /// The label shown to people.
    pub label: LineText,
}

impl NewAccessToken {
    pub(crate) fn audited(&self) -> AuditLine<'_> {
        AuditLine::of_company(self.company, "access_token.created", self.id.0)
    }
}

fn create(change: &mut StateChange<'_>, new: &NewAccessToken) -> Result<(), Rejection> {
    change.put(make(change.state, change.moment, new, new.scope)?);
    Ok(())
}

/// A token made at the moment of the command. Errors: no such company, it is closed, or the id or
/// text is in use.
pub(crate) fn make(
    state: &dyn PartitionView,
    moment: &Moment<'_>,
    new: &NewAccessToken,
    scope: AccessScope,
) -> Result<AccessToken, Rejection> {
    let company = find_open_company(state, new.company)?;
    let tokens = &state.directory().access_tokens;
    if tokens.find_by_id(new.id.0).is_some() || tokens.get(&new.digest).is_some() {
        return Err(Rejection::IdTaken);
    }
    Ok(AccessToken {
        digest: new.digest,
        id: new.id,
        company,
        scope,
        is_revoked: false,
        created_at: moment.at,
        grant: None,
    })
}

fn grant(change: &mut StateChange<'_>, new: &NewTokenGrant) -> Result<(), Rejection> {
    let token = make(change.state, change.moment, &new.token, new.token.scope)?;
    let find = |id| find_admissible_app(change.state, id);
    let app = new.app.map(find).transpose()?.map(|app| app.slot);
    let find = |id| find_granting_member(change.state, (token.company, id), token.scope);
    let member = new.member.map(find).transpose()?.map(|member| member.slot);
    let grant = TokenGrant { app, member, origin: new.origin, label: new.label.clone().into() };
    push_granted(change, token, grant)
}

/// Revokes a token of a company. Errors: no such token, or it is revoked.
fn revoke_by_id(
    change: &mut StateChange<'_>,
    (company, id): (CompanyId, AccessTokenId),
) -> Result<(), Rejection> {
    let company = find_company(change.state, company)?;
    let token =
        change.state.directory().access_tokens.find_by_id(id.0).ok_or(Rejection::TokenNotFound)?;
    if token.company != company {
        return Err(Rejection::TokenNotFound);
    }
    revoke(change, token);
    Ok(())
}

/// Revokes a token.
pub(crate) fn revoke(change: &mut StateChange<'_>, token: &AccessToken) {
    assert!(!token.is_revoked, "a token is revoked once");
    change.put(AccessToken { is_revoked: true, ..token.clone() });
}

/// Revokes a token of an app, many of which may end in one record: the app's name is its label from
/// then on.
pub(crate) fn revoke_with_app(change: &mut StateChange<'_>, token: &AccessToken) {
    let bare = |grant| TokenGrant { label: String::new(), ..grant };
    revoke(change, &AccessToken { grant: token.grant.clone().map(bare), ..token.clone() });
}

/// Adds a token with its grant. Errors: `TooManyTokens`.
pub(crate) fn push_granted(
    change: &mut StateChange<'_>,
    token: AccessToken,
    grant: TokenGrant,
) -> Result<(), Rejection> {
    let owners = TokenOwners { app: grant.app, company: token.company, member: grant.member };
    if let Some(displaced) = find_displaced(change.state, owners, grant.origin)? {
        revoke(change, displaced);
    }
    change.put(AccessToken { grant: Some(grant), ..token });
    Ok(())
}

/// The owners of a token, each of which has room for so many.
pub(crate) struct TokenOwners {
    /// The app that holds the token.
    pub(crate) app: Option<AppSlot>,
    /// The company whose data the token opens.
    pub(crate) company: CompanySlot,
    /// The member for whom the token acts.
    pub(crate) member: Option<MemberSlot>,
}

/// The token that a further one of these owners displaces; none where there is room. A token for a
/// password or a code displaces the member's oldest of the same app and origin, and nothing else. So
/// no app takes tokens from another, and a right to sign in takes none from other people.
/// Errors: `TooManyTokens`. Cost: O(tokens of the owners), which are bounded.
pub(crate) fn find_displaced(
    state: &dyn PartitionView,
    TokenOwners { app, company, member }: TokenOwners,
    origin: TokenOrigin,
) -> Result<Option<&AccessToken>, Rejection> {
    let tokens = &state.directory().access_tokens;
    let of_app = app.map_or(0, |app| tokens.of_app(app).count());
    let of_share = app.map_or(0, |app| tokens.under(&AccessToken::OF_APP, &(app, company)).count());
    let of_members =
        || member.iter().flat_map(|member| tokens.under(&AccessToken::OF_MEMBER, member));
    let has_room = of_app < limits::TOKENS_OF_APP_MAX
        && of_share < limits::TOKENS_OF_APP_IN_COMPANY_MAX
        && of_members().count() < limits::TOKENS_OF_MEMBER_MAX;
    if has_room {
        return Ok(None);
    }
    let is_replaceable = matches!(origin, TokenOrigin::Password | TokenOrigin::Code);
    let is_of_same = |token: &&AccessToken| token.app() == app && token.origin() == Some(origin);
    let oldest = of_members().find(is_of_same).filter(|_| is_replaceable);
    oldest.map(Some).ok_or(Rejection::TooManyTokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: u8 = 0b1111;
    const BOOKS: u8 = 0b0001;

    fn scope(bits: u8) -> AccessScope {
        let has = |bit: u8| bits & (1 << bit) != 0;
        AccessScope { accountant: has(0), admin: has(1), scim: has(2), iam: has(3) }
    }

    #[test]
    fn the_common_part_of_two_scopes_is_what_both_have() {
        for one in 0..=ALL {
            for other in 0..=ALL {
                assert_eq!(scope(one).common(scope(other)), scope(one & other), "{one} {other}");
            }
        }
    }

    #[test]
    fn all_but_the_books_need_approval() {
        for bits in 0..=ALL {
            assert_eq!(scope(bits).needs_approval(), bits & !BOOKS != 0, "{bits}");
        }
    }
}
