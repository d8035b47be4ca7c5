//! The text of a webhook: the array of events that a receiver gets.
//!
//! An event names its kind, its transaction and its company, and nothing more; a receiver with
//! access asks `/v1` for the rest. Source: spec "Events".

use std::collections::BTreeMap;

use bytes::Bytes;
use cardswitch_engine::domain::event::{Event, EventKind};
use cardswitch_engine::domain::ids::{CompanyId, CompanySlot};
use cardswitch_engine::store::{Snapshot, StoreError};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

/// The transaction of examples. There is none of this id.
const EXAMPLE_TRANSACTION: Uuid = Uuid::from_u128(0x0000_0000_0000_7000_8000_0000_0000_0000);

/// An event as receivers get it.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct EventBody {
    /// The event.
    #[schema(value_type = EventName)]
    pub event: &'static str,
    /// To which transaction.
    pub transaction: EventObject,
    /// Its company.
    pub company: EventObject,
}

/// Object of an event.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub struct EventObject {
    /// Its id.
    pub id: Uuid,
}

cardswitch_wire::words! {
    /// Kind of an event of a transaction.
    EventName: EventKind::ALL.map(event_name);
}

impl EventBody {
    /// The event as receivers get it.
    pub const fn new(event: &Event, company: CompanyId) -> Self {
        Self {
            event: event_name(event.kind),
            transaction: EventObject { id: event.transaction_id.0 },
            company: EventObject { id: company.0 },
        }
    }

    /// An example, of a transaction that is none.
    pub const fn example(company: CompanyId) -> Self {
        Self {
            event: event_name(EventKind::Created),
            transaction: EventObject { id: EXAMPLE_TRANSACTION },
            company: EventObject { id: company.0 },
        }
    }
}

/// The name of an event. Source: spec "Events".
pub const fn event_name(kind: EventKind) -> &'static str {
    match kind {
        EventKind::Created => "transaction.created",
        EventKind::Updated => "transaction.updated",
    }
}

/// The content of a message.
#[derive(Clone, Debug)]
pub struct MessageContent {
    /// The array of events.
    pub body: Bytes,
    /// The place of each event among those of its transaction.
    pub sequence: String,
}

/// Composes the message of these events; none where the receiver may see none of them.
/// Errors: the tables cannot be read.
pub fn compose(
    snapshot: &Snapshot,
    events: &[Event],
    may_tell: impl Fn(CompanySlot) -> bool,
) -> Result<Option<MessageContent>, StoreError> {
    let mut names = BTreeMap::new();
    let (mut bodies, mut sequence) = (Vec::with_capacity(events.len()), Vec::new());
    for event in events {
        if !may_tell(event.company) {
            continue;
        }
        let Some(company) = company_id(snapshot, &mut names, event.company)? else { continue };
        bodies.push(EventBody::new(event, company));
        sequence.push(event.at.0.to_string());
    }
    if bodies.is_empty() {
        return Ok(None);
    }
    Ok(Some(MessageContent { body: render(&bodies), sequence: sequence.join(",") }))
}

/// The message of an example.
pub fn example(company: CompanyId) -> MessageContent {
    MessageContent { body: render(&[EventBody::example(company)]), sequence: "0".to_owned() }
}

fn render(bodies: &[EventBody]) -> Bytes {
    // INVARIANT: names and ids always render.
    serde_json::to_vec(bodies).unwrap_or_default().into()
}

/// The public id of a company, looked up once.
pub(super) fn company_id(
    snapshot: &Snapshot,
    known: &mut BTreeMap<CompanySlot, Option<CompanyId>>,
    slot: CompanySlot,
) -> Result<Option<CompanyId>, StoreError> {
    if let Some(id) = known.get(&slot) {
        return Ok(*id);
    }
    let id = snapshot.company(slot)?.map(|company| company.id);
    known.insert(slot, id);
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_told_as_documented() {
        let composed = example(CompanyId(Uuid::from_u128(5)));
        assert_eq!(
            composed.body,
            r#"[{"event":"transaction.created","transaction":{"id":"00000000-0000-7000-8000-000000000000"},"company":{"id":"00000000-0000-0000-0000-000000000005"}}]"#
        );
    }
}
