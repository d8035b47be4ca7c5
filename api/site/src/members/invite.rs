//! A new member. GET and POST /members/new.

use askama::Template;
use axum::response::Response;
use cardswitch_edge::error::ApiError;
use cardswitch_v1::routes::members::invite_member;

use super::form::{MemberForm, faults_of};
use crate::choices::Choice;
use crate::dimension_choices::{DimensionChoice, find_meant};
use crate::faults::{Faults, with_status};
use crate::forms::{FormBody, SiteForm};
use crate::frame;
use crate::notice::Notice;
use crate::rights::{ActingMember, MemberManager};

#[derive(Template)]
#[template(path = "members/new.html")]
struct NewMemberContent<'a> {
    csrf: String,
    company: &'a str,
    form: &'a MemberForm,
    faults: &'a Faults,
    roles: Vec<Choice>,
    dimensions: Vec<DimensionChoice>,
}

/// GET /members/new.
pub(super) async fn show(MemberManager(acting): MemberManager) -> Result<Response, ApiError> {
    new_page(&acting, &MemberForm::default(), &Faults::default()).await
}

async fn new_page(
    acting: &ActingMember,
    form: &MemberForm,
    faults: &Faults,
) -> Result<Response, ApiError> {
    let dimensions = acting.read(|view| form.choices(view, None)).await?;
    let content = NewMemberContent {
        csrf: acting.csrf(),
        company: &acting.company.name,
        form,
        faults,
        roles: form.roles(None),
        dimensions,
    };
    let page = frame::page("Invite a member", content);
    Ok(with_status(page, faults.status()))
}

/// POST /members/new.
pub(super) async fn invite(
    MemberManager(acting): MemberManager,
    SiteForm(form): SiteForm<MemberForm>,
) -> Result<Response, ApiError> {
    let mut body = form.body();
    find_meant(&acting, &mut body).await?;
    match invite_member(&acting.state, (&acting).into(), FormBody::of(body).fields()?).await {
        Ok(id) => Ok(acting.go_on(&format!("/members/{}", id.0), Notice::MEMBER_INVITED)),
        Err(error) => new_page(&acting, &form, &faults_of(error)?).await,
    }
}
