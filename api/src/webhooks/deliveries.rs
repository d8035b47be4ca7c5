//! What is kept of deliveries: `deliveries.redb` in the data directory.
//!
//! | table | key | value |
//! |---|---|---|
//! | `lanes` | endpoint id (16) | format (1), `Lane` |
//! | `attempts` | endpoint id (16), place (2) | format (1), `Attempt` |
//! | `follower` | `followed` | the last event that was handed to lanes |
//! | `series` | `series` | 16 random bytes, drawn when the file is made |
//!
//! It is written about once a second and when the switch stops. Whatever it lags behind is delivered
//! once more after a crash; nothing is lost, because lanes only ever stand where the log was told.
//! Each endpoint has `ATTEMPTS_MAX` places for attempts, used in turn, so the file is bounded. Without
//! the file every endpoint is told of the last two days.

use std::path::Path;

use cardswitch_engine::codec::{CodecError, decode, encode};
use cardswitch_engine::domain::event::EventNumber;
use cardswitch_engine::domain::ids::{Timestamp, WebhookEndpointId};
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::lane::Lane;

/// The file's name.
pub const FILE: &str = "deliveries.redb";
/// How many attempts are remembered of each endpoint.
pub const ATTEMPTS_MAX: u16 = 100;
/// How much of the file is kept in memory. Units: bytes.
const CACHE_BYTES: usize = 8 << 20;
const FORMAT: u8 = 1;
const FOLLOWED: &str = "followed";

const LANES: TableDefinition<'_, [u8; 16], &[u8]> = TableDefinition::new("lanes");
const ATTEMPTS: TableDefinition<'_, ([u8; 16], u16), &[u8]> = TableDefinition::new("attempts");
const FOLLOWER: TableDefinition<'_, &str, u64> = TableDefinition::new("follower");
const SERIES: TableDefinition<'_, &str, [u8; 16]> = TableDefinition::new("series");
const SERIES_KEY: &str = "series";

/// Why something was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AttemptKind {
    /// It happened, or is tried again.
    Event,
    /// The owner wanted to see an example.
    Example,
    /// The owner wanted it once more.
    Resent,
}

/// How a try ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AttemptResult {
    /// The receiver answered with this status.
    Answered(u16),
    /// There was no answer, and why.
    Unanswered(Failure),
}

/// Why there was no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Failure {
    /// The host's name leads nowhere.
    NoSuchHost,
    /// It leads to a network that is not public.
    NotPublic,
    /// Nobody listens there, or it cannot be reached.
    NotReachable,
    /// TLS failed: most often a certificate that is not trusted.
    Tls,
    /// The connection broke, or what came was no answer.
    Broken,
    /// There was no whole answer in time.
    TooSlow,
    /// The switch could not make the request.
    NotSent,
}

/// A try that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Its own id.
    pub id: Uuid,
    /// The message's.
    pub message: Uuid,
    /// Why it was sent.
    pub kind: AttemptKind,
    /// The how manieth try of the message it was, from 1.
    pub tries: u8,
    /// When it began.
    pub at: Timestamp,
    /// How long it took. Units: milliseconds.
    pub duration_ms: u32,
    /// How it ended.
    pub result: AttemptResult,
    /// When the message is tried again; none where it is not.
    pub again_at: Option<Timestamp>,
    /// Whether it was the last of its message, and in vain.
    pub is_last: bool,
    /// The events of the message.
    pub events: Vec<EventNumber>,
}

impl Attempt {
    /// Whether the message arrived.
    #[must_use]
    pub const fn is_delivered(&self) -> bool {
        matches!(self.result, AttemptResult::Answered(200..=299))
    }
}

/// An attempt with its place among those of its endpoint, counted from 0.
pub type PlacedAttempt = (WebhookEndpointId, u64, Attempt);

/// What was read when the switch started.
#[derive(Debug, Default)]
pub struct Loaded {
    /// The last event that was handed to lanes; none in a new file.
    pub followed: Option<EventNumber>,
    /// Every endpoint's lane, and how many attempts it has had.
    pub lanes: Vec<(WebhookEndpointId, KeptLane)>,
}

/// A lane as it is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeptLane {
    /// The lane.
    pub lane: Lane,
    /// How many attempts it has had.
    pub attempts: u64,
}

/// What is to be written together.
#[derive(Debug, Default)]
pub struct Changes {
    /// The last event that was handed to lanes.
    pub followed: EventNumber,
    /// Lanes that changed.
    pub lanes: Vec<(WebhookEndpointId, KeptLane)>,
    /// Endpoints that are no more.
    pub removed: Vec<WebhookEndpointId>,
    /// Attempts that were made.
    pub attempts: Vec<PlacedAttempt>,
}

/// Why the file cannot be read or written.
#[derive(Debug)]
pub enum DeliveriesError {
    /// The database.
    Database(Box<redb::Error>),
    /// A value in it.
    Value(CodecError),
}

impl std::fmt::Display for DeliveriesError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Database(error) => write!(formatter, "`{FILE}`: {error}"),
            Self::Value(error) => write!(formatter, "`{FILE}`: {error}"),
        }
    }
}

impl std::error::Error for DeliveriesError {}

impl<E: Into<redb::Error>> From<E> for DeliveriesError {
    fn from(error: E) -> Self {
        Self::Database(Box::new(error.into()))
    }
}

/// The file.
#[derive(Debug)]
pub struct Deliveries {
    database: Database,
    series: Uuid,
}

impl Deliveries {
    /// Opens the file of a data directory, and makes it where it is missing.
    /// Errors: it cannot be made, or is none of ours.
    pub fn open(data: &Path) -> Result<Self, DeliveriesError> {
        let database = Database::builder().set_cache_size(CACHE_BYTES).create(data.join(FILE))?;
        let write_txn = database.begin_write()?;
        write_txn.open_table(LANES)?;
        write_txn.open_table(ATTEMPTS)?;
        write_txn.open_table(FOLLOWER)?;
        let series = {
            let mut table = write_txn.open_table(SERIES)?;
            let known = table.get(SERIES_KEY)?.map(|series| Uuid::from_bytes(series.value()));
            let series = known.unwrap_or_else(Uuid::new_v4);
            table.insert(SERIES_KEY, series.into_bytes())?;
            series
        };
        write_txn.commit()?;
        Ok(Self { database, series })
    }

    /// What messages of this file are told from those of any other by.
    #[must_use]
    pub const fn series(&self) -> Uuid {
        self.series
    }

    /// Everything but the attempts.
    pub fn load(&self) -> Result<Loaded, DeliveriesError> {
        let read_txn = self.database.begin_read()?;
        let followed = read_txn.open_table(FOLLOWER)?.get(FOLLOWED)?;
        let mut lanes = Vec::new();
        for row in read_txn.open_table(LANES)?.iter()? {
            let (id, value) = row?;
            lanes.push((WebhookEndpointId(Uuid::from_bytes(id.value())), parse(value.value())?));
        }
        Ok(Loaded { followed: followed.map(|number| EventNumber(number.value())), lanes })
    }

    /// Writes changes, all or none; when this returns they are durable.
    pub fn save(&self, changes: &Changes) -> Result<(), DeliveriesError> {
        let write_txn = self.database.begin_write()?;
        {
            let mut lanes = write_txn.open_table(LANES)?;
            let mut attempts = write_txn.open_table(ATTEMPTS)?;
            for (id, lane) in &changes.lanes {
                lanes.insert(id.0.into_bytes(), render(lane)?.as_slice())?;
            }
            for (id, place, attempt) in &changes.attempts {
                let key = (id.0.into_bytes(), ring_place(*place));
                attempts.insert(key, render(attempt)?.as_slice())?;
            }
            for id in &changes.removed {
                let id = id.0.into_bytes();
                lanes.remove(id)?;
                attempts.retain_in((id, 0)..=(id, u16::MAX), |_, _| false)?;
            }
            write_txn.open_table(FOLLOWER)?.insert(FOLLOWED, changes.followed.0)?;
        }
        write_txn.commit()?;
        Ok(())
    }

    /// The attempts that were made for an endpoint, in no order.
    pub fn attempts(&self, id: WebhookEndpointId) -> Result<Vec<Attempt>, DeliveriesError> {
        let id = id.0.into_bytes();
        let read_txn = self.database.begin_read()?;
        let mut attempts = Vec::new();
        for row in read_txn.open_table(ATTEMPTS)?.range((id, 0)..=(id, u16::MAX))? {
            attempts.push(parse(row?.1.value())?);
        }
        Ok(attempts)
    }
}

/// Where the attempt counted `place` stands: it takes the place of the one `ATTEMPTS_MAX` before it.
fn ring_place(place: u64) -> u16 {
    u16::try_from(place % u64::from(ATTEMPTS_MAX)).unwrap_or_default()
}

fn render<T: Serialize>(value: &T) -> Result<Vec<u8>, DeliveriesError> {
    let mut bytes = vec![FORMAT];
    bytes.extend(encode(value).map_err(DeliveriesError::Value)?);
    Ok(bytes)
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, DeliveriesError> {
    match bytes.split_first() {
        Some((&FORMAT, rest)) => decode(rest).map_err(DeliveriesError::Value),
        Some((&version, _)) => Err(DeliveriesError::Value(CodecError::UnknownVersion { version })),
        None => Err(DeliveriesError::Value(CodecError::Cut)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: WebhookEndpointId = WebhookEndpointId(Uuid::from_u128(1));
    const SECOND: WebhookEndpointId = WebhookEndpointId(Uuid::from_u128(2));

    fn attempt(place: u64) -> Attempt {
        Attempt {
            id: Uuid::from_u128(u128::from(place)),
            message: Uuid::from_u128(9),
            kind: AttemptKind::Event,
            tries: 1,
            at: Timestamp(7),
            duration_ms: 12,
            result: AttemptResult::Unanswered(Failure::TooSlow),
            again_at: Some(Timestamp(8)),
            is_last: false,
            events: vec![EventNumber(3), EventNumber(5)],
        }
    }

    fn kept(number: u64) -> KeptLane {
        KeptLane { lane: Lane::after(EventNumber(number)), attempts: number }
    }

    #[test]
    fn what_was_saved_is_there_after_opening_again() {
        let directory = tempfile::tempdir().unwrap();
        let deliveries = Deliveries::open(directory.path()).unwrap();
        assert!(deliveries.load().unwrap().followed.is_none());
        let changes = Changes {
            followed: EventNumber(40),
            lanes: vec![(FIRST, kept(7)), (SECOND, kept(8))],
            attempts: vec![(FIRST, 0, attempt(0))],
            removed: Vec::new(),
        };
        deliveries.save(&changes).unwrap();
        drop(deliveries);
        let deliveries = Deliveries::open(directory.path()).unwrap();
        let loaded = deliveries.load().unwrap();
        assert_eq!(loaded.followed, Some(EventNumber(40)));
        assert_eq!(loaded.lanes, [(FIRST, kept(7)), (SECOND, kept(8))]);
        assert_eq!(deliveries.attempts(FIRST).unwrap(), [attempt(0)]);
        assert!(deliveries.attempts(SECOND).unwrap().is_empty());
    }

    #[test]
    fn attempts_are_bounded_and_go_with_their_endpoint() {
        let directory = tempfile::tempdir().unwrap();
        let deliveries = Deliveries::open(directory.path()).unwrap();
        let attempts =
            (0..u64::from(ATTEMPTS_MAX) + 30).map(|place| (FIRST, place, attempt(place)));
        let lanes = vec![(FIRST, kept(7))];
        let changes = Changes { lanes, attempts: attempts.collect(), ..Changes::default() };
        deliveries.save(&changes).unwrap();
        let ids: std::collections::BTreeSet<_> = deliveries
            .attempts(FIRST)
            .unwrap()
            .iter()
            .map(|attempt| attempt.id.as_u128())
            .collect();
        let expected: Vec<_> = (30..130).collect();
        assert_eq!(ids.into_iter().collect::<Vec<_>>(), expected);
        deliveries.save(&Changes { removed: vec![FIRST], ..Changes::default() }).unwrap();
        assert!(deliveries.attempts(FIRST).unwrap().is_empty());
        assert!(deliveries.load().unwrap().lanes.is_empty());
    }

    #[test]
    fn values_of_another_format_are_refused() {
        assert!(parse::<Attempt>(&[]).is_err());
        assert!(parse::<Attempt>(&[9, 1, 2, 3]).is_err());
        let mut bytes = render(&attempt(1)).unwrap();
        bytes.pop();
        assert!(parse::<Attempt>(&bytes).is_err());
    }
}
