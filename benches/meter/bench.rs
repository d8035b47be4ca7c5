//! The frame of a run: what the command line asks for, the control before and after each bench file,
//! and measurements that criterion takes and a `Meter` keeps.
//!
//! A measurement that is too long to be repeated (a start, a whole journal) is taken `once`: criterion
//! and its filter see nothing of it.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, SamplingMode, Throughput};

use super::control::print_control;
use super::{Meter, shown};

/// How long and how often is measured, unless the command line says otherwise.
#[derive(Clone, Copy, Debug)]
pub struct SamplingPlan {
    /// Before the first sample.
    pub warm_up: Duration,
    /// All samples together.
    pub measurement: Duration,
    /// How many; 10 at least.
    pub samples: usize,
    /// Samples of one length rather than of growing length.
    pub is_flat: bool,
}

impl SamplingPlan {
    /// For what takes nanoseconds: many short samples.
    pub const SHORT: Self = Self {
        warm_up: Duration::from_millis(500),
        measurement: Duration::from_secs(2),
        samples: 40,
        is_flat: false,
    };
    /// For what waits for disks, sockets and threads: few long samples of one length.
    pub const LONG: Self = Self {
        warm_up: Duration::from_millis(500),
        measurement: Duration::from_secs(3),
        samples: 10,
        is_flat: true,
    };

    /// The same for so many seconds.
    pub const fn seconds(self, seconds: u64) -> Self {
        Self { measurement: Duration::from_secs(seconds), ..self }
    }
}

/// A run of the benches.
pub struct Bench {
    criterion: Criterion,
    /// The only file to run, where the environment or a filter names one.
    only: Option<String>,
    name: &'static str,
    plan: SamplingPlan,
    is_begun: bool,
}

impl Bench {
    /// A run as the command line and the environment ask for it; none where they ask for a list or
    /// a test: a run of all tests has no use for millions of transactions.
    pub fn from_arguments() -> Option<Self> {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
        if has("--list") || has("--test") {
            return None;
        }
        let filter = arguments.first().filter(|first| !first.starts_with('-'));
        let bench = filter.and_then(|filter| Some(filter.split('/').next()?.to_owned()));
        Some(Self {
            criterion: Criterion::default().configure_from_args(),
            only: std::env::var("CARDSWITCH_BENCH").ok().or(bench),
            name: "",
            plan: SamplingPlan::SHORT,
            is_begun: false,
        })
    }

    /// Runs a bench file: its questions between two controls.
    pub fn run(
        &mut self,
        name: &'static str,
        plan: SamplingPlan,
        questions: impl FnOnce(&mut Self),
    ) {
        if self.only.as_ref().is_some_and(|only| only != name) {
            return;
        }
        (self.name, self.plan, self.is_begun) = (name, plan, false);
        questions(self);
        if self.is_begun {
            print_control("after");
        }
    }

    /// Ends the run.
    pub fn finish(self) {
        self.criterion.final_summary();
    }

    /// Called before anything is measured.
    fn begin(&mut self) {
        if !self.is_begun {
            print_control("before");
            self.is_begun = true;
        }
    }

    /// Measures `work`, which handles `elements` at each call.
    pub fn measure<R>(&mut self, name: &str, elements: u64, mut work: impl FnMut() -> R) -> Meter {
        self.measure_timed(name, elements, |iterations| {
            let start = Instant::now();
            for _ in 0..iterations {
                black_box(work());
            }
            start.elapsed()
        })
    }

    /// As `measure`, where `run` makes the iterations and tells how long they took.
    pub fn measure_timed(
        &mut self,
        name: &str,
        elements: u64,
        mut run: impl FnMut(u64) -> Duration,
    ) -> Meter {
        let mut meter = Meter::default();
        self.begin();
        let mut group = self.criterion.benchmark_group(self.name);
        group.throughput(Throughput::Elements(elements));
        group.sample_size(self.plan.samples).warm_up_time(self.plan.warm_up);
        group.measurement_time(self.plan.measurement);
        if self.plan.is_flat {
            group.sampling_mode(SamplingMode::Flat);
        }
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|iterations| {
                let elapsed = run(iterations);
                meter.note(iterations.max(1) * elements, elapsed);
                elapsed
            });
        });
        group.finish();
        // The earlier samples were the warm-up.
        meter.keep_last(self.plan.samples);
        meter
    }

    /// Takes a measurement that cannot be repeated: `measure` tells how many elements it handled, and
    /// in what time.
    pub fn once(&mut self, name: &str, measure: impl FnOnce() -> (u64, Duration)) -> Meter {
        self.begin();
        let mut meter = Meter::default();
        let (elements, elapsed) = measure();
        meter.note(elements, elapsed);
        let each = meter.median_ns().map(shown).unwrap_or_default();
        println!("{}/{name}    once: {each} each, {elements} of them", self.name);
        meter
    }
}
