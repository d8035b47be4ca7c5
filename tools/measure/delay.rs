//! How long after its purchase an event arrives, while purchases come at an even rate: from the
//! acceptance of the command, so decision, journal, tables and dispatcher are all in it. At few
//! endpoints, and at many of which some are dead: half of those refuse, half never answer.

use std::thread;
use std::time::Duration;

use cardswitch_load::load::Load;
use cardswitch_tools::ground::{Ground, Plan};
use cardswitch_tools::report::{each, grouped, outcome, print_row, short};
use cardswitch_tools::switch::load_door;
use cardswitch_tools::{Outcome, fail};
use tokio::runtime::Runtime;

use crate::LOCAL_WEBHOOKS;
use crate::receiver::{Arrivals, REFUSING, Receiver, start_silent};

/// The warm-up, which is not counted: connections are made, memory is touched.
const WARM_UP: Duration = Duration::from_millis(1_500);

/// Purchases, and the endpoints that get webhooks for them.
#[derive(Debug, clap::Args)]
pub(crate) struct Scale {
    /// Purchases a second
    #[arg(long, default_value_t = 1_000, value_name = "N")]
    rate: u64,
    /// Endpoints of one company, a hundred at most; one run each
    #[arg(long, value_delimiter = ',', default_values_t = [1, 10], value_name = "N")]
    endpoints: Vec<usize>,
    /// Endpoints of many companies, healthy in one run, some of them dead in another
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    many: usize,
    /// Endpoints of each of the many companies, a hundred at most
    #[arg(long, default_value_t = 100, value_name = "N")]
    of_company: usize,
    /// Every so many endpoints is dead
    #[arg(long, default_value_t = 100, value_name = "N")]
    dead_every: usize,
    /// Purchases a second at many endpoints; each goes to all of its company
    #[arg(long, default_value_t = 10, value_name = "N")]
    many_rate: u64,
    /// Seconds of each load
    #[arg(long, default_value_t = 20.0, value_name = "S")]
    seconds: f64,
    /// Cards of the directory
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    cards: u64,
}

/// Measures and prints.
pub(crate) fn run(scale: &Scale, runtime: &Runtime) -> Outcome<()> {
    if scale.of_company == 0 || scale.dead_every == 0 {
        return fail("there is at least one of everything");
    }
    let mut few = Vec::new();
    for endpoints in &scale.endpoints {
        let receiver = Receiver::start(runtime)?;
        let urls = (0..*endpoints).map(|number| receiver.url(number)).collect();
        let plan = Plan { endpoints: urls, ..Plan::of_cards(scale.cards) };
        few.push(measure(&plan, scale.rate, scale, &receiver)?);
    }
    let (rate, endpoints) = (grouped(scale.rate as f64), each(&scale.endpoints, usize::to_string));
    print_delays(
        &format!("commit to end of webhook, {rate} purchases/s, {endpoints} endpoints"),
        &few,
    );
    let mut many = Vec::new();
    let companies = scale.many.div_ceil(scale.of_company) as u64;
    for is_healthy in [true, false] {
        let receiver = Receiver::start(runtime)?;
        let silent = start_silent(runtime)?;
        let url = |number: usize| {
            if is_healthy || !(number + 1).is_multiple_of(scale.dead_every) {
                return receiver.url(number);
            }
            let is_silent = (number / scale.dead_every).is_multiple_of(2);
            if is_silent { silent.clone() } else { REFUSING.to_owned() }
        };
        let endpoints = (0..scale.many).map(url).collect();
        let plan = Plan { companies, endpoints, ..Plan::of_cards(scale.cards) };
        many.push(measure(&plan, scale.many_rate, scale, &receiver)?);
    }
    let (endpoints, dead) = (grouped(scale.many as f64), 100.0 / scale.dead_every as f64);
    print_delays(
        &format!(
            "the same, {endpoints} endpoints of {companies} companies, healthy / {dead:.0}% dead"
        ),
        &many,
    );
    Ok(())
}

/// Loads a switch and returns what arrived, until nothing came any more.
fn measure(plan: &Plan, rate: u64, scale: &Scale, receiver: &Receiver) -> Outcome<Arrivals> {
    let ground = Ground::make(plan)?;
    let switch = ground.serve(&LOCAL_WEBHOOKS);
    let measured = Duration::try_from_secs_f64(scale.seconds)?;
    let load = Load { rate: Some(rate), measured, ..Load::default() };
    let (tally, arrivals) = thread::scope(|scope| {
        let loading = scope.spawn(|| load_door(switch.iso8583, &ground.cards, &load));
        thread::sleep(WARM_UP);
        receiver.take();
        let tally = loading.join().map_err(|_| "the load panicked")??;
        Outcome::Ok((tally, receiver.take_rest()))
    })?;
    println!("authorizations {}; {} events arrived", outcome(&tally), arrivals.events);
    switch.stop();
    Ok(arrivals)
}

fn print_delays(measurement: &str, runs: &[Arrivals]) {
    let delays = |percent| each(runs, |run| short(run.delay_ms(percent)));
    print_row(measurement, &format!("p50 {} ms, p99 {} ms", delays(50.0), delays(99.0)));
}
