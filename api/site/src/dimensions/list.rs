//! All of one kind, as a tree, and a new one. GET and POST /dimensions/{kind}.

use askama::Template;
use axum::extract::Query;
use axum::response::Response;
use cardswitch_edge::error::ApiError;
use cardswitch_engine::domain::card::DimensionKind;
use cardswitch_engine::domain::ids::DimensionId;
use cardswitch_v1::routes::dimensions::make;
use cardswitch_wire::fields::parse_id;

use super::form::{body_of, parent_choices};
use super::tree::{Branch, tree};
use super::{KindTab, KindWords, PathDimensionKind, kind_words, tabs};
use crate::dimension_choices::{DimensionChoice, find_meant_in};
use crate::faults::{Faults, with_status};
use crate::forms::{FormBody, SiteForm, TypedFields};
use crate::frame;
use crate::notice::Notice;
use crate::pager::{Pager, Part};
use crate::rights::{ActingMember, DimensionManager};
use crate::words::grouped;

#[derive(Template)]
#[template(path = "dimensions/list.html")]
struct DimensionListContent<'a> {
    csrf: String,
    company: &'a str,
    words: KindWords,
    tabs: [KindTab; 4],
    rows: Vec<DimensionLine>,
    pager: Pager,
    /// How many there are where not all are listed; blank otherwise.
    unlisted: String,
    parents: DimensionChoice,
    fields: &'a TypedFields,
    faults: &'a Faults,
}

struct DimensionLine {
    id: String,
    name: String,
    code: String,
    level: usize,
}

/// GET /dimensions/{kind}.
pub(super) async fn list_dimensions(
    DimensionManager(acting): DimensionManager,
    PathDimensionKind(kind): PathDimensionKind,
    Query(part): Query<Part>,
) -> Result<Response, ApiError> {
    let blank = (&TypedFields::default(), &Faults::default());
    list_page(&acting, (kind, part), blank).await
}

async fn list_page(
    acting: &ActingMember,
    (kind, part): (DimensionKind, Part),
    (fields, faults): (&TypedFields, &Faults),
) -> Result<Response, ApiError> {
    let parent = parse_id(fields.of("parent").trim()).map(DimensionId);
    let tree = acting.read_lists(|view| tree(view, kind, parent)).await?;
    let branches = &tree.branches;
    let is_whole = tree.count <= branches.len() as u64;
    let words = kind_words(kind);
    let shown = part.page();
    let rows: Vec<_> =
        branches.iter().skip(shown.offset).take(shown.limit).map(DimensionLine::of).collect();
    let content = DimensionListContent {
        csrf: acting.csrf(),
        company: &acting.company.name,
        words,
        tabs: tabs(kind),
        pager: Pager::new(part, rows.len(), branches.len() as u64, words.path, &[]),
        rows,
        unlisted: if is_whole { String::new() } else { grouped(tree.count) },
        parents: parent_choices(&tree, &(0..0), fields.of("parent")),
        fields,
        faults,
    };
    let page = frame::page(words.plural, content);
    Ok(with_status(page, faults.status))
}

impl DimensionLine {
    fn of(branch: &Branch) -> Self {
        let dimension = &branch.dimension;
        Self {
            id: dimension.id.0.to_string(),
            name: dimension.name.clone(),
            code: dimension.code.clone().unwrap_or_default(),
            level: branch.level,
        }
    }
}

/// Makes one. POST /dimensions/{kind}.
pub(super) async fn make_dimension(
    DimensionManager(acting): DimensionManager,
    PathDimensionKind(kind): PathDimensionKind,
    SiteForm(sent): SiteForm<TypedFields>,
) -> Result<Response, ApiError> {
    let mut body = body_of(&sent);
    find_meant_in(&acting, &mut body, ("parent", kind)).await?;
    let body = FormBody::of(body);
    let Err(error) = make((&acting).into(), kind, body.fields()?).await else {
        return Ok(acting.go_on(kind_words(kind).path, Notice::DIMENSION_MADE));
    };
    let faults = Faults::of_refusal(error)?;
    list_page(&acting, (kind, Part::default()), (&sent, &faults)).await
}
