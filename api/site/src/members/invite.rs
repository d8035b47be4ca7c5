//! A new member. GET and POST /members/new.

use askama::Template;
use axum::response::Response;
use cardswitch_edge::error::ApiError;
use cardswitch_v1::routes::members::invite_member;

use super::form::{KINDS, body_of, faults_of, roles};
use crate::choices::Choice;
use crate::dimension_choices::{DimensionChoice, find_meant};
use crate::faults::{Faults, with_status};
use crate::forms::{FormBody, SiteForm, TypedFields};
use crate::frame;
use crate::notice::Notice;
use crate::rights::{ActingMember, MemberManager};

#[derive(Template)]
#[template(path = "members/new.html")]
struct NewMemberContent<'a> {
    csrf: String,
    company: &'a str,
    form: &'a TypedFields,
    faults: &'a Faults,
    roles: Vec<Choice>,
    dimensions: Vec<DimensionChoice>,
}

/// GET /members/new.
pub(super) async fn show(MemberManager(acting): MemberManager) -> Result<Response, ApiError> {
    new_page(&acting, &TypedFields::default(), &Faults::default()).await
}

async fn new_page(
    acting: &ActingMember,
    form: &TypedFields,
    faults: &Faults,
) -> Result<Response, ApiError> {
    let dimensions = acting.read(|view| form.dimension_choices(view, &KINDS, None)).await?;
    let content = NewMemberContent {
        csrf: acting.csrf(),
        company: &acting.company.name,
        form,
        faults,
        roles: roles(form, None),
        dimensions,
    };
    let page = frame::page("Invite a member", content);
    Ok(with_status(page, faults.status))
}

/// POST /members/new.
pub(super) async fn invite(
    MemberManager(acting): MemberManager,
    SiteForm(form): SiteForm<TypedFields>,
) -> Result<Response, ApiError> {
    let mut body = body_of(&form);
    find_meant(&acting, &mut body).await?;
    match invite_member((&acting).into(), FormBody::of(body).fields()?).await {
        Ok(id) => Ok(acting.go_on(&format!("/members/{}", id.0), Notice::MEMBER_INVITED)),
        Err(error) => new_page(&acting, &form, &faults_of(error)?).await,
    }
}
