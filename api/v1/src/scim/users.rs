//! `/scim/v2/Users`: members, made, read, changed and removed by an identity provider.
//!
//! A removal here has every effect of a member's removal elsewhere.

use std::cell::RefCell;

use axum::http::StatusCode;
use axum::http::header::{HeaderValue, LOCATION};
use axum::response::{IntoResponse, Response};
use cardswitch_edge::error::ApiError;
use cardswitch_edge::write_error::WriteError;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::reply::Rejection;
use cardswitch_engine::directory::member::{
    Member, MemberChanges, MemberCommand, MemberRole, MemberState, NewMember,
};
use cardswitch_engine::domain::card::DimensionKind;
use cardswitch_engine::domain::ids::{DimensionId, MemberId};
use cardswitch_engine::store::StoreError;
use cardswitch_engine::store::query::{ListPage, Order, Page};
use cardswitch_identity::auth::{Call, Caller};
use cardswitch_identity::invitation::Invitation;
use cardswitch_wire::fault::Flaw;
use serde_json::json;
use uuid::Uuid;

use super::attribute::Field;
use super::draft::UserDraft;
use super::error::ScimError;
use super::filter::Filter;
use super::input::{ScimBody, ScimId, ScimQuery};
use super::patch;
use super::selection::{AttributeSelection, UserSelection};
use super::user::User;
use super::{ScimJson, list_response};
use crate::routes::members::{is_settable, role_not_settable};
use crate::routes::view::{View, read_lists, read_view};

/// The place of the department among the dimensions of a member.
const DEPARTMENT: usize = DimensionKind::Department as usize;

/// Lists users, the oldest first.
pub(super) async fn list_users(
    call: Call,
    ScimQuery(query): ScimQuery,
) -> Result<ScimJson, ScimError> {
    list(&call, UserSelection::of_query(&query)?).await
}

/// Lists users by what stands in a body instead of the address.
pub(super) async fn search_users(call: Call, body: ScimBody) -> Result<ScimJson, ScimError> {
    list(&call, UserSelection::of_body(&body.object()?)?).await
}

async fn list(call: &Call, wanted: UserSelection) -> Result<ScimJson, ScimError> {
    let page = Page {
        offset: wanted.start_index - 1,
        order: Order::OldestFirst,
        ..Page::first(wanted.count)
    };
    let listed = read_lists(call, |view| {
        let listed = find(view, wanted.filter.as_ref(), &page)?;
        let users = listed.rows.into_iter().map(|member| {
            let user = User::new(member, view)?;
            Ok(wanted.shown.of(user.body(view.urls)))
        });
        Ok((listed.count, users.collect::<Result<Vec<_>, StoreError>>()?))
    });
    let (count, users) = listed.await?;
    Ok(ScimJson(list_response(count, wanted.start_index, users)))
}

/// The members that a filter finds. Cost: O(members of the company), but for a filter that asks for
/// one name or id, as identity providers do before anything else.
fn find(
    view: &View<'_>,
    filter: Option<&Filter>,
    page: &Page,
) -> Result<ListPage<Member>, StoreError> {
    let company = view.company.slot;
    let Some(filter) = filter else {
        return view.snapshot.list_members(company, page, |_| true);
    };
    let sole = match filter.sole_text() {
        Some((Field::UserName | Field::Email, email)) => {
            view.snapshot.member_by_email(company, email)?
        }
        Some((Field::ExternalId, id)) => view.snapshot.member_by_external_id(company, id)?,
        _ => return search(view, filter, page),
    };
    let found = sole.filter(|member| member.state != MemberState::Deleted);
    let count = u64::from(found.is_some());
    Ok(ListPage { count, rows: found.into_iter().skip(page.offset).take(page.limit).collect() })
}

fn search(view: &View<'_>, filter: &Filter, page: &Page) -> Result<ListPage<Member>, StoreError> {
    let failure = RefCell::new(None);
    let accepts = |member: &Member| match User::new(member.clone(), view) {
        Ok(user) => user.is_found_by(filter),
        Err(error) => {
            failure.replace(Some(error));
            false
        }
    };
    let listed = view.snapshot.list_members(view.company.slot, page, accepts);
    failure.into_inner().map_or(listed, Err)
}

/// Shows a user.
pub(super) async fn get_user(
    call: Call,
    ScimId(id): ScimId,
    ScimQuery(query): ScimQuery,
) -> Result<ScimJson, ScimError> {
    show(&call, id, &AttributeSelection::of_query(&query)?).await
}

async fn show(
    call: &Call,
    id: MemberId,
    shown: &AttributeSelection,
) -> Result<ScimJson, ScimError> {
    let user = read_user(call, id).await?;
    Ok(ScimJson(shown.of(user.body(call.0.urls()))))
}

/// Errors: there is no such user; one that was deleted is not there either.
async fn read_user(call: &Call, id: MemberId) -> Result<User, ApiError> {
    let user = read_view(call, |view| find_user(view, id));
    user.await?.ok_or_else(ApiError::not_found)
}

fn find_user(view: &View<'_>, id: MemberId) -> Result<Option<User>, StoreError> {
    let found = view.find_member(id)?;
    let found = found.filter(|member| member.state != MemberState::Deleted);
    found.map(|member| User::new(member, view)).transpose()
}

/// Makes a user, who is invited by mail unless it does not take part yet.
pub(super) async fn create_user(
    call: Call,
    ScimQuery(query): ScimQuery,
    body: ScimBody,
) -> Result<Response, ScimError> {
    let Call(state, caller) = &call;
    let shown = AttributeSelection::of_query(&query)?;
    let draft = UserDraft::read(&body.object()?)?;
    let department = read_lists(&call, |view| department(view, &draft)).await?;
    let invitation = Invitation::draw(state)?;
    let new = NewMember {
        invite: Some(invitation.invite.clone()),
        ..new_member(state.switch.new_id(), &draft, (caller, department?))?
    };
    let id = new.id;
    let (command, news) =
        (AdminCommand::Member(MemberCommand::Create(new)), invitation.news(&caller.company));
    state.carry_out_and_tell(command, Some(news)).await.map_err(refused)?;
    let ScimJson(body) = show(&call, id, &shown).await?;
    let location = state.urls().path(&format!("/scim/v2/Users/{}", id.0));
    let mut response = (StatusCode::CREATED, ScimJson(body)).into_response();
    if let Ok(location) = HeaderValue::try_from(location) {
        response.headers_mut().insert(LOCATION, location);
    }
    Ok(response)
}

/// The member that a draft makes.
/// Errors: something is missing that every user has; a role that cannot be given.
fn new_member(
    id: Uuid,
    draft: &UserDraft,
    (caller, department): (&Caller, Option<DimensionId>),
) -> Result<NewMember, ApiError> {
    fn wanted<T: Clone>(value: &Option<T>, name: &str) -> Result<T, ApiError> {
        value.clone().ok_or_else(|| required(name))
    }
    let role = draft.role.unwrap_or(MemberRole::Member);
    if !is_settable(role) {
        return Err(ApiError::invalid_field("userType", role_not_settable()));
    }
    let mut dimensions = [None; 4];
    dimensions[DEPARTMENT] = department;
    Ok(NewMember {
        id: MemberId(id),
        company: caller.company.id,
        first_name: wanted(&draft.given_name, "name.givenName")?,
        last_name: wanted(&draft.family_name, "name.familyName")?,
        email: wanted(&draft.user_name, "userName")?,
        role,
        code: draft.employee_number.clone(),
        dimensions,
        external_id: draft.external_id.clone(),
        is_active: draft.active.unwrap_or(true),
        invite: None,
    })
}

/// Replaces a user. An attribute that is not sent is removed where a user can be without it, and
/// else stays.
pub(super) async fn replace_user(
    call: Call,
    ScimId(id): ScimId,
    ScimQuery(query): ScimQuery,
    body: ScimBody,
) -> Result<ScimJson, ScimError> {
    let shown = AttributeSelection::of_query(&query)?;
    let user = read_user(&call, id).await?;
    let sent = UserDraft::read(&body.object()?)?;
    let user_name = sent.user_name.as_deref().ok_or_else(|| required("userName"))?;
    let known = UserDraft::of(&user);
    let mut draft = UserDraft {
        given_name: sent.given_name.or(known.given_name),
        family_name: sent.family_name.or(known.family_name),
        active: sent.active.or(known.active),
        role: sent.role.or(known.role),
        user_name: known.user_name,
        ..sent
    };
    draft.set(super::attribute::Target::UserName, &json!(user_name))?;
    settle(&call, &user, &draft).await?;
    show(&call, id, &shown).await
}

fn required(name: &str) -> ApiError {
    ApiError::invalid_field(name, Flaw::required())
}

/// Changes a user by operations.
pub(super) async fn patch_user(
    call: Call,
    ScimId(id): ScimId,
    ScimQuery(query): ScimQuery,
    body: ScimBody,
) -> Result<ScimJson, ScimError> {
    let shown = AttributeSelection::of_query(&query)?;
    let user = read_user(&call, id).await?;
    let mut draft = UserDraft::of(&user);
    patch::apply(&mut draft, &body.object()?)?;
    settle(&call, &user, &draft).await?;
    show(&call, id, &shown).await
}

/// Makes a user what the draft is, by one change or none.
async fn settle(call: &Call, user: &User, draft: &UserDraft) -> Result<(), ScimError> {
    let Call(state, caller) = call;
    let known = UserDraft::of(user);
    if *draft == known {
        return Ok(());
    }
    let role = draft.role.filter(|_| draft.role != known.role);
    if role.is_some_and(|role| !is_settable(role)) {
        return Err(ApiError::invalid_field("userType", role_not_settable()).into());
    }
    let mut dimensions = [None; 4];
    if draft.department != known.department {
        let found = read_lists(call, |view| department(view, draft)).await?;
        dimensions[DEPARTMENT] = Some(found?);
    }
    fn optional<T: Clone + PartialEq>(wanted: &Option<T>, known: &Option<T>) -> Option<Option<T>> {
        (wanted != known).then(|| wanted.clone())
    }
    let changed = |wanted, known| optional(wanted, known).flatten();
    let is_active = draft.active.filter(|_| draft.active != known.active);
    let invitation = Invitation::of_change(state, is_active)?;
    let changes = MemberChanges {
        first_name: changed(&draft.given_name, &known.given_name),
        last_name: changed(&draft.family_name, &known.family_name),
        role,
        code: optional(&draft.employee_number, &known.employee_number),
        is_active,
        dimensions,
        external_id: optional(&draft.external_id, &known.external_id),
        invite: invitation.as_ref().map(|invitation| invitation.invite.clone()),
    };
    let command =
        AdminCommand::Member(MemberCommand::Update(caller.company.id, user.member.id, changes));
    let news = invitation.map(|invitation| invitation.news(&caller.company));
    state.carry_out_and_tell(command, news).await.map_err(refused)
}

/// Removes a user.
pub(super) async fn delete_user(call: Call, ScimId(id): ScimId) -> Result<StatusCode, ScimError> {
    let Call(state, caller) = &call;
    // A deleted member counts as missing here, though its row exists.
    read_user(&call, id).await?;
    let command = AdminCommand::Member(MemberCommand::Delete(caller.company.id, id));
    state.carry_out(command).await.map_err(refused)?;
    Ok(StatusCode::NO_CONTENT)
}

/// The department that a draft names by its code or its name; of several of one name the oldest.
fn department(
    view: &View<'_>,
    draft: &UserDraft,
) -> Result<Result<Option<DimensionId>, ApiError>, StoreError> {
    let Some(wanted) = &draft.department else { return Ok(Ok(None)) };
    let page = Page { order: Order::OldestFirst, ..Page::first(usize::MAX) };
    let kind = DimensionKind::Department;
    let known = view.snapshot.list_dimensions(view.company.slot, kind, &page)?.rows;
    let name = wanted.to_lowercase();
    let by_code = known.iter().find(|known| known.code.as_deref() == Some(wanted.as_str()));
    let found = by_code.or_else(|| known.iter().find(|known| known.name.to_lowercase() == name));
    let unknown = || ApiError::invalid_field("department", Flaw::not_found("department"));
    Ok(found.map(|found| Some(found.id)).ok_or_else(unknown))
}

/// The error of a change that was refused.
fn refused(error: WriteError) -> ScimError {
    match error {
        WriteError::Rejected(Rejection::MemberNotFound | Rejection::MemberDeleted) => {
            ApiError::not_found().into()
        }
        WriteError::Rejected(rejection) => {
            let names = [("email", "userName"), ("code", "employeeNumber")];
            ApiError::rejected(rejection).renamed(&names).into()
        }
        error => ApiError::from(error).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Refusals once named `email`. A SCIM user has no such attribute.
    #[test]
    fn refusals_name_the_attribute() {
        for (rejection, attribute) in [
            (Rejection::EmailTaken, "`userName`"),
            (Rejection::MemberCodeTaken, "`employeeNumber`"),
        ] {
            let ScimError(error) = refused(WriteError::Rejected(rejection));
            assert_eq!(error.message(), format!("{attribute} is that of another member"));
        }
    }
}
