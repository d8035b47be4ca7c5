//! The time of a backup of a large directory while the switch runs, and its effect on
//! authorizations; beside it, under the same load, `cp` of the same files.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use cardswitch_benches::installation::directory_bytes;
use cardswitch_harness::run_cardswitch;
use cardswitch_load::load::Load;
use cardswitch_load::tally::Tally;
use cardswitch_tools::ground::{Ground, Plan};
use cardswitch_tools::report::{grouped, milliseconds, outcome, print_row, range, short};
use cardswitch_tools::switch::load_door;
use cardswitch_tools::{Outcome, fail};

/// How large, and under what load.
#[derive(Debug, clap::Args)]
pub(crate) struct Scale {
    /// Transactions of the directory
    #[arg(long, default_value_t = 5_000_000, value_name = "N")]
    transactions: u64,
    /// Its cards
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    cards: u64,
    /// Authorizations a second meanwhile
    #[arg(long, default_value_t = 5_000, value_name = "N")]
    rate: u64,
    /// Seconds of each look at the latency
    #[arg(long, default_value_t = 4.0, value_name = "S")]
    seconds: f64,
}

/// Measures and prints.
pub(crate) fn run(scale: &Scale) -> Outcome<()> {
    let plan = Plan { purchases: scale.transactions, ..Plan::of_cards(scale.cards) };
    let ground = Ground::make(&plan)?;
    let switch = ground.serve(&[]);
    let measured = Duration::try_from_secs_f64(scale.seconds)?;
    let load = Load { rate: Some(scale.rate), measured, ..Load::default() };
    let look = |when: &str| {
        let tally = load_door(switch.iso8583, &ground.cards, &load)?;
        println!("{when:<10} {}", outcome(&tally));
        Outcome::Ok(tally)
    };
    // The first look warms what comes after it.
    look("warm-up")?;
    let before = [look("before")?, look("before")?];
    let (backup, copy) = (ground.beside("backup"), ground.beside("copy"));
    let [data, to] = [&ground.data, &backup].map(|path| path.to_string_lossy());
    let backing_up = || {
        run_cardswitch(&["backup", "--json", "--data", &data, "--to", &to]).expect_done();
        Ok(())
    };
    let (during_backup, took) = during(|| look("backup"), backing_up)?;
    let (during_copy, copied) = during(|| look("cp"), || copy_files(&ground.data, &copy))?;
    switch.stop();
    let p99 = |loads: &[Tally]| range(milliseconds(loads, 99.0), short);
    let slowest = milliseconds(&during_copy, 99.0).fold(0.0, f64::max);
    print_row(
        &format!(
            "backup of {} transactions ({:.1} GiB) beside {}/s; `cp` with fsync",
            grouped(scale.transactions as f64),
            directory_bytes(&backup) as f64 / 1024_f64.powi(3),
            grouped(scale.rate as f64),
        ),
        &format!(
            "{} s; p99 {} ms before, {} during. `cp` {} s, p99 up to {slowest:.0} ms",
            short(took.as_secs_f64()),
            p99(&before),
            p99(&during_backup),
            short(copied.as_secs_f64()),
        ),
    );
    Ok(())
}

/// Looks at the latency until something is done; returns how long that took, too.
fn during(
    look: impl Fn() -> Outcome<Tally>,
    work: impl FnOnce() -> Outcome<()> + Send,
) -> Outcome<(Vec<Tally>, Duration)> {
    thread::scope(|scope| {
        let start = Instant::now();
        let working = scope.spawn(move || work().map(|()| start.elapsed()));
        let mut looks = vec![look()?];
        while !working.is_finished() {
            looks.push(look()?);
        }
        let took = working.join().map_err(|_| "a thread panicked")??;
        Ok((looks, took))
    })
}

/// Copies the files of a directory, and has the disk take them, as a backup does.
fn copy_files(from: &Path, to: &Path) -> Outcome<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if !entry.file_type()?.is_file() {
            continue;
        }
        let copy = to.join(entry.file_name());
        // A copy that shares its blocks with the original would be no yardstick.
        let copied =
            Command::new("cp").arg("--reflink=never").arg(entry.path()).arg(&copy).status();
        if !copied?.success() {
            return fail("`cp` failed");
        }
        File::open(&copy)?.sync_all()?;
    }
    Ok(File::open(to)?.sync_all()?)
}
