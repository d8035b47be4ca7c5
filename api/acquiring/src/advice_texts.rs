//! Texts of messages that tell what has happened already: advices, reversals, presentments, refunds.
//!
//! Refusing such a message for a character in a merchant's name would lose its money. Each character
//! that steers becomes a space instead, and the log says so. Requests are refused: ISO 8583 code 30,
//! HTTP 400. Both doors judge here.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use cardswitch_iso8583::{DecodeError, DecodeFault, Mti, with_plain_texts};

use super::mapping::REFUND;

/// The number of messages with such texts since the start.
static SPACED: AtomicU64 = AtomicU64::new(0);

/// Says in the log that texts were changed, ever more seldom: a peer must not fill the log.
pub fn note_spaced(source: &dyn fmt::Display) {
    let messages = SPACED.fetch_add(1, Ordering::Relaxed) + 1;
    if messages.is_power_of_two() {
        tracing::warn!(%source, messages, "characters that steer became spaces in a message's texts");
    }
}

/// The frame with plain texts, if its message tells of the past and only its texts kept it from
/// being read.
pub(crate) fn salvage(frame: &[u8], error: &DecodeError<'_>) -> Option<Vec<u8>> {
    let readable = error.readable.as_ref()?;
    let is_refund = readable.get(3).is_some_and(|code| code.starts_with(REFUND));
    let has_bad_text = tells(readable.mti(), is_refund) && error.fault == DecodeFault::BadContent;
    has_bad_text.then(|| with_plain_texts(frame)).flatten()
}

/// Whether a message of this type tells what has happened: a refund does, also where a 0200 asks for
/// it. Source: spec "Network".
fn tells(mti: Mti, is_refund: bool) -> bool {
    match (mti.class(), mti.function()) {
        (1 | 2, 2) | (4, 0 | 2) => true,
        (2, 0) => is_refund,
        _ => false,
    }
}
