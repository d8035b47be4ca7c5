//! A switch of the run's own: made in a temporary directory, served on free ports of the loopback
//! as another process, stopped and deleted with the value.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::crew::Key;
use cardswitch_load::Failure;

/// The opening balance of the company: more than any load spends.
const OPENING_BALANCE: &str = "90000000000";

/// A running `cardswitch serve`.
#[derive(Debug)]
pub(crate) struct OwnSwitch {
    child: Child,
    pub(crate) http: SocketAddr,
    pub(crate) iso8583: SocketAddr,
    pub(crate) key: Key,
    /// Dropped after the switch has let go of it.
    directory: TempDir,
}

/// The usage of a switch so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    /// Units: nanoseconds of processors.
    pub(crate) cpu_ns: u64,
    /// Units: bytes.
    pub(crate) resident_bytes: u64,
}

impl OwnSwitch {
    /// Makes a data directory with so many cards in the place that `TMPDIR` names, and serves it.
    /// Errors: the binary is not there, or fails.
    pub(crate) fn start(binary: Option<&Path>, cards: u32) -> Result<Self, Failure> {
        let binary = binary.map_or_else(binary_beside, |path| Ok(path.to_owned()))?;
        let directory = TempDir::new()?;
        let (data, cards_file) = (directory.path().join("data"), cards_file(directory.path()));
        let made = Command::new(&binary)
            .args(["init", "--json", "--opening-balance", OPENING_BALANCE, "--data"])
            .arg(&data)
            .args(["--cards", &cards.to_string(), "--cards-out"])
            .arg(&cards_file)
            .stderr(Stdio::inherit())
            .output()
            .map_err(|error| format!("`{}`: {error}", binary.display()))?;
        if !made.status.success() {
            return Err("`cardswitch init` failed; it has printed why".into());
        }
        let printed: serde_json::Value = serde_json::from_slice(&made.stdout)?;
        let key = Key(printed["network_key"].as_str().unwrap_or_default().to_owned());
        let (child, http, iso8583) = serve(&binary, &data, &directory.path().join("serve.log"))?;
        Ok(Self { child, http, iso8583, key, directory })
    }

    /// The cards file.
    pub(crate) fn cards(&self) -> PathBuf {
        cards_file(self.directory.path())
    }

    /// The usage of the switch so far.
    /// Errors: it is gone.
    pub(crate) fn usage(&self) -> Result<Usage, Failure> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        parse_usage(&stat, &status).ok_or_else(|| "the switch is gone".into())
    }

    /// Stops the switch in order.
    /// Errors: it left with one; its log is printed.
    pub(crate) fn stop(mut self) -> Result<(), Failure> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        let status = self.child.wait()?;
        if status.success() {
            return Ok(());
        }
        eprintln!("{}", fs::read_to_string(self.directory.path().join("serve.log"))?);
        Err(format!("the switch left with {status}").into())
    }
}

impl Drop for OwnSwitch {
    fn drop(&mut self) {
        // Both fail where it was stopped, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn cards_file(directory: &Path) -> PathBuf {
    directory.join("cards.jsonl")
}

/// The switch that was built with this program.
fn binary_beside() -> io::Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name("cardswitch"))
}

fn serve(
    binary: &Path,
    data: &Path,
    log: &Path,
) -> Result<(Child, SocketAddr, SocketAddr), Failure> {
    let mut child = Command::new(binary)
        .args(["serve", "--http", "127.0.0.1:0", "--iso8583", "127.0.0.1:0", "--data"])
        .arg(data)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(File::create(log)?)
        .spawn()?;
    let mut lines = BufReader::new(child.stdout.take().ok_or("serve has no stdout")?);
    let mut ready = String::new();
    lines.read_line(&mut ready)?;
    let Some((http, iso8583)) = parse_ready(ready.trim_end()) else {
        // It has ended, or is of no use.
        let _ = child.kill();
        let _ = child.wait();
        let log = fs::read_to_string(log)?;
        return Err(format!("serve printed `{ready}` instead of its doors; its log:\n{log}").into());
    };
    // Its further output must not fill the pipe and stop it.
    thread::spawn(move || lines.lines().map_while(Result::ok).for_each(drop));
    Ok((child, http, iso8583))
}

/// Reads `ready http=ADDR iso8583=ADDR` and what may follow.
fn parse_ready(line: &str) -> Option<(SocketAddr, SocketAddr)> {
    let (http, iso8583) = line.strip_prefix("ready http=")?.split_once(" iso8583=")?;
    let iso8583 = iso8583.split_whitespace().next()?;
    Some((http.parse().ok()?, iso8583.parse().ok()?))
}

/// Source: proc(5): of `stat`, utime and stime; of `status`, VmRSS.
fn parse_usage(stat: &str, status: &str) -> Option<Usage> {
    // The name of the program may have spaces; its closing parenthesis is the last one.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    let ticks = ticks()? + ticks()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kibibytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    let tick_ns = cardswitch_load::clock::SECOND_NS / rustix::param::clock_ticks_per_second();
    Some(Usage { cpu_ns: ticks * tick_ns, resident_bytes: kibibytes * 1_024 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ready_line_is_read() {
        let (http, iso8583) =
            parse_ready("ready http=127.0.0.1:80 iso8583=127.0.0.1:8583 metrics=127.0.0.1:9464")
                .unwrap();
        assert_eq!((http.port(), iso8583.port()), (80, 8583));
        assert_eq!(parse_ready("ready http=127.0.0.1:80"), None);
    }

    #[test]
    fn usage_is_read_behind_any_name() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194560 100 0 0 0 30 12 0 0 20 0 5 0";
        let usage = parse_usage(stat, "Name:\tx\nVmRSS:\t    2048 kB\n").unwrap();
        let ticks = usage.cpu_ns
            / (cardswitch_load::clock::SECOND_NS / rustix::param::clock_ticks_per_second());
        assert_eq!((ticks, usage.resident_bytes), (42, 2 << 20));
        assert!(parse_usage("7 (gone)", "").is_none());
    }
}
