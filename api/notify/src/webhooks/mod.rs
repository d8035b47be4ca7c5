//! Webhooks: events on their way to the endpoints of companies and apps. Source: spec "Events".
//!
//! | file | what |
//! |---|---|
//! | `addresses` | the addresses to which they may be sent |
//! | `composing` | the text of a message |
//! | `job`, `sender` | one request: composed and signed; over the network |
//! | `attempt_words` | outcomes in words |
//! | `driver` | the task that drives the dispatcher |
//! | `places_file` | the file of the places of lanes |
//! | `cursor`, `streams`, `tail` | places in the log, as clients hold them; answers that wait |
//!
//! The events still to be delivered, and when, are in the crate `dispatch`: its steps know no clock and
//! no network. Events come from the journal by way of the tables, never from handlers, so a crash loses and invents
//! none.

pub mod addresses;
pub mod attempt_words;
pub mod composing;
pub mod cursor;
mod driver;
pub mod job;
pub mod places_file;
pub mod sender;
mod streams;
mod tail;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub use cardswitch_dispatch::dispatcher::DeliveryFigures;
pub use cardswitch_dispatch::{attempt, content, deliveries, dispatcher, lane, notes, places};

use cardswitch_acquiring::fault_plan::FaultPlan;
use cardswitch_bounds::TooManyTries;
use cardswitch_dispatch::dispatcher::{
    Dispatcher, DispatcherOrder, ORDERS_MAX, ReplyTo, RequestPlaces, Tools,
};
use cardswitch_edge::descriptors::{ASKED_SENDS_MAX, DescriptorShares};
use cardswitch_edge::error::ApiError;
use cardswitch_edge::switch::Switch;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::access_token::AccessTokenCommand;
use cardswitch_engine::directory::app::AppCommand;
use cardswitch_engine::directory::member::MemberCommand;
use cardswitch_engine::directory::ticket::TicketCommand;
use cardswitch_engine::domain::event::EventNumber;
use cardswitch_engine::domain::ids::{CompanySlot, WebhookEndpointId};
use cardswitch_engine::store::StoreError;
use cardswitch_engine::store::query::EventPage;
use cardswitch_secrets::Secrets;
use cardswitch_secrets::issuing::{RandomSource, SystemRandom};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use uuid::Uuid;

use self::addresses::Reach;
use self::attempt::Attempt;
use self::deliveries::{Deliveries, DeliveriesError, RemoteDeliveries};
use self::driver::{Driver, DriverTools};
use self::lane::EndpointHealth;
use self::sender::Sender;
use self::streams::Streams;
pub use self::streams::{PagePlace, StreamPlace};
use self::tail::Tail;

/// How long a caller waits until its change counts.
const RELOAD_WAIT: Duration = Duration::from_secs(1);

/// The dispatcher has stopped, or has more to do than it can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DispatcherRefusal;

impl From<DispatcherRefusal> for ApiError {
    fn from(DispatcherRefusal: DispatcherRefusal) -> Self {
        Self::overloaded()
    }
}

/// The way to the dispatcher.
#[derive(Debug)]
pub struct Webhooks {
    orders: mpsc::Sender<DispatcherOrder>,
    figures: Arc<Mutex<DeliveryFigures>>,
    /// How far webhooks may go.
    pub reach: Reach,
    streams: Arc<Streams>,
    tail: Tail,
    /// Turns true when answers that would never end by themselves are to end.
    pub streams_stop: watch::Receiver<bool>,
}

/// The parts that the dispatcher is made of.
#[derive(Debug)]
pub struct Equipment<'a> {
    /// The way to the engine.
    pub switch: Switch,
    /// The keys that open the secrets of endpoints.
    pub secrets: Arc<Secrets>,
    /// The data directory.
    pub data: &'a Path,
    /// The other place where the state of deliveries is kept.
    pub elsewhere: Option<Box<dyn RemoteDeliveries>>,
    /// How far webhooks may go.
    pub reach: Reach,
    /// The faults of webhooks, for receivers under test.
    pub faults: Option<Arc<FaultPlan>>,
    /// How many connections they may have, in and out.
    pub shares: DescriptorShares,
    /// Turns true when the switch stops.
    pub stop: watch::Receiver<bool>,
    /// Turns true when answers that would never end by themselves are to end.
    pub streams_stop: watch::Receiver<bool>,
}

impl Webhooks {
    /// Starts to deliver. The task ends when the switch stops, with everything written down.
    /// Errors: the stored state of deliveries cannot be read.
    pub fn start(equipment: Equipment<'_>) -> Result<(Arc<Self>, JoinHandle<()>), DeliveriesError> {
        let Equipment {
            switch,
            secrets,
            data,
            elsewhere,
            reach,
            faults,
            shares,
            stop,
            streams_stop,
        } = equipment;
        let deliveries = Arc::new(Deliveries::open(data)?.and(elsewhere));
        let (orders, taken) = mpsc::channel(ORDERS_MAX);
        let figures = Arc::default();
        let engine = &switch.engine;
        let (healthy, failing) = (shares.sends.healthy, shares.sends.failing);
        let tools = Tools {
            deliveries: Arc::clone(&deliveries),
            places: RequestPlaces { healthy, failing, asked: ASKED_SENDS_MAX },
            ids: Box::new(|at| SystemRandom.id(at).ok()),
            lane_places: places_file::read(data),
        };
        let dispatcher = Dispatcher::new(tools, &engine.store, engine.decides_after)?;
        let tools = DriverTools {
            switch,
            secrets,
            sender: Sender::within(reach, shares.sends, faults),
            deliveries,
            data: data.to_path_buf(),
            orders: orders.downgrade(),
            figures: Arc::clone(&figures),
        };
        let task = tokio::spawn(Driver::new(dispatcher, tools).run(taken, stop));
        Ok((Self::reaching(orders, figures, reach, (&shares, streams_stop)), task))
    }

    /// The way to a dispatcher of another process: events are read, and orders are refused.
    pub fn elsewhere(
        reach: Reach,
        shares: &DescriptorShares,
        streams_stop: watch::Receiver<bool>,
    ) -> Arc<Self> {
        let (orders, _) = mpsc::channel(1);
        Self::reaching(orders, Arc::default(), reach, (shares, streams_stop))
    }

    fn reaching(
        orders: mpsc::Sender<DispatcherOrder>,
        figures: Arc<Mutex<DeliveryFigures>>,
        reach: Reach,
        (shares, streams_stop): (&DescriptorShares, watch::Receiver<bool>),
    ) -> Arc<Self> {
        let streams = Arc::new(Streams::new(shares.streams_max, shares.waiting_pages_max));
        Arc::new(Self { orders, figures, reach, streams, tail: Tail::default(), streams_stop })
    }

    /// Takes a place among the answers that wait for events.
    /// Errors: none is free.
    pub fn take_stream_place(&self, company: CompanySlot) -> Result<StreamPlace, TooManyTries> {
        self.streams.take(company)
    }

    /// Takes a place for a page that is answered only when there is an event.
    /// Errors: none is free.
    pub fn take_page_place(&self, company: CompanySlot) -> Result<PagePlace, TooManyTries> {
        self.streams.take_for_page(company)
    }

    /// The events of a company after one, as the tables show them now, for one who follows the log;
    /// none where so many came since that they have to be read from it.
    /// Errors: the tables cannot be read.
    pub fn newest_events_after(
        &self,
        switch: &Switch,
        place: (CompanySlot, EventNumber),
        max: usize,
    ) -> Result<Option<EventPage>, StoreError> {
        self.tail.company_events_after(switch, place, max)
    }

    /// How deliveries do, all in all; about a second old.
    pub fn figures(&self) -> DeliveryFigures {
        *self.figures.lock()
    }

    /// Endpoints, or the access of apps, have changed. Waits, not for long, until that counts.
    pub async fn reload(&self) {
        let reloaded = self.ask(|reply| DispatcherOrder::Reload(Some(reply)));
        drop(tokio::time::timeout(RELOAD_WAIT, reloaded).await);
    }

    /// Has everything after an event delivered again, whatever crashes from then on. Returns
    /// whether there is such an endpoint, and on.
    /// Errors: the dispatcher's, or it could not be written down.
    pub async fn recover(
        &self,
        id: WebhookEndpointId,
        after: EventNumber,
    ) -> Result<bool, DispatcherRefusal> {
        self.ask(|reply| DispatcherOrder::Recover(id, after, reply)).await
    }

    /// Sends an example and waits for its outcome; none where there is no such endpoint.
    pub async fn send_example(
        &self,
        id: WebhookEndpointId,
    ) -> Result<Option<Attempt>, DispatcherRefusal> {
        self.ask(|reply| DispatcherOrder::Example(id, reply)).await
    }

    /// Sends the message of an attempt once more and waits for its outcome; none where there is no
    /// such attempt.
    pub async fn resend(
        &self,
        id: WebhookEndpointId,
        attempt: Uuid,
    ) -> Result<Option<Attempt>, DispatcherRefusal> {
        self.ask(|reply| DispatcherOrder::Resend(id, attempt, reply)).await
    }

    /// The latest attempts, the newest first.
    pub async fn attempts(&self, id: WebhookEndpointId) -> Result<Vec<Attempt>, DispatcherRefusal> {
        self.ask(|reply| DispatcherOrder::Attempts(id, reply)).await
    }

    /// How endpoints do, in their order; none for one that is not known.
    pub async fn health(
        &self,
        ids: Vec<WebhookEndpointId>,
    ) -> Result<Vec<Option<EndpointHealth>>, DispatcherRefusal> {
        self.ask(|reply| DispatcherOrder::Health(ids, reply)).await
    }

    async fn ask<T: Send + 'static>(
        &self,
        order: impl FnOnce(ReplyTo<T>) -> DispatcherOrder,
    ) -> Result<T, DispatcherRefusal> {
        let (reply, answer) = oneshot::channel();
        // The caller may have hung up.
        let reply = Box::new(|value| drop(reply.send(value)));
        self.orders.try_send(order(reply)).map_err(|_| DispatcherRefusal)?;
        answer.await.map_err(|_| DispatcherRefusal)
    }
}

/// Whether a change concerns the receivers of events.
pub fn is_concerned(command: &AdminCommand) -> bool {
    match command {
        AdminCommand::WithPassword(_, command) => is_concerned(command),
        AdminCommand::WebhookEndpoint(_)
        | AdminCommand::App(AppCommand::Delete(..) | AppCommand::RevokeTokens(..))
        | AdminCommand::AccessToken(
            AccessTokenCommand::Grant(_) | AccessTokenCommand::Revoke(..),
        )
        | AdminCommand::Ticket(TicketCommand::ExchangeCode(_) | TicketCommand::RevokeCode(_))
        | AdminCommand::Member(MemberCommand::Delete(..) | MemberCommand::Update(..)) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use cardswitch_engine::directory::access_token::{
        AccessScope, NewAccessToken, NewTokenGrant, TokenOrigin,
    };
    use cardswitch_engine::directory::user::{ProvenPassword, UserCommand};
    use cardswitch_engine::domain::ids::{AccessTokenId, CompanyId, UserId};

    use super::*;

    /// Once, webhooks noticed an app's first token by password grant up to a minute late.
    #[test]
    fn what_is_done_for_a_password_concerns_as_without_one() {
        let token = NewAccessToken {
            id: AccessTokenId(Uuid::nil()),
            digest: [1; 32],
            company: CompanyId(Uuid::nil()),
            scope: AccessScope::default(),
        };
        let grant = AccessTokenCommand::Grant(Box::new(NewTokenGrant {
            token,
            app: None,
            member: None,
            origin: TokenOrigin::Password,
            label: "Books".parse().unwrap(),
        }));
        let ends = UserCommand::EndSessions(UserId(Uuid::nil()));
        let rows = [(AdminCommand::AccessToken(grant), true), (AdminCommand::User(ends), false)];
        for (command, expected) in rows {
            assert_eq!(is_concerned(&command), expected, "{command:?}");
            let proven = ProvenPassword {
                user: UserId(Uuid::nil()),
                password_hash: None,
                totp_seed: None,
                answer_hash: None,
            };
            let command = AdminCommand::WithPassword(proven, Box::new(command));
            assert_eq!(is_concerned(&command), expected, "{command:?}");
        }
    }
}
