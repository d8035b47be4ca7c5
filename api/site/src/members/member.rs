//! One member: their profile, their cards, and the forms that change them. GET and POST
//! /members/{id}.

use askama::Template;
use axum::response::Response;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::input::PathId;
use cardswitch_engine::command::seen_object::WatchedObject;
use cardswitch_engine::directory::member::{Member, MemberState};
use cardswitch_engine::domain::ids::MemberId;
use cardswitch_engine::store::StoreError;
use cardswitch_engine::store::query::{CardRow, Page};
use cardswitch_v1::routes::members::change_member;
use cardswitch_v1::routes::view::View;

use super::form::{KINDS, body_of, faults_of, roles, seen, shown_of};
use super::{get_member, member_badge, role_words};
use crate::cards::face::badge_at;
use crate::cards::list::open_cards_of;
use crate::choices::Choice;
use crate::dimension_choices::{DimensionChoice, find_meant, tags_of};
use crate::faults::{Faults, with_status};
use crate::form_snapshot::{FormSnapshot, change_as_seen};
use crate::forms::{FormBody, SiteForm, TypedFields};
use crate::frame;
use crate::notice::Notice;
use crate::rights::{ActingMember, MemberManager, MemberReader, Right};
use crate::words::{Badge, Moment, card_name, moment, person};

/// How many cards the page shows.
const CARDS_SHOWN: usize = 20;

#[derive(Template)]
#[template(path = "members/member.html")]
struct MemberContent<'a> {
    csrf: String,
    id: String,
    seen: FormSnapshot,
    facts: MemberFacts,
    is_self: bool,
    is_active: bool,
    is_deleted: bool,
    may_manage: bool,
    form: &'a TypedFields,
    faults: &'a Faults,
    roles: Vec<Choice>,
    dimensions: Vec<DimensionChoice>,
    cards: Option<Cards>,
}

struct MemberFacts {
    name: String,
    email: String,
    badge: Badge,
    role: &'static str,
    code: Option<String>,
    tags: Vec<(&'static str, String)>,
    since: Moment,
}

/// The cards that a member holds and that are not closed.
struct Cards {
    rows: Vec<HeldCard>,
    count: u64,
}

struct HeldCard {
    path: String,
    name: String,
    kind: &'static str,
    badge: Badge,
}

/// GET /members/{id}.
pub(super) async fn show(
    MemberReader(acting): MemberReader,
    PathId(id): PathId,
) -> Result<Response, ApiError> {
    let member = get_member(&acting, MemberId(id)).await?;
    member_page(&acting, &member, (None, Faults::default())).await
}

/// The page of a member, with the values typed and their faults.
/// Errors: the tables cannot be read.
pub(super) async fn member_page(
    acting: &ActingMember,
    member: &Member,
    (form, faults): (Option<TypedFields>, Faults),
) -> Result<Response, ApiError> {
    let form = form.unwrap_or_else(|| shown_of(member));
    let sees_cards = acting.may(Right::SeeCompany);
    let (facts, dimensions, cards) = acting
        .read_lists(|view| {
            let cards = if sees_cards { Some(cards_of(view, member)?) } else { None };
            Ok((
                facts_of(view, member)?,
                form.dimension_choices(view, &KINDS, Some(&member.dimensions))?,
                cards,
            ))
        })
        .await?;
    let title = facts.name.clone();
    let content = MemberContent {
        csrf: acting.csrf(),
        id: member.id.0.to_string(),
        seen: seen(member),
        facts,
        is_self: member.slot == acting.member.slot,
        is_active: member.takes_part(),
        is_deleted: member.state == MemberState::Deleted,
        may_manage: acting.may(Right::ManageMembers) && member.state != MemberState::Deleted,
        roles: roles(&form, Some(member.role)),
        form: &form,
        faults: &faults,
        dimensions,
        cards,
    };
    Ok(with_status(frame::page(&title, content), faults.status))
}

fn facts_of(view: &View<'_>, member: &Member) -> Result<MemberFacts, StoreError> {
    Ok(MemberFacts {
        name: person(&member.first_name, &member.last_name, &member.email),
        email: member.email.clone(),
        badge: member_badge(member.state),
        role: role_words(member.role),
        code: member.code.clone(),
        tags: tags_of(view, &member.dimensions)?,
        since: moment(member.created_at, view.company.zone),
    })
}

fn cards_of(view: &View<'_>, member: &Member) -> Result<Cards, StoreError> {
    let (filter, page) = (open_cards_of(member.slot), Page::first(CARDS_SHOWN));
    let listed = view.snapshot.list_cards(view.company.slot, &filter, &page)?;
    Ok(Cards {
        count: listed.count,
        rows: listed.rows.iter().map(|card| held_card(card, view)).collect(),
    })
}

fn held_card(card: &CardRow, view: &View<'_>) -> HeldCard {
    HeldCard {
        path: format!("/cards/{}", card.profile.id.0),
        name: card_name(&card.profile),
        kind: if card.profile.is_virtual { "Virtual" } else { "Physical" },
        badge: badge_at(card, view.company, view.now),
    }
}

/// POST /members/{id}.
pub(super) async fn change(
    MemberManager(acting): MemberManager,
    PathId(id): PathId,
    SiteForm(form): SiteForm<TypedFields>,
) -> Result<Response, ApiError> {
    let find = || async { Ok((WatchedObject::Row(id), get_member(&acting, MemberId(id)).await?)) };
    let check = |member: &Member| seen(member).check(form.of("seen"));
    let saved = change_as_seen(&acting, find, check, async |state, member| {
        let mut body = body_of(&form);
        find_meant(&acting, &mut body).await?;
        change_member(acting.reader(&state), member.id, FormBody::of(body).fields()?).await?;
        Ok(acting.go_on(&format!("/members/{id}"), Notice::MEMBER_SAVED))
    });
    match saved.await? {
        Ok(saved) => Ok(saved),
        Err((member, why)) => member_page(&acting, &member, why.shown(form, faults_of)?).await,
    }
}
