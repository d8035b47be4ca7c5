//! The world of a seed on real files, and the end of its process by a signal: what the files are found to hold is
//! what the simulated disk holds at the same happening. So the simulated disk is proven, too.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use cardswitch_engine::data_directory::DataDirectory;
use cardswitch_engine::engine::Engine;
use cardswitch_engine::verify::{Verification, verify, verify_on};

use super::World;
use super::assembly::options;
use crate::disks::{Crash, Disks};
use crate::happening::Happening;
use crate::rng::Rng;

/// The most happenings before the end of a process.
const HAPPENINGS_MAX: u64 = 4_000;
/// A world never comes to so many commands.
const ENDLESS: u64 = u64::MAX >> 16;
const DIRECTORY_ID: [u8; 16] = [5; 16];

/// Runs the world of a seed on new files below `place` for ever, and tells of each happening that is over: its
/// number, and the newest record that somebody was told of.
/// Errors: nobody listens any more.
pub fn run_on_files(seed: u64, place: &Path, listener: &mut dyn Write) -> io::Result<()> {
    drop(DataDirectory::create(place, DIRECTORY_ID).unwrap());
    let mut world = World::on(seed, ENDLESS, place, Disks::on_files(place));
    world.open_companies();
    for number in 0.. {
        writeln!(listener, "{number} {}", world.told.0)?;
        listener.flush()?;
        world.befall_calmly();
    }
    Ok(())
}

/// Runs the world of a seed in a process of `program`, kills that after some happenings, and compares its files with
/// the simulated disk. Returns how many records are found.
/// Panics: where they differ, or an answered command is lost.
pub fn kill_on_files(seed: u64, program: &Path) -> u64 {
    let ground = tempfile::tempdir().unwrap();
    let place = ground.path().join("files");
    let mut process = Command::new(program)
        .args(["--first", &seed.to_string(), "--on-files"])
        .arg(&place)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let happenings = 1 + Rng::new(seed ^ 0x0C11).below(HAPPENINGS_MAX);
    let (number, told) = kill_after(happenings, &mut process);
    let found = verify(&place).unwrap();
    assert!(found.is_ok(), "seed {seed}: {:#?}", found.figures);
    assert!(found.records >= told, "seed {seed}: {} of {told} records are left", found.records);
    let world = compare(seed, number, &found, &place);
    let engine = Engine::open(options(&place, &world.clock, &world.rates)).unwrap();
    // Timers may run at once.
    assert!(engine.durable_seq().0 >= found.records, "seed {seed}: a start finds the same");
    engine.shut_down();
    found.records
}

/// Ends the process once it has told of so many happenings; returns what it told last.
fn kill_after(happenings: u64, process: &mut Child) -> (u64, u64) {
    let mut lines = BufReader::new(process.stdout.take().unwrap());
    let mut told = String::new();
    for _ in 0..happenings {
        assert!(lines.read_line(&mut told).unwrap() > 0, "it goes on until it is killed: {told}");
    }
    process.kill().unwrap();
    process.wait().unwrap();
    lines.read_to_string(&mut told).unwrap();
    // The last line may be cut.
    let whole = told.rsplit_once('\n').unwrap().0;
    let (number, told) = whole.lines().next_back().unwrap().split_once(' ').unwrap();
    (number.parse().unwrap(), told.parse().unwrap())
}

/// Compares what was found in `place` with the simulated disk after the happening `number`, and after the next one,
/// which the process was at. Returns that world.
fn compare(seed: u64, number: u64, found: &Verification, place: &Path) -> World {
    let beside = place.with_extension("simulated");
    drop(DataDirectory::create(&beside, DIRECTORY_ID).unwrap());
    let directory = DataDirectory::open_read_only(place).unwrap();
    let mut world = World::on(seed, ENDLESS, &beside, Disks::default());
    world.open_companies();
    (0..number).for_each(|_| world.befall_calmly());
    let before = world.found_after_kill(&directory);
    world.befall_calmly();
    let after = world.found_after_kill(&directory);
    let records = before.records..=after.records;
    assert!(records.contains(&found.records), "seed {seed}: {} of {records:?}", found.records);
    for simulated in [before, after] {
        if simulated.records == found.records {
            assert_eq!(simulated.state_hash, found.state_hash, "seed {seed}: another state");
        }
    }
    world
}

impl World {
    /// The next happening that is neither a fault nor a rest.
    fn befall_calmly(&mut self) {
        loop {
            let happening = self.draw();
            let (Happening::Send { .. } | Happening::Step(_) | Happening::ClockBack(_)) = happening
            else {
                continue;
            };
            return self.befall(happening);
        }
    }

    fn found_after_kill(&self, directory: &DataDirectory) -> Verification {
        verify_on(directory, self.disks.after(Crash::Kill).storage()).unwrap()
    }
}
