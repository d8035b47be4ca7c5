//! Members: their list, their profiles, how they come and go.
//!
//! | file | what |
//! |---|---|
//! | `list` | the members |
//! | `invite` | a new one |
//! | `form` | the form of a member |
//! | `member` | one: their profile, their cards, how they are changed |
//! | `leaving` | deactivating and deleting, with the effects shown first |
//! | `returning` | taking part again, and another letter to choose a password |
//!
//! Administrators, accountants and reviewers see members; administrators manage them. Roles beyond
//! reviewer are given by operators, on the command line.

mod form;
mod invite;
mod leaving;
mod list;
mod member;
mod returning;

use axum::Router;
use axum::routing::{get, post};
use cardswitch_edge::error::ApiError;
use cardswitch_engine::directory::member::{Member, MemberRole, MemberState};
use cardswitch_engine::domain::ids::MemberId;
use cardswitch_identity::state::AppState;

use super::rights::ActingMember;
use super::words::Badge;

/// The pages of members.
pub(super) fn member_routes() -> Router<AppState> {
    Router::new()
        .route("/members", get(list::list_members))
        .route("/members/new", get(invite::show).post(invite::invite))
        .route("/members/{id}", get(member::show).post(member::change))
        .route("/members/{id}/deactivate", get(leaving::ask).post(leaving::leave))
        .route("/members/{id}/delete", get(leaving::ask).post(leaving::leave))
        .route("/members/{id}/reactivate", post(returning::reactivate))
        .route("/members/{id}/invite", post(returning::send_link))
}

/// A member of the company, one that was deleted too.
/// Errors: there is none with this id; the tables cannot be read.
async fn get_member(acting: &ActingMember, id: MemberId) -> Result<Member, ApiError> {
    let found = acting.read(|view| view.find_member(id)).await?;
    found.ok_or_else(ApiError::not_found)
}

/// The name of a role.
pub(crate) const fn role_words(role: MemberRole) -> &'static str {
    match role {
        MemberRole::Administrator => "Administrator",
        MemberRole::Accountant => "Accountant",
        MemberRole::Reviewer => "Reviewer",
        MemberRole::Member => "Member",
    }
}

/// Whether a member takes part.
const fn member_badge(state: MemberState) -> Badge {
    let (word, look) = match state {
        MemberState::Active => ("Active", "good"),
        MemberState::Inactive => ("Deactivated", "off"),
        MemberState::Deleted => ("Deleted", "off"),
    };
    Badge { word, look }
}
