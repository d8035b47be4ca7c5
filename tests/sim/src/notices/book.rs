//! The letters about declines that are owed, by the model's answers: who is told of which decline, in which words,
//! and what became of each letter.
//!
//! Members who have left get none. Who was told how often is in `hours`, and forgotten when the switch goes down. What
//! one run knows is in `RunBook`: a former leader goes on beside the next one.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::time::Duration;

use cardswitch_dispatch::mail::declines::{DeclineNotice, NoticeError};
use cardswitch_dispatch::mail::limits::{AGE_MAX, REFUSALS_MAX};
use cardswitch_dispatch::mail::notice_history::NoticeKind;
use cardswitch_dispatch::mail::queue::{QueueError, Urgency};
use cardswitch_dispatch::mail::sending::{LetterFate, MailOutcome};
use cardswitch_engine::domain::ids::{
    CardId, MemberId, RecordSeq, Timestamp, TransactionId, TransactionSeq,
};
use cardswitch_engine::steps::StepOutcome;
use uuid::Uuid;

use super::hours::Hours;
use crate::marks::{Mark, Marks};
use crate::model::Model;

/// What a letter says, and to whom.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct NoticeText {
    transaction: TransactionId,
    seq: TransactionSeq,
    kind: NoticeKind,
    member: MemberId,
    address: String,
    card: CardId,
}

impl NoticeText {
    pub(crate) fn of(notice: &DeclineNotice) -> Self {
        let record = &notice.transaction.record;
        Self {
            transaction: record.id,
            seq: record.seq,
            kind: notice.kind,
            member: notice.member.id,
            address: notice.member.email.clone(),
            card: notice.card.profile.id,
        }
    }

    /// Warnings go before other letters.
    pub(crate) fn urgency(&self) -> Urgency {
        if self.kind == NoticeKind::Alert { Urgency::First } else { Urgency::InTurn }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        format!("{self:?}").into_bytes()
    }
}

/// A letter that was handed in.
pub(crate) struct HandIn {
    pub(crate) id: Uuid,
    pub(crate) text: NoticeText,
    /// Whether the queue took it.
    pub(crate) is_taken: bool,
}

/// The tables and limits of a step.
#[derive(Clone, Copy)]
pub(crate) struct StepView {
    /// The record as of which the tables were.
    pub(crate) applied: RecordSeq,
    /// Their last transaction.
    pub(crate) last: TransactionSeq,
    pub(crate) scan_max: u64,
    /// Whether so many letters wait that none is added.
    pub(crate) is_full: bool,
}

/// A letter as the book knows it.
struct LetterEntry {
    transaction: TransactionId,
    seq: TransactionSeq,
    member: MemberId,
    /// The contents under which it was handed in: a crash forgets who was told how often.
    contents: Vec<Vec<u8>>,
    /// Whether a caller learned that it waits.
    is_owed: bool,
    is_given_up: bool,
    /// The run of which the server took it last.
    taken_of: Option<u64>,
}

impl LetterEntry {
    const fn is_over(&self) -> bool {
        self.taken_of.is_some() || self.is_given_up
    }
}

/// A letter as one run knows it.
#[derive(Default)]
struct RunLetter {
    /// Whether it was there at the start.
    is_old: bool,
    /// Whether the queue has had it.
    is_known: bool,
    is_offered: bool,
    /// How often the server refused it.
    refusals: u32,
    /// Whether the server has taken it since it was handed in.
    is_taken: bool,
}

/// What a cardholder was told last since the start: whether that was handed in by then, and its place.
type LastOffer = (bool, u64);

/// The book of one run of queue and follower.
pub(crate) struct RunBook {
    /// Which run it is.
    number: u64,
    hours: Hours,
    /// The follower's place; none before it has started.
    pub(crate) done: Option<TransactionSeq>,
    letters: BTreeMap<Uuid, RunLetter>,
    offers: BTreeMap<(MemberId, bool), LastOffer>,
}

pub(crate) struct NoticeBook {
    context: String,
    /// When members began and ceased to take part, by the records.
    activity: Vec<Vec<(RecordSeq, bool)>>,
    /// How many runs there were.
    runs: u64,
    /// The place of the newest run's follower; none before the first start.
    done: Option<TransactionSeq>,
    /// The place that is on disk for sure.
    sure: Option<TransactionSeq>,
    letters: BTreeMap<Uuid, LetterEntry>,
    ids: BTreeMap<TransactionId, Uuid>,
    /// The place that was told of when the tables lost their newest part, until the next start.
    lost: Option<TransactionSeq>,
    pub(crate) marks: Marks,
}

impl NoticeBook {
    pub(crate) fn new(context: String) -> Self {
        Self {
            context,
            activity: Vec::new(),
            runs: 0,
            done: None,
            sure: None,
            lost: None,
            letters: BTreeMap::new(),
            ids: BTreeMap::new(),
            marks: Marks::default(),
        }
    }

    /// Notes who takes part as of a record.
    pub(crate) fn notice_members(&mut self, seq: RecordSeq, model: &Model) {
        self.activity.resize_with(model.member_count().max(self.activity.len()), Vec::new);
        for (member, known) in self.activity.iter_mut().enumerate().take(model.member_count()) {
            let is_active = model.is_active(member);
            if known.last().is_none_or(|(_, was_active)| *was_active != is_active) {
                known.push((seq, is_active));
            }
        }
    }

    fn was_active(&self, member: usize, at: RecordSeq) -> bool {
        let until = self.activity[member].iter().rev().find(|(seq, _)| *seq <= at);
        until.is_some_and(|(_, is_active)| *is_active)
    }

    /// A run of the queue begins with these letters.
    pub(crate) fn begin_run(&mut self, waiting: &BTreeSet<Uuid>) -> RunBook {
        self.runs += 1;
        for (id, letter) in &self.letters {
            let is_there = !letter.is_owed || letter.is_over() || waiting.contains(id);
            assert!(is_there, "{}: {id} is lost", self.context);
        }
        let is_known = |id: &Uuid| self.letters.contains_key(id);
        assert!(waiting.iter().all(is_known), "{}: a letter of nothing", self.context);
        let old = || RunLetter { is_old: true, is_known: true, ..RunLetter::default() };
        RunBook {
            number: self.runs,
            hours: Hours::default(),
            done: None,
            letters: waiting.iter().map(|id| (*id, old())).collect(),
            offers: BTreeMap::new(),
        }
    }

    /// Whether another run has begun since.
    pub(crate) const fn is_former(&self, run: &RunBook) -> bool {
        run.number < self.runs
    }

    /// The follower has tried to start, where tables have so many transactions.
    pub(crate) fn begin_following(
        &mut self,
        run: &mut RunBook,
        followed: Option<TransactionSeq>,
        last: TransactionSeq,
    ) {
        // Without a place it begins at the end, by then for sure.
        let least = *self.sure.get_or_insert(last);
        let Some(followed) = followed else { return };
        let most = self.done.unwrap_or(last);
        assert!(followed >= least, "{}: {followed:?} is told of, up to {least:?}", self.context);
        assert!(
            followed <= most,
            "{}: nobody is told of what is before {followed:?}",
            self.context
        );
        self.marks.pass_if(Mark::DeclinesReadAgain, followed < most);
        let is_reused = self.lost.take().is_some_and(|lost| followed < lost && lost <= last);
        self.marks.pass_if(Mark::NoticePlaceReused, is_reused);
        (run.done, self.done) = (Some(followed), Some(followed));
    }

    /// The tables have lost all behind a record and a transaction; the instant of that one is that of others, back to
    /// `least`. Numbers behind have other meanings from now on.
    pub(crate) fn cut(
        &mut self,
        applied: RecordSeq,
        (least, last): (TransactionSeq, TransactionSeq),
    ) {
        self.marks.pass_if(Mark::DeclinesLost, self.done > Some(last));
        for known in &mut self.activity {
            known.retain(|(seq, _)| *seq <= applied);
        }
        self.lost = self.done;
        // Where the place is an older one, it is that of a transaction that is still there.
        let kept = self.done.map_or(last, |done| done.min(last));
        let sure = self.sure.map_or(kept, |sure| sure.min(kept));
        (self.done, self.sure) = (Some(kept), Some(sure.min(least)));
    }

    /// Compares the letters of a step with those that the model's declines bring.
    pub(crate) fn note_step(
        &mut self,
        run: &mut RunBook,
        (model, view): (&Model, StepView),
        handed: Vec<HandIn>,
        outcome: &Result<StepOutcome, NoticeError>,
    ) {
        let done = run.done.unwrap();
        if view.is_full {
            let is_idle = matches!(outcome, Ok(StepOutcome::Idle)) && handed.is_empty();
            assert!(is_idle, "{}: letters are added to many", self.context);
            self.marks.pass(Mark::NoticesHeldBack);
            return;
        }
        let next = TransactionSeq((done.0 + view.scan_max).min(view.last.0));
        let (hours, expected) = self.expect(run, model, (done, next), view.applied);
        let told: Vec<_> = handed.iter().map(|handed| handed.text.clone()).collect();
        let is_last_lost = handed.last().is_some_and(|handed| !handed.is_taken);
        handed.into_iter().for_each(|handed| self.note_hand_in(run, handed));
        if let Err(NoticeError::Letter(_)) = outcome {
            let is_start = is_last_lost && expected.starts_with(&told);
            assert!(is_start, "{}: {told:?}", self.context);
            self.marks.pass(Mark::NoticeNotWritten);
            return;
        }
        assert_eq!(told, expected, "{}: letters about {done:?} to {next:?}", self.context);
        assert!(!is_last_lost, "{}: a letter is missing", self.context);
        (run.hours, run.done) = (hours, Some(next));
        if !self.is_former(run) {
            self.done = run.done;
        }
        self.note_place(run, next < view.last, !told.is_empty(), outcome);
    }

    /// The follower's place after a step that told of all declines of a page.
    fn note_place(
        &mut self,
        run: &RunBook,
        has_more: bool,
        has_told: bool,
        outcome: &Result<StepOutcome, NoticeError>,
    ) {
        match outcome {
            Ok(progress) => {
                assert_eq!(*progress, StepOutcome::of(has_more), "{}", self.context);
                self.marks.pass_if(Mark::DeclinePageEnded, has_more && has_told);
                if has_told {
                    let is_former = self.is_former(run);
                    assert!(!is_former, "{}: a former leader notes its place", self.context);
                    self.sure = run.done;
                }
            }
            Err(NoticeError::Cursor(_)) => {
                self.marks.pass_if(Mark::NoticePlaceUnwritten, has_told);
            }
            Err(error) => panic!("{}: {error}", self.context),
        }
    }

    /// The letters about the declines of some transactions.
    fn expect(
        &mut self,
        run: &RunBook,
        model: &Model,
        (after, until): (TransactionSeq, TransactionSeq),
        applied: RecordSeq,
    ) -> (Hours, Vec<NoticeText>) {
        let (mut hours, mut expected) = (run.hours.clone(), Vec::new());
        let declines = &model.declines;
        let [first, end] =
            [after, until].map(|seq| declines.partition_point(|decline| decline.seq <= seq.0));
        for decline in &declines[first..end] {
            let Some(kind) = hours.kind_of(decline) else {
                self.marks.pass(Mark::NoticeHeldForMore);
                continue;
            };
            if !self.was_active(decline.member, applied) {
                self.marks.pass(Mark::NoticeOfFormerMember);
                continue;
            }
            self.marks.pass_if(Mark::MoreNotices, kind == NoticeKind::More);
            self.marks.pass_if(Mark::CardholderWarned, kind == NoticeKind::Alert);
            let (seq, at) = (TransactionSeq(decline.seq), Timestamp(decline.at));
            let (member, address) = model.member_contact(decline.member);
            expected.push(NoticeText {
                transaction: model.ids.transaction_id(at, seq),
                seq,
                kind,
                member,
                address: address.to_owned(),
                card: model.cards[decline.card].id,
            });
        }
        (hours, expected)
    }

    fn note_hand_in(&mut self, run: &mut RunBook, HandIn { id, text, is_taken }: HandIn) {
        let known = self.ids.insert(text.transaction, id);
        assert!(
            known.is_none_or(|known| known == id),
            "{}: {id} was {known:?} before",
            self.context
        );
        self.marks.pass_if(Mark::NoticeHandedInAgain, known.is_some());
        let letter = self.letters.entry(id).or_insert_with(|| LetterEntry {
            transaction: text.transaction,
            seq: text.seq,
            member: text.member,
            contents: Vec::new(),
            is_owed: false,
            is_given_up: false,
            taken_of: None,
        });
        assert_eq!(letter.transaction, text.transaction, "{}: {id} is of two", self.context);
        let content = text.bytes();
        if !letter.contents.contains(&content) {
            letter.contents.push(content);
        }
        letter.is_owed |= is_taken;
        let is_former = run.number < self.runs;
        let known = run.letters.entry(id).or_default();
        let may_take = !is_former || known.is_known;
        assert!(!is_taken || may_take, "{}: a former leader adds {id}", self.context);
        known.is_known |= is_taken;
        known.is_taken = false;
    }

    /// A letter is on its way. Those of one cardholder go in order: first the ones that waited at the start, by the
    /// millisecond in their ids.
    pub(crate) fn offer(&mut self, run: &mut RunBook, id: Uuid, urgency: Urgency, bytes: &[u8]) {
        let letter = &self.letters[&id];
        let is_content = letter.contents.iter().any(|content| content == bytes);
        assert!(is_content, "{}: {id} says something else", self.context);
        let known = run.letters.get_mut(&id).unwrap();
        if std::mem::replace(&mut known.is_offered, true) || letter.taken_of.is_some() {
            return;
        }
        let (seconds, nanos) = id.get_timestamp().unwrap().to_unix();
        let place = match known.is_old {
            true => (false, 1_000 * seconds + u64::from(nanos / 1_000_000)),
            false => (true, letter.seq.0),
        };
        let key = (letter.member, urgency == Urgency::First);
        let before = run.offers.insert(key, place);
        assert!(
            before.is_none_or(|before| before <= place),
            "{}: {id} is out of turn",
            self.context
        );
    }

    /// A letter that is next cannot be read. It has had its turn, if it stays.
    pub(crate) fn miss_turn(&self, run: &mut RunBook, id: Uuid, error: &QueueError) {
        let is_gone =
            matches!(error, QueueError::Read(error) if error.kind() == ErrorKind::NotFound);
        assert!(!is_gone || self.is_former(run), "{}: {id} is gone", self.context);
        run.letters.get_mut(&id).unwrap().is_offered = true;
    }

    /// The mail server takes a letter. Returns whether it did so of another run.
    pub(crate) fn take(&mut self, run: &mut RunBook, id: Uuid) -> bool {
        let letter = self.letters.get_mut(&id).unwrap();
        let taken_of = letter.taken_of.replace(run.number);
        self.marks.pass_if(Mark::NoticeRepeated, taken_of.is_some());
        let known = run.letters.get_mut(&id).unwrap();
        let is_repeated = std::mem::replace(&mut known.is_taken, true);
        assert!(!is_repeated, "{}: {id} goes twice", self.context);
        taken_of.is_some_and(|taken_of| taken_of != run.number)
    }

    /// A letter was tried, so long after its decline.
    pub(crate) fn settle(
        &mut self,
        run: &mut RunBook,
        id: Uuid,
        (outcome, fate): (MailOutcome, LetterFate),
        age: Duration,
    ) {
        let known = run.letters.get_mut(&id).unwrap();
        known.refusals += u32::from(matches!(outcome, MailOutcome::Refused(_)));
        let may_end = age >= AGE_MAX || known.refusals >= REFUSALS_MAX;
        let is_over = outcome == MailOutcome::Taken || may_end;
        assert_eq!(
            fate == LetterFate::Over,
            is_over,
            "{}: {id} after {outcome:?}, {age:?}",
            self.context
        );
        if is_over {
            // A letter that is handed in once more begins anew.
            known.refusals = 0;
        }
        let is_given_up = fate == LetterFate::Over && outcome != MailOutcome::Taken;
        self.letters.get_mut(&id).unwrap().is_given_up |= is_given_up;
        self.marks.pass_if(Mark::NoticeGivenUp, is_given_up);
    }

    /// All is well, and nothing waits: every letter that is owed was taken, or given up.
    pub(crate) fn audit(&self) {
        for (id, letter) in &self.letters {
            assert!(!letter.is_owed || letter.is_over(), "{}: nobody got {id}", self.context);
        }
    }
}
