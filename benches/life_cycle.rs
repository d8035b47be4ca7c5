//! What does the rest of a purchase's life cost beside its authorization?
//!
//! Increments, presentments, reversals and refunds, each naming an authorization by its retrieval
//! reference number. First in the shard alone, kind by kind, over purchases made just before; then
//! in the whole engine on a disk, as the mix of a network: for every hundred authorizations ten
//! increments, 85 presentments, 15 reversals and three refunds, each some thousand commands after
//! its purchase. Plain authorizations of the same run stand beside both.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use cardswitch_benches::caller::ClosedLoopCaller;
use cardswitch_benches::installation::{CardHashes, Installation};
use cardswitch_benches::meter::{Bench, Meter, SamplingPlan, print_ratio};
use cardswitch_benches::program::{BareShard, FollowUp, Program, Purchases, is_done};
use cardswitch_engine::command::Command;
use cardswitch_engine::command::network::Authorize;
use cardswitch_engine::command::record::append_record;
use cardswitch_engine::engine::Retention;

const CARDS: u64 = 10_000;
/// Commands at each iteration; as many as the shard takes at a time.
const BATCH_LEN: u64 = 512;
const WINDOW: usize = 1_024;
/// Commands at each iteration of the whole engine.
const DURABLE_LEN: u64 = WINDOW as u64 * 16;
/// The number of commands between a purchase and its follow-up.
const LAG: usize = 4_096;

pub(crate) fn ask(bench: &mut Bench) {
    let plan = SamplingPlan { samples: 20, ..SamplingPlan::SHORT.seconds(4) };
    bench.run("life_cycle", plan, |bench| {
        let authorized = measure_kind(bench, None);
        for kind in FollowUp::ALL {
            let measured = measure_kind(bench, Some(kind));
            let yardsticks = [("an authorization", &authorized)];
            print_ratio(
                &format!("execute + encode + apply, {}", kind.name()),
                &measured,
                &yardsticks,
            );
        }
    });
    bench.run("life_cycle", SamplingPlan::LONG.seconds(5), |bench| {
        let authorized = measure_durable(bench, "durable/authorizations", &[]);
        let mixed = measure_durable(bench, "durable/life_cycle", &MIX);
        let yardsticks = [("as many authorizations", &authorized)];
        print_ratio("durable, 1,024 in flight, mixed", &mixed, &yardsticks);
        if let (Some(authorizations), Some(commands)) = (authorized.rate(), mixed.rate()) {
            println!(
                "RATIO durable, 1,024 in flight: {commands:.0} commands/s of the mix beside \
                 {authorizations:.0} authorizations/s"
            );
        }
    });
}

/// Times batches of one kind in a shard; of authorizations where none is named.
fn measure_kind(bench: &mut Bench, kind: Option<FollowUp>) -> Meter {
    let name = format!("shard/{}", kind.map_or("authorization", FollowUp::name));
    let mut shard = BareShard::bounded();
    shard.found(Program::of_many_companies(CARDS));
    let mut purchases = Purchases::new(CARDS, 21);
    bench.measure_timed(&name, BATCH_LEN, |iterations| {
        let batch = || {
            let (commands, originals): (Vec<_>, Vec<_>) =
                (0..BATCH_LEN).map(|_| purchases.next_with_original()).unzip();
            let authorized = take(&mut shard, &commands);
            let Some(kind) = kind else { return authorized };
            if kind == FollowUp::Refund {
                take(&mut shard, &follow(FollowUp::Presentment, &originals));
            }
            take(&mut shard, &follow(kind, &originals))
        };
        std::iter::repeat_with(batch).take(usize::try_from(iterations).expect("count")).sum()
    })
}

fn follow(kind: FollowUp, originals: &[Authorize]) -> Vec<Command> {
    originals.iter().map(|original| kind.of(original)).collect()
}

fn take(shard: &mut BareShard, commands: &[Command]) -> Duration {
    let mut payload = Vec::with_capacity(1 << 20);
    shard.time_batch(commands, &mut |seq, at, effects| {
        append_record(&mut payload, seq, at, effects).expect("encode a record");
    })
}

/// The number of each kind that follow a hundred authorizations. Follow-ups of the same purchase
/// come in this order.
const MIX: [(FollowUp, usize); 4] = [
    (FollowUp::Increment, 10),
    (FollowUp::Presentment, 85),
    (FollowUp::Refund, 3),
    (FollowUp::Reversal, 15),
];

/// Authorizations, and what comes of them.
struct Life<'a> {
    purchases: Purchases,
    mix: &'a [(FollowUp, usize)],
    /// How many purchases there were.
    count: usize,
    due: VecDeque<Command>,
}

impl Life<'_> {
    fn next_command(&mut self) -> Command {
        if self.due.len() > LAG
            && let Some(command) = self.due.pop_front()
        {
            return command;
        }
        let (command, original) = self.purchases.next_with_original();
        let place = self.count % 100;
        self.count += 1;
        for (kind, of_hundred) in self.mix {
            // Reversals are for those that are not presented.
            let is_chosen = match kind {
                FollowUp::Reversal => place >= 100 - of_hundred,
                _ => place < *of_hundred,
            };
            if is_chosen {
                self.due.push_back(kind.of(&original));
            }
        }
        command
    }
}

fn measure_durable(bench: &mut Bench, name: &str, mix: &[(FollowUp, usize)]) -> Meter {
    let home = Installation::new(Program::of_one_company(CARDS), CardHashes::Simulated);
    let mut caller = ClosedLoopCaller::new(home.open(Retention::Recovery), WINDOW);
    let purchases = Purchases::new(CARDS, 22);
    let mut life = Life { purchases, mix, count: 0, due: VecDeque::new() };
    bench.measure_timed(name, DURABLE_LEN, |iterations| {
        let start = Instant::now();
        caller.run(iterations * DURABLE_LEN, || life.next_command(), &mut |reply, _| {
            assert!(is_done(&reply), "the program carries out everything: {reply:?}");
        });
        start.elapsed()
    })
}
