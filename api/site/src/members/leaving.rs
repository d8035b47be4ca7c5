//! The leaving of a member: deactivation, which can be undone in part, or deletion. The effects are
//! shown before anything ends. GET and POST /members/{id}/deactivate and /members/{id}/delete.

mod effects;

use std::convert::Infallible;

use askama::Template;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Redirect, Response};
use cardswitch_edge::error::ApiError;
use cardswitch_edge::input::PathId;
use cardswitch_engine::command::seen_object::WatchedObject;
use cardswitch_engine::directory::member::{Member, MemberState};
use cardswitch_engine::domain::ids::MemberId;
use cardswitch_v1::routes::members::{change_member, remove_member};
use serde::Deserialize;

use self::effects::{Effects, effects_of};
use serde_json::json;

use super::get_member;
use super::member::member_page;
use crate::faults::{Faults, with_status};
use crate::form_snapshot::{RefusedChange, change_as_seen};
use crate::forms::{FormBody, SiteForm};
use crate::frame;
use crate::notice::Notice;
use crate::rights::{ActingMember, MemberManager};
use crate::words::person;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeavingWay {
    Deactivated,
    Deleted,
}

#[derive(Template)]
#[template(path = "members/leave.html")]
struct LeaveContent {
    csrf: String,
    id: String,
    name: String,
    first_name: String,
    email: String,
    is_self: bool,
    is_deletion: bool,
    was_active: bool,
    alert: String,
    effects: Effects,
}

/// The form of a member's leaving, sent once the effects were seen.
#[derive(Debug, Deserialize)]
pub(super) struct LeaveForm {
    #[serde(default)]
    is_confirmed: bool,
    #[serde(default)]
    seen: String,
}

/// The way that a path names.
impl<S: Send + Sync> FromRequestParts<S> for LeavingWay {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        let is_deletion = parts.uri.path().ends_with("/delete");
        Ok(if is_deletion { Self::Deleted } else { Self::Deactivated })
    }
}

/// GET /members/{id}/deactivate and /members/{id}/delete.
pub(super) async fn ask(
    MemberManager(acting): MemberManager,
    PathId(id): PathId,
    way: LeavingWay,
) -> Result<Response, ApiError> {
    let member = get_member(&acting, MemberId(id)).await?;
    if !is_open(&member, way) {
        return Ok(Redirect::to(&format!("/members/{id}")).into_response());
    }
    let effects = read_effects(&acting, &member).await?;
    Ok(leave_page(&acting, &member, (way, effects, &Faults::default())))
}

/// Whether a member can still leave in this way.
fn is_open(member: &Member, way: LeavingWay) -> bool {
    match way {
        LeavingWay::Deactivated => member.takes_part(),
        LeavingWay::Deleted => member.state != MemberState::Deleted,
    }
}

async fn read_effects(acting: &ActingMember, member: &Member) -> Result<Effects, ApiError> {
    acting.read_lists(|view| effects_of(view, member)).await
}

fn leave_page(
    acting: &ActingMember,
    member: &Member,
    (way, effects, faults): (LeavingWay, Effects, &Faults),
) -> Response {
    let name = person(&member.first_name, &member.last_name, &member.email);
    let is_deletion = way == LeavingWay::Deleted;
    let title = format!("{} {name}", if is_deletion { "Delete" } else { "Deactivate" });
    let content = LeaveContent {
        csrf: acting.csrf(),
        id: member.id.0.to_string(),
        first_name: person(&member.first_name, "", &name),
        email: member.email.clone(),
        name,
        is_self: member.slot == acting.member.slot,
        is_deletion,
        was_active: member.takes_part(),
        alert: faults.alert().to_owned(),
        effects,
    };
    with_status(frame::page(&title, content), faults.status)
}

/// POST /members/{id}/deactivate and /members/{id}/delete.
pub(super) async fn leave(
    MemberManager(acting): MemberManager,
    PathId(id): PathId,
    way: LeavingWay,
    SiteForm(form): SiteForm<LeaveForm>,
) -> Result<Response, ApiError> {
    let path = format!("/members/{id}");
    let find = || async {
        let member = get_member(&acting, MemberId(id)).await?;
        let effects = read_effects(&acting, &member).await?;
        Ok((WatchedObject::Leaving(member.slot), (member, effects)))
    };
    // INVARIANT: nothing ends that was not on the list when it was agreed to.
    let check = |(member, effects): &(Member, Effects)| {
        if !is_open(member, way) {
            return Err(Faults::default());
        }
        effects.seen().check(&form.seen)?;
        let unconfirmed = || Faults::alert_only("Tick the box to confirm.");
        form.is_confirmed.then_some(()).ok_or_else(unconfirmed)
    };
    let left = change_as_seen(&acting, find, check, async |state, (member, _)| {
        let notice = match way {
            LeavingWay::Deactivated => {
                let body = FormBody::of(json!({"is_active": false}));
                change_member(acting.reader(&state), member.id, body.fields()?).await?;
                Notice::MEMBER_DEACTIVATED
            }
            LeavingWay::Deleted => {
                remove_member(acting.reader(&state), member.id).await?;
                Notice::MEMBER_DELETED
            }
        };
        Ok(match way {
            // Members who deleted themselves have no list to go on to.
            _ if member.slot == acting.member.slot => acting.go_on("/", notice),
            LeavingWay::Deleted => acting.go_on("/members", notice),
            LeavingWay::Deactivated => acting.go_on(&path, notice),
        })
    });
    match left.await? {
        Ok(left) => Ok(left),
        Err(((member, _), _)) if !is_open(&member, way) => Ok(Redirect::to(&path).into_response()),
        Err(((member, effects), RefusedChange::Unchecked(faults))) => {
            Ok(leave_page(&acting, &member, (way, effects, &faults)))
        }
        Err(((member, _), RefusedChange::Refused(error))) => {
            member_page(&acting, &member, (None, Faults::of_refusal(error)?)).await
        }
    }
}
