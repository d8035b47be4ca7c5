//! Categories, departments, labels and locations: four resources of one shape, and how other objects
//! set them. Source: spec "Categories, departments, labels, locations".
//!
//! The handlers serve all four; which one is meant stands in the path.

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::input::{Answer, JsonBody, ListQuery, PathId};
use cardswitch_edge::json::Json;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::dimension::{
    Dimension, DimensionChanges, DimensionCommand, NamedDimension, NewDimension,
};
use cardswitch_engine::domain::card::{DimensionKind, Dimensions};
use cardswitch_engine::domain::ids::{CompanyId, DimensionId};
use cardswitch_engine::limits;
use cardswitch_engine::store::StoreError;
use cardswitch_identity::auth::Call;
use cardswitch_wire::bodies;
use cardswitch_wire::body::{code, line, reference};
use cardswitch_wire::fault::Flaw;
use cardswitch_wire::fields::Fields;
use cardswitch_wire::page::{Listing, PageParameters};
use cardswitch_wire::query::Query;
use cardswitch_wire::reference::{DIMENSION_FIELDS, plural_of};
use cardswitch_wire::time::render_time;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::view::{BY_CREATION, Reader, View, list_view, read_view, unfiltered};

/// The most characters a name has.
const NAME_CHARS_MAX: usize = 200;
const _: () = assert!(NAME_CHARS_MAX * 4 <= limits::DIMENSION_NAME_BYTES_MAX);

/// A category, department, label or location as responses show it. Source: spec "Category,
/// department, label, location".
#[derive(Debug, Serialize, ToSchema)]
pub struct DimensionBody {
    id: Uuid,
    url: String,
    name: String,
    code: Option<String>,
    /// Parent object.
    #[schema(no_recursion)]
    parent: Option<Box<DimensionBody>>,
    created_at: String,
}

impl DimensionBody {
    /// The dimension as it is shown, with everything it stands below.
    /// Errors: a dimension above it cannot be read.
    pub fn new(dimension: &Dimension, view: &View<'_>) -> Result<Self, StoreError> {
        let mut line = vec![dimension.clone()];
        while let Some(parent) = line.last().and_then(|lowest| lowest.parent)
            && let Some(parent) = view.snapshot.row::<Dimension>(parent)?
        {
            line.push(parent);
        }
        let mut above = None;
        for dimension in line.iter().skip(1).rev() {
            above = Some(Box::new(Self::below(above, dimension, view)));
        }
        Ok(Self::below(above, dimension, view))
    }

    fn below(parent: Option<Box<Self>>, dimension: &Dimension, view: &View<'_>) -> Self {
        Self {
            id: dimension.id.0,
            url: view.urls.object(plural_of(dimension.kind), dimension.id.0),
            name: dimension.name.clone(),
            code: dimension.code.clone(),
            parent,
            created_at: render_time(dimension.created_at),
        }
    }
}

/// The kind of dimension that a path names.
#[derive(Clone, Copy, Debug)]
pub struct PathDimensionKind(pub DimensionKind);

impl<S: Send + Sync> FromRequestParts<S> for PathDimensionKind {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        let plural = parts.uri.path().split('/').nth(2);
        let kind = DimensionKind::ALL.into_iter().find(|kind| plural == Some(plural_of(*kind)));
        kind.map(Self).ok_or_else(ApiError::not_found)
    }
}

bodies! {
    /// A new category, department, label or location.
    NewDimensionBody "NewDimension" |fields| {
        let ids = (DimensionId(Uuid::nil()), CompanyId(Uuid::nil()));
        _ = parse_new(fields, ids, DimensionKind::Category);
    };
    /// Changes to a category, department, label or location: absent fields stay, null clears.
    DimensionUpdate "DimensionUpdate" |fields| _ = parse_changes(fields);
}

const CODE_ABOUT: &str = "Its number in accounting, which no other of its kind has.";
const PARENT_ABOUT: &str = "Parent object.";

/// The body of POST, read.
fn parse_new(
    fields: &mut Fields<'_>,
    (id, company): (DimensionId, CompanyId),
    kind: DimensionKind,
) -> NewDimension {
    NewDimension {
        id,
        company,
        kind,
        name: fields.must("name", "Its name.", line(NAME_CHARS_MAX)),
        code: fields.patch("code", CODE_ABOUT, code(limits::DIMENSION_CODE_DIGITS_MAX)).flatten(),
        parent: fields.patch("parent", PARENT_ABOUT, reference(DimensionId)).flatten(),
    }
}

/// The body of PUT.
fn parse_changes(fields: &mut Fields<'_>) -> DimensionChanges {
    DimensionChanges {
        name: fields.may("name", "Its name.", line(NAME_CHARS_MAX)),
        code: fields.patch("code", CODE_ABOUT, code(limits::DIMENSION_CODE_DIGITS_MAX)),
        parent: fields.patch("parent", PARENT_ABOUT, reference(DimensionId)),
    }
}

/// The change to each dimension of another object: absent, cleared or set. `about` describes its
/// category.
pub fn parse_dimensions(
    fields: &mut Fields<'_>,
    about: &'static str,
) -> [Option<Option<DimensionId>>; 4] {
    DIMENSION_FIELDS.map(|name| dimension(fields, name, about))
}

/// As `parse_dimensions`, of one kind.
pub(super) fn dimension(
    fields: &mut Fields<'_>,
    name: &str,
    about: &'static str,
) -> Option<Option<DimensionId>> {
    fields.patch(name, &about.replace("category", name), reference(DimensionId))
}

/// The dimensions that a list is narrowed to.
pub(super) fn filter_dimensions(query: &mut Query) -> Dimensions {
    let abouts =
        ["Of this category.", "Of this department.", "With this label.", "Of this location."];
    let mut fields = DIMENSION_FIELDS.into_iter().zip(abouts);
    [(); 4].map(|()| {
        let (name, about) = fields.next()?;
        query.id(name, about).map(DimensionId)
    })
}

/// Notes the dimensions of another object's body that name nothing.
pub fn fault_dimensions(fields: &mut Fields<'_>, is_unknown: [bool; 4]) {
    for (name, is_unknown) in DIMENSION_FIELDS.into_iter().zip(is_unknown) {
        if is_unknown {
            fields.fault(name, Flaw::not_found(name));
        }
    }
}

/// List dimensions, the newest first.
#[utoipa::path(
    get, path = "/v1/categories", params(PageParameters),
    responses((status = 200, body = Listing<DimensionBody>)),
)]
pub async fn list_dimensions(
    call: Call,
    PathDimensionKind(kind): PathDimensionKind,
    list: ListQuery,
) -> Answer<Json<Listing<DimensionBody>>> {
    list_view(&call, list, BY_CREATION, unfiltered, |view, (), page| {
        let found = view.snapshot.list_dimensions(view.company.slot, kind, page)?;
        found.load(|dimension| DimensionBody::new(&dimension, view))
    })
    .await
}

/// Retrieve one dimension.
#[utoipa::path(
    get, path = "/v1/categories/{category_id}", responses((status = 200, body = DimensionBody)),
)]
pub async fn get_dimension(
    call: Call,
    PathDimensionKind(kind): PathDimensionKind,
    PathId(id): PathId,
) -> Answer<Json<DimensionBody>> {
    read_dimension(&call, kind, DimensionId(id)).await.map(Json)
}

/// Errors: there is none, or none any more.
async fn read_dimension(
    call: &Call,
    kind: DimensionKind,
    id: DimensionId,
) -> Result<DimensionBody, ApiError> {
    let body = read_view(call, |view| {
        let dimension = view.find_dimension(kind, id)?;
        dimension.map(|dimension| DimensionBody::new(&dimension, view)).transpose()
    });
    body.await?.ok_or_else(ApiError::not_found)
}

/// Create one dimension.
#[utoipa::path(
    post, path = "/v1/categories", request_body = NewDimensionBody,
    responses((status = 201, body = DimensionBody)),
)]
pub async fn create_dimension(
    call: Call,
    PathDimensionKind(kind): PathDimensionKind,
    body: JsonBody,
) -> Answer<(StatusCode, Json<DimensionBody>)> {
    let id = make((&call).into(), kind, body.fields()?).await?;
    let body = read_dimension(&call, kind, id).await?;
    Ok((StatusCode::CREATED, Json(body)))
}

/// Makes one dimension of a company as the fields of a body say.
/// Errors: fields are at fault, or it was not made.
pub async fn make(
    reader: Reader<'_>,
    kind: DimensionKind,
    mut fields: Fields<'_>,
) -> Result<DimensionId, ApiError> {
    let id = DimensionId(reader.state.switch.new_id());
    let new = parse_new(&mut fields, (id, reader.company.id), kind);
    let parent = new.parent;
    let is_known = read_view(reader, |view| has_parent(view, kind, parent)).await?;
    fault_parent(&mut fields, is_known);
    fields.finish()?;
    reader.state.carry_out(AdminCommand::Dimension(DimensionCommand::Create(new))).await?;
    Ok(id)
}

/// Whether the parent is there; none always is.
fn has_parent(
    view: &View<'_>,
    kind: DimensionKind,
    parent: Option<DimensionId>,
) -> Result<bool, StoreError> {
    Ok(match parent {
        Some(id) => view.find_dimension(kind, id)?.is_some(),
        None => true,
    })
}

/// The shard says the same of a parent, but this way it is said with all other faults.
fn fault_parent(fields: &mut Fields<'_>, is_known: bool) {
    if !is_known {
        fields.fault("parent", Flaw::new("not_found", "names nothing of this kind and company"));
    }
}

/// Update one dimension.
#[utoipa::path(
    put, path = "/v1/categories/{category_id}", request_body = DimensionUpdate,
    responses((status = 200, body = DimensionBody)),
)]
pub async fn update_dimension(
    call: Call,
    PathDimensionKind(kind): PathDimensionKind,
    PathId(id): PathId,
    body: JsonBody,
) -> Answer<Json<DimensionBody>> {
    let id = DimensionId(id);
    change((&call).into(), (kind, id), body.fields()?).await?;
    read_dimension(&call, kind, id).await.map(Json)
}

/// Changes one dimension of a company as the fields of a body say.
/// Errors: there is none, fields are at fault, or the change was not made.
pub async fn change(
    reader: Reader<'_>,
    (kind, id): (DimensionKind, DimensionId),
    mut fields: Fields<'_>,
) -> Result<(), ApiError> {
    let changes = parse_changes(&mut fields);
    let parent = changes.parent.flatten();
    let (exists, is_known) = read_view(reader, |view| {
        Ok((view.find_dimension(kind, id)?.is_some(), has_parent(view, kind, parent)?))
    })
    .await?;
    if !exists {
        return Err(ApiError::not_found());
    }
    fault_parent(&mut fields, is_known);
    fields.finish()?;
    let named = NamedDimension { company: reader.company.id, kind, id };
    reader
        .state
        .carry_out(AdminCommand::Dimension(DimensionCommand::Update(named, changes)))
        .await?;
    Ok(())
}

/// Remove one dimension, also from cards and transactions that carry it.
#[utoipa::path(delete, path = "/v1/categories/{category_id}", responses((status = 204)))]
pub async fn delete_dimension(
    Call(state, caller): Call,
    PathDimensionKind(kind): PathDimensionKind,
    PathId(id): PathId,
) -> Answer<StatusCode> {
    let named = NamedDimension { company: caller.company.id, kind, id: DimensionId(id) };
    state.carry_out_unshown(AdminCommand::Dimension(DimensionCommand::Delete(named))).await?;
    Ok(StatusCode::NO_CONTENT)
}
