//! Letters to cardholders about declined purchases: the task that drives
//! `cardswitch_dispatch::mail::declines`, and the words of its letters.

use std::sync::Arc;

use cardswitch_dispatch::mail::declines::{
    DeclineFollower, DeclineNotice, LetterError, NoticeContext, NoticeError, NoticeLimits,
};
use cardswitch_dispatch::mail::notice_history::NoticeKind;
use cardswitch_engine::steps::StepOutcome;
use cardswitch_wire::amount::Amount;
use cardswitch_wire::currency::render_currency;
use cardswitch_wire::reference::render_last_four;
use chrono::DateTime;
use tokio::sync::watch;

use super::MailDesk;
use super::decline_cause::cause;
use super::letter::{DeclinedPurchase, Letter};
use super::limits::DECLINES_INTERVAL;

/// Sends letters about declines until the switch stops.
pub(super) async fn run(desk: MailDesk, mut stopped: watch::Receiver<bool>) {
    let mut follower = None;
    loop {
        let desk = desk.clone();
        let caught_up = tokio::task::spawn_blocking(move || {
            let mut caught_up = || match &mut follower {
                Some(follower) => catch_up(follower, &desk),
                None => open(&desk).map(|opened| follower = Some(opened)),
            };
            if let Err(error) = caught_up() {
                tracing::error!(%error, "declines are told of later");
            }
            follower
        });
        match caught_up.await {
            Ok(back) => follower = back,
            // The runtime stops, or it has printed why.
            Err(_) => return,
        }
        tokio::select! {
            _ = stopped.wait_for(|is_stopped| *is_stopped) => return,
            () = tokio::time::sleep(DECLINES_INTERVAL) => {}
        }
    }
}

fn open(desk: &MailDesk) -> Result<DeclineFollower, NoticeError> {
    let queue = &desk.outbox.queue;
    let (store, tables) = (Arc::clone(&queue.queue.store), &desk.switch.engine.store);
    DeclineFollower::open(store, tables, NoticeLimits::default(), queue.now())
}

/// Sends letters about all declines since.
fn catch_up(follower: &mut DeclineFollower, desk: &MailDesk) -> Result<(), NoticeError> {
    let (tables, outbox) = (&desk.switch.engine.store, &desk.outbox);
    let context = || NoticeContext { tables, waiting: outbox.waiting(), now: outbox.queue.now() };
    while follower.step(context(), |notice| hand_in(desk, notice))? == StepOutcome::Worked {}
    Ok(())
}

/// Hands in the letter about a decline. Returns whether it goes anywhere.
fn hand_in(desk: &MailDesk, notice: &DeclineNotice) -> Result<bool, LetterError> {
    match desk.outbox.hand_in_notice(&letter(desk, notice), notice.id) {
        Ok(()) => Ok(true),
        // It will not be another one later.
        Err(error) if error.is_of_letter() => {
            tracing::warn!(%error, "a cardholder is not told of a decline");
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}

fn letter(desk: &MailDesk, notice: &DeclineNotice) -> Letter {
    let (to, id) = (notice.member.email.as_str(), notice.transaction.record.id);
    let link = desk.urls.page(&format!("/transactions/{}", id.0));
    match notice.kind {
        NoticeKind::More => Letter::more_declined(to, &desk.urls.page("/transactions")),
        NoticeKind::Decline => Letter::decline(to, &purchase(notice, &link)),
        NoticeKind::Alert => Letter::alert(to, &purchase(notice, &link)),
    }
}

fn purchase<'a>(notice: &'a DeclineNotice, link: &'a str) -> DeclinedPurchase<'a> {
    let DeclineNotice { company, card, transaction, .. } = notice;
    let record = &transaction.record;
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
