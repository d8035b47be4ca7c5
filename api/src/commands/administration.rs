//! What commands on a data directory at rest have in common: where it is, whose data, how the answer
//! is printed, and how a change is made.

use std::path::PathBuf;
use std::sync::Arc;

use cardswitch_edge::switch::Switch;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::reply::Reply;
use cardswitch_engine::domain::company::Company;
use cardswitch_engine::domain::ids::CompanyId;
use cardswitch_secrets::master_key::source::MasterKeyArgs;
use uuid::Uuid;

use super::Failure;
use crate::config::{ClockSetting, read_settings};
use crate::install::by_operator;
use crate::opening::{KeyedDirectory, open_engine};

/// A data directory, and how the answer is printed.
#[derive(Debug, clap::Args)]
pub(super) struct DataArgs {
    /// Data directory, not in use by a running switch
    #[arg(long = "data", env = "CARDSWITCH_DATA", value_name = "DIR")]
    pub(super) directory: PathBuf,
    #[command(flatten)]
    master_key: MasterKeyArgs,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

impl DataArgs {
    /// Opens the directory with its own settings.
    /// Errors: it is in use, damaged or none.
    pub(super) fn open(&self) -> Result<Switch, Failure> {
        let data = &self.directory;
        let settings = read_settings(None, Some(data)).map_err(Failure::new)?;
        let place = KeyedDirectory { data, master_key: &self.master_key.source() };
        let opened = open_engine(place, ClockSetting::System, settings.retention);
        let (engine, _secrets) = opened.map_err(Failure::new)?;
        Ok(Switch::new(Arc::new(engine)))
    }
}

/// A company of a data directory.
#[derive(Debug, clap::Args)]
pub(super) struct CompanyDataArgs {
    #[command(flatten)]
    pub(super) data: DataArgs,
    /// Which company
    #[arg(long, value_name = "COMPANY_ID", value_parser = parse_id)]
    pub(super) company: Uuid,
}

impl CompanyDataArgs {
    /// Opens the directory and finds the company.
    /// Errors: the directory cannot be opened, or has no such company.
    pub(super) async fn open(&self) -> Result<(Switch, Company), Failure> {
        let switch = self.data.open()?;
        let company = find_company(&switch, self.company).await?;
        Ok((switch, company))
    }
}

pub(super) fn parse_id(text: &str) -> Result<Uuid, String> {
    text.parse().map_err(|_| "not an id: `init` and `company add` print them".to_owned())
}

/// Errors: there is no such company.
pub(super) async fn find_company(switch: &Switch, id: Uuid) -> Result<Company, Failure> {
    let found = switch.read(|snapshot| snapshot.company_by_id(CompanyId(id))).await;
    found.map_err(Failure::new)?.ok_or_else(|| Failure::new(format!("no company `{id}`")))
}

/// Makes a change in the operator's name.
/// Errors: it was refused, or may be lost.
pub(super) async fn carry_out(switch: &Switch, command: AdminCommand) -> Result<(), Failure> {
    done(switch.ask(by_operator(command)).await.map_err(Failure::new)?)
}

/// Errors: anything but done.
pub(super) fn done(reply: Reply) -> Result<(), Failure> {
    match reply {
        Reply::Done(_) => Ok(()),
        Reply::Rejected(rejection) => Err(Failure::new(format!("refused: {rejection:?}"))),
        _ => Err(Failure::new("the journal failed; the outcome is unknown")),
    }
}
