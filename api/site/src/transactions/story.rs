//! The history of a transaction, in order: amounts requested and added, amounts posted, and the
//! amount held now.
//!
//! Lines are not found by their transaction, but they follow each other: from the one posted when the
//! transaction was first posted, the next ones are looked through, up to a bound.

use cardswitch_engine::decision::IncrementDecision;
use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_engine::domain::later_message::{LaterMessage, LaterMessageKind};
use cardswitch_engine::domain::money::Minor;
use cardswitch_engine::domain::posting::StatementLine;
use cardswitch_engine::domain::transaction::{
    TransactionFlags, TransactionKind, TransactionProgress, TransactionState, TransferDirection,
};
use cardswitch_engine::store::StoreError;
use cardswitch_engine::store::query::{LineFilter, LineSpan, Order, Page, TransactionRow};
use cardswitch_v1::routes::view::View;

use super::decision::{POSTED_ONLY, approved_part, is_partial, is_posted_only};
use super::words::positive;
use crate::words::{Moment, ending_words, moment, money, shown_kind};

/// How many lines are looked through for those of one transaction.
const LINES_LOOKED_AT_MAX: usize = 1_000;
const LINES_AT_A_TIME: usize = 100;

/// A step of the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoryStep {
    /// The time; none for the present state.
    pub(super) at: Option<Moment>,
    /// The event, in words.
    pub(super) what: String,
    pub(super) amount: String,
}

/// The lines of a transaction.
struct PostedLines {
    lines: Vec<StatementLine>,
    is_whole: bool,
}

/// The history of a transaction.
/// Errors: the tables cannot be read.
/// Cost: reads up to `LINES_LOOKED_AT_MAX` lines of the account.
pub(super) fn story(
    view: &View<'_>,
    row: &TransactionRow,
    increments: &[IncrementDecision],
) -> Result<Vec<StoryStep>, StoreError> {
    let posted = posted_lines(view, row)?;
    let amount = |minor| money(minor, view.company.currency);
    let mut told: Vec<(Timestamp, String, String)> = Vec::new();
    let (requested, part) = (amount(row.record.requested), approved_part(view, row));
    let opened = match part {
        _ if !is_partial(row) => requested,
        Some(part) => format!("{} of {requested} requested", amount(part)),
        None => format!("part of {requested} requested"),
    };
    if !is_posted_only(row) {
        told.push((row.record.authorized_at, opening(row).to_owned(), opened));
    }
    told.extend(increments.iter().map(|added| {
        let verdict = if added.failed_rules.is_empty() { "approved" } else { "declined" };
        (added.decided_at, format!("Incremental authorization {verdict}"), amount(added.amount))
    }));
    told.extend(posted.lines.iter().map(|line| {
        let what = format!("{} (statement line {})", posting(row, line.amount), line.number);
        (line.posted_at, what, amount(positive(line.amount)))
    }));
    told.sort_by_key(|(at, ..)| *at);
    let mut steps: Vec<_> = told
        .into_iter()
        .map(|(at, what, amount)| StoryStep {
            at: Some(moment(at, view.company.zone)),
            what,
            amount,
        })
        .collect();
    if !posted.is_whole {
        steps.push(StoryStep::now("See statements for more", String::new()));
    }
    let approved = if is_partial(row) { part } else { Some(row.record.requested) };
    let reversed = approved.map_or(Minor::ZERO, |approved| given_back(row, approved, increments));
    if reversed > Minor::ZERO {
        steps.push(StoryStep::now("Reversed before settlement", amount(reversed)));
    }
    steps.extend(standing(view, row));
    Ok(steps)
}

impl StoryStep {
    fn now(what: impl Into<String>, amount: String) -> Self {
        Self { at: None, what: what.into(), amount }
    }
}

/// The part of a hold that reversals gave back before a final presentment, where what is kept tells it
/// exactly; zero elsewhere.
fn given_back(row: &TransactionRow, approved: Minor, increments: &[IncrementDecision]) -> Minor {
    let TransactionProgress { state, held, later, .. } = &row.progress;
    let added = increments.iter().filter(|added| added.failed_rules.is_empty());
    let (kept, others): (Vec<&LaterMessage>, Vec<&LaterMessage>) =
        later.as_slice().iter().partition(|message| message.kind == LaterMessageKind::Increment);
    // Of very many increments the oldest are kept no more.
    if row.record.kind != TransactionKind::Purchase || kept.len() != added.clone().count() {
        return Minor::ZERO;
    }
    let added: Minor = added.map(|added| added.amount).sum();
    let left: Minor = kept.iter().map(|message| message.left).sum();
    match (state, &others[..]) {
        (TransactionState::Pending, []) => approved + added - held.total(),
        // Reversals take from increments first: while some is left, they took from these only.
        (TransactionState::Completed, [last]) if left > Minor::ZERO && settles(row, last) => {
            added - left
        }
        _ => Minor::ZERO,
    }
}

/// Whether a message was the final presentment of an open hold.
fn settles(row: &TransactionRow, message: &LaterMessage) -> bool {
    let TransactionProgress { flags, is_final, .. } = &row.progress;
    let is_late = [TransactionFlags::FORCED, TransactionFlags::HOLD_EXPIRED]
        .into_iter()
        .any(|flag| flags.contains(flag));
    matches!(message.kind, LaterMessageKind::Presentment(_)) && *is_final && !is_late
}

const fn opening(row: &TransactionRow) -> &'static str {
    let is_approved = row.record.response_code.is_approved();
    match row.record.kind {
        TransactionKind::Refund => "Refunded",
        TransactionKind::BankTransfer => "Deposit initiated",
        TransactionKind::BankWithdrawal if is_approved => "Withdrawal sent",
        TransactionKind::Verification if is_approved => "Verified",
        _ if is_approved => "Authorized",
        _ => "Declined",
    }
}

fn posting(row: &TransactionRow, amount: Minor) -> &'static str {
    let is_out = amount < Minor::ZERO;
    let goes_out = match row.record.kind.transfer_direction() {
        Some(TransferDirection::Deposit) => false,
        Some(TransferDirection::Withdrawal) => true,
        None => row.record.kind != TransactionKind::Refund,
    };
    match row.record.kind.transfer_direction() {
        _ if is_out == goes_out && is_posted_only(row) => POSTED_ONLY,
        _ if is_out == goes_out => "Posted",
        Some(_) => "Returned",
        None => "Reversed",
    }
}

/// How it stands now, where that is more than its state.
fn standing(view: &View<'_>, row: &TransactionRow) -> Vec<StoryStep> {
    let progress = &row.progress;
    let amount = |minor| money(minor, view.company.currency);
    let mut steps = Vec::new();
    let held = progress.held.total();
    if held > Minor::ZERO {
        let until = moment(progress.hold_expires_at, view.company.zone).words;
        let what = match progress.hold_expires_at {
            Timestamp::MAX => "On hold".to_owned(),
            _ => format!("On hold until {until}"),
        };
        steps.push(StoryStep::now(what, amount(held)));
    }
    let is_refunded = progress.refunded > Minor::ZERO && row.record.kind != TransactionKind::Refund;
    // Refunds of more than was posted give back no more of it: the sum of them is another one.
    if is_refunded && progress.refunded >= progress.posted {
        steps.push(StoryStep::now("Refunded in full", String::new()));
    } else if is_refunded {
        steps.push(StoryStep::now("Refunded so far", amount(progress.refunded)));
    }
    if progress.state == TransactionState::Canceled
        && shown_kind(row) != TransactionKind::Verification
    {
        let what = format!("Canceled: {}", ending_words(row));
        steps.push(StoryStep::now(what, String::new()));
    }
    steps
}

fn posted_lines(view: &View<'_>, row: &TransactionRow) -> Result<PostedLines, StoreError> {
    let none = PostedLines { lines: Vec::new(), is_whole: true };
    let Some(posted_at) = row.progress.posted_at else { return Ok(none) };
    let account = row.record.account;
    let first =
        Page { created_after: Some(posted_at), order: Order::OldestFirst, ..Page::first(1) };
    let listed = view.snapshot.list_statement_lines(account, &LineFilter::default(), &first)?;
    let Some(first) = listed.rows.first().map(|line| line.number) else { return Ok(none) };
    let mut span = LineSpan::new(account, first..first.saturating_add(listed.count));
    let later = row.progress.later.as_slice().iter();
    let presented =
        later.filter(|message| matches!(message.kind, LaterMessageKind::Presentment(_))).count();
    let (mut lines, mut sum, mut outgoing) = (Vec::new(), Minor::ZERO, 0);
    for _ in 0..LINES_LOOKED_AT_MAX / LINES_AT_A_TIME {
        let next = view.snapshot.next_lines(&mut span, LINES_AT_A_TIME)?;
        let is_last = next.len() < LINES_AT_A_TIME;
        for line in next.into_iter().filter(|line| line.transaction == row.record.seq) {
            sum += line.amount;
            outgoing += usize::from(!line.amount.is_positive());
            lines.push(line);
        }
        // Between a presentment and its reversal the sum is right as well.
        let are_all = -sum == row.progress.posted && outgoing >= presented;
        let is_whole = is_last || (are_all && !lines.is_empty());
        if is_whole {
            return Ok(PostedLines { lines, is_whole });
        }
    }
    Ok(PostedLines { lines, is_whole: false })
}
