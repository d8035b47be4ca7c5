//! Letters to cardholders about declined purchases, and warnings of suspicious ones.
//!
//! The task follows the transactions in their order. Its place is in the file `mail/cursor`, which
//! is written after the letters: no letter is lost by a crash. A letter that is written twice has
//! the same id, so it is sent once while it waits, and recognised by its Message-ID afterwards.

use std::io;
use std::sync::Arc;

use cardswitch_engine::domain::company::Company;
use cardswitch_engine::domain::ids::{Timestamp, TransactionId, TransactionSeq};
use cardswitch_engine::store::query::{CardRow, DeclinePage, DeclineRow, TransactionRow};
use cardswitch_engine::store::{Snapshot, StoreError};
use cardswitch_wire::amount::Amount;
use cardswitch_wire::currency::render_currency;
use cardswitch_wire::reference::render_last_four;
use chrono::DateTime;
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;
use uuid::Uuid;

use super::MailDesk;
use super::cursor::{Cursor, TransactionPlace};
use super::decline_cause::cause;
use super::letter::{DeclinedPurchase, Letter};
use super::limits::{DECLINES_INTERVAL, DECLINES_SCAN_MAX, QUEUE_NOTICES_MAX};
use super::notice_history::{Notice, NoticeHistory};
use super::outbox::MailError;

/// Sends letters about declines until the switch stops.
pub(super) async fn run(desk: MailDesk, mut stopped: watch::Receiver<bool>) {
    let mut following = match NoticeProgress::open(&desk) {
        Ok(following) => following,
        Err(error) => return tracing::error!(%error, "nobody is told of declines"),
    };
    loop {
        tokio::select! {
            _ = stopped.wait_for(|is_stopped| *is_stopped) => return,
            () = tokio::time::sleep(DECLINES_INTERVAL) => {}
        }
        let desk = desk.clone();
        let caught_up = tokio::task::spawn_blocking(move || {
            if let Err(error) = following.catch_up(&desk) {
                tracing::error!(%error, "declines are told of later");
            }
            following
        });
        match caught_up.await {
            Ok(back) => following = back,
            // The runtime stops, or it has printed why.
            Err(_) => return,
        }
    }
}

/// The reason why letters about declines cannot be written.
#[derive(Debug, thiserror::Error)]
enum FollowError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Mail(MailError),
    #[error("the file of the last decline: {0}")]
    Cursor(io::Error),
}

/// The place among the transactions, and the cardholders notified so far.
struct NoticeProgress {
    cursor: Cursor,
    done: TransactionSeq,
    told: NoticeHistory,
}

impl NoticeProgress {
    /// Resumes at the place of the cursor; without a cursor, at the end of the transactions.
    fn open(desk: &MailDesk) -> Result<Self, FollowError> {
        let queue = desk.outbox.queue();
        let mut cursor = Cursor::at(Arc::clone(queue.files().disk()), queue.now());
        let known = cursor.read().map_err(FollowError::Cursor)?;
        let done = desk.switch.read_at_once(|snapshot| resume(snapshot, known))?;
        let place = desk.switch.read_at_once(|snapshot| place_of(snapshot, done))?;
        if known != Some(place) {
            cursor.write(place, queue.now()).map_err(FollowError::Cursor)?;
        }
        Ok(Self { cursor, done, told: NoticeHistory::default() })
    }

    /// Sends letters about all declines since.
    /// Errors: the next call goes on with the declines that are left.
    fn catch_up(&mut self, desk: &MailDesk) -> Result<(), FollowError> {
        loop {
            // Links are worth more than notices.
            if desk.outbox.waiting() >= QUEUE_NOTICES_MAX {
                return Ok(());
            }
            let page = desk
                .switch
                .read_at_once(|snapshot| snapshot.declines_after(self.done, DECLINES_SCAN_MAX))?;
            let DeclinePage { declines, next, is_end } = page;
            // The notices count only once all letters are written: a failure has all declines read
            // again, and they would otherwise count as sent.
            let (told, is_told) =
                tell_all(&self.told, &declines, |decline, notice| tell(desk, decline, notice))?;
            let (is_new, now) = (next > self.done, desk.outbox.queue().now());
            (self.told, self.done) = (told, next);
            if is_told || (is_new && self.cursor.is_old(now)) {
                let place = desk.switch.read_at_once(|snapshot| place_of(snapshot, next))?;
                self.cursor.write(place, now).map_err(FollowError::Cursor)?;
            }
            if is_end {
                return Ok(());
            }
        }
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

/// Writes letters about declines. Returns the notices counted by then, and whether a letter was
/// written now.
/// Errors: the first one of `tell`; then no notice counts.
fn tell_all<E>(
    before: &NoticeHistory,
    declines: &[DeclineRow],
    mut tell: impl FnMut(&DeclineRow, Notice) -> Result<bool, E>,
) -> Result<(NoticeHistory, bool), E> {
    let (mut told, mut is_told) = (before.clone(), false);
    for decline in declines {
        if let Some(notice) = told.notice(decline) {
            is_told |= tell(decline, notice)?;
        }
    }
    Ok((told, is_told))
}

/// Hands in the letter about a decline. Returns whether there was one.
fn tell(desk: &MailDesk, decline: &DeclineRow, notice: Notice) -> Result<bool, FollowError> {
    let written = desk.switch.read_at_once(|snapshot| letter(snapshot, desk, decline, notice));
    let Some((letter, transaction)) = written? else { return Ok(false) };
    let id = letter_id(transaction, decline.authorized_at);
    match desk.outbox.hand_in(&letter, id) {
        Ok(()) => Ok(true),
        // It will not be another one later.
        Err(error @ (MailError::Address(_) | MailError::Message(_))) => {
            tracing::warn!(%error, "a cardholder is not told of a decline");
            Ok(false)
        }
        Err(error) => Err(FollowError::Mail(error)),
    }
}

/// The letter about a decline, for the member who held the card and still takes part.
fn letter(
    snapshot: &Snapshot,
    desk: &MailDesk,
    decline: &DeclineRow,
    notice: Notice,
) -> Result<Option<(Letter, TransactionId)>, StoreError> {
    let Some(member) = snapshot.member(decline.member)?.filter(|member| member.takes_part()) else {
        return Ok(None);
    };
    let (row, card) = (snapshot.transaction(decline.seq)?, snapshot.card(decline.card)?);
    let company = snapshot.company(member.company)?;
    let (Some(row), Some(card), Some(company)) = (row, card, company) else { return Ok(None) };
    let (to, id) = (member.email.as_str(), row.record.id);
    let link = desk.urls.page(&format!("/transactions/{}", id.0));
    let letter = match notice {
        Notice::More => Letter::more_declined(to, &desk.urls.page("/transactions")),
        Notice::Decline => Letter::decline(to, &purchase(&row, &card, &company, &link)),
        Notice::Alert => Letter::alert(to, &purchase(&row, &card, &company, &link)),
    };
    Ok(Some((letter, id)))
}

fn purchase<'a>(
    row: &'a TransactionRow,
    card: &'a CardRow,
    company: &Company,
    link: &'a str,
) -> DeclinedPurchase<'a> {
    let record = &row.record;
    let money =
        |minor, currency| format!("{} {}", Amount::new(minor, currency), render_currency(currency));
    let own = money(record.requested, company.currency);
    let amount = match record.foreign {
        Some(foreign) => format!("{} ({own})", money(foreign.amount, foreign.currency)),
        None => own,
    };
    let merchant = record.merchant.as_ref();
    let town = merchant.map(|merchant| {
        let parts = [&merchant.city, &merchant.state, &merchant.country];
        let known = parts.into_iter().map(|part| part.trim()).filter(|part| !part.is_empty());
        known.collect::<Vec<_>>().join(", ")
    });
    let at = DateTime::from_timestamp_micros(record.authorized_at.0).unwrap_or_default();
    DeclinedPurchase {
        cause: cause(record),
        last_four: render_last_four(card.profile.last_four),
        card: &card.profile.texts.description,
        merchant: merchant.map(|merchant| merchant.name.as_str()).unwrap_or_default(),
        town: town.unwrap_or_default(),
        amount,
        time: at.with_timezone(&company.zone).format("%-d %B %Y, %H:%M %Z").to_string(),
        link,
    }
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
    use std::time::Duration;

    use cardswitch_dispatch::mail::queue::{QueueError, age};
    use cardswitch_engine::domain::ids::{CardSlot, MemberSlot};

    use super::*;

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
        assert!(
            tell_all(&told, &[decline], |_, _| Err(MailError::Queue(QueueError::Full))).is_err()
        );
        for expected in [vec![Notice::Alert], vec![]] {
            let mut notices = Vec::new();
            let tell = |_: &DeclineRow, notice| {
                notices.push(notice);
                Ok::<_, MailError>(true)
            };
            let (after, is_told) = tell_all(&told, &[decline], tell).unwrap();
            assert_eq!((&notices, is_told), (&expected, !expected.is_empty()));
            told = after;
        }
    }
}
