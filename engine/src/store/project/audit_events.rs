//! Writes audit events, numbered within their company, and what they are found by.

use std::collections::BTreeMap;

use redb::{ReadableTable, WriteTransaction};

use crate::domain::audit::AuditEvent;
use crate::domain::ids::CompanySlot;
use crate::store::error::StoreError;
use crate::store::rows;
use crate::store::tables::{AUDIT_EVENTS, AUDIT_MARKS};

/// The kinds of marks. Part of the format.
pub(in crate::store) const MARK_ACTOR: u8 = 0;
pub(in crate::store) const MARK_OBJECT: u8 = 1;

/// The list of an event: that of its company, or one behind all companies for events without one.
pub(in crate::store) fn audit_owner(company: Option<CompanySlot>) -> u32 {
    company.map_or(u32::MAX, |company| company.0)
}

/// Appends events, in the order of their records.
pub(super) fn write_events(
    write_txn: &WriteTransaction,
    events: &[AuditEvent],
) -> Result<(), StoreError> {
    if events.is_empty() {
        return Ok(());
    }
    let mut stored = write_txn.open_table(AUDIT_EVENTS.definition())?;
    let mut marks = write_txn.open_table(AUDIT_MARKS)?;
    let mut numbers: BTreeMap<u32, u64> = BTreeMap::new();
    for event in events {
        let owner = audit_owner(event.company);
        let last = match numbers.get(&owner) {
            Some(last) => *last,
            None => {
                let newest = stored.range((owner, 0)..=(owner, u64::MAX))?.next_back();
                newest.transpose()?.map_or(0, |(key, _)| key.value().1)
            }
        };
        let number = last + 1;
        numbers.insert(owner, number);
        stored.insert((owner, number), rows::encode(AUDIT_EVENTS.name(), event)?.as_slice())?;
        for actor in event.actor.ids().into_iter().flatten() {
            marks.insert((owner, MARK_ACTOR, actor.as_u128(), number), ())?;
        }
        if let Some(object) = event.object {
            marks.insert((owner, MARK_OBJECT, object.as_u128(), number), ())?;
        }
    }
    Ok(())
}
