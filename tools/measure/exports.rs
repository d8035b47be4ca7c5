//! `cardswitch export` of a running switch, beside PostgreSQL's own COPY of the same rows into the same
//! table and indexes; and how far an export is behind while the switch is loaded.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use cardswitch_harness::{cardswitch_binary, run_cardswitch};
use cardswitch_tools::report::{grouped, print_row, range, short, thousands};
use cardswitch_tools::{Outcome, fail};
use tokio::runtime::Runtime;
use tokio_postgres::{Client, Row};

use crate::postgresql::Cluster;

const TABLE: &str = "cardswitch.transactions";
const TURNS: usize = 3;

/// The switch whose transactions are exported.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Scale {
    /// The HTTP door of the switch
    #[arg(long, default_value = "127.0.0.1:8080", value_name = "ADDR")]
    pub(crate) address: SocketAddr,
    /// An access token
    #[arg(long)]
    pub(crate) token: String,
}

/// Measures and prints.
pub(crate) fn run(scale: &Scale, runtime: &Runtime) -> Outcome<()> {
    let copied = beside_copy(scale, runtime)?;
    print_row(&copied.0, &copied.1);
    Ok(())
}

/// A PostgreSQL that is exported to.
struct Target<'a> {
    runtime: &'a Runtime,
    client: Client,
    cluster: Cluster,
}

impl<'a> Target<'a> {
    fn start(runtime: &'a Runtime) -> Outcome<Self> {
        let cluster = Cluster::start(Vec::new())?;
        Ok(Self { runtime, client: runtime.block_on(cluster.connect())?, cluster })
    }

    fn execute(&self, statements: &[&str]) -> Outcome<()> {
        for statement in statements {
            self.runtime.block_on(self.client.batch_execute(statement))?;
        }
        Ok(())
    }

    fn ask(&self, query: &str) -> Outcome<Vec<Row>> {
        Ok(self.runtime.block_on(self.client.query(query, &[]))?)
    }
}

/// Exports everything and copies it back, turn by turn. Returns a row's two cells.
pub(crate) fn beside_copy(scale: &Scale, runtime: &Runtime) -> Outcome<(String, String)> {
    let target = Target::start(runtime)?;
    let (to, from) = (target.cluster.url(), format!("http://{}", scale.address));
    let (mut rates, mut ratios, mut rows) = (Vec::new(), Vec::new(), 0);
    for _ in 0..TURNS {
        target.execute(&["DROP SCHEMA IF EXISTS cardswitch CASCADE", "CHECKPOINT"])?;
        let start = Instant::now();
        let export = ["export", "--to", &to, "--url", &from, "--token", &scale.token, "--once"];
        run_cardswitch(&export).expect_done();
        let exported = start.elapsed().as_secs_f64();
        rows = target.ask(&format!("SELECT count(*) FROM {TABLE}"))?[0].try_get(0)?;
        let copied = copy_back(&target)?.as_secs_f64();
        rates.push(rows as f64 / exported);
        ratios.push(short(copied / exported));
        println!("export {exported:.1} s, COPY {copied:.1} s");
    }
    let rows: i64 = rows;
    Ok((
        format!("`export` of {} transactions beside COPY", grouped(rows as f64)),
        format!("{} rows/s: {}", range(rates, thousands), ratios.join(", ")),
    ))
}

/// Copies the rows out, and times how long they take to come in again.
fn copy_back(target: &Target<'_>) -> Outcome<Duration> {
    let file = target.cluster.path().join("rows");
    let file = file.display();
    let out = format!("COPY {TABLE} TO '{file}'");
    target.execute(&[&out, &format!("TRUNCATE {TABLE}"), "CHECKPOINT"])?;
    let start = Instant::now();
    target.execute(&[&format!("COPY {TABLE} FROM '{file}'")])?;
    Ok(start.elapsed())
}

/// How far an export is behind while a load runs. Units: seconds.
pub(crate) fn lag_under(
    scale: &Scale,
    runtime: &Runtime,
    load: impl FnOnce() -> Outcome<()> + Send,
) -> Outcome<f64> {
    let target = Target::start(runtime)?;
    let mut command = Command::new(cardswitch_binary());
    command.args(["export", "--to", &target.cluster.url(), "--token", &scale.token, "--url"]);
    command.arg(format!("http://{}", scale.address)).stdout(Stdio::null()).stderr(Stdio::null());
    let _following = FollowerProcess(command.spawn()?);
    wait_until_abreast(&target)?;
    target.execute(&["CREATE TABLE start AS SELECT now() AS at"])?;
    let lag = "SELECT extract(epoch FROM written_at - event_at)::float8 \
               FROM cardswitch.progress, start WHERE event_at > start.at";
    thread::scope(|scope| {
        let (loading, mut behind) = (scope.spawn(load), 0.0_f64);
        while !loading.is_finished() {
            for row in target.ask(lag)? {
                behind = behind.max(row.try_get(0)?);
            }
            thread::sleep(Duration::from_millis(200));
        }
        loading.join().map_err(|_| "the load panicked")??;
        Ok(behind)
    })
}

/// Waits until all that was there before is exported.
fn wait_until_abreast(target: &Target<'_>) -> Outcome<()> {
    const TRIES: usize = 400;
    let mut before = None;
    for _ in 0..TRIES {
        thread::sleep(Duration::from_millis(1_500));
        // At first the export has not made its tables yet.
        let asked = target.ask("SELECT event_at::text FROM cardswitch.progress");
        let now = asked.ok().and_then(|rows| rows.first()?.try_get::<_, Option<String>>(0).ok()?);
        if now.is_some() && now == before {
            return Ok(());
        }
        before = now;
    }
    fail("the export does not come to an end")
}

/// An export that goes on; killed with the value.
struct FollowerProcess(Child);

impl Drop for FollowerProcess {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
