//! Letters in a simulated world: each that is owed reaches the mail server, whatever goes down.
//!
//! A world hands letters in and holds news of changes, some of which are not made. Its server takes letters, puts them
//! off, refuses them or is not there. The machine goes down at any step; its disk fails at times.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cardswitch_dispatch::mail::limits::{
    AGE_MAX, REFUSALS_MAX, RETRY_WAIT_MAX, SERVER_WAIT_MAX, SERVER_WAIT_MIN,
};
use cardswitch_dispatch::mail::queue::{MailQueue, NextLetter, QueueError, Tries, Urgency, age};
use cardswitch_dispatch::mail::sending::{LetterFate, LetterTry, MailOutcome, MailSending};
use cardswitch_dispatch::mail::store::MailDirectory;
use cardswitch_engine::disk::Disk as _;
use cardswitch_engine::journal::testing::{DiskFaultPlan, FaultyDisk};
use uuid::Uuid;

use crate::marks::{Mark, Marks};
use crate::rng::Rng;

const STEPS: u64 = 120;
const RETRY_WAIT: Duration = Duration::from_secs(60);
/// More rounds than any letter needs once all is well.
const ROUNDS_TO_THE_END: usize = 10_000;

/// How often something happens in a world. Units: percent.
#[derive(Clone, Copy)]
struct LetterRates {
    crash: u64,
    broken_disk: u64,
    put_off: u64,
    refused: u64,
    unreached: u64,
    change_made: u64,
}

impl LetterRates {
    fn draw(rng: &mut Rng) -> Self {
        let mut up_to = |most: u64| if rng.chance(40) { 0 } else { rng.below(most) };
        Self {
            crash: up_to(20),
            broken_disk: up_to(10),
            put_off: up_to(60),
            refused: up_to(40),
            unreached: up_to(60),
            change_made: 100 - up_to(60),
        }
    }
}

/// How far a letter is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Standing {
    /// News that is held: a letter if its change was made.
    Held { is_made: bool },
    /// News that was forgotten, since its change was not made; a crash may bring it back.
    Withdrawn,
    /// A letter that waits.
    Waits,
    /// A letter that was taken or given up; a crash may bring it back.
    Over,
    /// Its caller was refused: it may be there or not.
    Uncertain { is_made: bool },
}

/// A letter as the world knows it.
struct LetterRecord {
    urgency: Urgency,
    standing: Standing,
    /// The time at which it may be sent. Only where it waits.
    due: Duration,
    tries: Tries,
    taken: u64,
    is_given_up: bool,
}

struct LetterWorld {
    rng: Rng,
    rates: LetterRates,
    disk: FaultyDisk,
    queue: MailQueue,
    sending: MailSending,
    now: Duration,
    book: BTreeMap<Uuid, LetterRecord>,
    /// The server is left alone until then; the length of the last wait.
    pause: Option<(Duration, Duration)>,
    marks: Marks,
}

fn directory(disk: &FaultyDisk) -> Arc<MailDirectory> {
    Arc::new(MailDirectory::open(Arc::new(disk.clone())).unwrap())
}

/// Runs the world of a seed. Panics where a letter is lost, doubled without cause, or out of turn.
pub(crate) fn run(seed: u64) -> Marks {
    let mut rng = Rng::new(seed);
    let rates = LetterRates::draw(&mut rng);
    let disk = FaultyDisk::default();
    let now = Duration::from_secs(1_800_000_000);
    let (queue, _) = MailQueue::open(directory(&disk), now).unwrap();
    let sending = MailSending::new(RETRY_WAIT);
    let (book, marks) = (BTreeMap::new(), Marks::default());
    let mut world = LetterWorld { rng, rates, disk, queue, sending, now, book, pause: None, marks };
    for _ in 0..STEPS {
        world.step();
    }
    world.end();
    world.marks
}

impl LetterWorld {
    fn step(&mut self) {
        let day_passes = self.rng.chance(2);
        let wait_s = if day_passes { 86_400 } else { self.rng.below(20) };
        self.now += Duration::from_secs(wait_s);
        if self.rng.chance(self.rates.broken_disk) {
            let nth = Some(1 + self.rng.below(4));
            self.disk.plan(match self.rng.below(3) {
                0 => DiskFaultPlan { fail_write: nth, ..DiskFaultPlan::default() },
                1 => DiskFaultPlan { fail_sync: nth, ..DiskFaultPlan::default() },
                _ => DiskFaultPlan { fail_after_sync: nth, ..DiskFaultPlan::default() },
            });
        }
        match self.rng.below(4) {
            0 => self.hand_in(),
            1 => self.hold_news(),
            _ => self.send(),
        }
        if self.rng.chance(self.rates.crash) {
            self.go_down();
        }
    }

    fn draw_letter(&mut self) -> (Uuid, Urgency) {
        let tail = [(); 10].map(|()| self.rng.below(256) as u8);
        let id = uuid::Builder::from_unix_timestamp_millis(self.now.as_millis() as u64, &tail);
        (id.into_uuid(), self.rng.pick(&[Urgency::First, Urgency::InTurn]))
    }

    fn note(&mut self, id: Uuid, urgency: Urgency, standing: Standing) {
        let (tries, due) = (Tries::default(), self.now);
        let owed = LetterRecord { urgency, standing, due, tries, taken: 0, is_given_up: false };
        self.book.insert(id, owed);
    }

    fn hand_in(&mut self) {
        let (id, urgency) = self.draw_letter();
        let added = self.queue.add_letter(id, urgency, id.as_bytes(), self.now);
        self.marks.pass_if(Mark::LetterRefused, added.is_err());
        let standing = match added {
            Ok(()) => Standing::Waits,
            Err(_) => Standing::Uncertain { is_made: true },
        };
        self.note(id, urgency, standing);
    }

    /// Holds news of a change, which is made or not, and acts on that unless the machine goes down
    /// before.
    fn hold_news(&mut self) {
        let (id, urgency) = self.draw_letter();
        let is_made = self.rng.chance(self.rates.change_made);
        let held = self.queue.hold(id, urgency, id.as_bytes());
        self.marks.pass_if(Mark::LetterRefused, held.is_err());
        if held.is_err() {
            return self.note(id, urgency, Standing::Uncertain { is_made });
        }
        self.note(id, urgency, Standing::Held { is_made });
        if self.rng.chance(self.rates.crash) {
            self.marks.pass(Mark::NewsHeldOverCrash);
            self.go_down();
        } else {
            self.tell(id);
        }
    }

    /// Makes held news a letter, or forgets it.
    fn tell(&mut self, id: Uuid) {
        assert_eq!(self.queue.read_news(id).unwrap(), id.as_bytes());
        let owed = self.book.get_mut(&id).unwrap();
        let is_made = match owed.standing {
            Standing::Held { is_made } | Standing::Uncertain { is_made } => is_made,
            Standing::Withdrawn => false,
            Standing::Waits | Standing::Over => panic!("{id} is a letter, and held"),
        };
        if !is_made {
            self.queue.withdraw(id);
            owed.standing = Standing::Withdrawn;
            self.marks.pass(Mark::NewsWithdrawn);
            return;
        }
        match self.queue.add_letter(id, owed.urgency, id.as_bytes(), self.now) {
            Ok(()) => (owed.standing, owed.due) = (Standing::Waits, self.now),
            // The next start sees.
            Err(error) => assert!(matches!(error, QueueError::Write(_)), "{error}"),
        }
    }

    /// The letter that has to be next: the first that is due of those that go first, else of the others.
    fn expected(&self) -> NextLetter {
        if let Some((until, _)) = self.pause.filter(|(until, _)| *until > self.now) {
            return NextLetter::At(until);
        }
        let waits = |owed: &LetterRecord| owed.standing == Standing::Waits;
        let waiting = || self.book.iter().filter(|(_, owed)| waits(owed));
        let due = waiting().filter(|(_, owed)| owed.due <= self.now);
        let order =
            |(id, owed): &(&Uuid, &LetterRecord)| (owed.urgency == Urgency::InTurn, owed.due, **id);
        match due.min_by_key(order) {
            Some((id, owed)) => NextLetter::Due(*id, owed.tries),
            None => {
                waiting().map(|(_, owed)| owed.due).min().map_or(NextLetter::None, NextLetter::At)
            }
        }
    }

    fn send(&mut self) {
        let next = self.sending.next(&self.queue, self.now);
        assert_eq!(next, self.expected());
        match next {
            NextLetter::Due(id, tries) => {
                let outcome = self.draw_outcome();
                self.try_letter(id, tries, outcome);
            }
            NextLetter::At(at) if self.rng.chance(50) => self.now = at,
            NextLetter::At(_) | NextLetter::None => {}
        }
    }

    fn draw_outcome(&mut self) -> MailOutcome {
        if self.rng.chance(self.rates.unreached) {
            return MailOutcome::Unreached("it is not there");
        }
        if self.rng.chance(self.rates.put_off) {
            return MailOutcome::PutOff(450);
        }
        match self.rng.chance(self.rates.refused) {
            true => MailOutcome::Refused(550),
            false => MailOutcome::Taken,
        }
    }

    fn try_letter(&mut self, id: Uuid, tries: Tries, outcome: MailOutcome) {
        let owed = self.book.get_mut(&id).unwrap();
        let (urgency, letter) = self.queue.read_letter(id).unwrap();
        assert_eq!((urgency, letter.as_slice()), (owed.urgency, id.as_bytes().as_slice()));
        if outcome == MailOutcome::Taken {
            owed.taken += 1;
            self.marks.pass_if(Mark::LetterRepeated, owed.taken > 1);
            if self.rng.chance(self.rates.crash) {
                self.marks.pass(Mark::CrashAfterTaking);
                return self.go_down();
            }
        }
        let letter = LetterTry { id, tries, age: age(id, self.now) };
        let fate = self.sending.settle(&self.queue, letter, outcome, self.now);
        assert_eq!(fate, self.note_outcome(id, outcome));
        if fate == LetterFate::Waits {
            return;
        }
        if self.rng.chance(self.rates.crash) {
            self.marks.pass(Mark::CrashBeforeFinish);
            return self.go_down();
        }
        self.queue.finish(id);
    }

    /// The fate of a letter by the book.
    fn note_outcome(&mut self, id: Uuid, outcome: MailOutcome) -> LetterFate {
        let owed = self.book.get_mut(&id).unwrap();
        let wait = match outcome {
            MailOutcome::Unreached(_) => {
                let wait = self.pause.map_or(SERVER_WAIT_MIN, |(_, wait)| 2 * wait);
                let wait = wait.min(SERVER_WAIT_MAX);
                self.pause = Some((self.now + wait, wait));
                self.marks.pass(Mark::MailServerPaused);
                Duration::ZERO
            }
            _ => {
                self.pause = None;
                RETRY_WAIT * 2_u32.pow(owed.tries.all.min(20))
            }
        };
        owed.tries.all += u32::from(!matches!(outcome, MailOutcome::Unreached(_)));
        owed.tries.refusals += u32::from(matches!(outcome, MailOutcome::Refused(_)));
        owed.due = self.now + wait.min(RETRY_WAIT_MAX);
        let is_too_old = age(id, self.now) >= AGE_MAX;
        owed.is_given_up |= is_too_old || owed.tries.refusals >= REFUSALS_MAX;
        if outcome != MailOutcome::Taken && !owed.is_given_up {
            return LetterFate::Waits;
        }
        self.marks.pass_if(Mark::LetterGivenUp, outcome != MailOutcome::Taken);
        owed.standing = Standing::Over;
        LetterFate::Over
    }

    /// The machine goes down, and the switch starts again.
    fn go_down(&mut self) {
        self.disk = match self.rng.below(3) {
            0 => self.disk.after_kill(),
            1 => self.disk.after_power_failure(),
            _ => self.disk.after_torn_power_failure(self.rng.number()),
        };
        let names = self.disk.names().unwrap();
        let has = |id: &Uuid, extension: &str| names.contains(&format!("{id}.{extension}"));
        for (id, owed) in &mut self.book {
            let is_letter = has(id, "first") || has(id, "due");
            match owed.standing {
                Standing::Waits => assert!(is_letter, "{id} is lost"),
                Standing::Held { .. } => assert!(is_letter || has(id, "held"), "{id} is lost"),
                Standing::Withdrawn => assert!(!is_letter, "{id} is a letter of nothing"),
                Standing::Over | Standing::Uncertain { .. } => {}
            }
            if is_letter {
                (owed.standing, owed.due, owed.tries) =
                    (Standing::Waits, self.now, Tries::default());
                owed.is_given_up = false;
            }
        }
        let (queue, held) = MailQueue::open(directory(&self.disk), self.now).unwrap();
        (self.queue, self.sending, self.pause) = (queue, MailSending::new(RETRY_WAIT), None);
        held.into_iter().for_each(|id| self.tell(id));
    }

    /// Ends all trouble. Every letter that is owed must arrive then, and the queue must be empty.
    fn end(&mut self) {
        self.go_down();
        for _ in 0..ROUNDS_TO_THE_END {
            let next = self.sending.next(&self.queue, self.now);
            assert_eq!(next, self.expected());
            match next {
                NextLetter::Due(id, tries) => {
                    self.rates.crash = 0;
                    self.try_letter(id, tries, MailOutcome::Taken);
                }
                NextLetter::At(at) => self.now = at,
                NextLetter::None => break,
            }
        }
        for (id, owed) in &self.book {
            match owed.standing {
                Standing::Over => assert!(owed.taken > 0 || owed.is_given_up, "{id} is not told"),
                Standing::Withdrawn | Standing::Uncertain { .. } => {
                    assert!(owed.taken == 0 || owed.standing != Standing::Withdrawn, "{id}");
                }
                Standing::Waits | Standing::Held { .. } => panic!("{id} waits for ever"),
            }
        }
        assert_eq!(self.disk.names().unwrap(), Vec::<String>::new());
        assert!(self.queue.is_empty());
    }
}
