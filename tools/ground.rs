//! A data directory to stand on: companies with cards whose numbers are known, endpoints, purchases of
//! the past. Made in process, by the commands that the doors would submit, then left at rest.

use std::path::PathBuf;

use cardswitch_benches::installation::{
    ACCESS_TOKEN, CardHashes, Installation, NETWORK_KEY, authorize_many, card_number, cards,
    secrets,
};
use cardswitch_benches::program::{Program, Purchases, company_id};
use cardswitch_engine::command::Command;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::webhook_endpoint::{NewWebhookEndpoint, WebhookEndpointCommand};
use cardswitch_engine::domain::ids::WebhookEndpointId;
use cardswitch_engine::domain::text::LineText;
use cardswitch_engine::engine::Retention;
use cardswitch_feed::Card;
use cardswitch_harness::{Credentials, Switch};
use cardswitch_secrets::SealedSecret;
use cardswitch_secrets::issuing::SystemRandom;
use cardswitch_secrets::webhook_signature::WebhookSecret;
use uuid::Uuid;

use crate::Outcome;

/// The contents of the directory.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Cards of all companies together.
    pub cards: u64,
    /// Companies that share them.
    pub companies: u64,
    /// The addresses of the companies' endpoints, the same number for each company, in order.
    pub endpoints: Vec<String>,
    /// Transactions that are there already; endpoints are older, and have been told of none.
    pub purchases: u64,
}

impl Plan {
    /// One company with so many cards.
    pub const fn of_cards(cards: u64) -> Self {
        Self { cards, companies: 1, endpoints: Vec::new(), purchases: 0 }
    }
}

/// A directory at rest, gone with the value.
#[derive(Debug)]
pub struct Ground {
    home: Installation,
    /// The data directory.
    pub data: PathBuf,
    /// Its cards.
    pub cards: Vec<Card>,
}

impl Ground {
    /// Makes it in the place that `TMPDIR` names.
    /// Errors: there is no randomness.
    pub fn make(plan: &Plan) -> Outcome<Self> {
        let cards_per_company = plan.cards.div_ceil(plan.companies);
        let program = Program { cards: plan.cards, cards_per_company };
        let home = Installation::founded(program, CardHashes::OfNumbers, endpoints(plan)?);
        if plan.purchases > 0 {
            let (engine, secrets) = (home.open(Retention::Recovery), secrets());
            let hash = |card| secrets.pan_hash(&card_number(card));
            let mut purchases = Purchases::over((0..plan.cards).map(hash).collect(), 23);
            authorize_many(&engine, &mut purchases, plan.purchases);
            engine.shut_down();
        }
        Ok(Self { data: home.data.clone(), home, cards: cards(plan.cards) })
    }

    /// Serves it as another process, with further arguments.
    pub fn serve(&self, further: &[&str]) -> Switch {
        let [access_token, network_key] = [ACCESS_TOKEN, NETWORK_KEY].map(str::to_owned);
        let credentials = Credentials { access_token, network_key, ..Credentials::default() };
        Switch::serve(&self.data, further, credentials)
    }

    /// A path beside it for another file.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.home.beside(name)
    }
}

/// The commands that make the plan's endpoints.
fn endpoints(plan: &Plan) -> Outcome<Vec<Command>> {
    let per_company = plan.endpoints.len().div_ceil(usize::try_from(plan.companies)?).max(1);
    let secrets = secrets();
    let command = |(number, url): (usize, &String)| {
        let id = WebhookEndpointId(Uuid::from_u128(6 << 64 | number as u128));
        let secret = WebhookSecret::draw(&mut SystemRandom).map_err(|_| "no randomness")?;
        let endpoint = NewWebhookEndpoint {
            id,
            company: company_id((number / per_company) as u64),
            app: None,
            url: url.clone(),
            description: LineText::default(),
            sealed_secret: secrets.seal(SealedSecret::Webhook(id), secret.bytes())?,
        };
        let command = AdminCommand::WebhookEndpoint(WebhookEndpointCommand::Create(endpoint));
        Ok(Command::Admin(Box::new(command)))
    };
    plan.endpoints.iter().enumerate().map(command).collect()
}
