//! The state of every handler of the API.

use std::sync::Arc;

use cardswitch_edge::operation::AccessTable;
use cardswitch_edge::peers::PeerNetwork;
use cardswitch_edge::switch::Switch;
use cardswitch_edge::token_rate::TokenRate;
use cardswitch_engine::domain::business_date::{BusinessDate, date_at};
use cardswitch_engine::domain::company::Company;
use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_network::http::{DoorState, HttpFaults};
use cardswitch_notify::mail::{MailDesk, Outbox};
use cardswitch_notify::webhooks::Webhooks;
use cardswitch_secrets::Secrets;
use cardswitch_secrets::issuing::CardNumbers;
use cardswitch_wire::urls::Urls;

use crate::auth::callers::Callers;
use crate::auth::passwords::PasswordCheck;
use crate::auth::second_factor::SecondFactors;
use crate::auth::throttle::Throttle;
use crate::receipts::ReceiptFiles;

/// Shared by all requests; cheap to clone.
#[derive(Clone)]
pub struct AppState {
    /// The way to the engine.
    pub switch: Switch,
    /// Keys.
    pub secrets: Arc<Secrets>,
    /// The access that each operation needs.
    pub access: &'static AccessTable,
    /// Settings of the API.
    pub config: Arc<ApiConfig>,
    /// The files of receipts.
    pub receipts: Arc<ReceiptFiles>,
    /// The holders of recently seen tokens.
    pub callers: Arc<Callers>,
    /// The check of passwords.
    pub passwords: Arc<PasswordCheck>,
    /// The delays for guesses.
    pub throttle: Arc<Throttle>,
    /// The questions to users after their passwords.
    pub second_factors: Arc<SecondFactors>,
    /// The outbox of mail.
    pub outbox: Arc<Outbox>,
    /// The delivery of events to companies and apps.
    pub webhooks: Arc<Webhooks>,
    /// How often each token may ask.
    pub token_rate: Arc<TokenRate>,
}

/// Settings of the API.
#[derive(Clone, Debug)]
pub struct ApiConfig {
    /// Addresses of objects.
    pub urls: Urls,
    /// The source of card numbers.
    pub card_numbers: CardNumbers,
    /// The card network that requisitions are for.
    pub requisition_network: String,
    /// Proxies whose word counts for the address a request comes from.
    pub trusted_proxies: Vec<PeerNetwork>,
    /// The faults that answers and webhooks meet on purpose, if any.
    pub faults: Option<Arc<HttpFaults>>,
}

impl AppState {
    /// The switch's time now, by which the engine judges too.
    pub fn now(&self) -> Timestamp {
        self.switch.engine.now()
    }

    /// The clock's time now, which other devices know.
    pub fn clock_time(&self) -> Timestamp {
        self.switch.engine.clock.now()
    }

    /// The date in a company's zone now.
    pub fn today(&self, company: &Company) -> BusinessDate {
        date_at(company.zone, self.now())
    }

    /// The state of the handlers of the network's HTTP door.
    pub fn network_door(&self) -> DoorState {
        let Self { switch, secrets, config, .. } = self;
        DoorState {
            switch: switch.clone(),
            secrets: Arc::clone(secrets),
            urls: config.urls.clone(),
            faults: config.faults.clone(),
        }
    }

    /// The tools and the outbox of letters.
    pub fn mail_desk(&self) -> MailDesk {
        let Self { switch, secrets, outbox, config, .. } = self;
        MailDesk {
            switch: switch.clone(),
            secrets: Arc::clone(secrets),
            outbox: Arc::clone(outbox),
            urls: config.urls.clone(),
        }
    }

    /// The addresses of objects.
    pub fn urls(&self) -> &Urls {
        &self.config.urls
    }
}
