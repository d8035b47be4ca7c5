//! A cluster on this machine (three nodes, three etcd, each a process): one purchase at a time, many at a
//! time, an export, and changes of leader. Yardsticks are bare transactions of the same etcd
//! in the same run: each compares the tip and puts one batch, as a leader's do.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use cardswitch_cluster::EtcdWindow;
use cardswitch_engine::engine::PARTITION;
use cardswitch_engine::journal::chain::BatchBuilder;
use cardswitch_engine::journal::log::open_read_only;
use cardswitch_engine::journal::window::{AppendOutcome, ChainWindow, WindowTip, WriterId};
use cardswitch_engine::journal::{BatchKind, ChainPosition, JournalFollower};
use cardswitch_feed::Card;
use cardswitch_harness::{Cluster, HttpRequest, Installation, etcd_name};
use cardswitch_load::cards::{CardChoice, read_cards};
use cardswitch_load::latencies::Latencies;
use cardswitch_load::load::Load;
use cardswitch_load::tally::Tally;
use cardswitch_tools::report::{print_row, range, short, thousands};
use cardswitch_tools::switch::load_door;
use cardswitch_tools::{Outcome, fail};
use serde_json::json;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::OPENING_BALANCE;
use crate::exports::{self, beside_copy, lag_under};

const TURNS: usize = 3;
const DIRECTORY: [u8; 16] = [7; 16];
/// The bytes of a batch with one purchase.
const PURCHASE_BYTES: usize = 400;
const ETCD_MEMBERS: usize = 3;
/// Journal bytes read at a time.
const READ_BYTES: usize = 4 << 20;

/// How long and how often.
#[derive(Debug, clap::Args)]
pub(crate) struct Scale {
    /// Seconds of each load
    #[arg(long, default_value_t = 8, value_name = "S")]
    seconds: u64,
    /// Kills of the leader; half as many silences of each kind
    #[arg(long, default_value_t = 15, value_name = "N")]
    kills: usize,
}

/// Measures and prints.
pub(crate) fn run(scale: &Scale, runtime: &Runtime) -> Outcome<()> {
    let installation = Installation::init_with(1_000, 7, &["--opening-balance", OPENING_BALANCE]);
    let cards = read_cards(&installation.cards_file(), CardChoice::Ordinary)?;
    let cluster = Cluster::with_default_silence(installation);
    let seconds = Duration::from_secs(scale.seconds);
    let mut run = Run { cluster, cards, seconds, windows: 0 };
    run.one_at_a_time()?;
    run.many_at_a_time()?;
    run.export(runtime)?;
    run.changes_of_leader(scale.kills)
}

struct Run {
    cluster: Cluster,
    cards: Vec<Card>,
    seconds: Duration,
    /// Windows made for yardsticks so far.
    windows: usize,
}

impl Run {
    fn load(&self, load: &Load) -> Outcome<Tally> {
        let leader = self.cluster.wait_for_leader();
        load_door(self.cluster.node(leader).iso8583, &self.cards, load)
    }

    fn closed(&self, connections: usize, in_flight_max: u32) -> Load {
        let (warmup, measured) = (Duration::ZERO, self.seconds);
        Load { connections, in_flight_max, warmup, measured, ..Load::default() }
    }

    fn one_at_a_time(&mut self) -> Outcome<()> {
        let (mut p50_ms, mut ratios) = (Vec::new(), Vec::new());
        for _ in 0..TURNS {
            let bare = self.bare_transactions(PURCHASE_BYTES)?;
            let own = self.load(&self.closed(1, 1))?;
            let p50_us = own.latencies.percentile_us(50.0);
            println!("a purchase {}; a bare transaction {bare}", &own.latencies);
            p50_ms.push(p50_us / 1e3);
            ratios.push(format!("{:.2}", p50_us / bare.percentile_us(50.0)));
        }
        print_row(
            "three nodes and three etcd on one disk, one purchase at a time, beside a bare transaction of that etcd",
            &format!("p50 {} ms: {}", range(p50_ms, |ms| format!("{ms:.2}")), ratios.join(", ")),
        );
        Ok(())
    }

    fn many_at_a_time(&mut self) -> Outcome<()> {
        let (mut rates, mut shares) = (Vec::new(), Vec::new());
        for _ in 0..TURNS {
            let leader = self.cluster.wait_for_leader();
            let (record, batch) = self.newest()?;
            self.load(&self.closed(4, 256))?;
            let (newest, _) = self.newest()?;
            let rate = (newest - record) as f64 / self.seconds.as_secs_f64();
            let (records, bytes) = self.batches_of(leader, batch)?;
            let start = Instant::now();
            let bare = self.bare_transactions(bytes)?.count() as f64;
            let capacity = bare / start.elapsed().as_secs_f64() * records;
            println!(
                "{}/s in batches of {records:.0} records and {bytes} bytes; bare transactions of that \
                 size carry {}/s",
                thousands(rate),
                thousands(capacity)
            );
            rates.push(rate);
            shares.push(format!("{:.0}", 100.0 * rate / capacity));
        }
        print_row(
            "the same, 1,024 in flight, share of what bare transactions of the same batches carry",
            &format!("{} records/s: {} %", range(rates, thousands), shares.join(", ")),
        );
        Ok(())
    }

    /// Transactions of one size, one at a time, for half the time of a load.
    fn bare_transactions(&mut self, bytes: usize) -> Outcome<Latencies> {
        self.windows += 1;
        let window = self.cluster.journal.rsplit_once('/').ok_or("a journal has a prefix")?.0;
        let address = format!("{window}/bare-{}", self.windows).parse()?;
        EtcdWindow::create(&address, DIRECTORY, ChainPosition::GENESIS)?;
        // The writer of a window that was just made.
        let mut window = EtcdWindow::open(&address, DIRECTORY, WriterId(0), &Default::default())?;
        let mut tip = WindowTip { position: ChainPosition::GENESIS, writer: WriterId(0) };
        let payload = vec![0x5A; bytes];
        let (start, mut latencies) = (Instant::now(), Latencies::default());
        while start.elapsed() < self.seconds / 2 {
            let mut batch = BatchBuilder::start(Vec::new());
            batch.push(1, &payload);
            let batch = batch.seal(0, &tip.position);
            let since = Instant::now();
            if window.append(&tip, std::slice::from_ref(&batch))? != AppendOutcome::Written {
                return fail("somebody else writes to this prefix");
            }
            latencies.note(since.elapsed());
            tip = WindowTip { position: batch.position(), writer: WriterId(0) };
        }
        Ok(latencies)
    }

    /// The newest record and batch.
    fn newest(&self) -> Outcome<(u64, u64)> {
        let status = self.cluster.status().ok_or("etcd does not answer")?;
        status["record"].as_u64().zip(status["batch"].as_u64()).ok_or_else(|| "no status".into())
    }

    /// The records and bytes that a node's batches after a number have on average.
    fn batches_of(&self, node: usize, after: u64) -> Outcome<(f64, usize)> {
        // Nobody writes to the copy.
        let copy = TempDir::new()?;
        for entry in fs::read_dir(self.cluster.data(node).join("journal"))? {
            let entry = entry?;
            fs::copy(entry.path(), copy.path().join(entry.file_name()))?;
        }
        let journal = open_read_only(copy.path(), None, None)?;
        let first = journal.reader.before_first();
        let mut follower = JournalFollower::after(&journal.reader, PARTITION, first);
        let (mut batches, mut records, mut bytes) = (0_u64, 0_u64, 0_u64);
        loop {
            let read = follower.read_next(READ_BYTES)?;
            if read.is_empty() {
                let records = records as f64 / batches.max(1) as f64;
                return Ok((records, usize::try_from(bytes / batches.max(1))?));
            }
            for header in read.iter().map(|batch| &batch.header) {
                if header.kind != BatchKind::Barrier && header.number.0 > after {
                    batches += 1;
                    records += u64::from(header.record_count);
                    bytes += u64::from(header.payload_len);
                }
            }
        }
    }

    fn export(&self, runtime: &Runtime) -> Outcome<()> {
        let leader = self.cluster.node(self.cluster.wait_for_leader());
        let token = leader.credentials().access_token.clone();
        let scale = exports::Scale { address: leader.http, token };
        let (measurement, result) = beside_copy(&scale, runtime)?;
        let paced = Load { rate: Some(20_000), ..self.closed(4, 256) };
        let [paced, full] = [paced, self.closed(4, 256)]
            .map(|load| lag_under(&scale, runtime, || self.load(&load).map(drop)));
        let (paced, full) = (short(paced?), short(full?));
        let lag = format!("behind by at most {paced} s at 20,000/s, {full} s at full load");
        print_row(&measurement, &format!("{result}; {lag}"));
        Ok(())
    }

    /// The time until the first answer after a leader is killed or silent.
    fn changes_of_leader(&mut self, kills: usize) -> Outcome<()> {
        let silences = (kills / 2).max(1);
        let killed = (0..kills).map(|_| self.kill()).collect::<Outcome<Vec<_>>>()?;
        let silent = (0..silences).map(|_| self.silence(false)).collect::<Outcome<Vec<_>>>()?;
        let both = (0..silences).map(|_| self.silence(true)).collect::<Outcome<Vec<_>>>()?;
        let seconds = |percent: f64| {
            [&killed, &silent, &both].map(|times| {
                let mut latencies = Latencies::default();
                times.iter().for_each(|time| latencies.note(*time));
                short(latencies.percentile_us(percent) / 1e6)
            })
        };
        print_row(
            "the same, first answer after: leader killed / silent / silent with the leader of etcd",
            &format!(
                "p50 {} s; slowest {} s",
                seconds(50.0).join(" / "),
                seconds(100.0).join(" / ")
            ),
        );
        Ok(())
    }

    fn kill(&mut self) -> Outcome<Duration> {
        let leader = self.cluster.wait_for_leader();
        let other = usize::from(leader == 0);
        self.cluster.take(leader).kill9();
        let start = Instant::now();
        self.wait_for_answer(other);
        let took = start.elapsed();
        self.cluster.start(leader);
        self.cluster.wait_until_level();
        Ok(took)
    }

    /// Nothing of the leader answers any more, as when a machine has lost its power or its network.
    fn silence(&self, with_etcd: bool) -> Outcome<Duration> {
        let leader = self.cluster.wait_for_leader();
        let member = if with_etcd { Some(self.etcd_leader()?) } else { None };
        let signal_all = |signal| {
            self.cluster.node(leader).signal(signal);
            member.into_iter().for_each(|member| self.cluster.signal_etcd(member, signal));
        };
        signal_all("STOP");
        let start = Instant::now();
        let next = self.cluster.wait_for_other_leader(leader);
        self.wait_for_answer(next);
        let took = start.elapsed();
        signal_all("CONT");
        thread::sleep(Duration::from_secs(1));
        self.cluster.wait_until_level();
        Ok(took)
    }

    /// Waits until a purchase at the door of a node is answered.
    fn wait_for_answer(&self, node: usize) {
        let merchant = json!({ "mcc": 5812, "name": "Bar" });
        let id = &self.cards[0].card_id;
        let body = json!({ "card_id": id, "amount": 0.01, "merchant": merchant }).to_string();
        let request = HttpRequest {
            method: "POST",
            path: "/network/v1/authorizations",
            headers: &[("content-type", "application/json")],
            body: body.as_bytes(),
        };
        let door = self.cluster.node(node).network_api();
        while door.try_send(&request).is_none_or(|answer| answer.status != 200) {
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// The member of etcd that leads the others.
    fn etcd_leader(&self) -> Outcome<usize> {
        let leader = &self.cluster.ask_etcd("maintenance/status", &json!({}))["leader"];
        let members = &self.cluster.ask_etcd("cluster/member/list", &json!({}))["members"];
        let mut members = members.as_array().into_iter().flatten();
        let name =
            &members.find(|member| member["ID"] == *leader).ok_or("etcd has no leader")?["name"];
        let place = (0..ETCD_MEMBERS).find(|member| *name == etcd_name(*member).as_str());
        place.ok_or_else(|| "a member has a name of its own".into())
    }
}
