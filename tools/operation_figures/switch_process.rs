//! The switch under measurement: another process, served on free ports of the loopback, and the load
//! generator that lies beside it.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;

use crate::ground::Ground;
use crate::outcome::{Outcome, fail};

/// The programs that were built together.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    pub(crate) cardswitch: PathBuf,
    pub(crate) load: PathBuf,
}

impl Programs {
    /// The programs beside this one.
    /// Errors: one is not there.
    pub(crate) fn beside() -> Outcome<Self> {
        let own = std::env::current_exe()?;
        let [cardswitch, load] = ["cardswitch", "load"].map(|name| own.with_file_name(name));
        if let Some(missing) = [&cardswitch, &load].into_iter().find(|path| !path.exists()) {
            return fail(format!("`{}` is not there; build it first", missing.display()));
        }
        Ok(Self { cardswitch, load })
    }
}

/// A running `cardswitch serve`; killed with the value.
#[derive(Debug)]
pub(crate) struct SwitchProcess {
    child: Child,
    programs: Programs,
    data: PathBuf,
    cards_file: PathBuf,
    log: PathBuf,
    pub(crate) http: SocketAddr,
    pub(crate) metrics: SocketAddr,
    iso8583: SocketAddr,
}

impl SwitchProcess {
    /// Serves a directory.
    /// Errors: the switch does not start.
    pub(crate) fn start(ground: &Ground, programs: &Programs) -> Outcome<Self> {
        let log = ground.beside("serve.log");
        let free = "127.0.0.1:0";
        let mut child = Command::new(&programs.cardswitch)
            .args(["serve", "--http", free, "--iso8583", free, "--metrics", free])
            .args(["--allow-local-webhooks", "--data"])
            .arg(&ground.data)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&log)?)
            .spawn()?;
        let mut lines = BufReader::new(child.stdout.take().ok_or("serve has no stdout")?);
        let mut ready = String::new();
        lines.read_line(&mut ready)?;
        let Some([http, iso8583, metrics]) = parse_ready(ready.trim_end()) else {
            // It has ended, or is of no use.
            let _ = child.kill();
            let _ = child.wait();
            return fail(format!(
                "serve printed `{ready}`; its log:\n{}",
                fs::read_to_string(log)?
            ));
        };
        // Its further output must not fill the pipe and stop it.
        thread::spawn(move || lines.lines().map_while(Result::ok).for_each(drop));
        let (data, cards_file) = (ground.data.clone(), ground.cards_file.clone());
        let programs = programs.clone();
        Ok(Self { child, programs, data, cards_file, log, http, metrics, iso8583 })
    }

    /// The resident memory of the process. Units: bytes.
    /// Source: proc(5), VmRSS of `status`.
    pub(crate) fn resident_bytes(&self) -> Outcome<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kibibytes = line.and_then(|line| line.split_whitespace().next());
        Ok(kibibytes.ok_or("the switch is gone")?.parse::<u64>()? << 10)
    }

    /// Puts authorizations through the ISO 8583 door at even instants; runs meanwhile.
    /// Errors: the load generator does not start.
    pub(crate) fn begin_load(&self, rate: u64, seconds: f64) -> Outcome<Load> {
        let mut command = Command::new(&self.programs.load);
        command.args(["iso", "--json", "--warmup", "0.5", "--address", &self.iso8583.to_string()]);
        command.args(["--rate", &rate.to_string(), "--seconds", &seconds.to_string(), "--cards"]);
        let child = command.arg(&self.cards_file).stdout(Stdio::piped()).spawn()?;
        Ok(Load(child))
    }

    /// As `begin_load`, to its end.
    pub(crate) fn load(&self, rate: u64, seconds: f64) -> Outcome<LoadResult> {
        self.begin_load(rate, seconds)?.end()
    }

    /// Begins to make a backup while it runs.
    /// Errors: the command does not start.
    pub(crate) fn begin_backup(&self, to: &Path) -> Outcome<Child> {
        let mut command = Command::new(&self.programs.cardswitch);
        command.args(["backup", "--json", "--data"]).arg(&self.data).arg("--to").arg(to);
        Ok(command.stdout(Stdio::null()).spawn()?)
    }

    /// Stops the switch in order.
    /// Errors: it left with one; its log is told.
    pub(crate) fn stop(mut self) -> Outcome<()> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        let status = self.child.wait()?;
        if status.success() {
            return Ok(());
        }
        fail(format!("the switch left with {status}:\n{}", fs::read_to_string(&self.log)?))
    }
}

impl Drop for SwitchProcess {
    fn drop(&mut self) {
        // Both fail where it was stopped, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A load generator at work.
#[derive(Debug)]
pub(crate) struct Load(Child);

impl Load {
    /// Waits for its end.
    /// Errors: it failed, or messages stayed without answers.
    pub(crate) fn end(self) -> Outcome<LoadResult> {
        let output = self.0.wait_with_output()?;
        if !output.status.success() {
            return fail("the load generator failed; it has printed why");
        }
        let printed: LoadReport = serde_json::from_slice(&output.stdout)?;
        Ok(printed.run)
    }
}

#[derive(Deserialize)]
struct LoadReport {
    run: LoadResult,
}

/// The result of a load.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct LoadResult {
    /// Units: messages a second.
    pub(crate) achieved_rate: f64,
    pub(crate) unanswered: u64,
    pub(crate) unsent: u64,
    pub(crate) latency_us: Latency,
}

/// Latency from the intended send. Units: microseconds.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Latency {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    #[serde(rename = "p99.9")]
    pub(crate) p999: f64,
}

impl LoadResult {
    /// The end of a line of a table.
    pub(crate) fn cells(&self) -> String {
        let Latency { p50, p99, p999 } = self.latency_us;
        let lost = self.unanswered + self.unsent;
        let lost = if lost == 0 { String::new() } else { format!(" ({lost} without an answer)") };
        format!("{:.0}{lost} | {p50:.0} | {p99:.0} | {p999:.0} |", self.achieved_rate)
    }
}

/// Reads `ready http=ADDR iso8583=ADDR metrics=ADDR`.
fn parse_ready(line: &str) -> Option<[SocketAddr; 3]> {
    let (http, others) = line.strip_prefix("ready http=")?.split_once(" iso8583=")?;
    let (iso8583, metrics) = others.split_once(" metrics=")?;
    Some([http.parse().ok()?, iso8583.parse().ok()?, metrics.parse().ok()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ready_line_is_read() {
        let line = "ready http=127.0.0.1:80 iso8583=127.0.0.1:8583 metrics=127.0.0.1:9464";
        let ports = parse_ready(line).unwrap().map(|address| address.port());
        assert_eq!(ports, [80, 8583, 9464]);
        assert_eq!(parse_ready("ready http=127.0.0.1:80"), None);
    }
}
