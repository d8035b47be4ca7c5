//! `cardswitch company add` and `cardswitch company set`.

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::access_token::{AccessScope, AccessTokenCommand, NewAccessToken};
use cardswitch_engine::directory::card::CardCommand;
use cardswitch_engine::directory::company::{self, CompanyChanges, VelocityChanges};
use cardswitch_engine::domain::card::CardState;
use cardswitch_engine::domain::company::{Company, CompanyState};
use cardswitch_engine::domain::ids::AccessTokenId;
use cardswitch_engine::store::query::{CardFilter, CardRow, Order, Page};
use cardswitch_secrets::issuing::RandomSource;
use cardswitch_secrets::token_digest;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Failure;
use super::administration::{CompanyDataArgs, DataArgs, Office, OfficeTask};
use super::company_options::CompanyOptions;
use super::init::CompanyArgs;
use crate::install::{by_operator, new_company};

/// How many cards are looked at at a time.
const CARDS_AT_A_TIME: usize = 1_000;

/// The commands for companies.
#[derive(Debug, clap::Subcommand, Serialize, Deserialize)]
pub enum CompanySubcommand {
    /// Add a company with an account of its own; prints its ids and an access token
    Add(AddCompanyArgs),
    /// Change a company; options that are absent change nothing
    Set(SetArgs),
}

/// The arguments of `company add`.
#[derive(Debug, clap::Args, Serialize, Deserialize)]
pub struct AddCompanyArgs {
    #[command(flatten)]
    at: DataArgs,
    #[command(flatten)]
    company: CompanyArgs,
}

/// The arguments of `company set`.
#[derive(Debug, clap::Args, Serialize, Deserialize)]
pub struct SetArgs {
    #[command(flatten)]
    of: CompanyDataArgs,
    #[command(flatten)]
    company: CompanyOptions,
    /// Whether the company is open; the cards of a closed company are declined and show no number,
    /// while people and tokens keep their access to its books
    #[arg(long, value_name = "BOOL", conflicts_with = "approved")]
    active: Option<bool>,
}

impl CompanySubcommand {
    pub(super) const fn data(&self) -> &DataArgs {
        match self {
            Self::Add(args) => &args.at,
            Self::Set(args) => &args.of.data,
        }
    }

    pub(super) async fn carry_out(self, task: &mut OfficeTask<'_>) -> Result<(), Failure> {
        match self {
            Self::Add(args) => add(args, task).await,
            Self::Set(args) => set(args, task).await,
        }
    }
}

async fn add(args: AddCompanyArgs, task: &mut OfficeTask<'_>) -> Result<(), Failure> {
    let Office { switch, network, .. } = task.office;
    let (mut random, at) = (switch.random(), switch.engine.now());
    let company = new_company(args.company.order()?, network, at, &mut random)?;
    let access_token = random.token()?;
    let token = NewAccessToken {
        id: AccessTokenId(random.id(at)?),
        digest: token_digest(&access_token),
        company: company.id,
        scope: AccessScope { admin: true, ..AccessScope::default() },
    };
    let (company_id, account_id) = (company.id.0, company.account.id.0);
    task.carry_out(AdminCommand::Company(company::CompanyCommand::Create(company))).await?;
    task.carry_out(AdminCommand::AccessToken(AccessTokenCommand::Create(token))).await?;
    task.tell(
        json!({
            "company_id": company_id,
            "account_id": account_id,
            "access_token": access_token,
        }),
        format!(
            "added company {company_id} with account {account_id}\n\
             access token {access_token} (shown this once)"
        ),
    );
    Ok(())
}

async fn set(args: SetArgs, task: &mut OfficeTask<'_>) -> Result<(), Failure> {
    let company = task.find_company(args.of.company).await?;
    let id = company.id;
    let options = args.company;
    let velocity = VelocityChanges {
        per_minute: options.velocity_per_minute,
        per_hour: options.velocity_per_hour,
    };
    let open = |is_open| if is_open { CompanyState::Active } else { CompanyState::Closed };
    let billing_address = options.billing_address()?;
    let is_billed_elsewhere = billing_address.is_some();
    let changes = CompanyChanges {
        credit_limit: options.credit_limit(company.currency)?,
        velocity,
        partial_approval: options.partial_approval,
        state: args.active.map(open).or(options.state()),
        billing_address,
        hold_table: options.hold_days,
        funding_name: options.funding_source,
        funding_verified: options.funding_verified,
        name: options.name,
        website: options.website,
        ..CompanyChanges::default()
    };
    task.carry_out(AdminCommand::Company(company::CompanyCommand::Update(id, changes))).await?;
    if is_billed_elsewhere {
        follow_billing_address(task, &company).await?;
    }
    task.tell(json!({"company_id": id.0}), format!("changed company {}", id.0));
    Ok(())
}

/// Brings the ZIP of the company's billing address to every card without a billing address of its
/// own, which the shard asks anew: a card may have got one since it was listed. There may be more
/// cards than fit into one change; an operator who interrupts this repeats it.
async fn follow_billing_address(task: &OfficeTask<'_>, company: &Company) -> Result<(), Failure> {
    let switch = &task.office.switch;
    let mut page = Page { order: Order::OldestFirst, ..Page::first(CARDS_AT_A_TIME) };
    loop {
        let filter = CardFilter::default();
        let listed = switch.read(|snapshot| snapshot.list_cards(company.slot, &filter, &page));
        let cards = listed.await?.rows;
        let follows = |card: &&CardRow| {
            let is_open = card.record.usage.state != CardState::Terminated;
            is_open && card.profile.billing_address.is_none()
        };
        let commands = cards.iter().filter(follows).map(|card| {
            AdminCommand::Card(CardCommand::FollowBillingAddress(company.id, card.profile.id))
        });
        for reply in switch.ask_many(commands.map(by_operator).collect()).await? {
            task.done(reply).await?;
        }
        if cards.len() < CARDS_AT_A_TIME {
            return Ok(());
        }
        page.offset += CARDS_AT_A_TIME;
    }
}
