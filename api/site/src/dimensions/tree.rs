//! The categories, departments, labels or locations of a company as a tree: each below its parent,
//! by name, with its whole path.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use cardswitch_engine::directory::dimension::Dimension;
use cardswitch_engine::domain::card::DimensionKind;
use cardswitch_engine::domain::ids::DimensionId;
use cardswitch_engine::limits::{DIMENSION_LEVELS_MAX, PAGE_LEN_MAX};
use cardswitch_engine::store::StoreError;
use cardswitch_engine::store::query::{ListPage, Page};

use cardswitch_v1::routes::view::View;

/// The separator between the names of a path.
const BETWEEN: &str = " › ";
/// The most that are read of one kind: older ones are found by their name or code.
const BRANCHES_MAX: usize = 5 * PAGE_LEN_MAX;

/// The dimensions of a kind: siblings by name, children behind their parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tree {
    /// The dimensions that were read.
    pub(crate) branches: Vec<Branch>,
    pub(crate) count: u64,
}

/// A dimension, and its place in the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Branch {
    pub(crate) dimension: Dimension,
    /// The number of its ancestors.
    pub(crate) level: usize,
    /// Its name behind those of all its ancestors.
    pub(crate) path: String,
}

/// The newest of a kind, and always the one that is `wanted`, with all that it stands below.
/// Errors: the tables cannot be read.
/// Cost: reads up to `BRANCHES_MAX` of the kind.
pub(crate) fn tree(
    view: &View<'_>,
    kind: DimensionKind,
    wanted: Option<DimensionId>,
) -> Result<Tree, StoreError> {
    let ListPage { count, rows: mut all } = read(view, kind, BRANCHES_MAX)?;
    let mut next = wanted.map(|id| view.find_dimension(kind, id)).transpose()?.flatten();
    for _ in 0..DIMENSION_LEVELS_MAX {
        let Some(dimension) = next else { break };
        let above =
            dimension.parent.map(|slot| view.snapshot.row::<Dimension>(slot)).transpose()?;
        next = above.flatten().filter(|above| !above.is_deleted);
        if all.iter().all(|known| known.slot != dimension.slot) {
            all.push(dimension);
        }
    }
    Ok(Tree { branches: grow(all), count })
}

/// All of a kind, however many.
/// Errors: the tables cannot be read.
/// Cost: reads every one of the kind.
pub(crate) fn whole_tree(view: &View<'_>, kind: DimensionKind) -> Result<Tree, StoreError> {
    let ListPage { count, rows } = read(view, kind, usize::MAX)?;
    Ok(Tree { branches: grow(rows), count })
}

fn read(
    view: &View<'_>,
    kind: DimensionKind,
    count_max: usize,
) -> Result<ListPage<Dimension>, StoreError> {
    let (company, mut page) = (view.company.slot, Page::first(PAGE_LEN_MAX));
    let mut rows = Vec::new();
    loop {
        let listed = view.snapshot.list_dimensions(company, kind, &page)?;
        let is_last = listed.rows.len() < page.limit;
        rows.extend(listed.rows);
        if is_last || rows.len() >= count_max {
            return Ok(ListPage { count: listed.count, rows });
        }
        page.offset = rows.len();
    }
}

fn grow(all: Vec<Dimension>) -> Vec<Branch> {
    let known: HashSet<u32> = all.iter().map(|dimension| dimension.slot.0).collect();
    let mut below: HashMap<Option<u32>, Vec<Dimension>> = HashMap::new();
    for dimension in all {
        // A dimension whose parent is not shown stands on its own.
        let parent = dimension.parent.map(|slot| slot.0).filter(|slot| known.contains(slot));
        below.entry(parent).or_default().push(dimension);
    }
    let mut waiting = Vec::new();
    let mut wait = |waiting: &mut Vec<Branch>, above: Option<&Branch>| {
        let parent = above.map(|branch| branch.dimension.slot.0);
        let mut children = below.remove(&parent).unwrap_or_default();
        children.sort_by_cached_key(|child| Reverse((child.name.to_lowercase(), child.slot.0)));
        waiting.extend(children.into_iter().map(|child| Branch::below(above, child)));
    };
    wait(&mut waiting, None);
    let mut grown = Vec::new();
    while let Some(branch) = waiting.pop() {
        wait(&mut waiting, Some(&branch));
        grown.push(branch);
    }
    grown
}

impl Branch {
    fn below(above: Option<&Self>, dimension: Dimension) -> Self {
        let (level, path) = match above {
            Some(above) => (above.level + 1, format!("{}{BETWEEN}{}", above.path, dimension.name)),
            None => (0, dimension.name.clone()),
        };
        Self { dimension, level, path }
    }

    /// Its label in a list to choose from.
    pub(crate) fn choice_words(&self) -> String {
        match &self.dimension.code {
            Some(code) => format!("{} ({code})", self.path),
            None => self.path.clone(),
        }
    }
}

/// The places of the branch at `place` and of all its descendants.
pub(super) fn below_and_itself(branches: &[Branch], place: usize) -> std::ops::Range<usize> {
    let level = branches.get(place).map_or(0, |branch| branch.level);
    let rest = branches.iter().enumerate().skip(place.saturating_add(1));
    let end = rest.filter(|(_, branch)| branch.level <= level).map(|(next, _)| next).next();
    place..end.unwrap_or(branches.len())
}

#[cfg(test)]
mod tests {
    use cardswitch_engine::domain::ids::{CompanySlot, DimensionId, DimensionSlot, Timestamp};
    use uuid::Uuid;

    use super::*;

    fn dimension(slot: u32, name: &str, parent: Option<u32>) -> Dimension {
        Dimension {
            slot: DimensionSlot(slot),
            id: DimensionId(Uuid::from_u128(u128::from(slot))),
            company: CompanySlot(0),
            kind: DimensionKind::Category,
            name: name.to_owned(),
            code: slot.is_multiple_of(2).then(|| slot.to_string()),
            parent: parent.map(DimensionSlot),
            is_deleted: false,
            created_at: Timestamp(0),
        }
    }

    fn sample() -> Vec<Branch> {
        grow(vec![
            dimension(7, "Orphan", Some(99)),
            dimension(1, "Travel", None),
            dimension(2, "hotels", Some(1)),
            dimension(3, "Flights", Some(1)),
            dimension(4, "Domestic", Some(3)),
            dimension(5, "Meals", None),
            dimension(6, "Meals", None),
        ])
    }

    #[test]
    fn children_stand_behind_their_parents_by_name() {
        let branches = sample();
        let shown: Vec<_> =
            branches.iter().map(|branch| (branch.level, branch.choice_words())).collect();
        let expected = [
            (0, "Meals"),
            (0, "Meals (6)"),
            (0, "Orphan"),
            (0, "Travel"),
            (1, "Travel › Flights"),
            (2, "Travel › Flights › Domestic (4)"),
            (1, "Travel › hotels (2)"),
        ];
        assert_eq!(shown, expected.map(|(level, words)| (level, words.to_owned())));
    }

    #[test]
    fn what_stands_below_one_is_a_range_behind_it() {
        let branches = sample();
        let rows = [(0, 0..1), (3, 3..7), (4, 4..6), (6, 6..7)];
        for (place, expected) in rows {
            assert_eq!(below_and_itself(&branches, place), expected, "{place}");
        }
    }
}
