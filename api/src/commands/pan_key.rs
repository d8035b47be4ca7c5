//! `cardswitch rotate-pan-key`: by a running switch, else on a directory at rest.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cardswitch_edge::switch::Switch;
use cardswitch_secrets::master_key::source::MasterKeyArgs;
use tokio::sync::watch;

use super::Failure;
use super::config_args::ConfigArgs;
use super::running::ask_running;
use crate::config::ClockSetting;
use crate::control::ControlRequest;
use crate::opening::{KeyedDirectory, open_at_rest};
use crate::pan_rotation::{
    GenerationReport, PanKeyProgress, PanKeyReport, PanRotation, ResealingPace,
};

/// How often a running switch is asked how far it has come.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);

/// The arguments of `rotate-pan-key`.
#[derive(Debug, clap::Args)]
pub struct RotatePanKeyArgs {
    /// Data directory, in use by a running switch or at rest; in a cluster that of the leader
    #[arg(long, env = "CARDSWITCH_DATA", value_name = "DIR")]
    data: PathBuf,
    /// Change nothing: list the keys, and the number of cards that need each
    #[arg(long, conflicts_with_all = ["forget", "no_wait"])]
    status: bool,
    /// Forget the older keys, once no card needs them
    #[arg(long, conflicts_with = "no_wait")]
    forget: bool,
    /// Do not wait until every card number is re-sealed: a running switch does it, or the next start
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    master_key: MasterKeyArgs,
    #[command(flatten)]
    config: ConfigArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Carries out `rotate-pan-key`.
/// Errors: the directory cannot be opened or its switch does not answer, or an older key is in use.
pub async fn run(args: RotatePanKeyArgs) -> Result<(), Failure> {
    let keys = KeyPlace::open(&args)?;
    if args.status {
        return show(&args, &keys.report().await?);
    }
    if args.forget {
        let report = keys.forget().await?;
        show(&args, &report)?;
        if !args.json {
            println!(
                "forgot the older keys. Card numbers in the journal from before are sealed under them; \
                 a backup has its own copy of the keys as they were, and is opened with the master key."
            );
            println!(
                "With a journal, an older backup restores only to moments when no card was sealed under a key \
                 that was made after it and is forgotten now."
            );
        }
        return Ok(());
    }
    let progress = keys.rotate().await?;
    let PanKeyProgress { generation, cards_left, .. } = progress;
    if !args.json {
        println!(
            "generation {generation} seals card numbers now; {cards_left} are to be re-sealed"
        );
    }
    let progress = if args.no_wait { progress } else { keys.wait(progress, args.json).await? };
    if args.json {
        return print_json(&progress);
    }
    if progress.cards_left == 0 {
        println!("every card number is sealed under generation {generation}");
        println!("Next: cardswitch rotate-pan-key --forget --data {}", args.data.display());
    }
    Ok(())
}

/// The place where the keys are changed.
enum KeyPlace<'a> {
    /// By the switch that runs on this directory.
    Running(&'a Path),
    /// Here.
    AtRest(Arc<PanRotation>),
}

impl<'a> KeyPlace<'a> {
    fn open(args: &'a RotatePanKeyArgs) -> Result<Self, Failure> {
        let data = args.data.as_path();
        let settings = args.config.read(data)?;
        // Where the time stands still no timer runs, so nothing changes.
        let clock = if args.status { ClockSetting::Manual } else { settings.clock };
        let place = KeyedDirectory { data, master_key: &args.master_key.source() };
        let Some((engine, secrets)) = open_at_rest(place, clock)? else {
            return Ok(Self::Running(data));
        };
        let switch = Switch::new(Arc::new(engine));
        let keys = PanRotation::new(switch, Arc::new(secrets), data, ResealingPace::AtRest, None);
        keys.map(|keys| Self::AtRest(Arc::new(keys))).map_err(Failure::new)
    }

    async fn report(&self) -> Result<PanKeyReport, Failure> {
        match self {
            Self::Running(data) => ask_running(data, &ControlRequest::PanKeyReport).await,
            Self::AtRest(keys) => keys.report().await.map_err(Failure::new),
        }
    }

    async fn forget(&self) -> Result<PanKeyReport, Failure> {
        match self {
            Self::Running(data) => ask_running(data, &ControlRequest::ForgetPanKeys).await,
            Self::AtRest(keys) => {
                keys.resume().await?;
                keys.forget().await.map_err(Failure::new)
            }
        }
    }

    async fn rotate(&self) -> Result<PanKeyProgress, Failure> {
        match self {
            Self::Running(data) => ask_running(data, &ControlRequest::RotatePanKey).await,
            Self::AtRest(keys) => {
                let progress = keys.rotate().await?;
                Ok(PanKeyProgress { is_working: false, ..progress })
            }
        }
    }

    /// Until every card number is re-sealed, or nobody is at it any more.
    async fn wait(
        &self,
        mut progress: PanKeyProgress,
        is_quiet: bool,
    ) -> Result<PanKeyProgress, Failure> {
        let data = match self {
            Self::Running(data) => data,
            Self::AtRest(keys) => {
                let (_stop, stopped) = watch::channel(false);
                keys.reseal_asked(&stopped).await;
                return finished(keys.progress());
            }
        };
        let mut told = progress.cards_left;
        while progress.is_working {
            tokio::time::sleep(PROGRESS_INTERVAL).await;
            progress = ask_running(data, &ControlRequest::PanKeyProgress).await?;
            if progress.cards_left != told && progress.is_working && !is_quiet {
                told = progress.cards_left;
                println!("{told} card numbers are still to be re-sealed");
            }
        }
        finished(progress)
    }
}

/// Errors: some numbers could not be re-sealed.
fn finished(progress: PanKeyProgress) -> Result<PanKeyProgress, Failure> {
    match progress.cards_left {
        0 => Ok(progress),
        left => Err(Failure::new(format!(
            "{left} card numbers were not re-sealed: see the log of the switch"
        ))),
    }
}

fn show(args: &RotatePanKeyArgs, report: &PanKeyReport) -> Result<(), Failure> {
    if args.json {
        return print_json(report);
    }
    for GenerationReport { generation, made_at, cards } in &report.generations {
        let made_at = made_at.as_deref().unwrap_or("with the directory");
        println!("generation {generation}, made {made_at}: {cards} cards");
    }
    println!("{} card numbers are still to be re-sealed", report.cards_left);
    Ok(())
}

fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    println!("{}", serde_json::to_string(value)?);
    Ok(())
}
