//! One request to an endpoint: its message is composed by what the tables show, signed and sent.

use std::sync::Arc;

use cardswitch_dispatch::attempt::{AttemptFailure, AttemptResult, Bodies};
use cardswitch_dispatch::content::{Content, EndpointEvents};
use cardswitch_dispatch::dispatcher::{Request, RequestReport};
use cardswitch_edge::switch::Switch;
use cardswitch_engine::clock::{Clock, Stopwatch};
use cardswitch_engine::directory::webhook_endpoint::WebhookEndpoint;
use cardswitch_engine::store::{Snapshot, StoreError};
use cardswitch_secrets::webhook_signature::{
    SignedMessage, WebhookSecret, message_text, signature_header,
};
use cardswitch_secrets::{SealedSecret, Secrets};

use super::composing::{MessageContent, compose, example};
use super::sender::{Delivery, Sender};

/// A request to an endpoint.
#[derive(Debug)]
pub struct Job {
    /// The way to the engine.
    pub switch: Switch,
    /// The keys that open the secret of the endpoint.
    pub secrets: Arc<Secrets>,
    /// The sender of requests.
    pub sender: Sender,
    /// The request.
    pub request: Request,
}

impl Job {
    /// Composes, signs and sends.
    pub async fn run(self) -> RequestReport {
        let watch = Stopwatch::start();
        let mut bodies = Bodies::NONE;
        let result = self.send(&mut bodies).await;
        let duration_ms = u32::try_from(watch.elapsed().as_millis()).unwrap_or(u32::MAX);
        RequestReport { result, duration_ms, bodies }
    }

    async fn send(&self, bodies: &mut Bodies) -> AttemptResult {
        let access = self.switch.access_changes();
        let delivery = match self.delivery() {
            Ok(delivery) => delivery,
            Err(failure) => return AttemptResult::Unanswered(failure),
        };
        // Rights may end while its host is looked up and the connection is made.
        let check = |delivery| {
            let checked = match access.has_changed() {
                Ok(false) => Ok(delivery),
                _ => self.delivery(),
            };
            checked.inspect(|checked| bodies.request = Bodies::text_of(&checked.body))
        };
        let (result, answer) = self.sender.send_checked(delivery, check).await;
        bodies.answer = Bodies::text_of(&answer);
        result
    }

    /// The delivery by the present rights and settings of the endpoint.
    fn delivery(&self) -> Result<Delivery, AttemptFailure> {
        match self.switch.read_at_once(|snapshot| self.make(snapshot)) {
            // A message that waited for another address is tried again at the present one.
            Ok(Some(delivery)) if delivery.address != self.request.endpoint.url => {
                Err(AttemptFailure::NotSent)
            }
            Ok(Some(delivery)) => Ok(delivery),
            Ok(None) => Err(AttemptFailure::NothingToTell),
            Err(error) => {
                tracing::error!(%error, endpoint = %self.request.endpoint.id.0, "a webhook cannot be made");
                Err(AttemptFailure::NotSent)
            }
        }
    }

    fn make(&self, snapshot: &Snapshot) -> Result<Option<Delivery>, StoreError> {
        let addressed = self.request.content.address(snapshot, &self.request.endpoint)?;
        let Some(addressed) = addressed else { return Ok(None) };
        let Some(MessageContent { body, sequence }) = self.compose(snapshot, &addressed)? else {
            return Ok(None);
        };
        let id = message_text(self.request.message);
        // A matter between two machines that keep the time, whatever the time of a simulation is.
        let timestamp_s = Clock::System.now().0.div_euclid(1_000_000);
        let message = SignedMessage { id: &id, timestamp_s, body: &body };
        let signature = signature_header(&self.signing_secrets(&addressed.endpoint)?, &message);
        let (address, tries) = (addressed.endpoint.url, self.request.tries);
        Ok(Some(Delivery { address, id, timestamp_s, signature, sequence, tries, body }))
    }

    fn compose(
        &self,
        snapshot: &Snapshot,
        EndpointEvents { companies, events, .. }: &EndpointEvents,
    ) -> Result<Option<MessageContent>, StoreError> {
        if matches!(self.request.content, Content::Example) {
            let company = snapshot.company(self.request.endpoint.company)?;
            return Ok(company.map(|company| example(company.id)));
        }
        compose(snapshot, events, |company| companies.binary_search(&company).is_ok())
    }

    fn signing_secrets(
        &self,
        endpoint: &WebhookEndpoint,
    ) -> Result<Vec<WebhookSecret>, StoreError> {
        let sealed = endpoint.signing_secrets(self.request.time);
        let of = SealedSecret::Webhook(endpoint.id);
        let opened =
            sealed.map(|sealed| self.secrets.open(of, sealed).map(WebhookSecret::from_bytes));
        opened.collect::<Option<_>>().ok_or_else(|| StoreError::Inconsistent {
            what: "the secret of a webhook endpoint was sealed with another key".to_owned(),
        })
    }
}
