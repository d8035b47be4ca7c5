//! Who may do what on the site with apps, tokens and the audit log. One function a right, from the
//! role of the membership and whether the user is a developer; nothing else decides. Handlers take
//! whoever has a right by extractor; others get the page of a refusal.
//!
//! | right | administrator | accountant | reviewer, member | developer, whatever the role |
//! |---|---|---|---|---|
//! | manage apps | yes | no | no | yes |
//! | let an app at the company's data | yes | yes | no | no |
//! | see tokens | yes | yes | no | no |
//! | revoke tokens | yes | no | no | no |
//! | read the audit log | yes | no | no | no |

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use cardswitch_engine::domain::company::Company;
use cardswitch_engine::domain::member::{Member, MemberRole};
use cardswitch_engine::domain::user::User;

use super::error_page::error_page;
use super::session::{Session, SignedIn};
use crate::state::AppState;

/// Whether `user` may register, change and delete the apps of a company they belong to.
/// Source: spec "Authentication", developer permissions.
#[must_use]
pub fn may_manage_apps(user: &User, member: &Member) -> bool {
    user.is_developer || member.role == MemberRole::Administrator
}

/// Whether `member` may let an app at the data of the company. Source: spec "Authentication".
#[must_use]
pub const fn may_authorize(member: &Member) -> bool {
    matches!(member.role, MemberRole::Administrator | MemberRole::Accountant)
}

/// Whether somebody may see what has access to the company's data.
#[must_use]
pub const fn may_see_tokens(_: &User, member: &Member) -> bool {
    may_authorize(member)
}

/// Whether somebody may take access away. Source: spec "Authentication", rule 5.
#[must_use]
pub const fn may_revoke_tokens(_: &User, member: &Member) -> bool {
    matches!(member.role, MemberRole::Administrator)
}

/// Whether somebody may read who did what.
#[must_use]
pub const fn may_read_audit(_: &User, member: &Member) -> bool {
    matches!(member.role, MemberRole::Administrator)
}

/// Somebody who signed in, and the company they act for.
#[derive(Debug)]
pub struct Acting {
    /// Who.
    pub session: Session,
    /// For which company.
    pub company: Company,
    /// As which of its members.
    pub member: Member,
}

impl Acting {
    /// Errors: the way to sign-in, or the page of a refusal.
    async fn with_right(
        parts: &mut Parts,
        state: &AppState,
        may: fn(&User, &Member) -> bool,
    ) -> Result<Self, Response> {
        let signed_in = SignedIn::from_request_parts(parts, state).await;
        let SignedIn(session) = signed_in.map_err(IntoResponse::into_response)?;
        match session.current.clone() {
            Some((company, member)) if may(&session.user, &member) => {
                Ok(Self { session, company, member })
            }
            Some((company, _)) => Err(not_allowed(&company)),
            None => Err(error_page(
                StatusCode::FORBIDDEN,
                "No company",
                "You are not a member of any company. Its administrator can invite you.",
            )),
        }
    }
}

fn not_allowed(company: &Company) -> Response {
    let text = format!(
        "Your role at {} does not allow this. Ask one of its administrators.",
        company.name
    );
    error_page(StatusCode::FORBIDDEN, "This is not for you", &text)
}

/// These names only say which of the rights above is needed.
macro_rules! acting_with {
    ($($(#[$doc:meta])* $name:ident $may:ident)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name(pub Acting);

        impl FromRequestParts<AppState> for $name {
            type Rejection = Response;

            async fn from_request_parts(
                parts: &mut Parts,
                state: &AppState,
            ) -> Result<Self, Response> {
                Acting::with_right(parts, state, $may).await.map(Self)
            }
        }
    )*};
}

acting_with! {
    /// Somebody who manages apps.
    AppManager may_manage_apps
    /// Somebody who sees tokens.
    TokenReader may_see_tokens
    /// Somebody who takes access away.
    TokenRevoker may_revoke_tokens
    /// Somebody who reads the audit log.
    AuditReader may_read_audit
}
