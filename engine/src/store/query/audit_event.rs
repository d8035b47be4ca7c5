//! Audit events: who changed what in a company.
//!
//! Events are numbered within their company, so a page of all of them is counted and found at once,
//! and the newest number is their count. Events by one actor or on one object are listed by its
//! mark; an action is looked for among those.

use std::collections::BTreeSet;

use redb::ReadOnlyTable;
use uuid::Uuid;

use super::list::{self, ListPage, Order, Page};
use crate::domain::audit::AuditEvent;
use crate::domain::ids::{CompanySlot, Timestamp};
use crate::store::error::StoreError;
use crate::store::project::{MARK_ACTOR, MARK_OBJECT, audit_owner};
use crate::store::query::Snapshot;
use crate::store::tables::{AUDIT_EVENTS, AUDIT_MARKS};

/// A filter for the events of a company; absent parts match any.
#[derive(Clone, Debug, Default)]
pub struct AuditFilter {
    /// Done by this token, user or member.
    pub actor: Option<Uuid>,
    /// This action, such as `card.updated`.
    pub action: Option<String>,
    /// Done to one of these objects; to any where there are none.
    pub objects: Vec<Uuid>,
    /// Done to such a thing, such as `card`.
    pub object_kind: Option<String>,
}

type Events = ReadOnlyTable<(u32, u64), &'static [u8]>;

impl Snapshot {
    /// Lists what was changed in a company, or outside of any.
    /// Cost: O(page) without a filter, else O(events that the actor or object has, or all).
    pub fn audit_events(
        &self,
        company: Option<CompanySlot>,
        filter: &AuditFilter,
        page: &Page,
    ) -> Result<ListPage<AuditEvent>, StoreError> {
        let owner = audit_owner(company);
        let events = self.table(AUDIT_EVENTS.definition())?;
        let newest = events.range((owner, 0)..=(owner, u64::MAX))?.next_back().transpose()?;
        let count = newest.map_or(0, |(key, _)| key.value().1);
        let first = bound(&events, owner, count, page.created_after)?.unwrap_or(1);
        let end = bound(&events, owner, count, page.created_before)?.unwrap_or(count + 1);
        if first >= end {
            return Ok(ListPage::EMPTY);
        }
        let accepts = |number| {
            let event = event_at(&events, owner, number)?;
            Ok(filter.accepts(&event).then_some(event))
        };
        let key = |kind, id: Uuid, number| (owner, kind, id.as_u128(), number);
        if !filter.objects.is_empty() {
            let marks = self.table(AUDIT_MARKS)?;
            let mut numbers = BTreeSet::new();
            for object in &filter.objects {
                let of_object = key(MARK_OBJECT, *object, first)..key(MARK_OBJECT, *object, end);
                for entry in marks.range(of_object)? {
                    self.look_at_row()?;
                    numbers.insert(entry?.0.value().3);
                }
            }
            return cut(page, numbers, accepts);
        }
        match filter.actor {
            Some(actor) => {
                let of_actor = key(MARK_ACTOR, actor, first)..key(MARK_ACTOR, actor, end);
                let marks = self.table(AUDIT_MARKS)?;
                list::filter_page(self, marks.range(of_actor)?, page, |key| accepts(key.3))
            }
            None if filter.action.is_some() || filter.object_kind.is_some() => {
                let keys = events.range((owner, first)..(owner, end))?;
                list::filter_page(self, keys, page, |key| accepts(key.1))
            }
            None => page_of(page, first, end).load(|number| event_at(&events, owner, number)),
        }
    }
}

impl AuditFilter {
    fn accepts(&self, event: &AuditEvent) -> bool {
        self.actor.is_none_or(|actor| event.actor.ids().contains(&Some(actor)))
            && (self.objects.is_empty()
                || event.object.is_some_and(|object| self.objects.contains(&object)))
            && self.action.as_ref().is_none_or(|action| event.action == *action)
            && self.object_kind.as_ref().is_none_or(|kind| event.object_kind == *kind)
    }
}

/// A page of the events with these numbers that are accepted.
fn cut(
    page: &Page,
    numbers: BTreeSet<u64>,
    accepts: impl Fn(u64) -> Result<Option<AuditEvent>, StoreError>,
) -> Result<ListPage<AuditEvent>, StoreError> {
    let mut numbers: Vec<_> = numbers.into_iter().collect();
    if page.order == Order::NewestFirst {
        numbers.reverse();
    }
    let mut listed = ListPage::EMPTY;
    for number in numbers {
        let Some(event) = accepts(number)? else { continue };
        listed.add(page, event);
    }
    Ok(listed)
}

/// The number of the first event at an instant or later.
fn bound(
    events: &Events,
    owner: u32,
    count: u64,
    at: Option<Timestamp>,
) -> Result<Option<u64>, StoreError> {
    let Some(at) = at else { return Ok(None) };
    let is_before = |number| Ok(event_at(events, owner, number)?.at < at);
    list::partition_point(1, count + 1, is_before).map(Some)
}

fn event_at(events: &Events, owner: u32, number: u64) -> Result<AuditEvent, StoreError> {
    let event = super::stored_row(&AUDIT_EVENTS, events, (owner, number))?;
    event.ok_or_else(|| StoreError::Inconsistent {
        what: format!("audit event {number} of {owner} is missing"),
    })
}

/// A page of the numbers `first..end`.
fn page_of(page: &Page, first: u64, end: u64) -> ListPage<u64> {
    let count = end - first;
    let skipped = (page.offset as u64).min(count);
    let taken = (page.limit as u64).min(count - skipped);
    let rows = match page.order {
        Order::OldestFirst => (first + skipped..first + skipped + taken).collect(),
        Order::NewestFirst => (end - skipped - taken..end - skipped).rev().collect(),
    };
    ListPage { count, rows }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_cut_from_either_end() {
        let page = |offset, limit, order| Page { offset, order, ..Page::first(limit) };
        let rows = [
            (page(0, 2, Order::NewestFirst), vec![7, 6]),
            (page(3, 5, Order::NewestFirst), vec![4, 3]),
            (page(9, 5, Order::NewestFirst), vec![]),
            (page(0, 2, Order::OldestFirst), vec![3, 4]),
            (page(4, 5, Order::OldestFirst), vec![7]),
            (page(5, 5, Order::OldestFirst), vec![]),
        ];
        for (page, expected) in rows {
            assert_eq!(page_of(&page, 3, 8), ListPage { count: 5, rows: expected }, "{page:?}");
        }
    }
}
