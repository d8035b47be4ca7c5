//! `token`, `company`, `user`, `app`, `network-key` and `audit`: by the switch that runs on the data directory, else on the
//! directory at rest.
//!
//! A command is parsed here and carried out in the process of the engine, by the same function: in
//! this process, or in that of the switch, which it reaches through the control socket. Its output
//! comes back.
//! INVARIANT: a command reads its terminal before it is sent.

use std::fmt::Display;
use std::path::PathBuf;
use std::sync::Arc;

use cardswitch_edge::switch::Switch;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::reply::Reply;
use cardswitch_engine::directory::app::AppProfile;
use cardswitch_engine::domain::company::Company;
use cardswitch_engine::domain::ids::CompanyId;
use cardswitch_notify::mail::news::tell;
use cardswitch_notify::mail::{MailDesk, News};
use cardswitch_secrets::issuing::RandomSource;
use cardswitch_secrets::master_key::source::MasterKeyArgs;
use cardswitch_wire::urls::Urls;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::Failure;
use super::app::AppSubcommand;
use super::audit::AuditCommand;
use super::company::CompanySubcommand;
use super::config_args::ConfigArgs;
use super::network_key::NetworkKeyCommand;
use super::running::ask_running;
use super::token::TokenCommand;
use super::user::UserSubcommand;
use crate::config::Settings;
use crate::control::ControlRequest;
use crate::install::{by_operator, in_words};
use crate::opening::{KeyedDirectory, open_at_rest};

/// A command of an operator.
#[derive(Debug, clap::Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Administration {
    /// Add a company, or change one
    #[command(subcommand)]
    Company(CompanySubcommand),
    /// Add users, give them roles
    #[command(subcommand)]
    User(UserSubcommand),
    /// Register apps, and approve their scopes
    #[command(subcommand)]
    App(AppSubcommand),
    /// Add, list and revoke access tokens
    #[command(subcommand)]
    Token(TokenCommand),
    /// Replace the key of the HTTP network door
    #[command(subcommand)]
    NetworkKey(NetworkKeyCommand),
    /// List the switch's own audit log
    #[command(subcommand)]
    Audit(AuditCommand),
}

/// The means of carrying out such a command.
#[derive(Clone)]
pub struct Office {
    /// The way into the engine.
    pub switch: Switch,
    /// The addresses in links.
    pub urls: Urls,
    /// The card network of new companies.
    pub network: String,
    /// What letters are sent with; none at rest, where nobody sends any.
    mail: Option<MailDesk>,
}

cardswitch_engine::opaque!(Office);

impl Office {
    /// The office of a switch with these settings, which people reach at `urls`. It sends no letter.
    pub fn new(switch: Switch, urls: Urls, settings: &Settings) -> Self {
        Self { switch, urls, network: settings.network.clone(), mail: None }
    }

    /// That of a switch with this desk, where letters are sent.
    pub fn with_mail(desk: MailDesk, settings: &Settings) -> Self {
        let office = Self::new(desk.switch.clone(), desk.urls.clone(), settings);
        Self { mail: Some(desk), ..office }
    }
}

/// The outcome of a command. It may hold secrets, which are shown this once.
#[derive(Default, Serialize, Deserialize)]
pub struct AdministrationOutcome {
    printed: String,
    /// The app's profile that a person has to confirm before the change is made.
    unconfirmed: Option<AppProfile>,
    failure: Option<Failure>,
}

cardswitch_engine::opaque!(AdministrationOutcome);

/// A command under way in its office.
pub(super) struct OfficeTask<'a> {
    pub(super) office: &'a Office,
    /// Whether one JSON object is printed.
    pub(super) is_json: bool,
    outcome: AdministrationOutcome,
}

impl OfficeTask<'_> {
    /// Prints a line.
    pub(super) fn line(&mut self, line: impl Display) {
        self.outcome.printed.push_str(&format!("{line}\n"));
    }

    /// Prints the result, as an object or in words.
    pub(super) fn tell(&mut self, object: Value, words: impl Display) {
        if self.is_json { self.line(object) } else { self.line(words) }
    }

    /// Leaves the rest until somebody has looked at a profile.
    pub(super) fn ask_about(&mut self, profile: AppProfile) {
        self.outcome.unconfirmed = Some(profile);
    }

    /// Errors: there is no such company.
    pub(super) async fn find_company(&self, id: Uuid) -> Result<Company, Failure> {
        let found = self.office.switch.read(|snapshot| snapshot.company_by_id(CompanyId(id))).await;
        found?.ok_or_else(|| Failure::new(format!("no company `{id}`")))
    }

    /// Draws an id.
    /// Errors: no randomness.
    pub(super) fn new_id(&self) -> Result<Uuid, Failure> {
        let switch = &self.office.switch;
        Ok(switch.random().id(switch.engine.now())?)
    }

    /// Makes a change in the operator's name; reads show it when this returns.
    /// Errors: it was refused, may be lost, or is not in force yet.
    pub(super) async fn carry_out(&self, change: AdminCommand) -> Result<(), Failure> {
        self.done(self.office.switch.ask(by_operator(change)).await?).await
    }

    /// Makes a change like `carry_out`, and has somebody notified of it where letters are sent.
    /// Errors: those of `carry_out`.
    pub(super) async fn carry_out_and_tell(
        &self,
        change: AdminCommand,
        news: Option<News>,
    ) -> Result<(), Failure> {
        let (Some(desk), Some(news)) = (&self.office.mail, news) else {
            return self.carry_out(change).await;
        };
        let held = desk.outbox.hold(news).await;
        let made = self.carry_out(change).await;
        // It is forgotten where the tables show no such change.
        held.map(|held| tokio::spawn(tell(desk.clone(), held)));
        made
    }

    /// Errors: anything but done.
    pub(super) async fn done(&self, reply: Reply) -> Result<(), Failure> {
        match reply {
            Reply::Done(seq) if self.office.switch.visible(seq).await => Ok(()),
            Reply::Done(_) => Err(Failure::new(
                "the change is written down, but not in force: the tables behind reads lack it. Where \
                 `/readyz` tells that they stand still, start the switch again",
            )),
            Reply::Rejected(rejection) => {
                Err(Failure::new(format!("refused: {}", in_words(rejection))))
            }
            _ => Err(Failure::new("the journal failed; the outcome is unknown")),
        }
    }
}

/// Carries out a command where the engine is.
pub async fn carry_out_by(command: Administration, office: &Office) -> AdministrationOutcome {
    let is_json = command.data().json;
    let mut task = OfficeTask { office, is_json, outcome: AdministrationOutcome::default() };
    let carried_out = match command {
        Administration::Token(command) => command.carry_out(&mut task).await,
        Administration::Company(command) => command.carry_out(&mut task).await,
        Administration::User(command) => command.carry_out(&mut task).await,
        Administration::App(command) => command.carry_out(&mut task).await,
        Administration::NetworkKey(command) => command.carry_out(&mut task).await,
        Administration::Audit(command) => command.carry_out(&mut task).await,
    };
    let engine = &office.switch.engine;
    let reason = engine.failure().or_else(|| engine.projection_failure());
    let failure = carried_out.err().map(|failure| failure.because(reason.as_deref()));
    AdministrationOutcome { failure, ..task.outcome }
}

/// Carries out a command by the switch that runs on its directory, else on the directory at rest.
/// Errors: the directory cannot be opened, its switch does not answer, or it was not done.
pub async fn run(mut command: Administration) -> Result<(), Failure> {
    if let Administration::User(user) = &mut command {
        user.read_password().await?;
    }
    let place = EnginePlace::open(command.data())?;
    let mut outcome = place.carry_out(&command).await?;
    print!("{}", outcome.printed);
    if let Some(profile) = outcome.unconfirmed.take()
        && let Administration::App(app) = &mut command
    {
        app.confirm(profile)?;
        outcome = place.carry_out(&command).await?;
        print!("{}", outcome.printed);
    }
    place.close();
    outcome.failure.map_or(Ok(()), Err)
}

impl Administration {
    fn data(&self) -> &DataArgs {
        match self {
            Self::Token(command) => command.data(),
            Self::Company(command) => command.data(),
            Self::User(command) => command.data(),
            Self::App(command) => command.data(),
            Self::NetworkKey(command) => command.data(),
            Self::Audit(command) => command.data(),
        }
    }
}

enum EnginePlace {
    /// In this process.
    Here(Box<Office>),
    /// In the switch that runs on the directory.
    Running(PathBuf),
}

impl EnginePlace {
    /// Errors: the directory is damaged or none.
    fn open(args: &DataArgs) -> Result<Self, Failure> {
        let data = &args.directory;
        let settings = args.config.read(data)?;
        let place = KeyedDirectory { data, master_key: &args.master_key.source() };
        let Some((engine, _)) = open_at_rest(place, settings.clock)? else {
            return Ok(Self::Running(data.clone()));
        };
        let (base, app) =
            (settings.base_url_for(settings.http), settings.app_url_for(settings.http));
        let switch = Switch::new(Arc::new(engine));
        Ok(Self::Here(Box::new(Office::new(switch, Urls::with_app(&base, &app), &settings))))
    }

    async fn carry_out(&self, command: &Administration) -> Result<AdministrationOutcome, Failure> {
        // A command is the same wherever it goes.
        let sent = serde_json::to_value(command)?;
        match self {
            Self::Here(office) => {
                let command = serde_json::from_value(sent)?;
                Ok(carry_out_by(command, office).await)
            }
            Self::Running(data) => ask_running(data, &ControlRequest::Administer(sent)).await,
        }
    }

    fn close(self) {
        if let Self::Here(office) = self {
            office.switch.engine.shut_down();
        }
    }
}

/// A data directory, and how the answer is printed.
#[derive(Clone, Debug, clap::Args, Serialize, Deserialize)]
pub struct DataArgs {
    /// Data directory, in use by a running switch or at rest
    #[arg(long = "data", env = "CARDSWITCH_DATA", value_name = "DIR")]
    #[serde(skip)]
    directory: PathBuf,
    #[command(flatten)]
    #[serde(skip)]
    master_key: MasterKeyArgs,
    #[command(flatten)]
    #[serde(skip)]
    config: ConfigArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A company of a data directory.
#[derive(Clone, Debug, clap::Args, Serialize, Deserialize)]
pub struct CompanyDataArgs {
    #[command(flatten)]
    pub(super) data: DataArgs,
    /// Company
    #[arg(long, value_name = "COMPANY_ID", value_parser = parse_id)]
    pub(super) company: Uuid,
}

pub(super) fn parse_id(text: &str) -> Result<Uuid, String> {
    text.parse().map_err(|_| "not an id: `init` and `company add` print them".to_owned())
}

#[cfg(test)]
#[path = "administration_tests.rs"]
mod tests;
