//! `cardswitch init`.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use cardswitch_engine::domain::cell::Cell;
use cardswitch_engine::domain::company::{CompanyState, VelocityLimits};
use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_engine::domain::money::Minor;
use cardswitch_engine::domain::text::LineText;
use cardswitch_secrets::issuing::{CardNumbers, CellRandom, RandomSource, SystemRandom};
use cardswitch_secrets::master_key::source::MasterKeyArgs;
use cardswitch_secrets::private_file;
use cardswitch_wire::currency::parse_currency;
use cardswitch_wire::time::parse_time;
use chrono_tz::Tz;
use indicatif::{ProgressBar, ProgressStyle};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

use super::Failure;
use super::company_options::{CompanyOptions, read_amount};
use super::config_args::ConfigArgs;
use super::user::check_email;
use crate::config::{CONFIG_FILE, RetentionSetting};
use crate::install::{CompanyOrder, Credentials, InstallationOrder, install};

/// The arguments of `init`.
#[derive(Debug, clap::Args)]
pub struct InitArgs {
    /// Directory to make; must not be a data directory yet
    #[arg(long, env = "CARDSWITCH_DATA", value_name = "DIR")]
    pub data: PathBuf,
    #[command(flatten)]
    company: CompanyArgs,
    /// Email address of the administrator
    #[arg(long, default_value = "admin@example.com", value_name = "EMAIL")]
    admin_email: String,
    /// First 6 to 8 digits of card numbers
    #[arg(long, env = "CARDSWITCH_CARD_BIN", value_name = "DIGITS")]
    bin: Option<String>,
    /// Size of the journal to keep, or `recovery` or `forever` [default: 256MiB]
    #[arg(long, env = "CARDSWITCH_RETENTION", value_name = "HOW")]
    retention: Option<RetentionSetting>,
    /// Number of test cards to make, which can bring about every response code
    #[arg(long, default_value_t = 0, value_name = "N")]
    cards: usize,
    /// File for the test cards, one JSON object a line: numbers, CVVs and PINs in clear, mode 0600
    #[arg(long, value_name = "FILE", requires = "cards")]
    cards_out: Option<PathBuf>,
    /// Draw keys, ids and card numbers from this seed: repeatable, for simulations only
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Record this time (RFC 3339) instead of now: for runs on a manual clock
    #[arg(long, value_name = "TIME")]
    time: Option<String>,
    /// Cell of the switch behind `route`: two digits; cannot change later
    #[arg(long, value_name = "NN")]
    cell: Option<Cell>,
    #[command(flatten)]
    master_key: MasterKeyArgs,
    #[command(flatten)]
    config: ConfigArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// How a new company is described on the command line.
#[derive(Clone, Debug, clap::Args, Serialize, Deserialize)]
pub struct CompanyArgs {
    #[command(flatten)]
    options: CompanyOptions,
    /// Time zone of its days, periods and posting dates; cannot change later
    #[arg(long, default_value = "America/Los_Angeles", value_name = "ZONE", value_parser = parse_zone)]
    zone: Tz,
    /// Currency of its account (ISO 4217); cannot change later
    #[arg(long, default_value = "USD", value_name = "CODE")]
    currency: String,
    /// Opening balance of its account
    #[arg(long, default_value = "50000000", value_name = "AMOUNT", allow_negative_numbers = true)]
    opening_balance: String,
}

impl CompanyArgs {
    /// The company described.
    pub fn order(&self) -> Result<CompanyOrder, Failure> {
        let currency = parse_currency(&self.currency)
            .ok_or_else(|| Failure::usage(no_currency(&self.currency)))?;
        let options = &self.options;
        let text = |given: &Option<LineText>, default| {
            given.clone().unwrap_or_else(|| LineText::spaced(default))
        };
        Ok(CompanyOrder {
            name: text(&options.name, "Example Company"),
            website: text(&options.website, "https://example.com"),
            zone: self.zone,
            currency,
            opening_balance: read_amount("--opening-balance", &self.opening_balance, currency)?,
            credit_limit: options.credit_limit(currency)?.unwrap_or(Minor::ZERO),
            velocity: VelocityLimits {
                per_minute: options.velocity_per_minute.unwrap_or(0),
                per_hour: options.velocity_per_hour.unwrap_or(0),
            },
            partial_approval: options.partial_approval.unwrap_or(false),
            hold_table: options.hold_days.clone().unwrap_or_default(),
            state: options.state().unwrap_or(CompanyState::Active),
            billing_address: options.billing_address()?,
            funding_source: options.funding_source.clone(),
            funding_verified: options.funding_verified,
        })
    }
}

/// A company for demonstrations.
pub fn demo_company() -> CompanyArgs {
    use clap::Parser;
    #[derive(clap::Parser)]
    struct Defaults {
        #[command(flatten)]
        company: CompanyArgs,
    }
    Defaults::parse_from(["demo", "--partial-approval"]).company
}

/// Carries out `init`.
pub async fn run(args: InitArgs) -> Result<(), Failure> {
    let installation = installation(&args)?;
    let bar = progress_bar(installation.cards, !args.json);
    let mut random = random_source(args.seed, args.cell);
    let made = |count: usize| bar.set_position(count as u64);
    let (credentials, directory) = install(&installation, random.as_mut(), &made).await?;
    bar.finish_and_clear();
    keep_settings(&args, directory.path())?;
    let text = if args.json {
        serde_json::to_string(&credentials)? + "\n"
    } else {
        told(&args, &credentials)?
    };
    // Nobody could use a directory whose secrets were not shown.
    let mut out = io::stdout().lock();
    let shown = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    shown.map_err(|error| Failure::new(format!("output could not be written: {error}")))?;
    directory.publish().map_err(Failure::new)
}

fn installation(args: &InitArgs) -> Result<InstallationOrder, Failure> {
    let settings = args.config.read(&args.data)?;
    let bin = args.bin.as_ref().unwrap_or(&settings.bin);
    let card_numbers = CardNumbers::new(bin)
        .ok_or_else(|| Failure::usage(format!("`{bin}` is no BIN: write 6 to 8 digits")))?;
    check_email(&args.admin_email)?;
    Ok(InstallationOrder {
        data: args.data.clone(),
        company: args.company.order()?,
        admin_email: args.admin_email.clone(),
        card_numbers,
        network: settings.network,
        cards: args.cards,
        cards_out: args.cards_out.clone(),
        at: args.time.as_deref().map(parse_start).transpose()?,
        master_key: args.master_key.source(),
    })
}

/// Writes the chosen settings to the configuration file, so that they hold later; an existing file
/// stays.
fn keep_settings(args: &InitArgs, directory: &Path) -> Result<(), Failure> {
    let path = directory.join(CONFIG_FILE);
    let bin = args.bin.as_ref().map(|bin| format!("bin = \"{bin}\"\n"));
    let retention = args.retention.map(|retention| format!("retention = \"{retention}\"\n"));
    let lines: String = bin.into_iter().chain(retention).collect();
    if lines.is_empty() || args.data.join(CONFIG_FILE).exists() {
        return Ok(());
    }
    private_file::replace(&path, lines.as_bytes())
        .map_err(|error| Failure::new(format!("`{}`: {error}", path.display())))
}

fn parse_zone(text: &str) -> Result<Tz, String> {
    text.parse().map_err(|_| {
        "not in the IANA time zone database; write one such as Europe/Berlin".to_owned()
    })
}

fn no_currency(text: &str) -> String {
    format!("`{text}` is no currency: write three letters of ISO 4217, such as USD")
}

fn parse_start(text: &str) -> Result<Timestamp, Failure> {
    parse_time(text).ok_or_else(|| Failure::usage(format!("`{text}` is no RFC 3339 time")))
}

/// The system's randomness, or a stream that is the same for the same seed; for a switch of `cell`.
pub fn random_source(seed: Option<u64>, cell: Option<Cell>) -> Box<dyn RandomSource + Send> {
    match seed {
        None => Box::new(CellRandom::new(SystemRandom, cell)),
        Some(seed) => {
            let mut stream = ChaCha20Rng::seed_from_u64(seed);
            let fill = move |bytes: &mut [u8]| stream.fill_bytes(bytes);
            Box::new(CellRandom::new(fill, cell))
        }
    }
}

fn progress_bar(cards: usize, is_wanted: bool) -> ProgressBar {
    if !is_wanted || cards < 1_000 || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("making cards {wide_bar} {pos}/{len}");
    let bar = ProgressBar::new(cards as u64);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

fn told(args: &InitArgs, credentials: &Credentials) -> Result<String, Failure> {
    let settings = args.config.read(&args.data)?;
    let door = format!("{}/login", settings.app_url_for(settings.http));
    let mut lines = shown_secrets(&args.data, credentials, Some(&door));
    if let Some(path) = &args.cards_out {
        lines.push(format!("  test cards      {} in {}", args.cards, path.display()));
    }
    lines.push(format!("{SHOWN_ONCE} Settings go into {CONFIG_FILE} in the directory."));
    lines.push(format!("Next: cardswitch serve --data {}\n", args.data.display()));
    Ok(lines.join("\n"))
}

/// The line below secrets that are shown.
pub(super) const SHOWN_ONCE: &str = "These secrets are shown this once.";

/// The lines that show the secrets of a new directory, and where to sign in if that is known.
pub(super) fn shown_secrets(
    data: &Path,
    credentials: &Credentials,
    door: Option<&str>,
) -> Vec<String> {
    let mut lines = vec![
        format!("made data directory {}", data.display()),
        format!("  company id      {}", credentials.company_id),
        format!("  account id      {}", credentials.account_id),
        format!("  administrator   {}", credentials.admin_email),
        format!("  password        {}", credentials.admin_password),
    ];
    lines.extend(door.map(|door| format!("  sign in at      {door}")));
    lines.push(format!("  access token    {}", credentials.access_token));
    lines.push(format!("  network key     {}", credentials.network_key));
    lines
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct InitParser {
        #[command(flatten)]
        args: InitArgs,
    }

    /// Once, any text was stored as the administrator's address, line ends included.
    #[test]
    fn an_administrator_has_an_email_address() {
        let home = tempfile::tempdir().unwrap();
        let data = home.path().to_str().unwrap();
        for (email, is_taken) in [
            ("ada@example.com", true),
            ("not an\nemail", false),
            ("ada@example.com\n", false),
            ("ada", false),
            ("", false),
        ] {
            let line = ["init", "--data", data, "--admin-email", email];
            let order = installation(&InitParser::parse_from(line).args);
            let refused = order.map_err(|failure| failure.exit_code).err();
            assert_eq!(refused, (!is_taken).then_some(2), "{email:?}");
        }
    }
}
