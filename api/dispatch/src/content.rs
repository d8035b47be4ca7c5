//! The content of a message: its events as the tables show them, and its id. The text that a receiver
//! gets is made elsewhere.

use cardswitch_engine::directory::app::App;
use cardswitch_engine::directory::webhook_endpoint::WebhookEndpoint;
use cardswitch_engine::domain::event::{Event, EventNumber};
use cardswitch_engine::domain::ids::{CompanySlot, Timestamp, WebhookEndpointId};
use cardswitch_engine::store::{Snapshot, StoreError};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

/// The content of a message.
#[derive(Clone, Debug)]
pub enum Content {
    /// These events, as far as the endpoint may see them.
    Events(Vec<EventNumber>),
    /// These once more, if they are all still there. All of them had happened by this instant: a
    /// later event got the number of one that was lost.
    Again(Vec<EventNumber>, Timestamp),
    /// An example.
    Example,
}

/// An endpoint and the events that it may be sent now.
#[derive(Debug)]
pub struct EndpointEvents {
    /// The endpoint as the tables show it.
    pub endpoint: WebhookEndpoint,
    /// The companies whose events it may see; they rise.
    pub companies: Vec<CompanySlot>,
    /// The events, also those of other companies; none of an example.
    pub events: Vec<Event>,
}

impl Content {
    /// The numbers of the events.
    pub fn numbers(&self) -> &[EventNumber] {
        match self {
            Self::Events(numbers) | Self::Again(numbers, _) => numbers,
            Self::Example => &[],
        }
    }

    /// The content by the present rights and settings of `endpoint`, not as they were when the events
    /// were read; none where that is off, and the message not sent by hand.
    /// Errors: the tables cannot be read.
    pub fn address(
        &self,
        snapshot: &Snapshot,
        endpoint: &WebhookEndpoint,
    ) -> Result<Option<EndpointEvents>, StoreError> {
        let endpoint = snapshot.own::<WebhookEndpoint>(endpoint.company, endpoint.id)?;
        let is_told =
            |endpoint: &WebhookEndpoint| endpoint.is_enabled() || !matches!(self, Self::Events(_));
        let Some(endpoint) = endpoint.filter(is_told) else { return Ok(None) };
        let companies = companies_of(snapshot, &endpoint)?;
        let events = self.events(snapshot, endpoint.id)?;
        Ok(Some(EndpointEvents { endpoint, companies, events }))
    }

    fn events(
        &self,
        snapshot: &Snapshot,
        endpoint: WebhookEndpointId,
    ) -> Result<Vec<Event>, StoreError> {
        let events = events_at(snapshot, self.numbers())?;
        let (wanted, found) = (self.numbers().len(), events.len());
        match self {
            Self::Events(_) if found < wanted => {
                tracing::error!(endpoint = %endpoint.0, wanted, found, "events are missing");
                Ok(events)
            }
            Self::Again(_, told_at)
                if found < wanted || events.iter().any(|event| event.at > *told_at) =>
            {
                Ok(Vec::new())
            }
            _ => Ok(events),
        }
    }
}

/// The companies whose events an endpoint gets; they rise.
/// Errors: the tables cannot be read.
pub(crate) fn companies_of(
    snapshot: &Snapshot,
    endpoint: &WebhookEndpoint,
) -> Result<Vec<CompanySlot>, StoreError> {
    let Some(slot) = endpoint.app else { return Ok(vec![endpoint.company]) };
    let mut companies = snapshot.companies_of_app(slot)?;
    let app = snapshot.row::<App>(slot)?;
    // People of the company that registered it may change its address.
    if app.is_none_or(|app| app.company != endpoint.company) {
        companies.retain(|company| *company == endpoint.company);
    }
    Ok(companies)
}

/// The events with these numbers, in this order, as far as the log has them; neighbours are read
/// together.
/// Errors: the tables cannot be read.
fn events_at(snapshot: &Snapshot, numbers: &[EventNumber]) -> Result<Vec<Event>, StoreError> {
    let mut events = Vec::with_capacity(numbers.len());
    for run in numbers.chunk_by(|left, right| right.0 == left.0 + 1) {
        let [first, ..] = run else { continue };
        let after = EventNumber(first.0.saturating_sub(1));
        events.extend(snapshot.events_after(after, run.len())?);
    }
    Ok(events)
}

/// The id of the message with these events: the same for the same events, so that one that a crash
/// made the switch forget is known to its receiver. A directory that came out of a backup gives
/// numbers out again; `series` tells its messages from those of the one that was lost.
pub(crate) fn message_id(
    series: Uuid,
    endpoint: WebhookEndpointId,
    numbers: &[EventNumber],
) -> Uuid {
    let mut hash = Sha256::new();
    hash.update(b"cardswitch webhook message 1");
    hash.update(series.as_bytes());
    hash.update(endpoint.0.as_bytes());
    for number in numbers {
        hash.update(number.0.to_be_bytes());
    }
    let digest = hash.finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    uuid::Builder::from_random_bytes(bytes).into_uuid()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_named_by_endpoint_and_events() {
        let endpoint = |id| WebhookEndpointId(Uuid::from_u128(id));
        let numbers = [EventNumber(1), EventNumber(2)];
        let (series, other) = (Uuid::from_u128(7), Uuid::from_u128(8));
        let id = message_id(series, endpoint(1), &numbers);
        assert_eq!(id, message_id(series, endpoint(1), &numbers));
        assert_ne!(id, message_id(series, endpoint(2), &numbers));
        assert_ne!(id, message_id(series, endpoint(1), &numbers[..1]));
        assert_ne!(id, message_id(other, endpoint(1), &numbers));
    }
}
