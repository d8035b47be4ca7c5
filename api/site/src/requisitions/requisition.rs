//! One requisition, and its outcome. GET and POST /requisitions/{id}, and POST of `cancel` below
//! it.

use askama::Template;
use axum::response::Response;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::input::PathId;
use cardswitch_engine::command::seen_object::WatchedObject;
use cardswitch_engine::directory::requisition::{Requisition, RequisitionStatus};
use cardswitch_engine::domain::card::DimensionKind;
use cardswitch_engine::domain::ids::RequisitionId;
use cardswitch_engine::store::StoreError;
use cardswitch_engine::store::query::Page;
use cardswitch_v1::routes::requisitions::{change_requisition, take_back};
use cardswitch_v1::routes::view::View;
use cardswitch_wire::currency::render_currency;
use cardswitch_wire::reference::MemberReference;

use super::form::{body_of, deadline, faults_of, seen, shown_of};
use super::{may_change, may_review, may_see};
use crate::cards::list::open_cards_of;
use crate::choices::Choice;
use crate::dimension_choices::{DimensionChoice, find_meant, tags_of};
use crate::faults::{Faults, with_status};
use crate::form_snapshot::{FormSnapshot, change_as_seen};
use crate::forms::{ConfirmForm, FormBody, SiteForm, TypedFields};
use crate::frame;
use crate::notice::Notice;
use crate::rights::{ActingMember, Right};
use crate::words::{Badge, Moment, card_name, moment, money, person, requisition_badge};

/// How many cards of a member are offered to fulfil their requisition.
const CARDS_OFFERED: usize = 100;

#[derive(Template)]
#[template(path = "requisitions/requisition.html")]
struct RequisitionContent<'a> {
    csrf: String,
    id: String,
    seen: FormSnapshot,
    facts: RequisitionFacts,
    currency: String,
    is_pending: bool,
    /// Whether it has to be bought by a day that is past.
    is_late: bool,
    is_own: bool,
    may_change: bool,
    may_review: bool,
    form: &'a TypedFields,
    faults: &'a Faults,
    review_note: &'a str,
    review_faults: &'a Faults,
    changed: &'a [&'static str],
    cards: Vec<Choice>,
    dimensions: Vec<DimensionChoice>,
}

impl RequisitionContent<'_> {
    /// Whether somebody else has changed this while the visitor looked.
    fn is_new(&self, name: &str) -> bool {
        self.changed.contains(&name)
    }
}

struct RequisitionFacts {
    description: String,
    amount: String,
    badge: Badge,
    asked_by: String,
    /// The page of the asking member, for visitors who see members.
    member_path: Option<String>,
    asked_at: Moment,
    buy_by: Option<Moment>,
    note: Vec<String>,
    tags: Vec<(&'static str, String)>,
    reviewed_by: Option<String>,
    approved_at: Option<Moment>,
    card: Option<String>,
    card_path: Option<String>,
}

/// The page's additions to the requisition itself: the values typed, and their faults.
#[derive(Default)]
pub(super) struct RequisitionForms {
    /// The form by which it is changed; as it is, where nothing was typed.
    pub(super) form: Option<TypedFields>,
    pub(super) faults: Faults,
    /// The note of a reviewer.
    pub(super) review_note: String,
    /// The card a reviewer has chosen.
    pub(super) review_card: String,
    pub(super) review_faults: Faults,
    /// The values changed by somebody else while the visitor looked, by the names of `seen`.
    pub(super) changed: Vec<&'static str>,
}

/// GET /requisitions/{id}.
pub(super) async fn show(acting: ActingMember, PathId(id): PathId) -> Result<Response, ApiError> {
    let requisition = get_requisition(&acting, RequisitionId(id)).await?;
    requisition_page(&acting, &requisition, RequisitionForms::default()).await
}

/// The requisition of this id, if the visitor may see it.
/// Errors: there is none, or it is another's; the tables cannot be read.
pub(super) async fn get_requisition(
    acting: &ActingMember,
    id: RequisitionId,
) -> Result<Requisition, ApiError> {
    let find = |view: &View<'_>| view.snapshot.own::<Requisition>(view.company.slot, id);
    let found = acting.read(find).await?;
    found.filter(|known| may_see(acting, known.member)).ok_or_else(ApiError::not_found)
}

/// The page of a requisition.
/// Errors: the tables cannot be read.
pub(super) async fn requisition_page(
    acting: &ActingMember,
    requisition: &Requisition,
    said: RequisitionForms,
) -> Result<Response, ApiError> {
    let company = &acting.company;
    let form = said.form.unwrap_or_else(|| shown_of(requisition, (company.zone, company.currency)));
    let is_pending = requisition.status == RequisitionStatus::Pending;
    let may_review = is_pending && may_review(acting, requisition.member);
    let (facts, dimensions, cards) = acting
        .read(|view| {
            let cards =
                if may_review { cards_of(view, requisition, &said.review_card)? } else { vec![] };
            let dimensions =
                form.dimension_choices(view, &DimensionKind::ALL, Some(&requisition.dimensions))?;
            Ok((facts_of(view, acting, requisition)?, dimensions, cards))
        })
        .await?;
    let content = RequisitionContent {
        csrf: acting.csrf(),
        id: requisition.id.0.to_string(),
        seen: seen(requisition, company),
        currency: render_currency(company.currency),
        is_pending,
        is_late: requisition.end_time.is_some_and(|at| at < acting.state.now()),
        is_own: acting.member.slot == requisition.member,
        may_change: is_pending && may_change(acting, requisition),
        may_review,
        form: &form,
        faults: &said.faults,
        review_note: &said.review_note,
        review_faults: &said.review_faults,
        changed: &said.changed,
        cards,
        dimensions,
        facts,
    };
    let title = format!("Requisition: {}", requisition.description);
    let faults = if said.faults.is_empty() { &said.review_faults } else { &said.faults };
    Ok(with_status(frame::page(&title, content), faults.status))
}

fn facts_of(
    view: &View<'_>,
    acting: &ActingMember,
    requisition: &Requisition,
) -> Result<RequisitionFacts, StoreError> {
    let zone = view.company.zone;
    let name = |known: &MemberReference| person(&known.first_name, &known.last_name, &known.email);
    let asker = view.member_reference(Some(requisition.member))?;
    let reviewer = view.member_reference(requisition.reviewed_by)?;
    let card = requisition.card.map_or(Ok(None), |slot| view.snapshot.card(slot))?;
    let sees_card = card.as_ref().is_some_and(|card| {
        acting.may(Right::SeeCompany) || card.profile.assigned_to == Some(acting.member.slot)
    });
    let card_path = card.as_ref().filter(|_| sees_card);
    let member_path = asker.as_ref().filter(|_| acting.may(Right::SeeMembers));
    let note = requisition.note.as_deref().unwrap_or_default();
    Ok(RequisitionFacts {
        description: requisition.description.clone(),
        amount: money(requisition.amount, view.company.currency),
        badge: requisition_badge(requisition.status),
        member_path: member_path.map(|known| format!("/members/{}", known.id)),
        asked_by: asker.as_ref().map(name).unwrap_or_default(),
        asked_at: moment(requisition.created_at, zone),
        buy_by: requisition.end_time.map(|at| deadline(at, zone)),
        note: note.lines().map(str::to_owned).collect(),
        tags: tags_of(view, &requisition.dimensions)?,
        reviewed_by: reviewer.as_ref().map(name),
        approved_at: requisition.approved_at.map(|at| moment(at, zone)),
        card: card.as_ref().map(|card| card_name(&card.profile)),
        card_path: card_path.map(|card| format!("/cards/{}", card.profile.id.0)),
    })
}

/// The cards that may fulfil a member's requisition: a new one, or one that they hold.
fn cards_of(
    view: &View<'_>,
    requisition: &Requisition,
    chosen: &str,
) -> Result<Vec<Choice>, StoreError> {
    let (filter, page) = (open_cards_of(requisition.member), Page::first(CARDS_OFFERED));
    let known = view.snapshot.list_cards(view.company.slot, &filter, &page)?;
    let new = Choice {
        value: String::new(),
        label: "A new virtual card, for this purchase only".to_owned(),
        is_chosen: chosen.is_empty(),
    };
    let cards = known.rows.iter().map(|card| {
        let value = card.profile.id.0.to_string();
        Choice { is_chosen: value == chosen, value, label: card_name(&card.profile) }
    });
    Ok([new].into_iter().chain(cards).collect())
}

/// POST /requisitions/{id}.
pub(super) async fn change(
    acting: ActingMember,
    PathId(id): PathId,
    SiteForm(form): SiteForm<TypedFields>,
) -> Result<Response, ApiError> {
    let find = || async {
        let known = get_requisition(&acting, RequisitionId(id)).await?;
        let is_theirs = may_change(&acting, &known);
        is_theirs.then_some((WatchedObject::Row(id), known)).ok_or_else(ApiError::not_found)
    };
    let seen = |known: &Requisition| seen(known, &acting.company);
    let check = |known: &Requisition| seen(known).check(form.of("seen"));
    let saved = change_as_seen(&acting, find, check, async |state, known| {
        let company = &acting.company;
        let mut body = body_of(&form, (company.zone, company.currency), Some(&known));
        find_meant(&acting, &mut body).await?;
        change_requisition((acting.reader(&state), None), known.id, FormBody::of(body).fields()?)
            .await?;
        Ok(acting.go_on(&format!("/requisitions/{id}"), Notice::REQUISITION_SAVED))
    });
    match saved.await? {
        Ok(saved) => Ok(saved),
        Err((known, why)) => {
            let changed = seen(&known).changed_since(form.of("seen"));
            let (form, faults) = why.shown(form, faults_of)?;
            let said = RequisitionForms { form, faults, changed, ..RequisitionForms::default() };
            requisition_page(&acting, &known, said).await
        }
    }
}

/// Takes it back. POST /requisitions/{id}/cancel.
pub(super) async fn cancel(
    acting: ActingMember,
    PathId(id): PathId,
    SiteForm(form): SiteForm<ConfirmForm>,
) -> Result<Response, ApiError> {
    let known = get_requisition(&acting, RequisitionId(id)).await?;
    if !may_change(&acting, &known) {
        return Err(ApiError::not_found());
    }
    if !form.is_confirmed {
        let faults = Faults::alert_only("Tick the box to confirm.");
        let said = RequisitionForms { faults, ..RequisitionForms::default() };
        return requisition_page(&acting, &known, said).await;
    }
    match take_back((&acting).into(), known.id).await {
        Ok(()) => Ok(acting.go_on(&format!("/requisitions/{id}"), Notice::REQUISITION_CANCELED)),
        Err(error) => {
            let faults = Faults::of_refusal(error)?;
            let said = RequisitionForms { faults, ..RequisitionForms::default() };
            // The page shows the state that it has reached meanwhile.
            let known = get_requisition(&acting, known.id).await?;
            requisition_page(&acting, &known, said).await
        }
    }
}
