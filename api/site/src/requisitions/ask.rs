//! A new requisition: everybody asks for themselves, administrators for others as well.
//! GET and POST /requisitions/new.

use askama::Template;
use axum::http::StatusCode;
use axum::response::Response;
use cardswitch_edge::error::ApiError;
use cardswitch_engine::directory::member::Member;
use cardswitch_engine::domain::card::DimensionKind;
use cardswitch_engine::limits;
use cardswitch_engine::store::StoreError;
use cardswitch_engine::store::query::Page;
use cardswitch_v1::routes::requisitions::{ask_for, check_network};
use cardswitch_v1::routes::view::View;
use cardswitch_wire::currency::render_currency;
use serde_json::json;

use super::form::{body_of, faults_of};
use super::list::barrier;
use crate::choices::Choice;
use crate::dimension_choices::{DimensionChoice, find_meant};
use crate::error_page::error_page;
use crate::faults::{Faults, with_status};
use crate::forms::{FormBody, SiteForm, TypedFields};
use crate::frame;
use crate::notice::Notice;
use crate::rights::ActingMember;
use crate::words::person;

#[derive(Template)]
#[template(path = "requisitions/new.html")]
struct NewRequisitionContent<'a> {
    csrf: String,
    company: &'a str,
    currency: String,
    form: &'a TypedFields,
    faults: &'a Faults,
    members: Vec<Choice>,
    dimensions: Vec<DimensionChoice>,
}

/// GET /requisitions/new.
pub(super) async fn show(acting: ActingMember) -> Result<Response, ApiError> {
    if let Err(error) = check_network((&acting).into()) {
        return Ok(error_page(StatusCode::CONFLICT, "No requisitions here", &barrier(error)));
    }
    new_page(&acting, &TypedFields::default(), &Faults::default()).await
}

async fn new_page(
    acting: &ActingMember,
    form: &TypedFields,
    faults: &Faults,
) -> Result<Response, ApiError> {
    let (members, dimensions) = acting
        .read(|view| {
            let dimensions = form.dimension_choices(view, &DimensionKind::ALL, None)?;
            Ok((members_for(view, acting, form.of("member"))?, dimensions))
        })
        .await?;
    let content = NewRequisitionContent {
        csrf: acting.csrf(),
        company: &acting.company.name,
        currency: render_currency(acting.company.currency),
        form,
        faults,
        members,
        dimensions,
    };
    let page = frame::page("Request a purchase", content);
    Ok(with_status(page, faults.status))
}

/// The members for whom the visitor may ask; none where they may ask for themselves only.
fn members_for(
    view: &View<'_>,
    acting: &ActingMember,
    chosen: &str,
) -> Result<Vec<Choice>, StoreError> {
    if !acting.session.is_administrator() {
        return Ok(Vec::new());
    }
    let page = Page::first(limits::PAGE_LEN_MAX);
    let known = view.snapshot.list_members(view.company.slot, &page, Member::takes_part)?;
    let own = acting.member.id.0.to_string();
    let chosen = if chosen.is_empty() { own.as_str() } else { chosen };
    let choice = |member: &Member| {
        let value = member.id.0.to_string();
        let name = person(&member.first_name, &member.last_name, &member.email);
        let label = if value == own { format!("{name} (you)") } else { name };
        Choice { is_chosen: value == chosen, value, label }
    };
    let mut members: Vec<_> = known.rows.iter().map(choice).collect();
    members.sort_by_cached_key(|member| (member.value != own, member.label.to_lowercase()));
    Ok(members)
}

/// POST /requisitions/new.
pub(super) async fn ask(
    acting: ActingMember,
    SiteForm(form): SiteForm<TypedFields>,
) -> Result<Response, ApiError> {
    let mut body = body_of(&form, (acting.company.zone, acting.company.currency), None);
    find_meant(&acting, &mut body).await?;
    let other = form.of("member");
    if acting.session.is_administrator() && !other.is_empty() {
        body.insert("member".to_owned(), json!({ "id": other }));
    }
    let own = Some(acting.member.id);
    match ask_for((&acting).into(), own, FormBody::of(body).fields()?).await {
        Ok(id) => Ok(acting.go_on(&format!("/requisitions/{}", id.0), Notice::REQUISITION_MADE)),
        Err(error) => new_page(&acting, &form, &faults_of(error)?).await,
    }
}
