//! Accounting dimensions of a company: categories, departments, labels and locations, each kind a
//! forest of its own. Source: spec "Category, department, label, location".
//!
//! A deleted dimension stays as a tombstone, and rows that carry its id are not touched: readers
//! resolve the id and find nothing. So a deletion costs the same for any number of transactions,
//! and no reader sees half of it. Ids never come back, so a new transaction may copy a tombstone's
//! id from its card without harm.
//!
//! INVARIANT: parents are live, of the same company and kind, and lead to a root within
//! `DIMENSION_LEVELS_MAX` steps.

use serde::{Deserialize, Serialize};

use super::change::{PartitionView, StateChange};
use super::company::find_company;
use super::row::indexes;
use crate::command::audit_line::AuditLine;
use crate::command::reply::Rejection;
use crate::command::resource::commands;
use crate::domain::card::{DimensionKind, Dimensions};
use crate::domain::changes::{changes, replace};
use crate::domain::ids::{CompanyId, CompanySlot, DimensionId, DimensionSlot, Timestamp};
use crate::domain::text::LineText;
use crate::limits::{DIMENSION_CHILDREN_MAX, DIMENSION_LEVELS_MAX};

/// An accounting dimension. Source: spec "Category, department, label, location".
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dimension {
    /// The row's slot.
    pub slot: DimensionSlot,
    /// Its public id.
    pub id: DimensionId,
    /// The company that owns it.
    pub company: CompanySlot,
    /// Its kind.
    pub kind: DimensionKind,
    /// Its name.
    pub name: String,
    /// Its number in accounting: digits only, unique within company and kind.
    pub code: Option<String>,
    /// Its parent, of the same company and kind.
    pub parent: Option<DimensionSlot>,
    /// Whether it is deleted. Rows that carry its id are not rewritten, and read as if without it.
    pub is_deleted: bool,
    /// The time of creation.
    pub created_at: Timestamp,
}

indexes! {
    Dimension(dimension), CHANGES_ACCESS: false, found if !dimension.is_deleted;
    /// The live dimensions of a company and kind.
    OF_COMPANY = 1: (CompanySlot, DimensionKind) => (dimension.company, dimension.kind);
    /// The live dimension of a company and kind with a code.
    BY_CODE = 2: (CompanySlot, DimensionKind, String) =>
        dimension.code.clone().map(|code| (dimension.company, dimension.kind, code));
    /// The live children of a dimension.
    OF_PARENT = 3: DimensionSlot => dimension.parent;
}

commands! {
    /// The commands on dimensions.
    #[derive(Clone, Debug)]
    pub enum DimensionCommand(change) {
        /// Makes a dimension.
        Create(new: NewDimension) makes new.id.0 =>
            AuditLine::of_company(new.company, CREATED[new.kind as usize], new.id.0),
            create(change, new);
        /// Changes a dimension.
        Update(named: NamedDimension, changes: DimensionChanges) =>
            AuditLine::of_company(named.company, UPDATED[named.kind as usize], named.id.0).with(changes.names()),
            update(change, named, changes);
        /// Deletes a dimension; its children go to its parent.
        Delete(named: NamedDimension) =>
            AuditLine::of_company(named.company, DELETED[named.kind as usize], named.id.0),
            delete(change, named);
    }
}

/// A category, department, label or location to make.
#[derive(Clone, Debug)]
pub struct NewDimension {
    /// Its id.
    pub id: DimensionId,
    /// The company that owns it.
    pub company: CompanyId,
    /// Its kind.
    pub kind: DimensionKind,
    /// Its name.
    pub name: LineText,
    /// Its number in accounting: digits only.
    pub code: Option<String>,
    /// Its parent.
    pub parent: Option<DimensionId>,
}

/// A category, department, label or location as a caller names it.
#[derive(Clone, Copy, Debug)]
pub struct NamedDimension {
    /// The caller's company.
    pub company: CompanyId,
    /// Its kind.
    pub kind: DimensionKind,
    /// Its id.
    pub id: DimensionId,
}

changes! {
    /// Changes of a category, department, label or location; absent fields stay.
    #[derive(Clone, Debug, Default)]
    pub struct DimensionChanges {
        /// Its name.
        name: Option<LineText>,
        /// Its number in accounting: digits only.
        code: Option<Option<String>>,
        /// Its parent.
        parent: Option<Option<DimensionId>>,
    }
}

/// The audit's names of the actions on a dimension, by its kind.
const CREATED: [&str; 4] =
    ["category.created", "department.created", "label.created", "location.created"];
const UPDATED: [&str; 4] =
    ["category.updated", "department.updated", "label.updated", "location.updated"];
const DELETED: [&str; 4] =
    ["category.deleted", "department.deleted", "label.deleted", "location.deleted"];

/// The change of each dimension of an object: it stays, is cleared, or is set.
pub(crate) type DimensionTags = [Option<Option<DimensionId>>; 4];

fn create(change: &mut StateChange<'_>, new: &NewDimension) -> Result<(), Rejection> {
    let company = find_company(change.state, new.company)?;
    let dimension = Dimension {
        slot: change.state.directory().dimensions.slot_for(new.id.0)?,
        id: new.id,
        company,
        kind: new.kind,
        name: new.name.to_string(),
        code: new.code.clone(),
        parent: new
            .parent
            .map(|id| find_parent(change.state, company, new.kind, id))
            .transpose()?,
        is_deleted: false,
        created_at: change.moment.at,
    };
    check_code(change.state, &dimension)?;
    check_place(change.state, &dimension, None)?;
    change.put(dimension);
    Ok(())
}

fn update(
    change: &mut StateChange<'_>,
    named: &NamedDimension,
    changes: &DimensionChanges,
) -> Result<(), Rejection> {
    let known = find_named(change.state, named)?;
    let mut dimension = known.clone();
    replace(&mut dimension.name, &changes.name);
    replace(&mut dimension.code, &changes.code);
    if let Some(parent) = changes.parent {
        let find = |id| find_parent(change.state, known.company, known.kind, id);
        dimension.parent = parent.map(find).transpose()?;
    }
    if dimension.code != known.code {
        check_code(change.state, &dimension)?;
    }
    if dimension.parent != known.parent {
        check_place(change.state, &dimension, Some(known))?;
    }
    change.put_changed(dimension, known);
    Ok(())
}

/// Replaces a dimension by a tombstone, and lifts its children to its parent in the same record.
fn delete(change: &mut StateChange<'_>, named: &NamedDimension) -> Result<(), Rejection> {
    let dimension = find_named(change.state, named)?;
    let count = children_of(change.state, dimension.slot).count();
    if let Some(grandparent) = dimension.parent {
        let others = children_of(change.state, grandparent).count() - 1;
        if others + count > DIMENSION_CHILDREN_MAX {
            return Err(Rejection::TooManyChildren);
        }
    }
    assert!(count <= DIMENSION_CHILDREN_MAX, "nobody has more children than fit one record");
    for child in children_of(change.state, dimension.slot) {
        let lifted = Dimension { parent: dimension.parent, ..child.clone() };
        change.put(lifted);
    }
    // The tombstone frees its code and leaves the tree.
    let tombstone = Dimension { is_deleted: true, code: None, parent: None, ..dimension.clone() };
    change.put(tombstone);
    Ok(())
}

/// Changes the dimensions of an object. Those that are not named stay, even deleted ones: nobody is shown these.
/// Errors: `DimensionNotFound`.
pub(crate) fn change_dimensions(
    state: &dyn PartitionView,
    company: CompanySlot,
    current: &mut Dimensions,
    wanted: &DimensionTags,
) -> Result<(), Rejection> {
    check_dimensions(state, company, &wanted.map(Option::flatten))?;
    for (current, wanted) in current.iter_mut().zip(wanted) {
        replace(current, wanted);
    }
    Ok(())
}

/// Those that are not deleted.
pub(crate) fn live_dimensions(state: &dyn PartitionView, dimensions: Dimensions) -> Dimensions {
    dimensions.map(|id| id.filter(|id| find_live(state, *id).is_some()))
}

/// Errors: `DimensionNotFound` if an id is no live dimension of the company and its kind.
pub(crate) fn check_dimensions(
    state: &dyn PartitionView,
    company: CompanySlot,
    dimensions: &Dimensions,
) -> Result<(), Rejection> {
    let mut set = DimensionKind::ALL.into_iter().zip(dimensions);
    set.try_for_each(|(kind, id)| match id {
        Some(id) if find(state, company, kind, *id).is_none() => {
            Err(Rejection::DimensionNotFound(kind))
        }
        _ => Ok(()),
    })
}

fn find_live(state: &dyn PartitionView, id: DimensionId) -> Option<&Dimension> {
    state.directory().dimensions.find(id.0).filter(|dimension| !dimension.is_deleted)
}

fn find(
    state: &dyn PartitionView,
    company: CompanySlot,
    kind: DimensionKind,
    id: DimensionId,
) -> Option<&Dimension> {
    find_live(state, id).filter(|found| found.company == company && found.kind == kind)
}

fn get(state: &dyn PartitionView, slot: DimensionSlot) -> &Dimension {
    state.directory().dimensions.get(slot)
}

fn find_named<'a>(
    state: &'a dyn PartitionView,
    named: &NamedDimension,
) -> Result<&'a Dimension, Rejection> {
    let company = find_company(state, named.company)?;
    find(state, company, named.kind, named.id).ok_or(Rejection::NotFound)
}

fn find_parent(
    state: &dyn PartitionView,
    company: CompanySlot,
    kind: DimensionKind,
    id: DimensionId,
) -> Result<DimensionSlot, Rejection> {
    let parent = find(state, company, kind, id).ok_or(Rejection::ParentNotFound)?;
    Ok(parent.slot)
}

/// Errors: `DimensionCodeTaken` if another dimension of the company and kind has the code.
fn check_code(state: &dyn PartitionView, dimension: &Dimension) -> Result<(), Rejection> {
    let Some(code) = dimension.code.clone() else { return Ok(()) };
    let key = (dimension.company, dimension.kind, code);
    match state.directory().dimensions.first(&Dimension::BY_CODE, &key) {
        Some(owner) if owner.slot != dimension.slot => Err(Rejection::DimensionCodeTaken),
        _ => Ok(()),
    }
}

/// Checks the place of a dimension below its parent, where it is new or was elsewhere before.
/// Errors: `ParentCycle`, `TreeTooDeep`, `TooManyChildren`.
/// Cost: O(levels), and O(dimensions of its tree) where that goes further down.
fn check_place(
    state: &dyn PartitionView,
    dimension: &Dimension,
    before: Option<&Dimension>,
) -> Result<(), Rejection> {
    let Some(parent) = dimension.parent else { return Ok(()) };
    let mut levels_above = 0;
    for ancestor in line_of(state, parent) {
        if ancestor.slot == dimension.slot {
            return Err(Rejection::ParentCycle);
        }
        levels_above += 1;
    }
    // A tree that was as far down before fits without a look at it.
    let goes_down = before.is_none_or(|before| levels_above >= line_of(state, before.slot).count());
    let room = DIMENSION_LEVELS_MAX.saturating_sub(levels_above);
    if goes_down && !fits_within(state, dimension.slot, room) {
        return Err(Rejection::TreeTooDeep);
    }
    if children_of(state, parent).count() >= DIMENSION_CHILDREN_MAX {
        return Err(Rejection::TooManyChildren);
    }
    Ok(())
}

/// A dimension and all its ancestors.
fn line_of(state: &dyn PartitionView, slot: DimensionSlot) -> impl Iterator<Item = &Dimension> {
    let above = |below: &&Dimension| below.parent.map(|slot| get(state, slot));
    std::iter::successors(Some(get(state, slot)), above)
}

/// Whether the tree from a dimension on has at most so many levels, its own among them.
/// Cost: O(dimensions of the tree), but for those on its last level where it is that high.
fn fits_within(state: &dyn PartitionView, slot: DimensionSlot, levels_max: usize) -> bool {
    let has_children = |slot: &DimensionSlot| children_of(state, *slot).next().is_some();
    let mut level = vec![slot];
    for _ in 1..levels_max {
        let below = level.iter().flat_map(|slot| children_of(state, *slot));
        level = below.map(|child| child.slot).collect();
        if level.is_empty() {
            return true;
        }
    }
    levels_max > 0 && !level.iter().any(has_children)
}

fn children_of(
    state: &dyn PartitionView,
    parent: DimensionSlot,
) -> impl Iterator<Item = &Dimension> {
    state.directory().dimensions.under(&Dimension::OF_PARENT, &parent)
}
