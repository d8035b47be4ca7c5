//! One run of queue, follower and sending, and the mail server before the cardholders: it takes letters, puts them off,
//! refuses them or is not there.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use cardswitch_dispatch::mail::declines::{
    DeclineFollower, DeclineNotice, NoticeContext, NoticeError, NoticeLimits,
};
use cardswitch_dispatch::mail::queue::{MailQueue, NextLetter, Tries, age};
use cardswitch_dispatch::mail::sending::{LetterFate, LetterTry, MailOutcome, MailSending};
use cardswitch_dispatch::mail::store::MailStore;
use cardswitch_engine::domain::ids::TransactionSeq;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::NoticeRates;
use super::book::{HandIn, NoticeBook, NoticeText, RunBook, StepView};
use crate::marks::Mark;
use crate::model::Model;
use crate::notes::ClusterNotes;
use crate::rng::Rng;
use crate::switch_view::SwitchView;

const RETRY_WAIT: Duration = Duration::from_secs(60);
/// The time of one letter. As in a running switch, no two are handed in at the same moment.
const LETTER_TIME: Duration = Duration::from_micros(1);

/// The surroundings of every run: cardholders with their mail server, and the notes of a cluster.
pub(super) struct MailWorld {
    pub(super) context: String,
    pub(super) rng: Rng,
    pub(super) rates: NoticeRates,
    pub(super) is_calm: bool,
    pub(super) book: NoticeBook,
    /// A hash of everything that the mail server took, in order.
    pub(super) taken: Sha256,
    /// None where one switch is alone.
    pub(super) notes: Option<ClusterNotes>,
}

impl MailWorld {
    fn draw_outcome(&mut self) -> MailOutcome {
        let NoticeRates { unreached_percent, put_off_percent, refused_percent, .. } = self.rates;
        match self.is_calm {
            true => MailOutcome::Taken,
            _ if self.rng.chance(unreached_percent) => MailOutcome::Unreached("it is not there"),
            _ if self.rng.chance(put_off_percent) => MailOutcome::PutOff(450),
            _ if self.rng.chance(refused_percent) => MailOutcome::Refused(550),
            _ => MailOutcome::Taken,
        }
    }

    fn take(&mut self, run: &mut RunBook, id: Uuid, bytes: &[u8]) {
        let was_of_another = self.book.take(run, id);
        self.taken.update(bytes);
        let (is_cluster, is_former) = (self.notes.is_some(), self.book.is_former(run));
        let is_next = is_cluster && was_of_another && !is_former;
        self.book.marks.pass_if(Mark::NoticeRepeatedAfterFailOver, is_next);
        self.book.marks.pass_if(Mark::FormerLeaderMailed, is_former);
    }

    /// The notes of a cluster fail a step only where they may.
    fn note_failure(&mut self, run: &RunBook, error: &NoticeError) {
        let Some(notes) = &self.notes else { return };
        let is_former = self.book.is_former(run);
        assert!(is_former || notes.is_shut_off(), "{}: {error}", self.context);
        let mark = if is_former { Mark::FormerNoticeRefused } else { Mark::NoticeNotNoted };
        self.book.marks.pass(mark);
    }
}

/// A letter on its way.
pub(super) enum LetterFlight {
    /// The server has answered, and the switch will learn of it.
    Tried { id: Uuid, tries: Tries, outcome: MailOutcome },
    /// The switch has learned that it is done with.
    Over(Uuid),
}

/// Queue and sending, and the follower unless its start failed.
pub(super) struct NoticeRun {
    follower: Option<DeclineFollower>,
    queue: MailQueue,
    sending: MailSending,
    flight: Option<LetterFlight>,
    uptime: Duration,
    /// Whether the disk failed the last step: few follow until the next start, for it stays broken.
    is_broken: bool,
    book: RunBook,
}

impl NoticeRun {
    /// Starts queue and follower on a store in which these letters wait.
    /// Errors: the queue cannot be opened.
    pub(super) fn start(
        store: Arc<dyn MailStore>,
        waiting: &BTreeSet<Uuid>,
        world: &mut MailWorld,
        view: &SwitchView,
    ) -> io::Result<Self> {
        let uptime = Duration::ZERO;
        let (queue, held) = MailQueue::open(store, uptime)?;
        assert!(held.is_empty(), "{}: there is no news", world.context);
        let book = world.book.begin_run(waiting);
        let sending = MailSending::new(RETRY_WAIT);
        let (follower, flight) = (None, None);
        let mut run = Self { follower, queue, sending, flight, uptime, is_broken: false, book };
        run.open_follower(world, view);
        Ok(run)
    }

    fn open_follower(&mut self, world: &mut MailWorld, view: &SwitchView) {
        let last = view.snapshot().checkpoint().unwrap().last_transaction;
        let store = Arc::clone(&self.queue.store);
        let opened = DeclineFollower::open(store, &view.store, world.rates.limits, self.uptime);
        self.follower = match opened {
            Ok(follower) => Some(follower),
            Err(NoticeError::Cursor(_)) => {
                world.book.marks.pass(Mark::NoticesFailedStart);
                None
            }
            Err(other) => panic!("{}: {other}", world.context),
        };
        let followed = self.follower.as_ref().map(DeclineFollower::followed);
        world.book.begin_following(&mut self.book, followed, last);
    }

    fn pass_time(&mut self, world: &mut MailWorld) {
        self.uptime += Duration::from_millis(world.rng.below(world.rates.pause_ms));
    }

    /// Tells of the next declines, unless the model has not heard of them.
    pub(super) fn follow(&mut self, world: &mut MailWorld, view: &SwitchView, model: &Model) {
        self.pass_time(world);
        let checkpoint = view.snapshot().checkpoint().unwrap();
        if checkpoint.last_transaction.0 > model.last_seq {
            return;
        }
        // A disk stays broken until the next start.
        if self.follower.is_none() && world.notes.is_some() {
            self.open_follower(world, view);
        }
        let Self { follower: Some(follower), queue, uptime, .. } = self else { return };
        if self.is_broken && !world.is_calm && !world.rng.chance(5) {
            return;
        }
        let NoticeLimits { scan_max, waiting_max } = world.rates.limits;
        let (applied, last) = (checkpoint.applied_seq, checkpoint.last_transaction);
        let waiting = queue.len();
        let step = StepView { applied, last, scan_max, is_full: waiting >= waiting_max };
        let context = NoticeContext { tables: &view.store, waiting, now: *uptime };
        let mut handed = Vec::new();
        let outcome = follower.step(context, |notice: &DeclineNotice| {
            *uptime += LETTER_TIME;
            let (id, text) = (notice.id, NoticeText::of(notice));
            let added = queue.add_letter(id, text.urgency(), &text.bytes(), *uptime);
            handed.push(HandIn { id, text, is_taken: added.is_ok() });
            added.map(|()| true).map_err(Into::into)
        });
        let followed = follower.followed();
        self.is_broken = outcome.is_err() && world.notes.is_none();
        if let Err(error) = &outcome {
            world.note_failure(&self.book, error);
        }
        world.book.note_step(&mut self.book, (model, step), handed, &outcome);
        assert_eq!(Some(followed), self.book.done, "{}", world.context);
    }

    /// The letter that is on its way moves, or the next one goes.
    pub(super) fn send(&mut self, world: &mut MailWorld, view: &SwitchView) {
        self.pass_time(world);
        let Self { queue, sending, flight, uptime, .. } = self;
        match flight.take() {
            Some(LetterFlight::Tried { id, tries, outcome }) => {
                let now = Duration::from_micros(view.time.0 as u64);
                let letter = LetterTry { id, tries, age: age(id, now) };
                let fate = sending.settle(queue, letter, outcome, *uptime);
                world.book.settle(&mut self.book, id, (outcome, fate), letter.age);
                *flight = (fate == LetterFate::Over).then_some(LetterFlight::Over(id));
            }
            Some(LetterFlight::Over(id)) => queue.finish(id),
            None => match sending.next(queue, *uptime) {
                NextLetter::Due(id, tries) => self.offer(world, id, tries),
                NextLetter::At(at) if world.is_calm || world.rng.chance(20) => *uptime = at,
                NextLetter::At(_) | NextLetter::None => {}
            },
        }
    }

    fn offer(&mut self, world: &mut MailWorld, id: Uuid, tries: Tries) {
        let outcome = world.draw_outcome();
        let (urgency, bytes) = match self.queue.read_letter(id) {
            Ok(letter) => letter,
            Err(error) => {
                world.book.miss_turn(&mut self.book, id, &error);
                return self.sending.leave_unread(&self.queue, (id, tries), &error, self.uptime);
            }
        };
        world.book.offer(&mut self.book, id, urgency, &bytes);
        if outcome == MailOutcome::Taken {
            world.take(&mut self.book, id, &bytes);
        }
        self.flight = Some(LetterFlight::Tried { id, tries, outcome });
    }

    /// Whether all is told up to a transaction, and nothing waits.
    pub(super) fn is_quiet(&self, last: TransactionSeq) -> bool {
        self.queue.is_empty() && self.flight.is_none() && self.book.done == Some(last)
    }

    /// Whether the server has taken a letter, and the switch has not learned of it.
    pub(super) const fn has_unheard_letter(&self) -> bool {
        matches!(self.flight, Some(LetterFlight::Tried { outcome: MailOutcome::Taken, .. }))
    }
}
