//! The clients of one run: threads of this process, or of several.
//!
//! Other processes are this program again, as `worker`. Over pipes they are told a job, say that
//! they are connected, are told when to start, and send back what came of it.
//! INVARIANT: secrets travel over pipes, never on a command line.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;

use cardswitch_feed::Card;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};
use serde::{Deserialize, Serialize};

use crate::arguments::Door;
use crate::http::Http;
use cardswitch_load::Failure;
use cardswitch_load::cards::{Choice, read_cards};
use cardswitch_load::client::{Client, Pace, Task};
use cardswitch_load::clock::now_ns;
use cardswitch_load::iso::{Iso, Purchases};
use cardswitch_load::schedule::Schedule;
use cardswitch_load::tally::Tally;

/// From "everybody is connected" to the first instant. Units: nanoseconds.
const START_DELAY_NS: u64 = 100_000_000;
/// The line of a worker that is connected.
const READY: &str = "ready\n";

/// A run as all its processes know it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) door: Door,
    pub(crate) address: SocketAddr,
    /// The addresses at which broken connections are opened again, if at all.
    pub(crate) again: Vec<SocketAddr>,
    pub(crate) key: Key,
    pub(crate) cards: PathBuf,
    pub(crate) choice: Choice,
    /// Of all processes together; none in a closed loop. Units: messages a second.
    pub(crate) rate: Option<u64>,
    /// Messages without an answer that one connection may have.
    pub(crate) in_flight_max: u32,
    /// Of all processes together.
    pub(crate) connections: u32,
    pub(crate) processes: u32,
    /// Of each process.
    pub(crate) threads: u32,
    /// Units, here and below: nanoseconds.
    pub(crate) warmup_ns: u64,
    pub(crate) measured_ns: u64,
    pub(crate) gather_ns: u64,
    /// How long answers are waited for after the last message.
    pub(crate) patience_ns: u64,
    /// Units: minor units.
    pub(crate) amounts: (u64, u64),
    /// ISO 4217 number.
    pub(crate) currency: u64,
    pub(crate) seed: u64,
    /// The first reference number of the run.
    pub(crate) first_reference: u64,
}

/// The network key. Never shown.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Key(pub(crate) String);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

impl Job {
    fn parts(&self) -> u32 {
        self.processes * self.threads
    }

    fn connections_of(&self, part: u32) -> u32 {
        (self.connections + self.parts() - 1).saturating_sub(part) / self.parts()
    }

    fn purchases_of(&self, part: u32) -> Purchases {
        Purchases {
            amount_min: self.amounts.0,
            amount_max: self.amounts.1,
            currency: self.currency,
            first_reference: self.first_reference + u64::from(part),
            reference_step: self.parts().into(),
            seed: self.seed.wrapping_add(u64::from(part) << 32),
        }
    }

    fn task_of(&self, part: u32, start_ns: u64) -> Task {
        let measured_from_ns = start_ns + self.warmup_ns;
        let end_ns = measured_from_ns + self.measured_ns;
        let schedule = |rate| Schedule {
            start_ns,
            rate,
            duration_ns: end_ns - start_ns,
            part: part.into(),
            parts: self.parts().into(),
        };
        Task {
            pace: self.rate.map_or(Pace::Closed, |rate| Pace::Open(schedule(rate))),
            start_ns,
            measured_from_ns,
            end_ns,
            gather_ns: self.gather_ns,
            in_flight_max: self.in_flight_max,
            patience_ns: self.patience_ns,
        }
    }
}

/// Carries out a job. `cards` are those of the job's file, which other processes read themselves.
/// Errors: it cannot connect, or a process fails.
pub(crate) fn carry_out(job: &Job, cards: &[Card]) -> Result<Tally, Failure> {
    if job.connections < job.parts() {
        return Err(format!("{} threads need as many connections", job.parts()).into());
    }
    if job.processes > 1 {
        return carry_out_by_workers(job);
    }
    Crew::connect(job, cards, 0)?.run(job, now_ns() + START_DELAY_NS)
}

/// The connected clients of one process.
struct Crew(Vec<(u32, AnyClient)>);

enum AnyClient {
    Iso(Box<Client<Iso>>),
    Http(Box<Client<Http>>),
}

impl Crew {
    fn connect(job: &Job, cards: &[Card], process: u32) -> Result<Self, Failure> {
        let first = process * job.threads;
        let clients = (first..first + job.threads).map(|part| {
            let purchases = job.purchases_of(part);
            let connections = usize::try_from(job.connections_of(part))?;
            let client = match job.door {
                Door::Iso => {
                    let iso = Iso::new(cards, purchases)?;
                    let client = Client::connect(job.address, connections, iso)?;
                    AnyClient::Iso(Box::new(client.reconnecting(&job.again)))
                }
                Door::Http => {
                    let http = Http::new(cards, purchases, job.address, &job.key.0)?;
                    let client = Client::connect(job.address, connections, http)?;
                    AnyClient::Http(Box::new(client.reconnecting(&job.again)))
                }
            };
            Ok((part, client))
        });
        clients.collect::<Result<_, Failure>>().map(Self)
    }

    fn run(self, job: &Job, start_ns: u64) -> Result<Tally, Failure> {
        let tallies: Vec<io::Result<Tally>> = thread::scope(|scope| {
            let run = |(part, client): (u32, AnyClient)| {
                let task = job.task_of(part, start_ns);
                scope.spawn(move || match client {
                    AnyClient::Iso(client) => client.run(&task),
                    AnyClient::Http(client) => client.run(&task),
                })
            };
            let running: Vec<_> = self.0.into_iter().map(run).collect();
            let died = |_| Err(io::Error::other("a client died; it has printed why"));
            running.into_iter().map(|client| client.join().unwrap_or_else(died)).collect()
        });
        let mut sum = Tally::default();
        for tally in tallies {
            sum.add(&tally?)?;
        }
        Ok(sum)
    }
}

/// Is one process of several: obeys what comes over stdin, answers over stdout.
/// Errors: the job is none, or fails.
pub(crate) fn work() -> Result<(), Failure> {
    let mut orders = io::stdin().lock().lines();
    let mut next = || orders.next().ok_or("no order came")?.map_err(Failure::from);
    let (process, job): (u32, Job) = serde_json::from_str(&next()?)?;
    let cards = read_cards(&job.cards, job.choice)?;
    let crew = Crew::connect(&job, &cards, process)?;
    let mut out = io::stdout().lock();
    out.write_all(READY.as_bytes())?;
    out.flush()?;
    let tally = crew.run(&job, next()?.parse()?)?;
    out.write_all(&to_bytes(&tally)?)?;
    Ok(out.flush()?)
}

fn carry_out_by_workers(job: &Job) -> Result<Tally, Failure> {
    let mut workers = (0..job.processes)
        .map(|process| Worker::start(job, process))
        .collect::<Result<Vec<_>, Failure>>()?;
    workers.iter_mut().try_for_each(Worker::wait_until_ready)?;
    let start_ns = now_ns() + START_DELAY_NS;
    workers.iter_mut().try_for_each(|worker| writeln!(worker.orders, "{start_ns}"))?;
    let mut sum = Tally::default();
    for worker in workers {
        sum.add(&worker.result()?)?;
    }
    Ok(sum)
}

/// Another process of this program, killed when dropped.
struct Worker {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Worker {
    fn start(job: &Job, process: u32) -> Result<Self, Failure> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("worker")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (orders, answers) = pipes.ok_or("a worker has no pipes")?;
        let mut worker = Self { child, orders, answers: BufReader::new(answers) };
        writeln!(worker.orders, "{}", serde_json::to_string(&(process, job))?)?;
        Ok(worker)
    }

    fn wait_until_ready(&mut self) -> Result<(), Failure> {
        let mut said = String::new();
        self.answers.read_line(&mut said)?;
        if said == READY { Ok(()) } else { Err("a worker failed; it has printed why".into()) }
    }

    fn result(mut self) -> Result<Tally, Failure> {
        let mut bytes = Vec::new();
        self.answers.read_to_end(&mut bytes)?;
        from_bytes(&bytes)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Both fail where the worker has ended by itself, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A tally as bytes: a line of JSON, and the histogram in its V2 form.
fn to_bytes(tally: &Tally) -> Result<Vec<u8>, Failure> {
    let mut bytes = serde_json::to_vec(&tally.counts)?;
    bytes.push(b'\n');
    V2Serializer::new().serialize(tally.latencies(), &mut bytes)?;
    Ok(bytes)
}

/// From such bytes.
/// Errors: they are none.
fn from_bytes(bytes: &[u8]) -> Result<Tally, Failure> {
    let line_len = bytes.iter().position(|byte| *byte == b'\n').ok_or("no counts came")?;
    let counts = serde_json::from_slice(&bytes[..line_len])?;
    Ok(Tally::of(counts, Deserializer::new().deserialize(&mut &bytes[line_len + 1..])?))
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use cardswitch_load::clock::SECOND_NS;
    use cardswitch_load::wire::Code;

    use super::*;

    fn job() -> Job {
        Job {
            door: Door::Iso,
            address: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1),
            again: Vec::new(),
            key: Key("secret".to_owned()),
            cards: PathBuf::new(),
            choice: Choice::Ordinary,
            rate: Some(1_000),
            in_flight_max: 1,
            connections: 7,
            processes: 2,
            threads: 2,
            warmup_ns: SECOND_NS,
            measured_ns: 2 * SECOND_NS,
            gather_ns: 0,
            patience_ns: 0,
            amounts: (1, 2),
            currency: 840,
            seed: 1,
            first_reference: 10,
        }
    }

    #[test]
    fn parts_share_connections_references_and_instants() {
        let job = job();
        let shares: Vec<u32> = (0..4).map(|part| job.connections_of(part)).collect();
        assert_eq!(shares, [2, 2, 2, 1]);
        let references: Vec<u64> =
            (0..4).map(|part| job.purchases_of(part).first_reference).collect();
        assert_eq!(references, [10, 11, 12, 13]);
        assert_eq!(job.purchases_of(1).reference_step, 4);
        let task = job.task_of(3, 5);
        let Pace::Open(schedule) = task.pace else { panic!("a rate makes an open loop") };
        assert_eq!((schedule.part, schedule.parts, schedule.total()), (3, 4, 750));
        assert_eq!(task.measured_from_ns, 5 + SECOND_NS);
    }

    #[test]
    fn the_key_is_not_shown_and_reaches_a_worker() {
        assert!(!format!("{:?}", job()).contains("secret"));
        let job: Job = serde_json::from_str(&serde_json::to_string(&job()).unwrap()).unwrap();
        assert_eq!(job.key.0, "secret");
    }

    #[test]
    fn a_tally_reaches_other_processes_whole() {
        let mut tally = Tally::default();
        (1..501_u64).for_each(|us| tally.note_answer(Code::new(b"00"), us * 1_000));
        let tally = tally.finish();
        let read = from_bytes(&to_bytes(&tally).unwrap()).unwrap();
        assert_eq!((&read.counts, read.latencies()), (&tally.counts, tally.latencies()));
        for bytes in [&b""[..], b"{}\n", b"no line"] {
            assert!(from_bytes(bytes).is_err());
        }
    }
}
