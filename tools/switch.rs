//! The switch under measurement: `cardswitch serve` as another process, on free ports of the loopback.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use cardswitch_benches::meter::number_in;
use cardswitch_feed::Card;
use cardswitch_load::clock::SECOND_NS;
use cardswitch_load::iso::{Iso, Purchases};
use cardswitch_load::load::Load;
use cardswitch_load::tally::Tally;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::{Outcome, fail};

/// The program that was built with this one.
/// Errors: it is not there.
pub fn cardswitch() -> Outcome<PathBuf> {
    let program = std::env::current_exe()?.with_file_name("cardswitch");
    if program.exists() {
        return Ok(program);
    }
    fail(format!("`{}` is not there; build it first", program.display()))
}

/// Runs `cardswitch` to its end, with a line to read where it asks for one; returns its output.
/// Errors: it fails; it has printed why.
pub fn run(arguments: &[&str], input: &str) -> Outcome<Vec<u8>> {
    let mut command = Command::new(cardswitch()?);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn()?;
    if let Some(mut stdin) = child.stdin.take().filter(|_| !input.is_empty()) {
        writeln!(stdin, "{input}")?;
    }
    let output = child.wait_with_output()?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    fail(format!("`cardswitch {}` failed", arguments.first().unwrap_or(&"")))
}

/// A running switch; killed with the value.
#[derive(Debug)]
pub struct Switch {
    child: Child,
    log: PathBuf,
    /// The HTTP door.
    pub http: SocketAddr,
    /// The ISO 8583 door.
    pub iso8583: SocketAddr,
    /// The door of the figures.
    pub metrics: SocketAddr,
}

/// The usage of a switch so far.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    /// Units: nanoseconds of processors.
    pub cpu_ns: u64,
    /// Units: bytes.
    pub resident_bytes: u64,
    /// The most that was resident. Units: bytes.
    pub resident_bytes_max: u64,
}

impl Switch {
    /// Serves a directory, with further arguments.
    /// Errors: the switch does not start; its log is shown.
    pub fn serve(data: &Path, more: &[&str]) -> Outcome<Self> {
        let log = data.with_file_name("serve.log");
        let free = "127.0.0.1:0";
        let mut child = Command::new(cardswitch()?)
            .args(["serve", "--http", free, "--iso8583", free, "--metrics", free])
            .args(more)
            .arg("--data")
            .arg(data)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&log)?)
            .spawn()?;
        let mut lines = BufReader::new(child.stdout.take().ok_or("serve has no stdout")?);
        let mut ready = String::new();
        lines.read_line(&mut ready)?;
        let doors = ["http", "iso8583", "metrics"].map(|door| address_of(&ready, door));
        let [Some(http), Some(iso8583), Some(metrics)] = doors else {
            // It has ended, or is of no use.
            let _ = child.kill();
            let _ = child.wait();
            let log = fs::read_to_string(log)?;
            return fail(format!("serve printed `{ready}` instead of its doors; its log:\n{log}"));
        };
        // Its further output must not fill the pipe and stop it.
        thread::spawn(move || lines.lines().map_while(Result::ok).for_each(drop));
        Ok(Self { child, log, http, iso8583, metrics })
    }

    /// The number of the process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Puts authorizations through the ISO 8583 door.
    /// Errors: nobody is there.
    pub fn load(&self, cards: &[Card], load: &Load) -> Outcome<Tally> {
        load_door(self.iso8583, cards, load)
    }

    /// The usage of the switch so far. Source: proc(5), VmRSS and VmHWM of `status`.
    /// Errors: it is gone.
    pub fn usage(&self) -> Outcome<Usage> {
        let [stat, status] = ["stat", "status"].map(|file| format!("/proc/{}/{file}", self.pid()));
        let ticks = ticks_in(&fs::read_to_string(stat)?).ok_or("the switch is gone")?;
        Ok(Usage {
            cpu_ns: ticks * (SECOND_NS / rustix::param::clock_ticks_per_second()),
            resident_bytes: number_in(&status, "VmRSS:") << 10,
            resident_bytes_max: number_in(&status, "VmHWM:") << 10,
        })
    }

    /// Stops the switch in order.
    /// Errors: it left with one; its log is shown.
    pub fn stop(mut self) -> Outcome<()> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        let status = self.child.wait()?;
        if status.success() {
            return Ok(());
        }
        fail(format!("the switch left with {status}:\n{}", fs::read_to_string(&self.log)?))
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        // Both fail where it was stopped, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Puts authorizations through an ISO 8583 door.
/// Errors: nobody is there.
pub fn load_door(address: SocketAddr, cards: &[Card], load: &Load) -> Outcome<Tally> {
    load.carry_out(&[address], Iso::new(cards, Purchases::default())?)
}

/// Makes a data directory with cards by `cardswitch init`, and returns its credentials.
/// Errors: it fails.
pub fn init(data: &Path, cards_file: &Path, more: &[&str]) -> Outcome<Value> {
    let [data, cards_file] = [data, cards_file].map(Path::to_string_lossy);
    let mut arguments = vec!["init", "--json", "--opening-balance", "90000000000"];
    arguments.extend(["--data", &data, "--cards-out", &cards_file]);
    arguments.extend(more);
    Ok(serde_json::from_slice(&run(&arguments, "")?)?)
}

/// The address of a door in `ready http=ADDR iso8583=ADDR` and what may follow.
fn address_of(ready: &str, door: &str) -> Option<SocketAddr> {
    let words = ready.strip_prefix("ready ")?.split_whitespace();
    let named = words.filter_map(|word| word.split_once('='));
    named.filter(|(name, _)| *name == door).find_map(|(_, address)| address.parse().ok())
}

/// The ticks of a process. Source: proc(5), utime and stime of `stat`.
fn ticks_in(stat: &str) -> Option<u64> {
    // The name of the program may have spaces; its closing parenthesis is the last one.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    Some(ticks()? + ticks()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ready_line_is_read() {
        let line = "ready http=127.0.0.1:80 iso8583=127.0.0.1:8583 metrics=127.0.0.1:9464\n";
        let port = |door| address_of(line, door).map(|address| address.port());
        assert_eq!(["http", "metrics", "iso"].map(port), [Some(80), Some(9464), None]);
        assert_eq!(address_of("error http=127.0.0.1:80", "http"), None);
    }

    #[test]
    fn ticks_are_read_behind_any_name() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194560 100 0 0 0 30 12 0 0 20 0 5 0";
        assert_eq!((ticks_in(stat), ticks_in("7 (gone)")), (Some(42), None));
    }
}
