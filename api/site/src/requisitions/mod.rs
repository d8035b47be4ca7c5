//! Requisitions: members ask to buy something, administrators and reviewers approve or deny it.
//!
//! | file | what |
//! |---|---|
//! | `list` | those that the visitor may see |
//! | `ask` | a new one |
//! | `form` | the form of a requisition |
//! | `requisition` | one: its facts, how it is changed and taken back |
//! | `review` | the verdict |
//!
//! Members see their own; reviewers, and those who see all of the company, see everybody's. The
//! readers of `/v1` and the engine hold the rules of asking and deciding.

mod ask;
mod form;
mod list;
mod requisition;
mod review;

use axum::Router;
use axum::routing::{get, post};
use cardswitch_engine::directory::requisition::Requisition;
use cardswitch_engine::domain::ids::MemberSlot;
use cardswitch_identity::state::AppState;

use super::rights::{ActingMember, Right};

/// The pages of requisitions.
pub(super) fn requisition_routes() -> Router<AppState> {
    Router::new()
        .route("/requisitions", get(list::list_requisitions))
        .route("/requisitions/new", get(ask::show).post(ask::ask))
        .route("/requisitions/{id}", get(requisition::show).post(requisition::change))
        .route("/requisitions/{id}/cancel", post(requisition::cancel))
        .route("/requisitions/{id}/review", post(review::review))
}

/// Whether the visitor sees the requisitions of this member.
pub(crate) fn may_see(acting: &ActingMember, member: MemberSlot) -> bool {
    sees_all(acting) || acting.member.slot == member
}

fn sees_all(acting: &ActingMember) -> bool {
    acting.may(Right::ReviewRequisitions) || acting.may(Right::SeeCompany)
}

/// Whether the visitor may change the requisition, and take it back: its asker and administrators
/// may.
fn may_change(acting: &ActingMember, requisition: &Requisition) -> bool {
    acting.member.slot == requisition.member || acting.session.is_administrator()
}

/// Whether the visitor may decide about a requisition of this member.
// CHOICE: reviewers do not decide about their own requests, which would make the review a word only.
// Administrators do, as a company may have nobody else, and may give themselves cards anyway.
pub(crate) fn may_review(acting: &ActingMember, member: MemberSlot) -> bool {
    let is_own = acting.member.slot == member;
    acting.may(Right::ReviewRequisitions) && (!is_own || acting.session.is_administrator())
}
