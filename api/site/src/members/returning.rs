//! Members who take part again, and those who lost the letter by which they were invited.
//! POST /members/{id}/reactivate and /members/{id}/invite.

use std::time::Instant;

use axum::response::Response;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::input::PathId;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::member::{Member, MemberCommand};
use cardswitch_engine::directory::user::NewInvite;
use cardswitch_engine::domain::company::{Company, CompanyState};
use cardswitch_engine::domain::ids::{MemberId, TicketId, UserId};
use cardswitch_identity::actor_state::ActorState;
use cardswitch_identity::auth::drawn_secret::DrawnSecret;
use cardswitch_notify::mail::Letter;
use cardswitch_v1::routes::members::change_member;
use serde::de::IgnoredAny;
use serde_json::json;
use tokio::sync::Semaphore;

use super::get_member;
use super::member::member_page;
use crate::faults::Faults;
use crate::forms::{FormBody, SiteForm};
use crate::fresh_id;
use crate::notice::Notice;
use crate::rights::MemberManager;
use crate::session::later;

/// How long a link to choose the first password is good. Units: seconds.
const INVITATION_S: i64 = 7 * 24 * 3600;
/// How long one to choose another is. Units: seconds.
const NEW_PASSWORD_S: i64 = 3600;
/// How many letters may be on their way to the outbox at once; further ones are not sent.
const LETTERS_AT_ONCE: usize = 64;

static LETTERS: Semaphore = Semaphore::const_new(LETTERS_AT_ONCE);

/// Lets a member take part again. POST /members/{id}/reactivate.
pub(super) async fn reactivate(
    MemberManager(acting): MemberManager,
    PathId(id): PathId,
    _: SiteForm<IgnoredAny>,
) -> Result<Response, ApiError> {
    let member = get_member(&acting, MemberId(id)).await?;
    let body = FormBody::of(json!({"is_active": true}));
    match change_member((&acting).into(), member.id, body.fields()?).await {
        Ok(()) => Ok(acting.go_on(&format!("/members/{id}"), Notice::MEMBER_REACTIVATED)),
        Err(error) => member_page(&acting, &member, (None, Faults::of_refusal(error)?)).await,
    }
}

/// Has a link sent by which a member chooses a password. POST /members/{id}/invite.
///
/// INVARIANT: the sender cannot tell whether the address has a password already: either way a
/// letter goes out, the same is written down, and nobody waits for it. Only that the own company is
/// closed is said.
pub(super) async fn send_link(
    MemberManager(acting): MemberManager,
    PathId(id): PathId,
    _: SiteForm<IgnoredAny>,
) -> Result<Response, ApiError> {
    let member = get_member(&acting, MemberId(id)).await?;
    if !member.takes_part() {
        return Err(ApiError::not_found());
    }
    if acting.company.state == CompanyState::Closed {
        return Err(ApiError::company_closed());
    }
    let response = acting.go_on(&format!("/members/{id}"), Notice::LINK_SENT);
    if let Ok(place) = LETTERS.try_acquire() {
        let acting = acting.without_claim();
        tokio::spawn(async move {
            let _place = place;
            if let Err(error) = send(&acting.state, &acting.company, &member).await {
                tracing::warn!(?error, "no link to choose a password was sent");
            }
        });
    }
    Ok(response)
}

/// Errors: the link was not issued.
async fn send(state: &ActorState, company: &Company, member: &Member) -> Result<(), ApiError> {
    let user = state.switch.read_at_once(|snapshot| snapshot.user_by_email(&member.email))?;
    let email = user.as_ref().map_or(&member.email, |user| &user.email);
    if !state.outbox.may_be_invited(company.id, email, Instant::now()) {
        return Ok(());
    }
    let is_invite = user.as_ref().is_none_or(|user| user.password_hash.is_none());
    let key = DrawnSecret::draw()?;
    let lifetime_s = if is_invite { INVITATION_S } else { NEW_PASSWORD_S };
    let link = NewInvite {
        user: UserId(fresh_id(state)?),
        digest: key.digest,
        ticket: TicketId(fresh_id(state)?),
        expires_at: later(state.now(), lifetime_s),
    };
    let send = MemberCommand::SendPasswordLink(company.id, member.id, link);
    state.carry_out_unshown(AdminCommand::Member(send)).await?;
    let link = state.urls().password_link(&key.text);
    let letter = if is_invite {
        Letter::invitation(email, &company.name, &link)
    } else {
        Letter::new_password(email, &link)
    };
    state.outbox.post(letter).await;
    Ok(())
}
