//! Categories, departments, labels and locations: the dimensions by which the books of a company
//! are sorted.
//!
//! | file | what |
//! |---|---|
//! | `tree` | the dimensions of a kind, each below its parent |
//! | `list` | all of one kind, and a new one |
//! | `page` | one of them: changed, or deleted |
//! | `form` | the fields of both, and the body of `/v1` they become |

mod form;
mod list;
mod page;
pub(super) mod tree;

use axum::Router;
use axum::response::Redirect;
use axum::routing::{get, post};
use cardswitch_engine::domain::card::DimensionKind;

use cardswitch_identity::state::AppState;
use cardswitch_v1::routes::dimensions::PathDimensionKind;

/// The pages of the four kinds, which one template serves.
pub(super) fn dimension_routes() -> Router<AppState> {
    Router::new()
        .route("/dimensions", get(async || Redirect::to("/dimensions/categories")))
        .route("/dimensions/{kind}", get(list::list_dimensions).post(list::make_dimension))
        .route("/dimensions/{kind}/{id}", get(page::show_dimension).post(page::change_dimension))
        .route("/dimensions/{kind}/{id}/delete", post(page::delete_dimension))
}

/// The words for a kind on pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KindWords {
    /// Several of it, as a heading.
    pub(super) plural: &'static str,
    /// The word for one of it, within a sentence.
    pub(super) one: &'static str,
    /// The words for an empty list.
    pub(super) none: &'static str,
    /// Its label in a form.
    pub(super) label: &'static str,
    /// The path of its list.
    pub(super) path: &'static str,
}

pub(super) const fn kind_words(kind: DimensionKind) -> KindWords {
    match kind {
        DimensionKind::Category => KindWords {
            plural: "Categories",
            one: "category",
            none: "No category yet",
            label: "Category",
            path: "/dimensions/categories",
        },
        DimensionKind::Department => KindWords {
            plural: "Departments",
            one: "department",
            none: "No department yet",
            label: "Department",
            path: "/dimensions/departments",
        },
        DimensionKind::Label => KindWords {
            plural: "Labels",
            one: "label",
            none: "No label yet",
            label: "Label",
            path: "/dimensions/labels",
        },
        DimensionKind::Location => KindWords {
            plural: "Locations",
            one: "location",
            none: "No location yet",
            label: "Location",
            path: "/dimensions/locations",
        },
    }
}

/// The ways from one kind to the others.
struct KindTab {
    words: KindWords,
    is_here: bool,
}

fn tabs(here: DimensionKind) -> [KindTab; 4] {
    DimensionKind::ALL.map(|kind| KindTab { words: kind_words(kind), is_here: kind == here })
}
