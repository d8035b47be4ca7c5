//! The state of every handler of the API, and the one way in which handlers change anything.

use std::sync::Arc;

use cardswitch_edge::actor::note_at_hand;
use cardswitch_edge::operation::AccessTable;
use cardswitch_edge::peers::PeerNetwork;
use cardswitch_edge::switch::Switch;
use cardswitch_edge::token_rate::TokenRate;
use cardswitch_edge::write_error::WriteError;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::reply::Reply;
use cardswitch_engine::command::{Command, NotedCommand};
use cardswitch_engine::domain::business_date::{BusinessDate, date_at};
use cardswitch_engine::domain::company::Company;
use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_network::http::DoorState;
use cardswitch_notify::mail::news::tell;
use cardswitch_notify::mail::{MailDesk, News, Outbox};
use cardswitch_notify::webhooks::{Webhooks, is_concerned};
use cardswitch_secrets::Secrets;
use cardswitch_secrets::issuing::CardNumbers;
use cardswitch_wire::urls::Urls;

use crate::auth::callers::Callers;
use crate::auth::second_factor::SecondFactors;
use crate::auth::throttle::Throttle;
use crate::idempotency::Claim;
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
    /// Whether answers and webhooks meet faults on purpose.
    pub has_faults: bool,
}

impl AppState {
    /// The switch's time now.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.switch.engine().clock().now()
    }

    /// The date in a company's zone now.
    #[must_use]
    pub fn today(&self, company: &Company) -> BusinessDate {
        date_at(company.zone, self.now())
    }

    /// The state of the handlers of the network's HTTP door.
    #[must_use]
    pub fn network_door(&self) -> DoorState {
        let Self { switch, secrets, config, .. } = self;
        DoorState {
            switch: switch.clone(),
            secrets: Arc::clone(secrets),
            urls: config.urls.clone(),
        }
    }

    /// The tools and the outbox of letters.
    #[must_use]
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
    #[must_use]
    pub fn urls(&self) -> &Urls {
        &self.config.urls
    }

    /// Makes a change like `carry_out`, if the answer shows nothing of it: late tables are not
    /// waited for.
    /// Errors: a refusal, an overloaded or stopped switch, or an unknown outcome.
    pub async fn carry_out_unshown(&self, command: AdminCommand) -> Result<(), WriteError> {
        match self.carry_out(command).await {
            Err(WriteError::NotVisibleYet) => Ok(()),
            outcome => outcome,
        }
    }

    /// Has the shard make a change and waits until the tables show it. The record of the change
    /// also holds the caller, and the claim of a request with an idempotency key.
    /// Errors: a refusal, an overloaded or stopped switch, an unknown outcome, or late tables.
    pub async fn carry_out(&self, command: AdminCommand) -> Result<(), WriteError> {
        let claim = Claim::at_hand();
        let note = note_at_hand();
        let concerns_webhooks = is_concerned(&command);
        let command = match &claim {
            Some(claim) => claim.beside(command, note),
            None => Command::Noted(Box::new(NotedCommand { note, change: command })),
        };
        let reply = self.switch.ask(command.into()).await.map_err(WriteError::NotTaken)?;
        if let Some(claim) = &claim {
            claim.note(&reply);
        }
        match reply {
            Reply::Done(seq) if self.switch.visible(seq).await => {
                if concerns_webhooks {
                    self.webhooks.reload().await;
                }
                Ok(())
            }
            Reply::Done(seq) => {
                if concerns_webhooks {
                    let (switch, webhooks) = (self.switch.clone(), Arc::clone(&self.webhooks));
                    tokio::spawn(async move {
                        // Endpoints are also read every minute, if it is still not seen then.
                        switch.visible(seq).await;
                        webhooks.reload().await;
                    });
                }
                Err(WriteError::NotVisibleYet)
            }
            Reply::Rejected(rejection) => Err(WriteError::Rejected(rejection)),
            // No other reply is ever given to an admin command.
            Reply::OutcomeUnknown | Reply::Network(_) | Reply::Ticked => {
                Err(WriteError::OutcomeUnknown)
            }
        }
    }

    /// Makes a change like `carry_out`, and has somebody notified of it once it is made. The news
    /// is on disk before. If it cannot be, the change is made all the same, for a lost letter can
    /// be sent again.
    /// Errors: those of `carry_out`.
    pub async fn carry_out_and_tell(
        &self,
        command: AdminCommand,
        news: Option<News>,
    ) -> Result<(), WriteError> {
        let held = match news {
            Some(news) => self.outbox.hold(news).await,
            None => None,
        };
        let made = self.carry_out(command).await;
        let Some(held) = held else { return made };
        match made {
            // No answer waits for letters.
            Ok(()) | Err(WriteError::NotVisibleYet) => {
                tokio::spawn(tell(self.mail_desk(), held));
            }
            Err(WriteError::Rejected(_) | WriteError::NotTaken(_)) => {
                self.outbox.withdraw(held).await;
            }
            // The next start sees whether it was made.
            Err(WriteError::OutcomeUnknown) => {}
        }
        made
    }
}
