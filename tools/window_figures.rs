//! How fast an etcd takes transactions of one size, one at a time: what a cluster's throughput is
//! measured by. Each compares the tip and puts one batch, as a leader's do.
//!
//! `window-figures etcd://HOST:PORT,.../PREFIX BYTES SECONDS`; the prefix must be unused. Prints one JSON
//! object.

use std::error::Error;
use std::time::{Duration, Instant};

use cardswitch_cluster::EtcdWindow;
use cardswitch_engine::journal::ChainPosition;
use cardswitch_engine::journal::chain::BatchBuilder;
use cardswitch_engine::journal::window::{AppendOutcome, ChainWindow, WindowTip, WriterId};
use serde_json::json;

const DIRECTORY: [u8; 16] = [7; 16];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [cluster, bytes, seconds] = &arguments[..] else {
        return Err("window-figures URL BYTES SECONDS".into());
    };
    let (cluster, bytes): (_, usize) = (cluster.parse()?, bytes.parse()?);
    let until = Duration::from_secs(seconds.parse()?);
    EtcdWindow::create(&cluster, DIRECTORY, ChainPosition::GENESIS)?;
    // The writer of a window that was just made.
    let mut window = EtcdWindow::open(&cluster, DIRECTORY, WriterId(0), &Default::default())?;
    let mut tip = WindowTip { position: ChainPosition::GENESIS, writer: WriterId(0) };
    let payload = vec![0x5A; bytes];
    let (began, mut took_us) = (Instant::now(), Vec::new());
    while began.elapsed() < until {
        let mut batch = BatchBuilder::start(Vec::new());
        batch.push(1, &payload);
        let batch = batch.seal(0, &tip.position);
        let since = Instant::now();
        if window.append(&tip, std::slice::from_ref(&batch))? != AppendOutcome::Written {
            return Err("somebody else writes to this prefix".into());
        }
        took_us.push(u64::try_from(since.elapsed().as_micros())?);
        tip = WindowTip { position: batch.position(), writer: WriterId(0) };
    }
    let per_second = took_us.len() as f64 / began.elapsed().as_secs_f64();
    took_us.sort_unstable();
    let at = |percent: usize| took_us[(took_us.len() - 1) * percent / 100];
    let figures = json!({
        "bytes": bytes, "per_second": per_second, "p50_us": at(50), "p99_us": at(99),
    });
    println!("{figures}");
    Ok(())
}
