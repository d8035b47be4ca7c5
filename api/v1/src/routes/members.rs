//! Members: people who are assigned cards, ask for purchases and review them. Source: spec "Members".

use axum::http::StatusCode;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::input::{Answer, JsonBody, ListQuery, PathId};
use cardswitch_edge::json::Json;
use cardswitch_edge::write_error::WriteError;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::reply::Rejection;
use cardswitch_engine::directory::member::{
    Member, MemberChanges, MemberCommand, MemberRole, MemberState, NewMember,
};
use cardswitch_engine::domain::ids::{CompanyId, DimensionId, MemberId};
use cardswitch_engine::domain::text::LineText;
use cardswitch_engine::store::StoreError;
use cardswitch_engine::store::query::{ListPage, Page};
use cardswitch_identity::auth::Call;
use cardswitch_identity::invitation::Invitation;
use cardswitch_wire::bodies;
use cardswitch_wire::body::{self, ValueRule, email, flag, line, part, rule};
use cardswitch_wire::fault::Flaw;
use cardswitch_wire::fields::{self, Fields};
use cardswitch_wire::page::{Listing, PageParameters, is_within, page_of};
use cardswitch_wire::queries;
use cardswitch_wire::query::{Query, any_text};
use cardswitch_wire::reference::{DIMENSION_FIELDS, DimensionReference};
use cardswitch_wire::time::render_time;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;
use uuid::Uuid;

use super::dimensions::{dimension, fault_dimensions};
use super::view::{BY_CREATION, Reader, View, list_view, read_view};
use crate::words;

/// The most characters a first or last name has.
pub const NAME_CHARS_MAX: usize = 100;
/// The most digits an employee id has.
const CODE_DIGITS_MAX: usize = 20;

/// A member as responses show it. Source: spec "Member".
#[derive(Debug, Serialize, ToSchema)]
pub struct MemberBody {
    id: Uuid,
    url: String,
    first_name: String,
    last_name: String,
    #[schema(value_type = words::MemberRole)]
    role: &'static str,
    code: Option<String>,
    email: String,
    is_active: bool,
    department: Option<DimensionReference>,
    location: Option<DimensionReference>,
    label: Option<DimensionReference>,
    created_at: String,
}

impl MemberBody {
    /// The member as it is shown.
    /// Errors: an object that it refers to cannot be read.
    pub fn new(member: &Member, view: &View<'_>) -> Result<Self, StoreError> {
        let [_, department, label, location] = view.dimension_references(&member.dimensions)?;
        Ok(Self {
            id: member.id.0,
            url: view.urls.object("members", member.id.0),
            first_name: member.first_name.clone(),
            last_name: member.last_name.clone(),
            role: member.role.word(),
            code: member.code.clone(),
            email: member.email.clone(),
            is_active: member.state == MemberState::Active,
            department,
            location,
            label,
            created_at: render_time(member.created_at),
        })
    }
}

/// Whether the API can give a member this role; the others are given by operators.
pub const fn is_settable(role: MemberRole) -> bool {
    matches!(role, MemberRole::Member | MemberRole::Reviewer)
}

/// The flaw of a role that cannot be given.
pub fn role_not_settable() -> Flaw {
    Flaw::new("unknown_value", "must be `member` or `reviewer`")
}

fn any_role(value: &RawValue) -> Result<MemberRole, Flaw> {
    let text = fields::text(value).unwrap_or_default();
    MemberRole::parse(&text).ok_or_else(role_not_settable)
}

fn settable_role(value: &RawValue) -> Result<MemberRole, Flaw> {
    any_role(value).and_then(
        |role| {
            if is_settable(role) { Ok(role) } else { Err(role_not_settable()) }
        },
    )
}

bodies! {
    /// A member to be invited.
    InvitedMember "InvitedMember" |fields| {
        _ = parse_new_member(fields, (MemberId(Uuid::nil()), CompanyId(Uuid::nil())));
    };
    /// Changes of a member; absent fields stay, null clears.
    MemberUpdate "MemberUpdate" |fields| _ = parse_member_changes(fields);
}

queries! {
    /// The filters of a list of members.
    MemberFilters |query| _ = ListMembersRequest::parse(query);
}

const CODE_ABOUT: &str = "An employee id, which nobody else in the company has.";

/// The body of POST /v1/members, read.
fn parse_new_member(fields: &mut Fields<'_>, (id, company): (MemberId, CompanyId)) -> NewMember {
    let about = "Their address, which nobody else in the company has.";
    NewMember {
        id,
        company,
        first_name: fields.must("first_name", "First name.", line(NAME_CHARS_MAX)),
        last_name: fields.must("last_name", "Last name.", line(NAME_CHARS_MAX)),
        email: fields.must("email", about, email()),
        role: fields.may("role", ROLE_ABOUT, role(settable_role)).unwrap_or(MemberRole::Member),
        code: fields.patch("code", CODE_ABOUT, body::code(CODE_DIGITS_MAX)).flatten(),
        dimensions: parse_dimensions(fields).map(Option::flatten),
        external_id: None,
        is_active: true,
        invite: None,
    }
}

/// The body of PUT /v1/members/:member_id.
fn parse_member_changes(fields: &mut Fields<'_>) -> MemberChanges {
    let about = "Whether the member is active. Reactivation restores nothing that leaving ended.";
    MemberChanges {
        first_name: fields.may("first_name", "First name.", line(NAME_CHARS_MAX)),
        last_name: fields.may("last_name", "Last name.", line(NAME_CHARS_MAX)),
        role: fields.may("role", ROLE_ABOUT, role(any_role)),
        code: fields.patch("code", CODE_ABOUT, body::code(CODE_DIGITS_MAX)),
        is_active: fields.may("is_active", about, flag().example("true")),
        dimensions: parse_dimensions(fields),
        external_id: None,
        invite: None,
    }
}

const ROLE_ABOUT: &str = "Role.";

fn role<'a>(read: fn(&RawValue) -> Result<MemberRole, Flaw>) -> impl ValueRule<'a, MemberRole> {
    rule(part::<words::SettableMemberRole>, read)
}

/// Reads a first or last name.
pub fn name(value: &RawValue) -> Result<LineText, Flaw> {
    fields::line(value, NAME_CHARS_MAX)
}

/// Reads an employee id.
pub fn code(value: &RawValue) -> Result<String, Flaw> {
    fields::digits(value, CODE_DIGITS_MAX)
}

/// The change to each dimension: absent, cleared or set. Members have no category.
fn parse_dimensions(fields: &mut Fields<'_>) -> [Option<Option<DimensionId>>; 4] {
    DIMENSION_FIELDS.map(|name| {
        let is_theirs = name != "category";
        is_theirs.then(|| dimension(fields, name, "Their category.")).flatten()
    })
}

/// The filters of GET /v1/members.
#[derive(Debug)]
struct ListMembersRequest {
    email: Option<String>,
    is_active: Option<bool>,
}

impl ListMembersRequest {
    fn parse(query: &mut Query) -> Self {
        let about = "Active members only, or inactive ones; both if absent.";
        let email = query.noted("email", "With this address, in any case.", any_text);
        Self { email: email.map(str::to_owned), is_active: query.flag("is_active", about) }
    }

    fn accepts(&self, member: &Member) -> bool {
        let is_active = member.state == MemberState::Active;
        self.is_active.is_none_or(|wanted| wanted == is_active)
    }

    /// The members that fit; an address is looked up, since at most one has it.
    fn list(&self, view: &View<'_>, page: &Page) -> Result<ListPage<Member>, StoreError> {
        let company = view.company.slot;
        let Some(email) = &self.email else {
            return view.snapshot.list_members(company, page, |member| self.accepts(member));
        };
        let found = view.snapshot.member_by_email(company, email)?;
        let found =
            found.filter(|member| self.accepts(member) && is_within(page, member.created_at));
        Ok(page_of(found.into_iter().collect(), page))
    }
}

/// List members, the newest first.
#[utoipa::path(
    get, path = "/v1/members", params(PageParameters, MemberFilters),
    responses((status = 200, body = Listing<MemberBody>)),
)]
pub async fn list_members(call: Call, list: ListQuery) -> Answer<Json<Listing<MemberBody>>> {
    list_view(&call, list, BY_CREATION, ListMembersRequest::parse, |view, request, page| {
        request.list(view, page)?.load(|member| MemberBody::new(&member, view))
    })
    .await
}

/// Retrieve a member, a deleted one too.
#[utoipa::path(get, path = "/v1/members/{member_id}", responses((status = 200, body = MemberBody)))]
pub async fn get_member(call: Call, PathId(id): PathId) -> Answer<Json<MemberBody>> {
    read_member(&call, MemberId(id)).await.map(Json)
}

/// Errors: the company has no such member.
async fn read_member(call: &Call, id: MemberId) -> Result<MemberBody, ApiError> {
    let body = read_view(call, |view| {
        let member = view.find_member(id)?;
        member.map(|member| MemberBody::new(&member, view)).transpose()
    });
    body.await?.ok_or_else(ApiError::not_found)
}

/// Invite a member.
#[utoipa::path(
    post, path = "/v1/members", request_body = InvitedMember,
    responses((status = 201, body = MemberBody)),
)]
pub async fn create_member(call: Call, body: JsonBody) -> Answer<(StatusCode, Json<MemberBody>)> {
    let id = invite_member((&call).into(), body.fields()?).await?;
    Ok((StatusCode::CREATED, Json(read_member(&call, id).await?)))
}

/// Makes the member that `fields` describe, and has the invitation sent.
/// Errors: faults of the fields, or the reason why there can be no such member.
pub async fn invite_member(
    reader: Reader<'_>,
    mut fields: Fields<'_>,
) -> Result<MemberId, ApiError> {
    let company = reader.company;
    let invitation = Invitation::draw(reader.state)?;
    let id = MemberId(reader.state.switch.new_id());
    let new = NewMember {
        invite: Some(invitation.invite.clone()),
        ..parse_new_member(&mut fields, (id, company.id))
    };
    let read = |view: &View<'_>| view.unknown_dimensions(&new.dimensions);
    let unknown = read_view(reader, read).await?;
    fault_dimensions(&mut fields, unknown);
    fields.finish()?;
    let (command, news) =
        (AdminCommand::Member(MemberCommand::Create(new)), invitation.news(company));
    reader.state.carry_out_and_tell(command, Some(news)).await?;
    Ok(id)
}

/// Update a member.
#[utoipa::path(
    put, path = "/v1/members/{member_id}", request_body = MemberUpdate,
    responses((status = 200, body = MemberBody)),
)]
pub async fn update_member(
    call: Call,
    PathId(id): PathId,
    body: JsonBody,
) -> Answer<Json<MemberBody>> {
    let id = MemberId(id);
    change_member((&call).into(), id, body.fields()?).await?;
    read_member(&call, id).await.map(Json)
}

/// Changes a member as `fields` say.
/// Errors: faults of the fields, or the reason against the change; the company has no such member.
pub async fn change_member(
    reader: Reader<'_>,
    id: MemberId,
    mut fields: Fields<'_>,
) -> Result<(), ApiError> {
    let company = reader.company;
    let mut changes = parse_member_changes(&mut fields);
    let invitation = Invitation::of_change(reader.state, changes.is_active)?;
    changes.invite = invitation.as_ref().map(|invitation| invitation.invite.clone());
    let dimensions = changes.dimensions.map(Option::flatten);
    let (known, unknown) = read_view(reader, |view| {
        Ok((view.find_member(id)?, view.unknown_dimensions(&dimensions)?))
    })
    .await?;
    let known = known.ok_or_else(ApiError::not_found)?;
    // A client can send back the role that it read, even one that cannot be set. One that can is set
    // whatever the role has become meanwhile.
    changes.role = changes.role.filter(|role| is_settable(*role) || *role != known.role);
    if changes.role.is_some_and(|role| !is_settable(role)) {
        fields.fault("role", role_not_settable());
    }
    fault_dimensions(&mut fields, unknown);
    fields.finish()?;
    let command = AdminCommand::Member(MemberCommand::Update(company.id, id, changes));
    let news = invitation.map(|invitation| invitation.news(company));
    Ok(reader.state.carry_out_and_tell(command, news).await?)
}

/// Remove a member and close their cards.
#[utoipa::path(delete, path = "/v1/members/{member_id}", responses((status = 204)))]
pub async fn delete_member(call: Call, PathId(id): PathId) -> Answer<StatusCode> {
    remove_member((&call).into(), MemberId(id)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Removes a member.
/// Errors: the company has no such member, or cannot be without.
pub async fn remove_member(reader: Reader<'_>, id: MemberId) -> Result<(), ApiError> {
    let command = AdminCommand::Member(MemberCommand::Delete(reader.company.id, id));
    match reader.state.carry_out_unshown(command).await {
        Ok(()) => Ok(()),
        Err(WriteError::Rejected(Rejection::MemberNotFound)) => Err(ApiError::not_found()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults_of(fields: Fields<'_>) -> Vec<(String, &'static str)> {
        let faults = fields.finish().err().unwrap_or_default();
        faults.into_iter().map(|fault| (fault.param, fault.flaw.code)).collect()
    }

    #[test]
    fn each_field_of_a_new_member_is_checked() {
        let rows: &[(&str, &str, Option<&str>)] = &[
            ("first_name", "null", Some("required")),
            ("first_name", r#"" ""#, Some("blank")),
            ("first_name", "5", Some("not_text")),
            ("first_name", r#""A\u0007da""#, Some("control_character")),
            ("last_name", r#""""#, Some("blank")),
            ("email", r#""ada""#, Some("not_an_email")),
            ("email", "[]", Some("not_text")),
            ("role", r#""reviewer""#, None),
            ("role", r#""administrator""#, Some("unknown_value")),
            ("role", r#""accountant""#, Some("unknown_value")),
            ("role", "null", Some("null")),
            ("role", "1", Some("unknown_value")),
            ("code", "null", None),
            ("code", r#""0042""#, None),
            ("code", "42", None),
            ("code", "-1", Some("not_digits")),
            ("code", "1.5", Some("not_digits")),
            ("code", r#""4a""#, Some("not_digits")),
            ("department", "null", None),
            ("department", r#""x""#, Some("not_a_reference")),
            ("label", "{}", Some("not_a_reference")),
            // Members have none, so nobody looks.
            ("category", r#""x""#, None),
        ];
        for (name, value, code) in rows {
            let json = format!(
                r#"{{"first_name": "Ada", "last_name": "Lovelace", "email": "ada@example.com", "{name}": {value}}}"#
            );
            let mut fields = Fields::parse(json.as_bytes()).unwrap();
            parse_new_member(&mut fields, (MemberId(Uuid::nil()), CompanyId(Uuid::nil())));
            let expected: Vec<_> = code.iter().map(|code| ((*name).to_owned(), *code)).collect();
            assert_eq!(faults_of(fields), expected, "{json}");
        }
    }

    #[test]
    fn absent_stays_and_the_address_cannot_change() {
        let json = br#"{"email": 5, "id": 7, "code": null, "is_active": false}"#;
        let mut fields = Fields::parse(json).unwrap();
        let changes = parse_member_changes(&mut fields);
        assert_eq!((changes.code, changes.is_active), (Some(None), Some(false)));
        assert_eq!((changes.first_name, changes.last_name, changes.role), (None, None, None));
        assert_eq!(faults_of(fields), []);
    }
}
