//! File descriptors: how many the system grants, and how connections share them.
//!
//! Each connection takes one, and so do the files of the engine. If they run out, no door accepts
//! any more, and nobody learns of it: health is asked over a connection, too.
//!
//! | part | who |
//! |---|---|
//! | 12/32 | HTTP: the API, the site, the network's HTTP door, event streams |
//! | 12/32 | ISO 8583 |
//! | 1/32 | the address for operators |
//! | 3/32 | webhooks on their way out, and look-ups of their receivers |
//! | 4/32 | everything else: files, mail, the socket for commands |
//!
//! INVARIANT: the parts of all are no more than there are, so a door that is full leaves every other open. A part
//! never grows beyond what the room that has it can use.

use std::num::NonZeroUsize;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// How many HTTP connections there are at most; further ones wait to be accepted.
pub const HTTP_CONNECTIONS_MAX: usize = 10_000;
/// How many ISO 8583 connections there are at most; further ones are closed at once.
pub const ISO8583_CONNECTIONS_MAX: usize = 16_384;
/// How many connections to the address for operators there are at most; the oldest makes room.
pub const OPERATOR_CONNECTIONS_MAX: usize = 64;
/// How many event streams of a kind there are at most.
pub const STREAMS_MAX: usize = 1_000;
/// How many pages at most wait for an event: a quarter of all requests at work.
pub const WAITING_PAGES_MAX: usize = 256;
/// How many requests to receivers of webhooks, and look-ups of these, there are at most.
const SENDS_MAX: SendBounds =
    SendBounds { healthy: 512, failing: 256, lookups: 128, later_lookups: 32 };

/// How many more there are at most that a company asks for: examples, and messages sent once more.
pub const ASKED_SENDS_MAX: usize = 16;
/// So many are enough for all of these.
const SENDS_FULL: usize = 1_024;

/// The number of parts that the descriptors are divided into.
const PARTS: usize = 32;
const HTTP_PARTS: usize = 12;
const ISO8583_PARTS: usize = 12;
const OPERATOR_PARTS: usize = 1;
const SEND_PARTS: usize = 3;
const OTHER_PARTS: usize = 4;

const _: () = assert!(
    HTTP_PARTS + ISO8583_PARTS + OPERATOR_PARTS + SEND_PARTS + OTHER_PARTS == PARTS,
    "descriptors are given away twice"
);

/// Below so many, somebody has set a limit that is too low for a switch at work.
const FEW: usize = 1_024;

/// How many connections a door has, and how many of them one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// All.
    pub max: usize,
    /// The most connections of one address, or of one IPv6 /64.
    pub per_address_max: usize,
}

impl ConnectionLimits {
    /// So many; one address has `per_address`, and half of them where that is not set.
    pub fn new(max: usize, per_address: Option<NonZeroUsize>) -> Self {
        let per_address_max = per_address.map_or(max.div_ceil(2), NonZeroUsize::get);
        Self { max, per_address_max: per_address_max.min(max) }
    }
}

/// How many requests to receivers of webhooks are under way, beside the few that a company asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendBounds {
    /// To receivers that take them.
    pub healthy: usize,
    /// To receivers that did not take the last.
    pub failing: usize,
    /// Names of receivers that are looked up for the first try of a message. Each takes a thread
    /// until the system answers, even after its asker gave up.
    pub lookups: usize,
    /// Names looked up for later tries: names that nobody knows must not keep others from being looked up.
    pub later_lookups: usize,
}

impl Default for SendBounds {
    fn default() -> Self {
        SENDS_MAX
    }
}

impl SendBounds {
    /// All that there may be, for which `descriptors` are enough.
    fn within(descriptors: usize) -> Self {
        let SendBounds { healthy, failing, lookups, later_lookups } = SENDS_MAX;
        let all = healthy + failing + lookups + later_lookups;
        let part = |max: usize| max.min(max * descriptors / all).max(1);
        Self {
            healthy: part(healthy),
            failing: part(failing),
            lookups: part(lookups),
            later_lookups: part(later_lookups),
        }
    }
}

/// How many connections one address may have; half of all where absent.
#[derive(Clone, Copy, Debug, Default)]
pub struct AddressLimits {
    /// Over HTTP.
    pub http: Option<NonZeroUsize>,
    /// Over ISO 8583.
    pub iso8583: Option<NonZeroUsize>,
}

/// The share of the descriptors that each room has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescriptorShares {
    /// Connections over HTTP.
    pub http: ConnectionLimits,
    /// Connections over ISO 8583.
    pub iso8583: ConnectionLimits,
    /// Connections to the address for operators.
    pub operators_max: usize,
    /// Streams of the overview; of events as many again.
    pub streams_max: usize,
    /// Pages that wait for events.
    pub waiting_pages_max: usize,
    /// Webhooks on their way.
    pub sends: SendBounds,
}

impl Default for DescriptorShares {
    fn default() -> Self {
        Self::of(usize::MAX / PARTS, AddressLimits::default())
    }
}

impl DescriptorShares {
    /// The shares of so many.
    pub fn of(descriptors: usize, per_address: AddressLimits) -> Self {
        let part = |parts: usize, max: usize| (descriptors / PARTS * parts).clamp(1, max);
        let http_max = part(HTTP_PARTS, HTTP_CONNECTIONS_MAX);
        let iso8583_max = part(ISO8583_PARTS, ISO8583_CONNECTIONS_MAX);
        let sends_max = part(SEND_PARTS, SENDS_FULL);
        Self {
            http: ConnectionLimits::new(http_max, per_address.http),
            iso8583: ConnectionLimits::new(iso8583_max, per_address.iso8583),
            operators_max: part(OPERATOR_PARTS, OPERATOR_CONNECTIONS_MAX),
            // Streams are connections over HTTP: both kinds together leave half of these to requests.
            streams_max: (http_max / 4).clamp(1, STREAMS_MAX),
            waiting_pages_max: (http_max / 8).clamp(1, WAITING_PAGES_MAX),
            sends: SendBounds::within(sends_max.saturating_sub(ASKED_SENDS_MAX)),
        }
    }
}

/// Raises the soft limit of this process to the hard one, since only programs of old have a use for a lower one, and
/// returns how many descriptors there may be.
pub fn raise_limit() -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    if let Err(error) = &raised {
        tracing::warn!(%error, "the limit of file descriptors cannot be raised");
    }
    let granted = if raised.is_ok() { maximum } else { current };
    // None is no limit.
    let descriptors =
        granted.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX));
    if descriptors < FEW {
        tracing::warn!(descriptors, "few file descriptors: few connections");
    }
    descriptors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(descriptors: usize) -> DescriptorShares {
        DescriptorShares::of(descriptors, AddressLimits::default())
    }

    /// All that may be open at a time; streams are connections over HTTP.
    fn all(shares: &DescriptorShares) -> usize {
        let SendBounds { healthy, failing, lookups, later_lookups } = shares.sends;
        let sends = healthy + failing + lookups + later_lookups + ASKED_SENDS_MAX;
        shares.http.max + shares.iso8583.max + shares.operators_max + sends
    }

    #[test]
    fn shares_leave_some_to_files_however_many_there_are() {
        for descriptors in [512, 1_000, 1_024, 4_096, 20_000, 65_536, 1 << 20, usize::MAX] {
            let shares = shares(descriptors);
            let left = descriptors - all(&shares);
            assert!(left >= descriptors / PARTS * OTHER_PARTS, "{descriptors}: {shares:?}");
            assert!(2 * shares.streams_max <= shares.http.max, "{descriptors}: {shares:?}");
            assert!(shares.waiting_pages_max <= shares.streams_max, "{descriptors}: {shares:?}");
        }
    }

    #[test]
    fn shares_are_those_of_the_tables() {
        let rows = [
            (1_024, (384, 192), (384, 192), 32, 96, 48),
            (4_096, (1_536, 768), (1_536, 768), 64, 384, 192),
            (65_536, (10_000, 5_000), (16_384, 8_192), 64, 1_000, 256),
            (usize::MAX, (10_000, 5_000), (16_384, 8_192), 64, 1_000, 256),
        ];
        let pair = |bound: ConnectionLimits| (bound.max, bound.per_address_max);
        for (descriptors, http, iso8583, operators, streams, pages) in rows {
            let shares = shares(descriptors);
            assert_eq!((pair(shares.http), pair(shares.iso8583)), (http, iso8583), "{descriptors}");
            assert_eq!(shares.operators_max, operators, "{descriptors}");
            assert_eq!((shares.streams_max, shares.waiting_pages_max), (streams, pages));
        }
        assert_eq!(shares(65_536).sends, SENDS_MAX);
        assert_eq!(shares(1_024).sends.healthy, 44);
    }

    #[test]
    fn the_share_of_an_address_is_set_and_never_more_than_all() {
        let rows = [(None, 192), (NonZeroUsize::new(10), 10), (NonZeroUsize::new(9_999), 384)];
        for (set, expected) in rows {
            let per_address = AddressLimits { http: set, iso8583: set };
            let shares = DescriptorShares::of(1_024, per_address);
            assert_eq!(shares.http.per_address_max, expected, "{set:?}");
            assert_eq!(shares.iso8583.per_address_max, expected, "{set:?}");
        }
    }
}
