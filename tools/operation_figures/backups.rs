//! The time of a backup of a large directory while the switch runs, and its effect on
//! authorizations; beside it, under the same load, `cp` of the same files.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::ground::{Ground, Plan, bytes_below};
use crate::outcome::{Outcome, fail};
use crate::switch_process::{Programs, SwitchProcess};

/// How large, and under what load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    pub(crate) transactions: u64,
    pub(crate) cards: u64,
    pub(crate) rate: u64,
    /// How long each look at the latency lasts. Units: seconds.
    pub(crate) slice: f64,
}

/// Measures and prints.
pub(crate) fn run(scale: &Scale, programs: &Programs) -> Outcome<()> {
    let start = Instant::now();
    let ground = Ground::make(&Plan {
        cards: scale.cards,
        companies: 1,
        endpoints: Vec::new(),
        purchases: scale.transactions,
    })?;
    println!(
        "\n{} transactions, {} cards: made in {:.0?}, {} MiB on disk",
        scale.transactions,
        scale.cards,
        start.elapsed(),
        bytes_below(&ground.data)? >> 20
    );
    let switch = SwitchProcess::start(&ground, programs)?;
    let (backup, copy) = (ground.beside("backup"), ground.beside("copy"));
    println!("\n| {} authorizations/s | answered/s | p50 us | p99 us | p99.9 us |", scale.rate);
    println!("|---|---:|---:|---:|---:|");
    // The first look warms what comes after it.
    switch.load(scale.rate, scale.slice)?;
    look(&switch, scale, "before")?;
    look(&switch, scale, "before")?;
    let mut child = switch.begin_backup(&backup)?;
    let backing_up = during(&switch, scale, "backup", move || {
        let status = child.wait()?;
        if status.success() { Ok(()) } else { fail_io("`cardswitch backup` failed") }
    })?;
    look(&switch, scale, "after the backup")?;
    look(&switch, scale, "after the backup")?;
    let (from, to) = (ground.data.clone(), copy.clone());
    let copying = during(&switch, scale, "`cp`", move || copy_files(&from, &to))?;
    look(&switch, scale, "after `cp`")?;
    switch.stop()?;
    let [made, copied] = [bytes_below(&backup)?, bytes_below(&copy)?];
    println!("\nbackup      {:.1} s, {} MiB", backing_up.as_secs_f64(), made >> 20);
    println!("yardstick   `cp` and fsync: {:.1} s, {} MiB", copying.as_secs_f64(), copied >> 20);
    let ratio = backing_up.as_secs_f64() / copying.as_secs_f64().max(1e-9);
    println!("ratio       {ratio:.2} times the time of `cp`");
    Ok(())
}

fn look(switch: &SwitchProcess, scale: &Scale, when: &str) -> Outcome<()> {
    println!("| {when} | {}", switch.load(scale.rate, scale.slice)?.cells());
    Ok(())
}

/// Looks at the latency until something is done; returns how long that took.
fn during(
    switch: &SwitchProcess,
    scale: &Scale,
    what: &str,
    work: impl FnOnce() -> std::io::Result<()> + Send + 'static,
) -> Outcome<Duration> {
    let start = Instant::now();
    let working = thread::spawn(move || work().map(|()| start.elapsed()));
    let mut turn = 1;
    while !working.is_finished() {
        look(switch, scale, &format!("during {what}, {turn}"))?;
        turn += 1;
    }
    match working.join() {
        Ok(took) => Ok(took?),
        Err(_) => fail(format!("{what} panicked")),
    }
}

fn fail_io(sentence: &str) -> std::io::Result<()> {
    Err(std::io::Error::other(sentence))
}

/// Copies the files of a directory, and has the disk take them, as a backup does.
fn copy_files(from: &Path, to: &Path) -> std::io::Result<()> {
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
            return fail_io("`cp` failed");
        }
        File::open(&copy)?.sync_all()?;
    }
    File::open(to)?.sync_all()
}
