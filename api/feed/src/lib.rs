//! The simulated card network: cardholders, merchants and acquirers of a whole card program, seeded
//! and repeatable, over real ISO 8583 connections.
//!
//! | file | what |
//! |---|---|
//! | `portfolio`, `merchants` | who pays, and where |
//! | `random`, `traffic` | the seeded stream; the complete plan of every purchase |
//! | `message` | plans as bytes, answers as values |
//! | `conversation` | what is sent next, and what follows from an answer; owns order, not time; the story behind a difference |
//! | `hostile` | a wire that loses, delays, doubles and cuts messages |
//! | `line` | where a door is, and what secures messages on the way there |
//! | `open_loop`, `closed_loop`, `client` | real time over several connections; virtual time over one |
//! | `books`, `balances`, `transactions` | the feed's own ledger, compared with the switch's in two ways |
//! | `http_client` | one HTTP connection to a switch |
//! | `scenario`, `send` | explicit steps from a file, judged; one message by hand |
//! | `report` | counts, percentiles, progress |
//!
//! It is a counterpart, not a part of the switch: it knows nothing of the engine, and works against a
//! switch in another process.

mod addresses;
mod balances;
mod books;
mod client;
mod closed_loop;
mod conversation;
mod hostile;
mod http_client;
mod line;
mod merchants;
mod message;
mod open_loop;
mod plan;
mod portfolio;
mod random;
mod report;
pub mod scenario;
mod send;
mod traffic;
mod transactions;

#[cfg(test)]
mod feed_tests;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chrono::{DateTime, Utc};

use balances::{Balances, Inquiry};
use client::DoorConnection;
use closed_loop::Pacing;
use conversation::{Conversation, Epoch, Settings};
use hostile::HostileWire;
use message::{AnswerFields, NetworkManagement};
use open_loop::Course;
use traffic::{REAL_PACE, VIRTUAL_PACE};

pub use addresses::DoorAddresses;
pub use books::Difference;
pub use hostile::{Hostility, Mishap, MishapRates};
pub use line::{Carrier, Line};
pub use merchants::{has_merchant_of, merchant_category};
pub use message::Identity;
pub use portfolio::{Card, Portfolio, Profile};
pub use report::{
    ComparedBooks, Comparison, FeedReport, LatencyPercentiles, Progress, ProgressSnapshot,
    RecentPurchase, TrafficCounts, code_name, ms,
};
pub use scenario::{DoorProtocol, Mismatch, Scenario, ScenarioOptions, StepReport, Story};
pub use send::{MessageExchange, SendRequest, send};
pub use transactions::{SwitchClock, clock_of};

/// The default start of virtual time: 2026-01-05T08:00:00Z, a Monday.
pub const VIRTUAL_START_US: i64 = 1_767_600_000_000_000;

/// Connections of a run in real time, at most.
pub const CONNECTIONS_MAX: usize = 64;

/// The default time to wait for an answer.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// The default time on a hostile wire, where many answers never come.
pub const HOSTILE_ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// Reference numbers of balance inquiries count down from the last, in two stretches.
const LAST_RRN: u64 = 999_999_999_999;
const AFTER_RRN_OFFSET: u64 = 1_000_000;

/// The clock of a run.
#[derive(Debug, Clone, Copy)]
pub enum FeedTime {
    /// The clock on the wall; messages leave when due, answered or not.
    Real {
        /// Connections to spread the purchases over.
        connections: usize,
    },
    /// The schedule's own clock, on one connection, one message in flight. The switch has to run
    /// on a manual clock.
    Virtual {
        /// The start of the run.
        start: DateTime<Utc>,
        /// Virtual seconds in a second of wall time; `None` does not wait at all.
        speed: Option<f64>,
    },
}

/// The HTTP door where every transaction can be read.
#[derive(Clone)]
pub struct HttpSource {
    /// The URL of the door, such as `http://127.0.0.1:8080`.
    pub url: String,
    /// The network key.
    pub network_key: String,
    /// The carrier between requests and a door of `https`; none at one of `http`.
    pub carrier: Option<Arc<dyn Carrier>>,
}

impl HttpSource {
    /// The value of the header that shows the network key.
    fn authorization(&self) -> String {
        format!("Bearer {}", self.network_key)
    }
}

/// Shows the address alone: the key is a secret.
impl std::fmt::Debug for HttpSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpSource").field("url", &self.url).finish_non_exhaustive()
    }
}

/// The options of a run.
#[derive(Debug, Clone)]
pub struct FeedOptions {
    /// The line to the ISO 8583 door.
    pub line: Line,
    /// The cards.
    pub portfolio: Portfolio,
    /// Purchases a second; on virtual time a virtual one, as the mean of a day.
    pub rate_per_s: f64,
    /// The time in which purchases arrive; on virtual time a virtual duration.
    pub duration: Duration,
    /// The seed of everything.
    pub seed: u64,
    /// The clock of the run.
    pub time: FeedTime,
    /// Compare every transaction over HTTP instead of each card's allowance.
    pub http: Option<HttpSource>,
    /// The longest wait for an answer.
    pub answer_timeout: Duration,
    /// The mishaps of messages on the way; in real time only.
    pub hostility: Option<Hostility>,
}

impl FeedOptions {
    /// A run in real time on two connections: 10 purchases a second for a minute.
    pub fn new(line: Line, portfolio: Portfolio) -> Self {
        Self {
            line,
            portfolio,
            rate_per_s: 10.0,
            duration: Duration::from_secs(60),
            seed: 1,
            time: FeedTime::Real { connections: 2 },
            http: None,
            answer_timeout: ANSWER_TIMEOUT,
            hostility: None,
        }
    }
}

/// Failures of a run, at its start or later.
#[derive(Debug, thiserror::Error)]
pub enum FeedError {
    /// A file cannot be read.
    #[error("cannot read `{path}`: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A line of the cards file is not a card.
    #[error("line {line} of the cards file is not a card")]
    CardLine {
        /// The number of the line, counted from one.
        line: usize,
    },
    /// The cards file holds no card.
    #[error("the cards file holds no card")]
    NoCards,
    /// An option, a scenario or a message that makes no sense, or a scenario that went otherwise
    /// than it expects: the flaw, with file and line where there are any.
    #[error("{0}")]
    Refused(String),
    /// The switch cannot be reached.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// The switch does not answer a sign-on, or refuses it.
    #[error("{door} did not take the sign-on: {answer}")]
    SignOn {
        /// The addresses of the door.
        door: DoorAddresses,
        /// ISO DE39, or words for a missing answer.
        answer: String,
    },
    /// The connection broke where the run cannot go on without.
    #[error("the connection broke: {0}")]
    Connection(#[source] io::Error),
    /// The address of the HTTP door is none.
    #[error("`{0}` is not an address of HTTP, such as `http://127.0.0.1:8080`")]
    BadUrl(String),
    /// The HTTP door does not answer as it should.
    #[error("the HTTP door: {0}")]
    Http(String),
    /// A thread or runtime cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] io::Error),
}

/// Runs the network against a switch until its time is over, the switch is gone, or it is stopped;
/// then compares the books. Blocks: call it on a thread of its own.
/// Errors: options that cannot be, no switch at the address, books that cannot be read.
pub fn run(options: &FeedOptions, progress: &Progress) -> Result<FeedReport, FeedError> {
    let mean_gap_ns = mean_gap_ns(options)?;
    let mut side = DoorConnection::open(&options.line)?;
    let start_us = start_us(options.time);
    let epoch = Epoch { start_us, is_virtual: matches!(options.time, FeedTime::Virtual { .. }) };
    sign(&mut side, options, epoch, NetworkManagement::SignOn)?;
    let before = read_balances(&mut side, options, (epoch, start_us, LAST_RRN))?;
    if let Some(http) = &options.http {
        // A key that opens nothing shows now, not after the run.
        clock_of(http)?;
    }

    // Asking took time: purchases start now.
    let epoch = Epoch { start_us: start_us.max(self::start_us(options.time)), ..epoch };
    let mut conversation =
        Conversation::new(&options.portfolio, settings(options, epoch, mean_gap_ns));
    let course = converse(&mut conversation, options, progress)?;

    let books = compare_books(options, (epoch, course.ended_us), &conversation, before);
    // A switch that is gone cannot take a sign-off.
    let _ = sign(&mut side, options, epoch, NetworkManagement::SignOff);
    report(options, conversation, course, books, progress.is_stopped())
}

/// The result of comparing the books; an error where they could not be compared.
type BooksComparison = Result<(Comparison, Vec<Difference>), FeedError>;

fn report(
    options: &FeedOptions,
    mut conversation: Conversation<'_>,
    course: Course,
    books: BooksComparison,
    was_stopped: bool,
) -> Result<FeedReport, FeedError> {
    let (comparison, found, unread) = match books {
        Ok((comparison, found)) => (comparison, found, None),
        // A run that already ended for want of a switch reports that instead.
        Err(error) if course.ended_early.is_some() => {
            (Comparison::default(), Vec::new(), Some(error.to_string()))
        }
        Err(error) => return Err(error),
    };
    conversation.differences.extend(found);
    let story = conversation.story();
    let differences = conversation.differences;
    let why = course.ended_early.into_iter().chain(unread).collect::<Vec<_>>().join("; ");
    Ok(FeedReport {
        seed: options.seed,
        duration: options.duration,
        elapsed: course.elapsed,
        latency: conversation.tally.latency(),
        counts: conversation.tally.counts,
        comparison,
        differences,
        story,
        mishaps: course.mishaps,
        was_stopped,
        ended_early: Some(why).filter(|why| !why.is_empty()),
    })
}

/// The highest rate. Units: purchases per second.
pub const RATE_MAX: f64 = 1e8;

/// The mean time between purchases.
/// Errors: a rate or speed that is not a positive number, too many connections.
fn mean_gap_ns(options: &FeedOptions) -> Result<u64, FeedError> {
    let refuse = |message: &str| Err(FeedError::Refused(message.to_owned()));
    let is_positive = |number: f64| number.is_finite() && number > 0.0;
    if !is_positive(options.rate_per_s) || options.rate_per_s > RATE_MAX {
        return refuse("the rate must be above 0 and at most 100,000,000 a second");
    }
    match options.time {
        FeedTime::Real { connections } if !(1..=CONNECTIONS_MAX).contains(&connections) => {
            return refuse("the number of connections must be from 1 to 64");
        }
        FeedTime::Virtual { speed: Some(speed), .. } if !is_positive(speed) => {
            return refuse("the speed must be a number above 0, or max");
        }
        FeedTime::Virtual { .. } if options.hostility.is_some() => {
            return refuse("a hostile wire needs real time");
        }
        _ => {}
    }
    let gap = Duration::try_from_secs_f64(1.0 / options.rate_per_s).unwrap_or(Duration::MAX);
    Ok(u64::try_from(gap.as_nanos()).unwrap_or(u64::MAX))
}

fn settings(options: &FeedOptions, epoch: Epoch, mean_gap_ns: u64) -> Settings {
    Settings {
        seed: options.seed,
        mean_gap_ns,
        pace: if epoch.is_virtual { VIRTUAL_PACE } else { REAL_PACE },
        epoch,
        arrivals_end_us: open_loop::micros(options.duration),
        answer_timeout_us: open_loop::micros(options.answer_timeout),
        keeps_stories: options.hostility.is_some(),
    }
}

/// The start of the run since the Unix epoch. Units: microseconds.
fn start_us(time: FeedTime) -> u64 {
    match time {
        FeedTime::Real { .. } => {
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, open_loop::micros)
        }
        FeedTime::Virtual { start, .. } => u64::try_from(start.timestamp_micros()).unwrap_or(0),
    }
}

/// Runs the conversation on the clock that was asked for.
fn converse(
    conversation: &mut Conversation<'_>,
    options: &FeedOptions,
    progress: &Progress,
) -> Result<Course, FeedError> {
    let line = &options.line;
    let course = match options.time {
        FeedTime::Real { connections } => {
            let connections = (0..connections)
                .map(|_| DoorConnection::open(line))
                .collect::<Result<Vec<_>, _>>()?;
            let wire = options.hostility.map(HostileWire::new);
            let course = open_loop::run(conversation, connections, line, wire, progress)
                .map_err(FeedError::Thread)?;
            if options.hostility.is_some() {
                // Messages without a waiter may still be under way to the switch.
                std::thread::sleep(options.answer_timeout);
            }
            course
        }
        FeedTime::Virtual { speed, .. } => {
            let pacing = Pacing {
                speed,
                arrivals_end_us: open_loop::micros(options.duration),
                answer_timeout: options.answer_timeout,
            };
            closed_loop::run(conversation, DoorConnection::open(line)?, line, pacing, progress)
        }
    };
    progress.show(conversation.tally.snapshot(course.ended_us, conversation.in_flight()));
    Ok(course)
}

/// Signs on or off.
/// Errors: a broken connection, no answer, a refusal.
fn sign(
    connection: &mut DoorConnection,
    options: &FeedOptions,
    epoch: Epoch,
    control: NetworkManagement,
) -> Result<(), FeedError> {
    let door = &options.line.door;
    let identity = Identity { stan: 0, rrn: 0, sent_us: epoch.start_us };
    let virtual_us = epoch.is_virtual.then_some(epoch.start_us);
    let (bytes, key) = message::control(control, identity, virtual_us);
    connection.send(&bytes).map_err(FeedError::Connection)?;
    let failed = |answer: &str| FeedError::SignOn { door: door.clone(), answer: answer.to_owned() };
    loop {
        let message = connection
            .receive(Some(options.answer_timeout.max(ANSWER_TIMEOUT)))
            .map_err(|source| failed(&source.to_string()))?
            .ok_or_else(|| failed("no answer"))?;
        match AnswerFields::parse(&message) {
            Some(answer) if answer.key == key && answer.response == *b"00" => return Ok(()),
            Some(answer) if answer.key == key => return Err(failed(&answer.response_text())),
            _ => {}
        }
    }
}

/// Reads the allowances by inquiries, unless every transaction will be read instead.
fn read_balances(
    connection: &mut DoorConnection,
    options: &FeedOptions,
    (epoch, at_us, first_rrn): (Epoch, u64, u64),
) -> Result<Balances, FeedError> {
    if options.http.is_some() {
        return Ok(Balances::new());
    }
    let inquiry = Inquiry {
        at_us,
        is_virtual: epoch.is_virtual,
        first_rrn,
        answer_timeout: options.answer_timeout.max(ANSWER_TIMEOUT),
    };
    balances::read(connection, &options.portfolio, inquiry).map_err(FeedError::Connection)
}

fn compare_books(
    options: &FeedOptions,
    (epoch, now_us): (Epoch, u64),
    conversation: &Conversation<'_>,
    before: Balances,
) -> BooksComparison {
    let books = &conversation.books;
    if let Some(source) = &options.http {
        let owns_rrn = |rrn| conversation.owns_rrn(rrn);
        let compared = transactions::ComparisonInput {
            books,
            portfolio: &options.portfolio,
            now_us,
            owns_rrn: &owns_rrn,
        };
        return transactions::compare(source, &compared);
    }
    // A connection of its own: the first one may have been idle for long, or lost with the switch.
    let mut connection = DoorConnection::open(&options.line)?;
    let inquiries = (epoch, epoch.start_us + now_us, LAST_RRN - AFTER_RRN_OFFSET);
    let after = read_balances(&mut connection, options, inquiries)?;
    Ok(balances::compare(books, &options.portfolio, (&before, &after), now_us))
}
