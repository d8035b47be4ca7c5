//! The network's identification of messages: the keys by which repeats, originals and conflicts are
//! found.
//!
//! The edge derives them (keyed hashes over data elements), the shard only compares them.
//! Source: ISO DE2, 3, 4, 7, 11, 12, 13, 32, 37, 41, 90.

use serde::{Deserialize, Serialize};

use super::ids::Timestamp;
use super::text::LineText;

/// Identifies one message: the same key gets the same reply.
/// INVARIANT: a key covers all elements of a trace, so messages of one key have one trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DuplicateKey(pub u128);

/// Identifies a trace (message class, DE32, DE11, DE7, DE37), which one card and amount own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TraceKey(pub u128);

/// The time for which, and the messages for which, a key finds its first reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DuplicateWindow {
    /// The message carries DE7 or DE37: any message with this key, 24 hours.
    Day,
    /// The message carries neither: only repeats (last MTI digit 1), 10 minutes.
    RepeatsOnly {
        /// Whether this message is a repeat.
        is_repeat: bool,
    },
}

impl DuplicateWindow {
    /// The time for which a reply is kept. Units: microseconds.
    pub const fn lifetime(self) -> i64 {
        match self {
            Self::Day => 24 * Timestamp::HOUR,
            Self::RepeatsOnly { .. } => 10 * Timestamp::MINUTE,
        }
    }

    /// Whether a message of this window may be answered from memory.
    pub const fn may_match(self) -> bool {
        match self {
            Self::Day => true,
            Self::RepeatsOnly { is_repeat } => is_repeat,
        }
    }
}

/// The identification of a request among all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// The message.
    pub key: DuplicateKey,
    /// Its trace, if DE7 or DE37 is present.
    pub trace: Option<TraceKey>,
    /// Hash of the elements that must not differ under one trace: card and amount (or the request's
    /// body).
    pub content: u64,
    /// The window in which a key finds its reply.
    pub window: DuplicateWindow,
}

impl Fingerprint {
    /// The message's own key as indexes have it: its low half.
    #[expect(clippy::cast_possible_truncation, reason = "the low half is what is wanted")]
    pub const fn key_half(&self) -> u64 {
        self.key.0 as u64
    }

    /// The key of its trace as indexes have it: its low half.
    #[expect(clippy::cast_possible_truncation, reason = "the low half is what is wanted")]
    pub const fn trace_half(&self) -> Option<u64> {
        match self.trace {
            Some(trace) => Some(trace.0 as u64),
            None => None,
        }
    }

    /// The keys by which indexes find a kept reply. The first message of a trace has the trace's
    /// alone: nearly all messages are the only one. A later one has its own, so that messages of
    /// one trace do not crowd under one key, and the trace's, which outlives the first.
    pub const fn index_keys(&self, shares_trace: bool) -> (u64, Option<u64>) {
        match self.trace_half() {
            Some(trace) if shares_trace => (self.key_half(), Some(trace)),
            Some(trace) => (trace, None),
            None => (self.key_half(), None),
        }
    }
}

/// The class of a message, by which messages of one key are told apart. Source: ISO 8583, MTI position 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageClass {
    /// It asks or tells of an approval: x1xx.
    Authorization,
    /// It posts: x2xx.
    Financial,
}

/// Names an original by STAN, transmission time, acquirer and card. Source: ISO DE90, DE32, DE2.
///
/// | bit, from the highest | content |
/// |---|---|
/// | 1 | whether the message has no time |
/// | 2 | whether it has no acquirer |
/// | 3 to 22 | its STAN |
/// | the others | a hash of all marks |
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OriginalKey(pub u64);

impl OriginalKey {
    const NO_TIME: u64 = 1 << 63;
    const NO_ACQUIRER: u64 = 1 << 62;
    const ABSENCES: u64 = Self::NO_TIME | Self::NO_ACQUIRER;
    const HASH_BITS: u32 = 42;
    const OF_FINANCIAL: u64 = 1 << 41;
    const OF_AUTHORIZATION: u64 = 1 << 40;

    /// The key of a message of this STAN and this hash of its marks. STANs have six digits at most.
    pub const fn new(stan: u32, hash: u64, has_no_time: bool, has_no_acquirer: bool) -> Self {
        let absent = (has_no_time as u64) << 63 | (has_no_acquirer as u64) << 62;
        let stan = (stan as u64) << Self::HASH_BITS & !Self::ABSENCES;
        Self(absent | stan | hash & ((1 << Self::HASH_BITS) - 1))
    }

    const fn stan(self) -> u64 {
        (self.0 & !Self::ABSENCES) >> Self::HASH_BITS
    }

    /// Whether it leaves out a mark.
    pub const fn is_vague(self) -> bool {
        self.0 & Self::ABSENCES != 0
    }

    /// What a vague key says of a message of this class: the STAN, and what it leaves out.
    pub const fn vague_name(self, class: Option<MessageClass>) -> Self {
        Self(self.0 >> Self::HASH_BITS << Self::HASH_BITS).in_class(class)
    }

    /// The names that vague keys have for the message of this key and class.
    pub fn vague_names(self, class: MessageClass) -> impl Iterator<Item = Self> {
        let absences = [Self::NO_TIME, Self::NO_ACQUIRER, Self::ABSENCES];
        let vaguer = absences.map(|absent| Self(self.0 | absent));
        let names = move |key: Self| [None, Some(class)].map(|class| key.vague_name(class));
        vaguer.into_iter().flat_map(names)
    }

    /// The key of a message of this class; none in particular is the plain one.
    pub const fn in_class(self, class: Option<MessageClass>) -> Self {
        match class {
            None => self,
            Some(MessageClass::Authorization) => Self(self.0 ^ Self::OF_AUTHORIZATION),
            Some(MessageClass::Financial) => Self(self.0 ^ Self::OF_FINANCIAL),
        }
    }

    /// Whether a message of the key `own` may be meant: it is the same, or leaves out a mark which that message
    /// has. Then the STAN alone tells.
    pub const fn may_mean(self, own: Self) -> bool {
        let is_vaguer = self.0 & !own.0 & Self::ABSENCES != 0;
        self.0 == own.0 || is_vaguer && self.stan() == own.stan()
    }
}

/// Names an original by retrieval reference, acquirer and card. Source: ISO DE37, DE32, DE2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RetrievalKey(pub u64);

/// An authorization id as messages carry it: six letters and digits. Source: ISO DE38.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AuthorizationId(pub [u8; 6]);

/// The network's own marks on a message, kept with the transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkTrace {
    /// DE11.
    pub stan: LineText,
    /// DE37.
    pub rrn: LineText,
    /// DE32.
    pub acquirer: LineText,
    /// DE41.
    pub terminal: LineText,
    /// DE7, MMDDhhmmss.
    pub transmission_time: LineText,
    /// The original key by which other messages may name it.
    pub original_key: Option<OriginalKey>,
    /// The retrieval key by which other messages may name it.
    pub retrieval_key: Option<RetrievalKey>,
}
