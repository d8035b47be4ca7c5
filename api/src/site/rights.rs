//! Who may do what on the site with apps, tokens and the audit log: by the role of the membership,
//! and by whether the user is a developer. Handlers take whoever has a right by extractor; others
//! get the page of a refusal.
//!
//! | right | administrator | accountant | reviewer, member | developer, whatever the role |
//! |---|---|---|---|---|
//! | manage apps | yes | no | no | yes |
//! | see tokens | yes | yes | no | no |
//! | revoke tokens | yes | no | no | no |
//! | read the audit log | yes | no | no | no |
//!
//! Who may let apps at a company's data is said in `oauth::scope`.

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use cardswitch_engine::domain::company::Company;
use cardswitch_engine::domain::member::{Member, MemberRole};

use super::error_page::error_page;
use super::session::{Session, SignedIn};
use crate::state::AppState;

/// Something that not everybody may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Right {
    /// Register, change and delete apps. Source: spec "Authentication", developer permissions.
    ManageApps,
    /// See what has access to the company's data.
    SeeTokens,
    /// Take access away. Source: spec "Authentication", rule 5.
    RevokeTokens,
    /// Read who did what.
    ReadAudit,
}

impl Right {
    /// Whether it belongs to members of this role.
    pub(super) const fn is_of(self, role: MemberRole, is_developer: bool) -> bool {
        let is_administrator = matches!(role, MemberRole::Administrator);
        match self {
            Self::ManageApps => is_administrator || is_developer,
            Self::SeeTokens => is_administrator || matches!(role, MemberRole::Accountant),
            Self::RevokeTokens | Self::ReadAudit => is_administrator,
        }
    }

    /// Whether a visitor has it for the company they act for.
    pub(super) fn is_with(self, session: &Session) -> bool {
        session.current.as_ref().is_some_and(|(company, member)| {
            self.is_of(member.role, session.user.developer_of.contains(&company.slot))
        })
    }
}

/// Somebody who signed in, and the company they act for.
#[derive(Debug)]
pub(super) struct Acting {
    /// Who.
    pub(super) session: Session,
    /// For which company.
    pub(super) company: Company,
    /// As which of its members.
    pub(super) member: Member,
}

impl Acting {
    /// Errors: the way to sign-in, or the page of a refusal.
    async fn with_right(
        parts: &mut Parts,
        state: &AppState,
        right: Right,
    ) -> Result<Self, Response> {
        let SignedIn(session) = SignedIn::from_request_parts(parts, state).await?;
        let is_allowed = right.is_with(&session);
        match session.current.clone() {
            Some((company, member)) if is_allowed => Ok(Self { session, company, member }),
            Some((company, _)) => Err(not_allowed(&company)),
            None => Err(no_company()),
        }
    }
}

fn not_allowed(company: &Company) -> Response {
    let name = &company.name;
    let text = format!("Your role at {name} does not allow this. Ask one of its administrators.");
    error_page(StatusCode::FORBIDDEN, "This is not for you", &text)
}

fn no_company() -> Response {
    let text = "You are not a member of any company. An administrator of one can invite you.";
    error_page(StatusCode::FORBIDDEN, "No company", text)
}

/// These names only say which of the rights above is needed.
macro_rules! acting_with {
    ($($(#[$doc:meta])* $name:ident $right:ident)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub(super) struct $name(pub(super) Acting);

        impl FromRequestParts<AppState> for $name {
            type Rejection = Response;

            async fn from_request_parts(
                parts: &mut Parts,
                state: &AppState,
            ) -> Result<Self, Response> {
                Acting::with_right(parts, state, Right::$right).await.map(Self)
            }
        }
    )*};
}

acting_with! {
    /// Somebody who manages apps.
    AppManager ManageApps
    /// Somebody who sees tokens.
    TokenReader SeeTokens
    /// Somebody who takes access away.
    TokenRevoker RevokeTokens
    /// Somebody who reads the audit log.
    AuditReader ReadAudit
}

#[cfg(test)]
mod tests {
    use super::Right::{ManageApps, ReadAudit, RevokeTokens, SeeTokens};
    use super::*;
    use MemberRole::{Accountant, Administrator, Member, Reviewer};

    #[test]
    fn rights_are_those_of_the_table() {
        let rows = [
            (ManageApps, [true, false, false, false], true),
            (SeeTokens, [true, true, false, false], false),
            (RevokeTokens, [true, false, false, false], false),
            (ReadAudit, [true, false, false, false], false),
        ];
        for (right, by_role, of_developers) in rows {
            let roles = [Administrator, Accountant, Reviewer, Member];
            assert_eq!(roles.map(|role| right.is_of(role, false)), by_role, "{right:?}");
            let developers = by_role.map(|has| has || of_developers);
            assert_eq!(roles.map(|role| right.is_of(role, true)), developers, "{right:?}");
        }
    }
}
