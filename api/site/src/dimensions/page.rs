//! One category, department, label or location: changed, or deleted. GET and POST
//! /dimensions/{kind}/{id}, and POST of `delete` below it.

use askama::Template;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::Response;
use cardswitch_edge::error::ApiError;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::seen_object::WatchedObject;
use cardswitch_engine::directory::dimension::{DimensionCommand, NamedDimension};
use cardswitch_engine::domain::card::{DimensionKind, Dimensions};
use cardswitch_engine::domain::ids::DimensionId;
use cardswitch_engine::store::StoreError;
use cardswitch_engine::store::query::{CardFilter, Page, TransactionFilter};
use cardswitch_v1::routes::dimensions::change;
use cardswitch_v1::routes::view::View;
use cardswitch_wire::fields::parse_id;

use super::form::{FIELDS, body_of, parent_choices};
use super::tree::{Branch, Tree, below_and_itself, tree};
use super::{KindWords, PathDimensionKind, kind_words};
use crate::dimension_choices::{DimensionChoice, find_meant_in};
use crate::faults::{Faults, with_status};
use crate::form_snapshot::{FormSnapshot, change_as_seen};
use crate::forms::{ConfirmForm, FormBody, SiteForm, TypedFields};
use crate::frame;
use crate::notice::Notice;
use crate::rights::{ActingMember, DimensionManager};

#[derive(Template)]
#[template(path = "dimensions/page.html")]
struct PageContent<'a> {
    csrf: String,
    words: KindWords,
    id: String,
    name: &'a str,
    path: &'a str,
    seen: FormSnapshot,
    parents: DimensionChoice,
    fields: &'a TypedFields,
    faults: &'a Faults,
    carried: DeletionImpact,
    delete_alert: &'a str,
}

/// The counts of objects that a deletion would touch.
#[derive(Clone, Copy, Debug)]
struct DeletionImpact {
    transactions: u64,
    cards: u64,
    children: usize,
}

/// A dimension, among those of its kind.
struct DimensionOfKind {
    tree: Tree,
    place: usize,
    carried: DeletionImpact,
}

impl DimensionOfKind {
    fn branch(&self) -> &Branch {
        &self.tree.branches[self.place]
    }

    fn fields(&self) -> TypedFields {
        let dimension = &self.branch().dimension;
        let code = dimension.code.clone().unwrap_or_default();
        FIELDS.into_iter().zip([dimension.name.clone(), code, self.parent()]).collect()
    }

    fn parent(&self) -> String {
        let parent = self.branch().dimension.parent;
        let above = self.tree.branches.iter().find(|above| Some(above.dimension.slot) == parent);
        above.map(|above| above.dimension.id.0.to_string()).unwrap_or_default()
    }

    fn seen(&self) -> FormSnapshot {
        let fields = self.fields();
        FormSnapshot::default().fields(FIELDS.map(|name| (name, fields.of(name))))
    }
}

/// Errors: the company has none of this kind with this id.
async fn find(
    acting: &ActingMember,
    kind: DimensionKind,
    id: DimensionId,
) -> Result<DimensionOfKind, ApiError> {
    let found = acting.read_lists(|view| {
        let tree = tree(view, kind, Some(id))?;
        let Some(place) = tree.branches.iter().position(|branch| branch.dimension.id == id) else {
            return Ok(None);
        };
        let carried = carried(view, &tree.branches, place)?;
        Ok(Some(DimensionOfKind { tree, place, carried }))
    });
    found.await?.ok_or_else(ApiError::not_found)
}

fn carried(
    view: &View<'_>,
    branches: &[Branch],
    place: usize,
) -> Result<DeletionImpact, StoreError> {
    let dimension = &branches[place].dimension;
    let is_named = |kind| (kind == dimension.kind).then_some(dimension.id);
    let dimensions: Dimensions = DimensionKind::ALL.map(is_named);
    let (company, none) = (view.company.slot, Page::first(0));
    let transactions = TransactionFilter { dimensions, ..TransactionFilter::default() };
    let cards = CardFilter { dimensions, ..CardFilter::default() };
    let is_child = |branch: &&Branch| branch.dimension.parent == Some(dimension.slot);
    Ok(DeletionImpact {
        transactions: view.snapshot.list_transactions(company, &transactions, &none)?.count,
        cards: view.snapshot.list_cards(company, &cards, &none)?.count,
        children: branches.iter().filter(is_child).count(),
    })
}

/// The id in a path, behind the kind. A path without a UUID there leads nowhere.
pub(super) struct BehindKind(DimensionId);

impl<S: Send + Sync> axum::extract::FromRequestParts<S> for BehindKind {
    type Rejection = ApiError;

    async fn from_request_parts(
        parts: &mut axum::http::request::Parts,
        state: &S,
    ) -> Result<Self, ApiError> {
        let path = Path::<(String, String)>::from_request_parts(parts, state).await;
        let id = path.ok().and_then(|Path((_, id))| parse_id(&id));
        id.map(|id| Self(DimensionId(id))).ok_or_else(ApiError::not_found)
    }
}

/// GET /dimensions/{kind}/{id}.
pub(super) async fn show_dimension(
    DimensionManager(acting): DimensionManager,
    PathDimensionKind(kind): PathDimensionKind,
    BehindKind(id): BehindKind,
) -> Result<Response, ApiError> {
    let found = find(&acting, kind, id).await?;
    Ok(dimension_page(&acting, &found, &DimensionForm::of(&found)))
}

/// The form as it is shown, with its faults.
struct DimensionForm {
    fields: TypedFields,
    faults: Faults,
    delete_alert: &'static str,
}

impl DimensionForm {
    fn of(found: &DimensionOfKind) -> Self {
        Self { fields: found.fields(), faults: Faults::default(), delete_alert: "" }
    }
}

fn dimension_page(
    acting: &ActingMember,
    found: &DimensionOfKind,
    shown: &DimensionForm,
) -> Response {
    let branch = found.branch();
    let words = kind_words(branch.dimension.kind);
    // No dimension becomes its own parent, or its parent one of its descendants.
    let own = below_and_itself(&found.tree.branches, found.place);
    let content = PageContent {
        csrf: acting.csrf(),
        words,
        id: branch.dimension.id.0.to_string(),
        name: &branch.dimension.name,
        path: &branch.path,
        seen: found.seen(),
        parents: parent_choices(&found.tree, &own, shown.fields.of("parent")),
        fields: &shown.fields,
        faults: &shown.faults,
        carried: found.carried,
        delete_alert: shown.delete_alert,
    };
    let page = frame::page(&branch.dimension.name, content);
    with_status(page, shown.faults.status)
}

/// Changes one. POST /dimensions/{kind}/{id}.
pub(super) async fn change_dimension(
    DimensionManager(acting): DimensionManager,
    PathDimensionKind(kind): PathDimensionKind,
    BehindKind(id): BehindKind,
    SiteForm(sent): SiteForm<TypedFields>,
) -> Result<Response, ApiError> {
    let find = || async { Ok((WatchedObject::Row(id.0), find(&acting, kind, id).await?)) };
    let check = |found: &DimensionOfKind| found.seen().check(sent.of("seen"));
    let saved = change_as_seen(&acting, find, check, async |state, _| {
        let mut body = body_of(&sent);
        find_meant_in(&acting, &mut body, ("parent", kind)).await?;
        change(acting.reader(&state), (kind, id), FormBody::of(body).fields()?).await?;
        Ok(acting.go_on(kind_words(kind).path, Notice::DIMENSION_SAVED))
    });
    match saved.await? {
        Ok(saved) => Ok(saved),
        Err((found, why)) => {
            let (sent, faults) = why.shown(sent, Faults::of_refusal)?;
            let fields = sent.unwrap_or_else(|| found.fields());
            let shown = DimensionForm { fields, faults, delete_alert: "" };
            Ok(dimension_page(&acting, &found, &shown))
        }
    }
}

/// Removes a dimension, also from the objects that carry it. POST /dimensions/{kind}/{id}/delete.
pub(super) async fn delete_dimension(
    DimensionManager(acting): DimensionManager,
    PathDimensionKind(kind): PathDimensionKind,
    BehindKind(id): BehindKind,
    SiteForm(form): SiteForm<ConfirmForm>,
) -> Result<Response, ApiError> {
    let found = find(&acting, kind, id).await?;
    if !form.is_confirmed {
        let delete_alert = "Tick the box to confirm.";
        let shown = DimensionForm { delete_alert, ..DimensionForm::of(&found) };
        let page = dimension_page(&acting, &found, &shown);
        return Ok(with_status(page, StatusCode::BAD_REQUEST));
    }
    let named = NamedDimension { company: acting.company.id, kind, id };
    match acting
        .state
        .carry_out(AdminCommand::Dimension(DimensionCommand::Delete(named)))
        .await
        .map_err(ApiError::from)
    {
        Ok(()) => Ok(acting.go_on(kind_words(kind).path, Notice::DIMENSION_DELETED)),
        Err(error) => {
            let faults = Faults::of_refusal(error)?;
            let shown = DimensionForm { faults, ..DimensionForm::of(&found) };
            Ok(dimension_page(&acting, &found, &shown))
        }
    }
}
