//! Writes rows; `transaction.rs` gives their layout and reads them.

use super::answer::RowAnswer;
use super::cursor::{digits_value, push_text};
use super::facts::append_facts;
use super::progress::append_progress;
use super::transaction::{
    ANSWER, ANSWER_BYTES, ANSWER_IS_REPEAT, ANSWER_REPEATS_ONLY, ANSWER_SHARES_TRACE, ANSWER_TRACE,
    BANK_ACCOUNT, CARD, FACTS, FIRST_DIMENSION, FOREIGN, HEAD_BYTES, ID_TIME, MCC, MEMBER,
    MERCHANT, ORIGINAL_KEY, PROGRESS_AT, REFUND_OF, RETRIEVAL_KEY, ROW_FORMAT, RRN_DIGITS, RRN_LEN,
    STAN_DIGITS, STAN_LEN, TIME_DIGITS, TIME_LEN, TransactionView, time_of_authorization,
};
use crate::domain::ids::TransactionId;
use crate::domain::merchant::{Mcc, Merchant};
use crate::domain::network_key::{DuplicateWindow, Fingerprint, NetworkTrace};
use crate::domain::transaction::{BankAccount, TransactionProgress, TransactionRecord};

/// Appends a transaction's row. Cost: O(bytes), no allocation beyond the vector's own.
pub fn append_row(
    bytes: &mut Vec<u8>,
    record: &TransactionRecord,
    progress: &TransactionProgress,
    answer: Option<&RowAnswer>,
) {
    let start = bytes.len();
    let numbers = TraceNumbers::of(&record.trace);
    let present = present_fields(record, answer, &numbers);
    bytes.extend_from_slice(&head(record, present));
    if let Some(answer) = answer {
        append_answer(bytes, answer);
    }
    for dimension in record.dimensions.iter().flatten() {
        bytes.extend_from_slice(dimension.0.as_bytes());
    }
    if present & ID_TIME != 0 {
        bytes.extend_from_slice(&id_time(record.id).to_le_bytes()[..6]);
    }
    if let Some(refunded) = record.refund_of {
        bytes.extend_from_slice(&refunded.0.to_le_bytes());
    }
    if let Some(foreign) = record.foreign {
        bytes.extend_from_slice(&foreign.amount.0.to_le_bytes());
        bytes.extend_from_slice(&foreign.currency.0.to_le_bytes());
    }
    if let Some(merchant) = &record.merchant {
        append_merchant(bytes, merchant);
    }
    if let Some(BankAccount { description, name, number }) = &record.bank_account {
        [description, name, number].into_iter().for_each(|text| push_text(bytes, text));
    }
    append_trace(bytes, &record.trace, &numbers);
    if let Some(facts) = &record.facts {
        append_facts(bytes, facts);
    }
    begin_progress(bytes, start);
    append_progress(bytes, progress);
}

/// Appends the row of `view` with a changed progress.
pub fn append_row_with_progress(
    bytes: &mut Vec<u8>,
    view: &TransactionView<'_>,
    progress: &TransactionProgress,
) {
    let start = bytes.len();
    bytes.extend_from_slice(&view.bytes[..view.progress_at()]);
    begin_progress(bytes, start);
    append_progress(bytes, progress);
}

/// Writes the end of `bytes` as the start of the progress into the row that began at `start`.
fn begin_progress(bytes: &mut [u8], start: usize) {
    // INVARIANT: every text of a row comes from a request of bounded size.
    let place = u32::try_from(bytes.len() - start).expect("a row is shorter than 4 GiB");
    bytes[start + PROGRESS_AT..start + PROGRESS_AT + 4].copy_from_slice(&place.to_le_bytes());
}

/// The trace's fields of digits as numbers; none for a field that is not such a text.
struct TraceNumbers {
    stan: Option<u64>,
    rrn: Option<u64>,
    time: Option<u64>,
}

impl TraceNumbers {
    fn of(trace: &NetworkTrace) -> Self {
        let number = |text: &str, len: usize, limit: u64| {
            if text.len() == len { digits_value(text, limit) } else { None }
        };
        Self {
            stan: number(&trace.stan, STAN_LEN, 1 << 24),
            rrn: number(&trace.rrn, RRN_LEN, 1 << 40),
            time: number(&trace.transmission_time, TIME_LEN, 1 << 32),
        }
    }
}

fn present_fields(
    record: &TransactionRecord,
    answer: Option<&RowAnswer>,
    numbers: &TraceNumbers,
) -> u32 {
    let window = answer.map(|answer| answer.fingerprint.window);
    let repeats_only = |window| matches!(window, Some(DuplicateWindow::RepeatsOnly { .. }));
    let is_repeat = Some(DuplicateWindow::RepeatsOnly { is_repeat: true });
    let mut dimension = FIRST_DIMENSION;
    let mut present = 0;
    for found in &record.dimensions {
        present |= dimension * u32::from(found.is_some());
        dimension <<= 1;
    }
    let fields = [
        (CARD, record.card.is_some()),
        (MEMBER, record.member.is_some()),
        (ORIGINAL_KEY, record.trace.original_key.is_some()),
        (RETRIEVAL_KEY, record.trace.retrieval_key.is_some()),
        (ANSWER, answer.is_some()),
        (ANSWER_TRACE, answer.is_some_and(|answer| answer.fingerprint.trace.is_some())),
        (ANSWER_REPEATS_ONLY, repeats_only(window)),
        (ANSWER_SHARES_TRACE, answer.is_some_and(|answer| answer.shares_trace)),
        (ANSWER_IS_REPEAT, window == is_repeat),
        (ID_TIME, id_time(record.id) != time_of_authorization(record.authorized_at)),
        (REFUND_OF, record.refund_of.is_some()),
        (FOREIGN, record.foreign.is_some()),
        (MERCHANT, record.merchant.is_some()),
        (MCC, record.merchant.as_ref().is_some_and(|merchant| merchant.mcc.is_some())),
        (BANK_ACCOUNT, record.bank_account.is_some()),
        (STAN_DIGITS, numbers.stan.is_some()),
        (RRN_DIGITS, numbers.rrn.is_some()),
        (TIME_DIGITS, numbers.time.is_some()),
        (FACTS, record.facts.is_some()),
    ];
    fields.iter().fold(present, |bits, (bit, is)| bits | (bit * u32::from(*is)))
}

/// The milliseconds in the upper 48 bits of a transaction's id.
fn id_time(id: TransactionId) -> u64 {
    id.0.as_u64_pair().0 >> 16
}

fn head(record: &TransactionRecord, present: u32) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    let (id_high, id_low) = record.id.0.as_u64_pair();
    let card = record.card.map_or(0, |slot| slot.0);
    let member = record.member.map_or(0, |slot| slot.0);
    let original = record.trace.original_key.map_or(0, |key| key.0);
    let retrieval = record.trace.retrieval_key.map_or(0, |key| key.0);
    head[0] = ROW_FORMAT;
    head[1] = record.kind as u8;
    head[2..4].copy_from_slice(&record.response_code.number().to_le_bytes());
    head[4..8].copy_from_slice(&present.to_le_bytes());
    head[8..16].copy_from_slice(&record.seq.0.to_le_bytes());
    head[16..24].copy_from_slice(&record.authorized_at.0.to_le_bytes());
    head[24..28].copy_from_slice(&record.company.0.to_le_bytes());
    head[28..32].copy_from_slice(&record.account.0.to_le_bytes());
    head[32..36].copy_from_slice(&card.to_le_bytes());
    head[36..40].copy_from_slice(&member.to_le_bytes());
    head[40..48].copy_from_slice(&original.to_le_bytes());
    head[48..56].copy_from_slice(&retrieval.to_le_bytes());
    head[56..64].copy_from_slice(&record.requested.0.to_le_bytes());
    head[68..72].copy_from_slice(&record.failed_rules.bits().to_le_bytes());
    head[72..80].copy_from_slice(&id_low.to_le_bytes());
    head[80..82].copy_from_slice(&id_high.to_le_bytes()[..2]);
    head[82] = record.sub_reason as u8;
    head
}

fn append_answer(bytes: &mut Vec<u8>, answer: &RowAnswer) {
    let Fingerprint { key, trace, content, .. } = answer.fingerprint;
    let mut fixed = [0; ANSWER_BYTES];
    fixed[..8].copy_from_slice(&content.to_le_bytes());
    fixed[8..16].copy_from_slice(&answer.allowance_balance.0.to_le_bytes());
    fixed[16..18].copy_from_slice(&answer.currency.0.to_le_bytes());
    fixed[18..34].copy_from_slice(&key.0.to_le_bytes());
    bytes.extend_from_slice(&fixed);
    if let Some(trace) = trace {
        bytes.extend_from_slice(&trace.0.to_le_bytes());
    }
}

pub(super) fn append_merchant(bytes: &mut Vec<u8>, merchant: &Merchant) {
    let Merchant { mid, mcc, card_acceptor_id, name, city, state, country, zip } = merchant;
    bytes.extend_from_slice(&mid.to_le_bytes());
    if let Some(Mcc(code)) = mcc {
        bytes.extend_from_slice(&code.to_le_bytes());
    }
    for text in [card_acceptor_id, name, city, state, country, zip] {
        push_text(bytes, text);
    }
}

fn append_trace(bytes: &mut Vec<u8>, trace: &NetworkTrace, numbers: &TraceNumbers) {
    let mut digits = |number: Option<u64>, len: usize, text: &str| match number {
        Some(number) => bytes.extend_from_slice(&number.to_le_bytes()[..len]),
        None => push_text(bytes, text),
    };
    digits(numbers.stan, 3, &trace.stan);
    digits(numbers.rrn, 5, &trace.rrn);
    digits(numbers.time, 4, &trace.transmission_time);
    push_text(bytes, &trace.acquirer);
    push_text(bytes, &trace.terminal);
}
