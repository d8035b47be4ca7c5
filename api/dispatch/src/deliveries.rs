//! The stored state of deliveries: `deliveries.redb` in the data directory.
//!
//! | table | key | value |
//! |---|---|---|
//! | `lanes` | endpoint id (16) | format (1), `KeptLane` |
//! | `attempts` | endpoint id (16), place (2) | format (1), `Attempt` |
//! | `follower` | `followed` | the last event that was handed to lanes |
//! | `follower` | `followed_at` | when that happened; missing before the first event |
//! | `series` | `series` | 16 random bytes, drawn when the file is made or the log has lost events |
//!
//! The file is written about once a second and when the switch stops. Deliveries that it lags
//! behind are made once more after a crash. Nothing is lost, because a lane is only ever kept at a
//! place up to which it was handed the events of the companies that are kept with it. Each endpoint
//! has `ATTEMPTS_MAX` places for attempts, used in turn, so the file is bounded. Without the file
//! lanes go on from `places`. A file that could not be written is opened
//! anew before it is written again: redb takes nothing any more after a fault.
//!
//! A node of a cluster writes all but the attempts elsewhere, too (`RemoteDeliveries`), and
//! resumes from the values that the former leader has written there: `lane/<id>`, `followed` and
//! `series`.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use cardswitch_engine::codec::{CodecError, decode, encode};
use cardswitch_engine::domain::event::{EventNumber, EventPlace};
use cardswitch_engine::domain::ids::{CompanySlot, Timestamp, WebhookEndpointId};
use cardswitch_engine::store::StoreError;
use cardswitch_engine::store::overlay::SharedBackend;
use parking_lot::Mutex;
use redb::backends::FileBackend;
use redb::{
    Database, DatabaseError, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::attempt::Attempt;
use crate::lane::Lane;

/// The file's name.
pub const FILE: &str = "deliveries.redb";
/// The name of one that was damaged.
pub const DAMAGED_FILE: &str = "deliveries.redb.damaged";
/// How many attempts are remembered of each endpoint.
pub const ATTEMPTS_MAX: u16 = 100;
/// How much of the file is kept in memory. Units: bytes.
const CACHE_BYTES: usize = 8 << 20;
/// How many bytes a file of redb begins with that no other file has.
const FIRST_BYTES: usize = 9;
/// The version of both values.
const FORMAT: u8 = 1;
const FOLLOWED: &str = "followed";
const FOLLOWED_AT: &str = "followed_at";

const LANES: TableDefinition<'_, [u8; 16], &[u8]> = TableDefinition::new("lanes");
const ATTEMPTS: TableDefinition<'_, ([u8; 16], u16), &[u8]> = TableDefinition::new("attempts");
const FOLLOWER: TableDefinition<'_, &str, u64> = TableDefinition::new("follower");
const SERIES: TableDefinition<'_, &str, [u8; 16]> = TableDefinition::new("series");
const SERIES_KEY: &str = "series";
/// How names of lanes begin elsewhere.
const LANE_PREFIX: &str = "lane/";

/// An attempt with its place among those of its endpoint, counted from 0.
pub type PlacedAttempt = (WebhookEndpointId, u64, Attempt);

/// The state read when the switch started.
#[derive(Debug, Default)]
pub struct SavedDeliveries {
    /// The last event that was handed to lanes; none in a new file.
    pub followed: Option<EventPlace>,
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
    /// The `enabled_at` of its endpoint when the lane was turned on last.
    pub on_since: Timestamp,
    /// The address that was gone while it was on since then. Tables that still show the endpoint on do
    /// not turn it on again, only a person does.
    pub gone_url: Option<String>,
    /// The companies whose events it was handed, as far as the log was read for it; they rise.
    pub companies: Vec<CompanySlot>,
}

impl KeptLane {
    /// The lane of an endpoint that is on since then and has had no attempt. It reads from the first event on.
    pub(crate) fn of_new(on_since: Timestamp) -> Self {
        let (lane, companies) = (Lane::after(EventNumber(0)), Vec::new());
        Self { lane, attempts: 0, on_since, gone_url: None, companies }
    }
}

/// The changes that are written together.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// The last event that was handed to lanes.
    pub followed: EventPlace,
    /// Lanes that changed.
    pub lanes: Vec<(WebhookEndpointId, KeptLane)>,
    /// Endpoints that are no more.
    pub removed: Vec<WebhookEndpointId>,
    /// Attempts that were made.
    pub attempts: Vec<PlacedAttempt>,
    /// Another series, where numbers of events have other meanings than before.
    pub series: Option<Uuid>,
}

/// Why the file cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum DeliveriesError {
    /// The database.
    #[error("`{FILE}`: {0}")]
    Database(Box<redb::Error>),
    /// A value in it.
    #[error("`{FILE}`: {0}")]
    Value(CodecError),
    /// The place that outlives this machine.
    #[error("what is kept of deliveries for other nodes: {0}")]
    Elsewhere(String),
    /// The event log cannot be read.
    #[error("the event log: {0}")]
    Log(Box<StoreError>),
}

impl DeliveriesError {
    /// Whether the content of the file is at fault, and no disk or right.
    fn is_damage(&self) -> bool {
        match self {
            Self::Value(_) => true,
            Self::Database(error) => match &**error {
                redb::Error::Io(error) => {
                    matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof)
                }
                redb::Error::DatabaseAlreadyOpen => false,
                _ => true,
            },
            Self::Elsewhere(_) | Self::Log(_) => false,
        }
    }
}

impl<E: Into<redb::Error>> From<E> for DeliveriesError {
    fn from(error: E) -> Self {
        Self::Database(Box::new(error.into()))
    }
}

/// Opens the file below the database, and makes it where it is missing.
pub type Storage = Box<dyn Fn() -> Result<SharedBackend, DatabaseError> + Send + Sync>;

/// Draws the id of a series.
pub type SeriesDraw = Box<dyn Fn() -> Uuid + Send + Sync>;

/// A place that outlives this machine.
pub trait RemoteDeliveries: Send + Sync + std::fmt::Debug {
    /// Returns the values there, by name, and lets nobody but the caller write from then on.
    /// Errors: the reason why that cannot be.
    fn take_over(&self) -> Result<Vec<(String, Vec<u8>)>, String>;

    /// Writes values and removes those that are none, the last ones last.
    /// Errors: why that cannot be; some may be written.
    fn write(&self, values: Vec<(String, Option<Vec<u8>>)>) -> Result<(), String>;
}

/// The file.
pub struct Deliveries {
    storage: Storage,
    draw_series: SeriesDraw,
    elsewhere: Option<Box<dyn RemoteDeliveries>>,
    /// None after a fault, until it is opened anew.
    database: Mutex<Option<Database>>,
    series: Mutex<Uuid>,
}

cardswitch_engine::opaque!(Deliveries);

impl Deliveries {
    /// Opens the file of a data directory, and makes it where it is missing or damaged: without it, some is only
    /// delivered once more.
    /// Errors: it cannot be read or made.
    pub fn open(data: &Path) -> Result<Self, DeliveriesError> {
        match Self::open_whole(data.join(FILE)) {
            Err(error) if error.is_damage() => {
                let aside = data.join(DAMAGED_FILE);
                std::fs::rename(data.join(FILE), &aside).map_err(redb::Error::Io)?;
                tracing::error!(
                    %error,
                    "what webhook endpoints got of late is unknown: deliveries repeat from the last known places; \
                     the file is put aside as `{}`",
                    aside.display()
                );
                Self::open_whole(data.join(FILE))
            }
            opened => opened,
        }
    }

    /// Errors: as `open`, and what `load` needs is damaged.
    fn open_whole(path: PathBuf) -> Result<Self, DeliveriesError> {
        let storage = move || {
            let mut options = OpenOptions::new();
            let file = options.read(true).write(true).create(true).truncate(false).open(&path)?;
            Ok(SharedBackend::new(FileBackend::new(file)?))
        };
        let opened = Self::on(Box::new(storage), Box::new(Uuid::new_v4))?;
        opened.load_here()?;
        Ok(opened)
    }

    /// Opens the file in `storage`, and makes it where it is missing.
    /// Errors: as `open`.
    pub fn on(storage: Storage, draw_series: SeriesDraw) -> Result<Self, DeliveriesError> {
        let database = Mutex::new(Some(calmly(|| Ok(open_in(&storage)?))?));
        let series = Mutex::default();
        let opened = Self { storage, draw_series, elsewhere: None, database, series };
        let series = opened.with_database(|database| prepare(database, &opened.draw_series))?;
        *opened.series.lock() = series;
        Ok(opened)
    }

    /// The same, and `elsewhere` too.
    #[must_use]
    pub fn and(mut self, elsewhere: Option<Box<dyn RemoteDeliveries>>) -> Self {
        self.elsewhere = elsewhere;
        self
    }

    /// The id that tells messages of this file from those of any other.
    pub fn series(&self) -> Uuid {
        *self.series.lock()
    }

    /// The state without the attempts: that of `elsewhere`, if there is any.
    pub fn load(&self) -> Result<SavedDeliveries, DeliveriesError> {
        let here = self.load_here()?;
        let Some(elsewhere) = &self.elsewhere else { return Ok(here) };
        let found = elsewhere.take_over().map_err(DeliveriesError::Elsewhere)?;
        if found.is_empty() {
            let mut values = vec![self.series_value()];
            values.extend(values_of(&here.lanes, &[], here.followed)?);
            elsewhere.write(values).map_err(DeliveriesError::Elsewhere)?;
            return Ok(here);
        }
        let (loaded, series) = parse_values(found)?;
        let followed = loaded.followed.unwrap_or_default();
        let changes = Changes { followed, lanes: loaded.lanes, series, ..Changes::default() };
        self.with_database(|database| write(database, &changes))?;
        if let Some(series) = series {
            *self.series.lock() = series;
        }
        Ok(SavedDeliveries { followed: loaded.followed, lanes: changes.lanes })
    }

    fn load_here(&self) -> Result<SavedDeliveries, DeliveriesError> {
        self.with_database(|database| {
            let read_txn = database.begin_read()?;
            let follower = read_txn.open_table(FOLLOWER)?;
            let followed_at =
                follower.get(FOLLOWED_AT)?.map(|at| Timestamp(at.value().cast_signed()));
            let followed = follower
                .get(FOLLOWED)?
                .map(|number| EventPlace { number: EventNumber(number.value()), at: followed_at });
            let mut lanes = Vec::new();
            for row in read_txn.open_table(LANES)?.iter()? {
                let (id, value) = row?;
                let id = WebhookEndpointId(Uuid::from_bytes(id.value()));
                lanes.push((id, parse(value.value())?));
            }
            Ok(SavedDeliveries { followed, lanes })
        })
    }

    /// Writes changes, all or none; when this returns they are durable.
    pub fn save(&self, changes: &Changes) -> Result<(), DeliveriesError> {
        self.with_database(|database| write(database, changes))?;
        let mut values = Vec::new();
        if let Some(series) = changes.series {
            *self.series.lock() = series;
            values.push(self.series_value());
        }
        let Some(elsewhere) = &self.elsewhere else { return Ok(()) };
        values.extend(values_of(&changes.lanes, &changes.removed, Some(changes.followed))?);
        elsewhere.write(values).map_err(DeliveriesError::Elsewhere)
    }

    /// Draws the id of another series.
    pub fn draw_series(&self) -> Uuid {
        (self.draw_series)()
    }

    fn series_value(&self) -> (String, Option<Vec<u8>>) {
        (SERIES_KEY.to_owned(), Some(self.series().into_bytes().to_vec()))
    }

    /// The attempts that were made for an endpoint, in no order.
    pub fn attempts(&self, id: WebhookEndpointId) -> Result<Vec<Attempt>, DeliveriesError> {
        let id = id.0.into_bytes();
        self.with_database(|database| {
            let read_txn = database.begin_read()?;
            let mut attempts = Vec::new();
            for row in read_txn.open_table(ATTEMPTS)?.range((id, 0)..=(id, u16::MAX))? {
                attempts.push(parse(row?.1.value())?);
            }
            Ok(attempts)
        })
    }

    /// Works with the database, opened anew if the last work met a fault.
    fn with_database<T>(
        &self,
        work: impl FnOnce(&Database) -> Result<T, DeliveriesError>,
    ) -> Result<T, DeliveriesError> {
        let mut slot = self.database.lock();
        let database = match slot.take() {
            Some(database) => database,
            None => calmly(|| Ok(open_in(&self.storage)?))?,
        };
        let outcome = calmly(|| work(&database));
        if matches!(outcome, Err(DeliveriesError::Database(_))) {
            // Before it is opened again.
            close(database);
        } else {
            *slot = Some(database);
        }
        outcome
    }
}

impl Drop for Deliveries {
    fn drop(&mut self) {
        if let Some(database) = self.database.get_mut().take() {
            close(database);
        }
    }
}

/// Closes a database, whose pages may be in disorder.
fn close(database: Database) {
    // Nothing is left to be done about it.
    drop(calmly(|| {
        drop(database);
        Ok(())
    }));
}

/// Carries out work with the database: pages in disorder can make redb panic.
fn calmly<T>(work: impl FnOnce() -> Result<T, DeliveriesError>) -> Result<T, DeliveriesError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(redb::Error::Corrupted("its pages are in disorder".to_owned()).into())
    })
}

/// Opens the database, or makes it. redb writes the first bytes of a new file last: one without them was left
/// unfinished by a crash, has never held anything, and is made anew.
fn open_in(storage: &Storage) -> Result<Database, DatabaseError> {
    let file = storage()?;
    let mut first = [0; FIRST_BYTES];
    let len = usize::try_from(file.len()?).unwrap_or(usize::MAX).min(FIRST_BYTES);
    file.read(0, &mut first[..len])?;
    if len > 0 && first == [0; FIRST_BYTES] {
        tracing::warn!("`{FILE}` was left unfinished, and is made anew");
        file.set_len(0)?;
    }
    Database::builder().set_cache_size(CACHE_BYTES).create_with_backend(file)
}

/// Makes the tables that are missing. Returns the series.
fn prepare(database: &Database, draw_series: &SeriesDraw) -> Result<Uuid, DeliveriesError> {
    let write_txn = database.begin_write()?;
    write_txn.open_table(LANES)?;
    write_txn.open_table(ATTEMPTS)?;
    write_txn.open_table(FOLLOWER)?;
    let series = {
        let mut table = write_txn.open_table(SERIES)?;
        let known = table.get(SERIES_KEY)?.map(|series| Uuid::from_bytes(series.value()));
        let series = known.unwrap_or_else(draw_series);
        table.insert(SERIES_KEY, series.into_bytes())?;
        series
    };
    write_txn.commit()?;
    Ok(series)
}

fn write(database: &Database, changes: &Changes) -> Result<(), DeliveriesError> {
    let write_txn = database.begin_write()?;
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
        if let Some(series) = changes.series {
            write_txn.open_table(SERIES)?.insert(SERIES_KEY, series.into_bytes())?;
        }
        let mut follower = write_txn.open_table(FOLLOWER)?;
        follower.insert(FOLLOWED, changes.followed.number.0)?;
        match changes.followed.at {
            Some(at) => drop(follower.insert(FOLLOWED_AT, at.0.cast_unsigned())?),
            None => drop(follower.remove(FOLLOWED_AT)?),
        }
    }
    write_txn.commit()?;
    Ok(())
}

/// A value kept elsewhere under its name; `None` removes it.
type NamedChange = (String, Option<Vec<u8>>);

/// The values to write elsewhere. The place of the follower comes last: lanes hold the events that
/// it has passed.
fn values_of(
    lanes: &[(WebhookEndpointId, KeptLane)],
    removed: &[WebhookEndpointId],
    followed: Option<EventPlace>,
) -> Result<Vec<NamedChange>, DeliveriesError> {
    let name = |id: &WebhookEndpointId| format!("{LANE_PREFIX}{}", id.0.simple());
    let mut values = Vec::new();
    for (id, lane) in lanes {
        values.push((name(id), Some(render(lane)?)));
    }
    values.extend(removed.iter().map(|id| (name(id), None)));
    if let Some(followed) = followed {
        values.push((FOLLOWED.to_owned(), Some(render(&(followed.number.0, followed.at))?)));
    }
    Ok(values)
}

fn parse_values(
    values: Vec<(String, Vec<u8>)>,
) -> Result<(SavedDeliveries, Option<Uuid>), DeliveriesError> {
    let (mut loaded, mut series) = (SavedDeliveries::default(), None);
    for (name, value) in values {
        if let Some(id) = name.strip_prefix(LANE_PREFIX) {
            let id = id.parse().map_err(|_| DeliveriesError::Value(CodecError::Cut))?;
            loaded.lanes.push((WebhookEndpointId(id), parse(&value)?));
        } else if name == FOLLOWED {
            let (number, at) = parse(&value)?;
            loaded.followed = Some(EventPlace { number: EventNumber(number), at });
        } else if name == SERIES_KEY {
            series = Uuid::from_slice(&value).ok();
        }
    }
    Ok((loaded, series))
}

/// The slot of the attempt counted `place`: it replaces the one `ATTEMPTS_MAX` before it.
fn ring_place(place: u64) -> u16 {
    u16::try_from(place % u64::from(ATTEMPTS_MAX)).unwrap_or_default()
}

fn render<T: Serialize>(value: &T) -> Result<Vec<u8>, DeliveriesError> {
    let mut bytes = vec![FORMAT];
    bytes.extend(encode(value).map_err(DeliveriesError::Value)?);
    Ok(bytes)
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, DeliveriesError> {
    let value = match bytes.split_first() {
        Some((&FORMAT, value)) => decode(value),
        Some((&version, _)) => Err(CodecError::UnknownVersion { version }),
        None => Err(CodecError::Cut),
    };
    value.map_err(DeliveriesError::Value)
}

#[cfg(test)]
#[path = "deliveries_tests.rs"]
mod tests;
