//! Categories, departments, labels and locations: what a company books by, each kind a forest of its
//! own, and what they tag.
//!
//! Deleting one leaves a tombstone: nothing that carries its id is touched, since whoever reads
//! resolves the id and finds nothing. So deleting costs the same however many transactions carry it,
//! and nobody ever sees half of it. Ids never come back, so a tombstone that a new transaction takes
//! over from its card is as good as none.
//!
//! INVARIANT: parents are live, of the same company and kind, and lead to a root within
//! `DIMENSION_LEVELS_MAX` steps.

use super::execute::Moment;
use super::execute_admin::{find_company, replace};
use super::state::ShardState;
use crate::command::admin::{DimensionChanges, NamedDimension, NewDimension};
use crate::command::effect::Effect;
use crate::command::reply::Rejection;
use crate::domain::card::{DimensionKind, Dimensions};
use crate::domain::dimension::Dimension;
use crate::domain::ids::{CompanyId, CompanySlot, DimensionId, DimensionSlot, TransactionId};
use crate::domain::transaction_tags::TagChanges;
use crate::limits::{DIMENSION_CHILDREN_MAX, DIMENSION_LEVELS_MAX};

/// What is to become of each dimension of an object: it stays, is cleared, or is set.
pub(super) type DimensionTags = [Option<Option<DimensionId>>; 4];

pub(super) fn create_dimension(
    state: &ShardState,
    moment: &Moment<'_>,
    new: &NewDimension,
    effects: &mut Vec<Effect>,
) -> Result<(), Rejection> {
    let company = find_company(state, new.company)?;
    if state.directory.dimensions.find(new.id.0).is_some() {
        return Err(Rejection::IdTaken);
    }
    let dimension = Dimension {
        slot: state.directory.dimensions.next_slot().ok_or(Rejection::Full)?,
        id: new.id,
        company,
        kind: new.kind,
        name: new.name.to_string(),
        code: new.code.clone(),
        parent: new.parent.map(|id| find_parent(state, company, new.kind, id)).transpose()?,
        is_deleted: false,
        created_at: moment.at,
    };
    check_code(state, &dimension)?;
    check_place(state, &dimension)?;
    effects.push(Effect::row(dimension));
    Ok(())
}

pub(super) fn update_dimension(
    state: &ShardState,
    named: &NamedDimension,
    changes: &DimensionChanges,
    effects: &mut Vec<Effect>,
) -> Result<(), Rejection> {
    let known = find_named(state, named)?;
    let mut dimension = known.clone();
    replace(&mut dimension.name, &changes.name);
    replace(&mut dimension.code, &changes.code);
    if let Some(parent) = changes.parent {
        let find = |id| find_parent(state, known.company, known.kind, id);
        dimension.parent = parent.map(find).transpose()?;
    }
    if dimension.code != known.code {
        check_code(state, &dimension)?;
    }
    if dimension.parent != known.parent {
        check_place(state, &dimension)?;
    }
    if dimension != *known {
        effects.push(Effect::row(dimension));
    }
    Ok(())
}

/// Leaves a tombstone, and lifts the children to the grandparent in the same record.
pub(super) fn delete_dimension(
    state: &ShardState,
    named: &NamedDimension,
    effects: &mut Vec<Effect>,
) -> Result<(), Rejection> {
    let dimension = find_named(state, named)?;
    let count = children_of(state, dimension.slot).count();
    if let Some(grandparent) = dimension.parent {
        let others = children_of(state, grandparent).count() - 1;
        if others + count > DIMENSION_CHILDREN_MAX {
            return Err(Rejection::TooManyChildren);
        }
    }
    assert!(count <= DIMENSION_CHILDREN_MAX, "nobody has more children than fit one record");
    for child in children_of(state, dimension.slot) {
        let lifted = Dimension { parent: dimension.parent, ..child.clone() };
        effects.push(Effect::row(lifted));
    }
    // Its code is free again, and it stands nowhere any more.
    let tombstone = Dimension { is_deleted: true, code: None, parent: None, ..dimension.clone() };
    effects.push(Effect::row(tombstone));
    Ok(())
}

/// Tags a transaction; what the change does not speak of stays.
pub(super) fn tag_transaction(
    state: &ShardState,
    moment: &Moment<'_>,
    (company, id): (CompanyId, TransactionId),
    changes: &TagChanges,
    effects: &mut Vec<Effect>,
) -> Result<(), Rejection> {
    let company = find_company(state, company)?;
    let seq = moment.ids.open_transaction_id(id).filter(|seq| *seq <= state.last_transaction);
    let seq = seq.ok_or(Rejection::TransactionNotFound)?;
    check_dimensions(state, company, &changes.dimensions.map(Option::flatten))?;
    if *changes != TagChanges::default() {
        effects.push(Effect::TransactionTags(seq, Box::new(changes.clone())));
    }
    Ok(())
}

/// Changes the dimensions of a card or member. Those that are gone are let go of on the occasion.
/// Errors: `DimensionNotFound`.
pub(super) fn change_dimensions(
    state: &ShardState,
    company: CompanySlot,
    current: &mut Dimensions,
    wanted: &DimensionTags,
) -> Result<(), Rejection> {
    check_dimensions(state, company, &wanted.map(Option::flatten))?;
    for (current, wanted) in current.iter_mut().zip(wanted) {
        *current = match wanted {
            Some(wanted) => *wanted,
            None => current.filter(|id| find_live(state, *id).is_some()),
        };
    }
    Ok(())
}

/// Errors: `DimensionNotFound` where one is not a live one of the company and its kind.
pub(super) fn check_dimensions(
    state: &ShardState,
    company: CompanySlot,
    dimensions: &Dimensions,
) -> Result<(), Rejection> {
    let mut set = DimensionKind::ALL.into_iter().zip(dimensions);
    let is_theirs = |(kind, id): (DimensionKind, &Option<DimensionId>)| {
        id.is_none_or(|id| find(state, company, kind, id).is_some())
    };
    if set.all(is_theirs) { Ok(()) } else { Err(Rejection::DimensionNotFound) }
}

fn find_live(state: &ShardState, id: DimensionId) -> Option<&Dimension> {
    state.directory.dimensions.find(id.0).filter(|dimension| !dimension.is_deleted)
}

fn find(
    state: &ShardState,
    company: CompanySlot,
    kind: DimensionKind,
    id: DimensionId,
) -> Option<&Dimension> {
    find_live(state, id).filter(|found| found.company == company && found.kind == kind)
}

fn get(state: &ShardState, slot: DimensionSlot) -> &Dimension {
    state.directory.dimensions.get(slot)
}

fn find_named<'a>(
    state: &'a ShardState,
    named: &NamedDimension,
) -> Result<&'a Dimension, Rejection> {
    let company = find_company(state, named.company)?;
    find(state, company, named.kind, named.id).ok_or(Rejection::DimensionGone)
}

fn find_parent(
    state: &ShardState,
    company: CompanySlot,
    kind: DimensionKind,
    id: DimensionId,
) -> Result<DimensionSlot, Rejection> {
    let parent = find(state, company, kind, id).ok_or(Rejection::ParentNotFound)?;
    Ok(parent.slot)
}

/// Errors: `DimensionCodeTaken` where another one of the company and kind has the code.
fn check_code(state: &ShardState, dimension: &Dimension) -> Result<(), Rejection> {
    let Some(code) = dimension.code.clone() else { return Ok(()) };
    let key = (dimension.company, dimension.kind, code);
    match state.directory.dimensions.first(&Dimension::BY_CODE, &key) {
        Some(owner) if owner.slot != dimension.slot => Err(Rejection::DimensionCodeTaken),
        _ => Ok(()),
    }
}

/// Whether a dimension may stand where its parent says.
/// Errors: `ParentCycle`, `TreeTooDeep`, `TooManyChildren`.
fn check_place(state: &ShardState, dimension: &Dimension) -> Result<(), Rejection> {
    let Some(parent) = dimension.parent else { return Ok(()) };
    let mut levels_above = 0;
    for ancestor in line_of(state, parent) {
        if ancestor.slot == dimension.slot {
            return Err(Rejection::ParentCycle);
        }
        levels_above += 1;
    }
    if levels_above + levels_from(state, dimension.slot) > DIMENSION_LEVELS_MAX {
        return Err(Rejection::TreeTooDeep);
    }
    if children_of(state, parent).count() >= DIMENSION_CHILDREN_MAX {
        return Err(Rejection::TooManyChildren);
    }
    Ok(())
}

/// A dimension and everything above it.
fn line_of(state: &ShardState, slot: DimensionSlot) -> impl Iterator<Item = &Dimension> {
    let above = |below: &&Dimension| below.parent.map(|slot| get(state, slot));
    std::iter::successors(Some(get(state, slot)), above)
}

/// How many levels the tree below a dimension has, its own among them; 1 for one to be made.
fn levels_from(state: &ShardState, slot: DimensionSlot) -> usize {
    let mut levels = 0;
    let mut level = vec![slot];
    while !level.is_empty() {
        levels += 1;
        let below = level.iter().flat_map(|slot| children_of(state, *slot));
        level = below.map(|child| child.slot).collect();
    }
    levels
}

fn children_of(state: &ShardState, parent: DimensionSlot) -> impl Iterator<Item = &Dimension> {
    state.directory.dimensions.under(&Dimension::OF_PARENT, &parent)
}
