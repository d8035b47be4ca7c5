//! Letters to cardholders about declined purchases, and warnings of suspicious ones, as steps.
//!
//! The follower reads transactions in order, one page at a time. It chooses the declines and their
//! recipients, hands letters to the queue, and then saves its position. The driver writes the text.
//!
//! INVARIANT: the place, in the file `mail/cursor`, is written after the letters: no letter is lost
//! by a crash. A letter that is written twice has the same id, so it is sent once while it waits,
//! and recognised by its Message-ID afterwards.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use cardswitch_engine::directory::member::Member;
use cardswitch_engine::domain::company::Company;
use cardswitch_engine::domain::ids::{Timestamp, TransactionId, TransactionSeq};
use cardswitch_engine::steps::StepOutcome;
use cardswitch_engine::store::query::{CardRow, DeclinePage, DeclineRow, TransactionRow};
use cardswitch_engine::store::{Snapshot, Store, StoreError};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::cursor::{Cursor, TransactionPlace};
use super::limits::{DECLINES_SCAN_MAX, QUEUE_NOTICES_MAX};
use super::notice_history::{NoticeHistory, NoticeKind};
use super::store::MailStore;

/// The bounds of a step.
#[derive(Clone, Copy, Debug)]
pub struct NoticeLimits {
    /// How many transactions are read.
    pub scan_max: u64,
    /// Where so many letters wait, no notices are added.
    pub waiting_max: usize,
}

impl Default for NoticeLimits {
    fn default() -> Self {
        Self { scan_max: DECLINES_SCAN_MAX, waiting_max: QUEUE_NOTICES_MAX }
    }
}

/// The surroundings of a step.
#[derive(Clone, Copy, Debug)]
pub struct NoticeContext<'a> {
    /// The tables.
    pub tables: &'a Store,
    /// How many letters wait.
    pub waiting: usize,
    /// The time, on the clock of the queue.
    pub now: Duration,
}

/// A letter to an active member about a decline.
#[derive(Clone, Debug)]
pub struct DeclineNotice {
    /// The letter's id: always the same for the same transaction.
    pub id: Uuid,
    /// Its kind.
    pub kind: NoticeKind,
    /// Its reader, who held the card.
    pub member: Member,
    /// The reader's company.
    pub company: Company,
    /// The card.
    pub card: CardRow,
    /// The transaction that was declined.
    pub transaction: TransactionRow,
}

/// Why a letter was not handed in; the words are for the log.
pub type LetterError = Box<dyn Error + Send + Sync>;

/// Why letters about declines wait.
#[derive(Debug, thiserror::Error)]
pub enum NoticeError {
    /// The tables cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A letter was not handed in.
    #[error("{0}")]
    Letter(LetterError),
    /// The place cannot be read or written.
    #[error("the file of the last decline: {0}")]
    Cursor(io::Error),
}

/// Follows the declines: the place among the transactions, and the cardholders notified so far.
#[derive(Debug)]
pub struct DeclineFollower {
    limits: NoticeLimits,
    cursor: Cursor,
    done: TransactionSeq,
    told: NoticeHistory,
}

impl DeclineFollower {
    /// Resumes at the place of the cursor beside the letters; without a cursor, at the end of
    /// the transactions. The tables show all that is durable by then.
    /// Errors: the tables cannot be read, or the cursor cannot be read or written.
    /// Cost: O(log n); blocks for two syncs where the place is another.
    pub fn open(
        store: Arc<dyn MailStore>,
        tables: &Store,
        limits: NoticeLimits,
        now: Duration,
    ) -> Result<Self, NoticeError> {
        let mut cursor = Cursor::at(store, now);
        let known = cursor.read().map_err(NoticeError::Cursor)?;
        let snapshot = tables.read()?;
        let done = resume(&snapshot, known)?;
        let place = place_of(&snapshot, done)?;
        if known != Some(place) {
            cursor.write(place, now).map_err(NoticeError::Cursor)?;
        }
        Ok(Self { limits, cursor, done, told: NoticeHistory::default() })
    }

    /// The last transaction that was looked at.
    pub const fn followed(&self) -> TransactionSeq {
        self.done
    }

    /// Tells of the declines of the next page. `hand_in` writes a letter and hands it in, and
    /// returns whether there was one.
    /// Errors: the next step goes on with the declines that are left; letters of this one may have
    /// been handed in, and are again.
    /// Cost: O(log n), O(limit) packed rows; two syncs for each letter, and two for the place.
    pub fn step(
        &mut self,
        context: NoticeContext<'_>,
        mut hand_in: impl FnMut(&DeclineNotice) -> Result<bool, LetterError>,
    ) -> Result<StepOutcome, NoticeError> {
        // Links are worth more than notices.
        if context.waiting >= self.limits.waiting_max {
            return Ok(StepOutcome::Idle);
        }
        let page = context.tables.read()?.declines_after(self.done, self.limits.scan_max)?;
        let DeclinePage { declines, next, is_end } = page;
        // The notices count only once all letters are written: a failure has all declines read
        // again, and they would otherwise count as sent.
        let (told, is_told) = tell_all(&self.told, &declines, |decline, kind| {
            // A snapshot for each: letters take their time, and tables do not wait for them.
            match notice(&*context.tables.read()?, decline, kind)? {
                Some(notice) => hand_in(&notice).map_err(NoticeError::Letter),
                None => Ok(false),
            }
        })?;
        let is_new = next > self.done;
        (self.told, self.done) = (told, next);
        if is_told || (is_new && self.cursor.is_old(context.now)) {
            let place = place_of(&*context.tables.read()?, next)?;
            self.cursor.write(place, context.now).map_err(NoticeError::Cursor)?;
        }
        Ok(StepOutcome::of(!is_end))
    }
}

/// The transaction behind which to go on. If the kept place now holds another transaction, or none,
/// the tables have lost their newest part: then it is the last one before the instant.
fn resume(
    snapshot: &Snapshot,
    known: Option<TransactionPlace>,
) -> Result<TransactionSeq, StoreError> {
    let last = snapshot.checkpoint()?.last_transaction;
    match known {
        None => Ok(last),
        Some(TransactionPlace { seq, at: None }) => Ok(seq.min(last)),
        Some(TransactionPlace { seq, at }) if snapshot.transaction_made_at(seq)? == at => Ok(seq),
        Some(TransactionPlace { at: Some(at), .. }) => snapshot.last_transaction_before(at),
    }
}

fn place_of(snapshot: &Snapshot, seq: TransactionSeq) -> Result<TransactionPlace, StoreError> {
    Ok(TransactionPlace { seq, at: snapshot.transaction_made_at(seq)? })
}

/// Tells of declines. Returns the notices counted by then, and whether a letter was written now.
/// Errors: the first one of `tell`; then no notice counts.
fn tell_all<E>(
    before: &NoticeHistory,
    declines: &[DeclineRow],
    mut tell: impl FnMut(&DeclineRow, NoticeKind) -> Result<bool, E>,
) -> Result<(NoticeHistory, bool), E> {
    let (mut told, mut is_told) = (before.clone(), false);
    for decline in declines {
        if let Some(kind) = told.notice(decline) {
            is_told |= tell(decline, kind)?;
        }
    }
    Ok((told, is_told))
}

/// The letter about a decline, for the member who held the card and still takes part.
fn notice(
    snapshot: &Snapshot,
    decline: &DeclineRow,
    kind: NoticeKind,
) -> Result<Option<DeclineNotice>, StoreError> {
    let Some(member) = snapshot.row::<Member>(decline.member)?.filter(Member::takes_part) else {
        return Ok(None);
    };
    let (row, card) = (snapshot.transaction(decline.seq)?, snapshot.card(decline.card)?);
    let company = snapshot.company(member.company)?;
    let (Some(transaction), Some(card), Some(company)) = (row, card, company) else {
        return Ok(None);
    };
    let id = letter_id(transaction.record.id, decline.authorized_at);
    Ok(Some(DeclineNotice { id, kind, member, company, card, transaction }))
}

/// The same for the same transaction, with the time in it that ids of letters have.
fn letter_id(transaction: TransactionId, at: Timestamp) -> Uuid {
    let digest = Sha256::digest(transaction.0.as_bytes());
    let mut tail = [0; 10];
    tail.copy_from_slice(&digest[..10]);
    let millis = u64::try_from(at.0 / 1_000).unwrap_or_default();
    uuid::Builder::from_unix_timestamp_millis(millis, &tail).into_uuid()
}

#[cfg(test)]
mod tests {
    use cardswitch_engine::domain::ids::{CardSlot, MemberSlot};

    use super::*;
    use crate::mail::queue::{QueueError, age};

    #[test]
    fn a_letter_about_a_transaction_always_has_the_same_id() {
        let now = Timestamp::DAY;
        let [one, other] = [1, 2].map(|id| TransactionId(Uuid::from_u128(id)));
        let id = letter_id(one, Timestamp(now));
        assert_eq!(id, letter_id(one, Timestamp(now)));
        assert_ne!(id, letter_id(other, Timestamp(now)));
        assert_eq!(id.get_version_num(), 7);
        assert_eq!(age(id, Duration::from_secs(24 * 3_600 + 5)), Duration::from_secs(5));
    }

    #[test]
    fn a_warning_that_could_not_be_written_is_written_later() {
        let decline = DeclineRow {
            seq: TransactionSeq(1),
            card: CardSlot(1),
            member: MemberSlot(1),
            response_number: 1701,
            authorized_at: Timestamp(0),
        };
        let mut told = NoticeHistory::default();
        assert!(tell_all(&told, &[decline], |_, _| Err(QueueError::Full)).is_err());
        for expected in [vec![NoticeKind::Alert], vec![]] {
            let mut notices = Vec::new();
            let tell = |_: &DeclineRow, kind| {
                notices.push(kind);
                Ok::<_, QueueError>(true)
            };
            let (after, is_told) = tell_all(&told, &[decline], tell).unwrap();
            assert_eq!((&notices, is_told), (&expected, !expected.is_empty()));
            told = after;
        }
    }
}
