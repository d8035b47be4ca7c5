//! Keyed hashes of network messages and requests, for each purpose one of its own.

use std::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher13};

/// The purpose of a message hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum HashPurpose {
    /// Identifies a message among its repeats.
    Duplicate = 1,
    /// Identifies a trace.
    Trace = 2,
    /// Identifies the content, which must not differ under one trace or idempotency key.
    Content = 3,
    /// Names an original by STAN, transmission time, acquirer and card.
    Original = 4,
    /// Names an original by retrieval reference, acquirer and card.
    Retrieval = 5,
    /// Identifies an HTTP request by its idempotency key.
    Idempotency = 6,
}

/// The bytes gathered before they are hashed: all of any ISO 8583 message. Units: bytes.
const WAITING_BYTES_MAX: usize = 256;

/// A keyed hash in the making. Parts are delimited, and absent is not empty.
#[derive(Clone, Debug)]
pub struct MessageHasher {
    sip: SipHasher13,
    /// Parts not yet taken: many short ones are taken together.
    waiting: [u8; WAITING_BYTES_MAX],
    waiting_bytes: usize,
}

impl MessageHasher {
    /// Begins a hash; hashes of different purposes never meet.
    pub(super) fn new(key: &[u8; 16], purpose: HashPurpose) -> Self {
        let sip = SipHasher13::new_with_key(key);
        let mut hasher = Self { sip, waiting: [0; WAITING_BYTES_MAX], waiting_bytes: 0 };
        hasher.write([purpose as u8], b"");
        hasher
    }

    /// Takes the next part.
    #[inline]
    pub fn part(&mut self, part: Option<&[u8]>) -> &mut Self {
        match part {
            None => self.write([0], b""),
            Some(bytes) => {
                let [a, b, c, d, e, f, g, h] = (bytes.len() as u64).to_le_bytes();
                self.write([1, a, b, c, d, e, f, g, h], bytes);
            }
        }
        self
    }

    /// Takes a number as the next part.
    #[inline]
    pub fn number(&mut self, number: u64) -> &mut Self {
        self.part(Some(&number.to_le_bytes()))
    }

    /// The hash in 128 bits.
    #[must_use]
    pub fn finish128(&mut self) -> u128 {
        self.flush();
        self.sip.finish128().as_u128()
    }

    /// The hash in 64 bits.
    #[must_use]
    pub fn finish64(&mut self) -> u64 {
        self.flush();
        self.sip.finish128().as_u64().0
    }

    #[inline]
    fn write<const N: usize>(&mut self, head: [u8; N], bytes: &[u8]) {
        if N + bytes.len() > WAITING_BYTES_MAX - self.waiting_bytes {
            self.flush();
        }
        let end = self.waiting_bytes + N + bytes.len();
        let place = self.waiting.get_mut(self.waiting_bytes..end);
        if let Some((head_place, place)) = place.and_then(<[u8]>::split_first_chunk_mut) {
            *head_place = head;
            copy_short(bytes, place);
            self.waiting_bytes = end;
        } else {
            self.sip.write(&head);
            self.sip.write(bytes);
        }
    }

    fn flush(&mut self) {
        self.sip.write(&self.waiting[..self.waiting_bytes]);
        self.waiting_bytes = 0;
    }
}

/// Copies bytes to a place as long as they are, without a call where there are few of them.
#[inline]
fn copy_short(bytes: &[u8], place: &mut [u8]) {
    // Two copies of a fixed length, which overlap, are cheaper than one of any length.
    if let (1..=16, Some(first), Some(last)) =
        (bytes.len(), bytes.first_chunk::<8>(), bytes.last_chunk::<8>())
    {
        let start = bytes.len() - 8;
        place[..8].copy_from_slice(first);
        place[start..].copy_from_slice(last);
    } else if bytes.len() < 8 {
        place.iter_mut().zip(bytes).for_each(|(place, byte)| *place = *byte);
    } else {
        place.copy_from_slice(bytes);
    }
}
