//! `cardswitch company add` and `cardswitch company set`: on a data directory at rest.

use std::path::PathBuf;
use std::sync::Arc;

use cardswitch_engine::command::admin::{AdminCommand, CompanyChanges, NewAccessToken};
use cardswitch_engine::command::reply::Reply;
use cardswitch_engine::command::{Command, TimedCommand};
use cardswitch_engine::domain::company::{CompanyState, VelocityLimits};
use cardswitch_engine::domain::ids::{AccessTokenId, CompanyId};
use cardswitch_engine::domain::member::AccessScope;
use serde_json::json;

use super::Failure;
use super::init::CompanyArgs;
use crate::config::{ClockSetting, read_settings};
use crate::install::new_company;
use crate::issuing::{RandomSource, SystemRandom};
use crate::opening::open_engine;
use crate::secrets::token_digest;
use crate::switch::Switch;
use crate::wire::amount::parse_amount;

/// What can be done with companies.
#[derive(Debug, clap::Subcommand)]
pub enum CompanyCommand {
    /// Add a company with an account of its own; prints its ids and an access token
    Add(AddArgs),
    /// Change a company; what is not named stays
    Set(SetArgs),
}

/// What `company add` takes.
#[derive(Debug, clap::Args)]
pub struct AddArgs {
    /// Data directory, not in use by a running switch
    #[arg(long, env = "CARDSWITCH_DATA", value_name = "DIR")]
    data: PathBuf,
    #[command(flatten)]
    company: CompanyArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What `company set` takes.
#[derive(Debug, clap::Args)]
pub struct SetArgs {
    /// Data directory, not in use by a running switch
    #[arg(long, env = "CARDSWITCH_DATA", value_name = "DIR")]
    data: PathBuf,
    /// Which company
    #[arg(long, value_name = "COMPANY_ID", value_parser = parse_id)]
    company: uuid::Uuid,
    /// Its name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Its web site
    #[arg(long, value_name = "URL")]
    website: Option<String>,
    /// Its line of credit
    #[arg(long, value_name = "AMOUNT")]
    credit_limit: Option<String>,
    /// Attempts one card may make in a minute; 0 switches the limit off
    #[arg(long, value_name = "N")]
    velocity_per_minute: Option<u16>,
    /// Attempts one card may make in an hour; 0 switches the limit off
    #[arg(long, value_name = "N")]
    velocity_per_hour: Option<u16>,
    /// Whether a purchase may be approved in part, where the terminal can take less
    #[arg(long, value_name = "BOOL")]
    partial_approval: Option<bool>,
    /// Whether it does business; the cards of a closed company are declined
    #[arg(long, value_name = "BOOL")]
    active: Option<bool>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Carries out `company add` or `company set`.
pub async fn run(command: CompanyCommand) -> Result<(), Failure> {
    match command {
        CompanyCommand::Add(args) => add(args).await,
        CompanyCommand::Set(args) => set(args).await,
    }
}

async fn add(args: AddArgs) -> Result<(), Failure> {
    let settings = read_settings(None, Some(&args.data)).map_err(Failure::new)?;
    let switch = open(&args.data)?;
    let mut random = SystemRandom;
    let at = switch.engine().clock().now();
    let company = new_company(args.company.order()?, &settings.network, at, &mut random)
        .map_err(Failure::new)?;
    let mut bytes = [0; 32];
    random.fill(&mut bytes).map_err(Failure::new)?;
    let access_token: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let token = NewAccessToken {
        id: AccessTokenId(random.id(at).map_err(Failure::new)?),
        digest: token_digest(&access_token),
        company: company.id,
        scope: AccessScope { admin: true, ..AccessScope::default() },
    };
    let (company_id, account_id) = (company.id.0, company.account.id.0);
    carry_out(&switch, AdminCommand::CreateCompany(company)).await?;
    carry_out(&switch, AdminCommand::CreateAccessToken(token)).await?;
    switch.engine().shut_down();
    if args.json {
        let made = json!({
            "company_id": company_id,
            "account_id": account_id,
            "access_token": access_token,
        });
        println!("{made}");
    } else {
        println!("added company {company_id} with account {account_id}");
        println!("access token {access_token} (shown this once)");
    }
    Ok(())
}

pub(super) fn parse_id(text: &str) -> Result<uuid::Uuid, String> {
    text.parse().map_err(|_| "not an id: `init` and `company add` print them".to_owned())
}

async fn set(args: SetArgs) -> Result<(), Failure> {
    let switch = open(&args.data)?;
    let id = CompanyId(args.company);
    let found = switch.read(|snapshot| snapshot.company_by_id(id)).await.map_err(Failure::new)?;
    let company = found.ok_or_else(|| Failure::new(format!("no company `{}`", args.company)))?;
    let credit_limit = args.credit_limit.as_deref().map(|text| {
        parse_amount(text, company.currency)
            .map_err(|_| Failure::usage(format!("`{text}` is no amount for --credit-limit")))
    });
    let before = company.velocity;
    let velocity = VelocityLimits {
        per_minute: args.velocity_per_minute.unwrap_or(before.per_minute),
        per_hour: args.velocity_per_hour.unwrap_or(before.per_hour),
    };
    let state_of = |active| if active { CompanyState::Active } else { CompanyState::Closed };
    let changes = CompanyChanges {
        name: args.name,
        website: args.website,
        credit_limit: credit_limit.transpose()?,
        velocity: (velocity != before).then_some(velocity),
        partial_approval: args.partial_approval,
        state: args.active.map(state_of),
        ..CompanyChanges::default()
    };
    carry_out(&switch, AdminCommand::SetCompany(id, changes)).await?;
    switch.engine().shut_down();
    if args.json {
        println!("{}", json!({"company_id": args.company}));
    } else {
        println!("changed company {}", args.company);
    }
    Ok(())
}

pub(super) fn open(data: &std::path::Path) -> Result<Switch, Failure> {
    let settings = read_settings(None, Some(data)).map_err(Failure::new)?;
    let (engine, _secrets) =
        open_engine(data, ClockSetting::System, settings.retention).map_err(Failure::new)?;
    Ok(Switch::new(Arc::new(engine)))
}

pub(super) async fn carry_out(switch: &Switch, command: AdminCommand) -> Result<(), Failure> {
    let command = TimedCommand::from(Command::Admin(Box::new(command)));
    match switch.ask(command).await.map_err(Failure::new)? {
        Reply::Done(_) => Ok(()),
        Reply::Rejected(rejection) => Err(Failure::new(format!("refused: {rejection:?}"))),
        _ => Err(Failure::new("the journal failed; the outcome is unknown")),
    }
}
