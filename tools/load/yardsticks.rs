//! The least cost of a durable answer and of a round trip on this machine, measured in the same
//! run: a bare commit of redb, and a counterpart that does no work.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use redb::{Database, TableDefinition};
use serde::Serialize;

use crate::arguments::Door;
use crate::report::{Latency, Report};
use cardswitch_load::Failure;
use cardswitch_load::tally::Tally;
use cardswitch_load::wire::Code;

/// How long commits are measured.
const COMMITS_TIME: Duration = Duration::from_secs(2);
/// Commits before that are not counted.
const COMMITS_BEFORE: u64 = 50;
const VALUE: [u8; 100] = [7; 100];
const VALUES: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("values");
/// Keys are used in turn, so that the file stays small.
const KEYS: u64 = 256;

/// The yardsticks beside a run.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Yardsticks {
    /// One durable redb commit of 100 bytes, one after the other, before the run.
    pub(crate) redb_commit_us: Latency,
    /// The same load on a counterpart that does no work.
    pub(crate) echo: Option<Report>,
    /// Units: microseconds of processors for each message.
    pub(crate) switch_cpu_us: f64,
    /// Units: bytes.
    pub(crate) switch_resident_bytes: u64,
}

impl Yardsticks {
    /// As lines for a person, with how a run compares.
    pub(crate) fn text(&self, run: &Report) -> String {
        let (own, commit) = (&run.latency_us, &self.redb_commit_us);
        let mut text = format!(
            "switch      {:.2} us of a processor a message, {} MiB resident\n\
             yardstick   bare redb commit before, us: {}\n\
             ratio       p50 {:.2} and p99 {:.2} times the commit's\n",
            self.switch_cpu_us,
            self.switch_resident_bytes >> 20,
            commit.text(),
            own.p50 / commit.p50,
            own.p99 / commit.p99,
        );
        if let Some(echo) = &self.echo {
            text += &format!(
                "yardstick   echo of the same: {:.0}/s, us: {}; client {:.2} us a message\n",
                echo.achieved_rate,
                echo.latency_us.text(),
                echo.client_cpu_us,
            );
        }
        text
    }
}

/// Measures bare commits in the place that `TMPDIR` names, where the switch of the run lies, too.
/// Errors: the disk does not take them.
pub(crate) fn measure_commits() -> Result<Latency, Failure> {
    let database = Database::builder().create_file(tempfile::tempfile()?)?;
    let mut tally = Tally::default();
    let start = Instant::now();
    for number in 0.. {
        let before = Instant::now();
        let write_txn = database.begin_write()?;
        write_txn.open_table(VALUES)?.insert(number % KEYS, VALUE.as_slice())?;
        write_txn.commit()?;
        if number >= COMMITS_BEFORE {
            tally.note_answer(Code::ECHO, u64::try_from(before.elapsed().as_nanos())?);
        }
        if start.elapsed() > COMMITS_TIME {
            break;
        }
    }
    Ok(Latency::of(&tally))
}

/// A counterpart that does no work, in a process of its own as a switch is; killed when dropped.
pub(crate) struct EchoProcess {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl EchoProcess {
    /// Starts it on a free port.
    /// Errors: it cannot be started.
    pub(crate) fn start(door: Door) -> Result<Self, Failure> {
        let spelled = door.to_possible_value().ok_or("a door has no name")?;
        let mut child = Command::new(std::env::current_exe()?)
            .args(["echo", spelled.get_name()])
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("echo has no stdout")?).read_line(&mut line)?;
        Ok(Self { child, address: line.trim_end().parse()? })
    }
}

impl Drop for EchoProcess {
    fn drop(&mut self) {
        // Both fail where it has ended by itself, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
