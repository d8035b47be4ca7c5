//! How long after its purchase an event arrives, while purchases come at an even rate: from the
//! acceptance of the command, so decision, journal, tables and dispatcher are all in it.

use std::thread;
use std::time::Duration;

use tokio::runtime::Runtime;

use crate::ground::{Ground, Plan};
use crate::outcome::Outcome;
use crate::receiver::{REFUSING, ReceivedDeliveries, Receiver, start_silent};
use crate::switch_process::{LoadResult, Programs, SwitchProcess};

/// The warm-up, which is not counted: connections are made, memory is touched.
const WARM_UP: Duration = Duration::from_millis(1_500);

/// The rate of purchases, and the numbers of endpoints.
#[derive(Clone, Debug)]
pub(crate) struct Scale {
    pub(crate) endpoints: Vec<usize>,
    pub(crate) rate: u64,
    pub(crate) seconds: f64,
    pub(crate) cards: u64,
}

/// How many endpoints of how many companies, and how many of them are dead.
#[derive(Clone, Debug)]
pub(crate) struct FanScale {
    pub(crate) endpoints: usize,
    /// Endpoints of one company; a switch takes at most a hundred.
    pub(crate) of_company: usize,
    /// Every so many endpoints is dead.
    pub(crate) dead_every: usize,
    pub(crate) rate: u64,
    pub(crate) seconds: f64,
    pub(crate) cards: u64,
}

/// Measures few endpoints and prints.
pub(crate) fn run(scale: &Scale, programs: &Programs, runtime: &Runtime) -> Outcome<()> {
    println!(
        "\n| endpoints | purchases/s | events arrived | events a request | delay p50 ms | p99 ms | p99.9 ms |"
    );
    println!("|---:|---:|---:|---:|---:|---:|---:|");
    for endpoints in &scale.endpoints {
        let receiver = Receiver::start(runtime)?;
        let ground = Ground::make(&Plan {
            cards: scale.cards,
            companies: 1,
            endpoints: (0..*endpoints).map(|number| receiver.url(number)).collect(),
            purchases: 0,
        })?;
        let switch = SwitchProcess::start(&ground, programs)?;
        let (answered, noted) = load(&switch, &receiver, scale.rate, scale.seconds)?;
        switch.stop()?;
        println!(
            "| {endpoints} | {:.0} | {} | {:.1} | {:.1} | {:.1} | {:.1} |",
            answered.achieved_rate,
            noted.events,
            noted.events as f64 / noted.requests.max(1) as f64,
            noted.delay_ms(50.0),
            noted.delay_ms(99.0),
            noted.delay_ms(99.9),
        );
    }
    Ok(())
}

/// Loads a switch and returns what was answered and what arrived, until nothing came any more.
fn load(
    switch: &SwitchProcess,
    receiver: &Receiver,
    rate: u64,
    seconds: f64,
) -> Outcome<(LoadResult, ReceivedDeliveries)> {
    let load = switch.begin_load(rate, seconds)?;
    thread::sleep(WARM_UP);
    receiver.take()?;
    let answered = load.end()?;
    receiver.until_silent();
    Ok((answered, receiver.take()?))
}

/// The endpoints of one of the runs with many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fan {
    None,
    Healthy,
    SomeDead,
}

/// Measures many endpoints, some of them dead, and prints. The dead are half refusing, half silent, and
/// spread evenly over the companies.
pub(crate) fn run_fan(scale: &FanScale, programs: &Programs, runtime: &Runtime) -> Outcome<()> {
    let companies = scale.endpoints.div_ceil(scale.of_company);
    println!(
        "\n{} endpoints: {companies} companies with {} each; dead is every {}th, half refusing connections, half never answering",
        scale.endpoints, scale.of_company, scale.dead_every
    );
    println!(
        "\n| endpoints | events arrived at healthy ones | delay p50 ms | p99 ms | p99.9 ms | resident MiB: started | loaded | authorizations/s | p50 us | p99 us | p99.9 us |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    for fan in [Fan::None, Fan::Healthy, Fan::SomeDead] {
        let receiver = Receiver::start(runtime)?;
        let ground = Ground::make(&Plan {
            cards: scale.cards,
            companies: companies as u64,
            endpoints: urls(fan, scale, &receiver, &start_silent(runtime)?),
            purchases: 0,
        })?;
        let switch = SwitchProcess::start(&ground, programs)?;
        let started = switch.resident_bytes()? >> 20;
        let (answered, noted) = load(&switch, &receiver, scale.rate, scale.seconds)?;
        let loaded = switch.resident_bytes()? >> 20;
        switch.stop()?;
        let name = match fan {
            Fan::None => "none",
            Fan::Healthy => "all healthy",
            Fan::SomeDead => "some dead",
        };
        println!(
            "| {name} | {} | {:.1} | {:.1} | {:.1} | {started} | {loaded} | {}",
            noted.events,
            noted.delay_ms(50.0),
            noted.delay_ms(99.0),
            noted.delay_ms(99.9),
            answered.cells(),
        );
    }
    Ok(())
}

fn urls(fan: Fan, scale: &FanScale, receiver: &Receiver, silent: &str) -> Vec<String> {
    let count = if fan == Fan::None { 0 } else { scale.endpoints };
    let dead = |number: usize| {
        let is_dead = fan == Fan::SomeDead && (number + 1).is_multiple_of(scale.dead_every);
        is_dead.then(|| {
            let is_silent = (number / scale.dead_every).is_multiple_of(2);
            if is_silent { silent.to_owned() } else { REFUSING.to_owned() }
        })
    };
    (0..count).map(|number| dead(number).unwrap_or_else(|| receiver.url(number))).collect()
}
