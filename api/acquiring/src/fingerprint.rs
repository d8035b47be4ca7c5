//! The fingerprint of an ISO 8583 message, by which two messages are known to be the same.
//!
//! | hash | made of |
//! |---|---|
//! | key | first three digits of the MTI, card, DE3, 4, 7, 11, 12, 13, 32, 37, 41 |
//! | trace | first three digits of the MTI, DE32, 11, 7, 37, where DE7 or DE37 is used |
//! | content | card, DE4, 6, 49, 51, 95: what must not differ under one key or trace |
//!
//! Absent is not empty. The card counts by its hash, whether it came in DE2 or on a track.

use cardswitch_engine::domain::card::PanHash;
use cardswitch_engine::domain::network_key::{
    DuplicateKey, DuplicateWindow, Fingerprint, TraceKey,
};
use cardswitch_iso8583::{Message, Mti};

use cardswitch_secrets::{HashPurpose, Secrets};

use crate::mapping::marks_of;

const KEY_ELEMENTS: [u8; 9] = [3, 4, 7, 11, 12, 13, 32, 37, 41];
const TRACE_ELEMENTS: [u8; 4] = [32, 11, 7, 37];
const CONTENT_ELEMENTS: [u8; 5] = [4, 6, 49, 51, 95];

/// The identity of a message among its repeats.
pub(crate) fn fingerprint_of(
    message: &Message<'_>,
    secrets: &Secrets,
    card: PanHash,
) -> Fingerprint {
    fingerprint_as(message.mti(), message, secrets, card)
}

/// The identity of the request that an advice stands for. None without a trace: then only a repeat is
/// known by it, and the advice is none.
pub(crate) fn request_fingerprint_of(
    message: &Message<'_>,
    secrets: &Secrets,
    card: PanHash,
) -> Option<Fingerprint> {
    let fingerprint = fingerprint_as(Mti::AUTHORIZATION_REQUEST, message, secrets, card);
    fingerprint.trace.is_some().then_some(fingerprint)
}

/// The identity of a message if it is of this type.
fn fingerprint_as(
    mti: Mti,
    message: &Message<'_>,
    secrets: &Secrets,
    card: PanHash,
) -> Fingerprint {
    let mti = mti.bytes();
    let hasher = |purpose, elements: &[u8]| {
        let mut hasher = secrets.message_hasher(purpose);
        hasher.part(mti.get(..3));
        elements.iter().for_each(|de| {
            hasher.part(message.get(*de));
        });
        hasher
    };
    let is_traced = marks_of(message).have_trace();
    let mut content = secrets.message_hasher(HashPurpose::Content);
    CONTENT_ELEMENTS.iter().for_each(|de| {
        content.part(message.get(*de));
    });
    Fingerprint {
        key: DuplicateKey(hasher(HashPurpose::Duplicate, &KEY_ELEMENTS).number(card.0).finish128()),
        trace: is_traced.then(|| TraceKey(hasher(HashPurpose::Trace, &TRACE_ELEMENTS).finish128())),
        content: content.number(card.0).finish64(),
        window: if is_traced {
            DuplicateWindow::Day
        } else {
            DuplicateWindow::RepeatsOnly { is_repeat: message.mti().is_repeat() }
        },
    }
}
