//! A data directory to stand on: companies with cards whose numbers are known, endpoints, purchases of
//! the past. Made in process, by the commands that the doors would submit, then left at rest.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cardswitch_benches::Must;
use cardswitch_benches::caller::{Caller, wait_for_tables};
use cardswitch_benches::installation::{CardHashes, card_number, install, open, secrets};
use cardswitch_benches::program::{
    EXPIRES_ON, Program, Purchases, Random, card_id, company_id, is_approved,
};
use cardswitch_engine::command::Command;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::network::{CardRef, NetworkCommand};
use cardswitch_engine::command::reply::Reply;
use cardswitch_engine::directory::webhook_endpoint::{NewWebhookEndpoint, WebhookEndpointCommand};
use cardswitch_engine::domain::card::{MaskedPan, PanHash};
use cardswitch_engine::domain::ids::WebhookEndpointId;
use cardswitch_engine::domain::text::LineText;
use cardswitch_engine::engine::{Engine, Retention};
use cardswitch_secrets::issuing::SystemRandom;
use cardswitch_secrets::webhook_signature::WebhookSecret;
use tempfile::TempDir;
use uuid::Uuid;

use crate::outcome::{Outcome, fail};

/// Commands in flight while it is made.
const WINDOW: usize = 4_096;
/// The tables are waited for after so many purchases: nobody is served meanwhile.
const STEP: u64 = 100_000;

/// The contents of the directory.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) cards: u64,
    pub(crate) companies: u64,
    /// The addresses of the companies' endpoints, the same number for each company, in order.
    pub(crate) endpoints: Vec<String>,
    /// Transactions that are there already; endpoints are older, and have been told of none.
    pub(crate) purchases: u64,
}

/// A directory at rest, gone with the value.
#[derive(Debug)]
pub(crate) struct Ground {
    directory: TempDir,
    pub(crate) data: PathBuf,
    pub(crate) cards_file: PathBuf,
}

impl Ground {
    /// Makes it in the place that `TMPDIR` names.
    /// Errors: a command is refused, or the disk does not take it.
    pub(crate) fn make(plan: &Plan) -> Outcome<Self> {
        let directory = TempDir::new()?;
        let cards_per_company = plan.cards.div_ceil(plan.companies);
        let program = Program { cards: plan.cards, cards_per_company };
        let data = install(directory.path(), program, CardHashes::OfNumbers);
        let cards_file = directory.path().join("cards.jsonl");
        fs::write(&cards_file, cards_text(plan.cards)?)?;
        if !plan.endpoints.is_empty() || plan.purchases > 0 {
            let engine = Arc::new(open(&data, Retention::Recovery));
            add_endpoints(&engine, plan)?;
            add_purchases(&engine, plan)?;
            wait_for_tables(&engine);
            engine.shut_down();
        }
        Ok(Self { directory, data, cards_file })
    }

    /// A path beside it for another file.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

/// The cards as `load` takes them.
fn cards_text(cards: u64) -> Outcome<String> {
    let (mut text, expiration) = (String::new(), EXPIRES_ON.to_naive());
    for card in 0..cards {
        let (id, pan) = (card_id(card).0, card_number(card).reveal());
        writeln!(text, r#"{{"card_id":"{id}","pan":"{pan}","expiration":"{expiration}"}}"#)?;
    }
    Ok(text)
}

fn add_endpoints(engine: &Arc<Engine>, plan: &Plan) -> Outcome<()> {
    let per_company = plan.endpoints.len().div_ceil(usize::try_from(plan.companies)?).max(1);
    let (secrets, mut commands) = (secrets(), Vec::new());
    for (number, url) in plan.endpoints.iter().enumerate() {
        let id = WebhookEndpointId(Uuid::from_u128(6 << 64 | number as u128));
        let secret = WebhookSecret::draw(&mut SystemRandom).map_err(|_| "no randomness")?;
        let endpoint = NewWebhookEndpoint {
            id,
            company: company_id((number / per_company) as u64),
            app: None,
            url: url.clone(),
            description: LineText::default(),
            sealed_secret: secrets.seal_webhook_secret(&secret, id)?,
        };
        let command = AdminCommand::WebhookEndpoint(WebhookEndpointCommand::Create(endpoint));
        commands.push(Command::Admin(Box::new(command)));
    }
    let (count, mut refused) = (commands.len() as u64, None);
    let mut commands = commands.into_iter();
    let mut next = || commands.next().must("found the endpoints");
    Caller::new(Arc::clone(engine), WINDOW).run(count, &mut next, &mut |reply, _| {
        if !matches!(reply, Reply::Done(_)) {
            refused = Some(format!("an endpoint is refused: {reply:?}"));
        }
    });
    refused.map_or(Ok(()), fail)
}

fn add_purchases(engine: &Arc<Engine>, plan: &Plan) -> Outcome<()> {
    let secrets = secrets();
    let hashes: Vec<_> = (0..plan.cards).map(|card| secrets.pan_hash(&card_number(card))).collect();
    let (mut purchases, mut random) = (Purchases::new(plan.cards, 23), Random::new(29));
    let mut caller = Caller::new(Arc::clone(engine), WINDOW);
    let (mut left, mut declined) = (plan.purchases, 0_u64);
    while left > 0 {
        let step = left.min(STEP);
        let next = || on_card(purchases.next_command(), &hashes, &mut random);
        caller.run(step, next, &mut |reply, _| declined += u64::from(!is_approved(&reply)));
        wait_for_tables(engine);
        left -= step;
    }
    if declined > 0 { fail(format!("{declined} purchases were declined")) } else { Ok(()) }
}

/// The purchase on a card that has a number.
fn on_card(mut command: Command, hashes: &[PanHash], random: &mut Random) -> Command {
    let card = usize::try_from(random.below(hashes.len() as u64)).unwrap_or(0);
    if let Command::Network(request) = &mut command
        && let NetworkCommand::Authorize(authorize) = &mut request.command
    {
        authorize.facts.card = CardRef::Pan(hashes[card], MaskedPan::default());
    }
    command
}

/// How many bytes the files in a directory have.
pub(crate) fn bytes_below(directory: &Path) -> Outcome<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(directory)? {
        let found = entry?.metadata()?;
        bytes += if found.is_file() { found.len() } else { 0 };
    }
    Ok(bytes)
}
