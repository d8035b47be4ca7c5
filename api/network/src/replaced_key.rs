//! Keys of a zone that are replaced by exchange now and then, and how they outlive the process.
//!
//! INVARIANT: a new key counts once it is kept, so that what was answered holds after a kill; and no message gives a
//! key twice, neither before nor after a restart.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cardswitch_secrets::Secrets;
use cardswitch_secrets::hex::to_hex;
use cardswitch_secrets::zone_keys::{ExchangedKey, ExchangedKeys, ExchangedKeysError};
use cardswitch_zone::{KeyFault, ZoneKey};
use chrono::Utc;
use parking_lot::Mutex;
use zeroize::Zeroizing;

/// How long the key before still counts: for messages that were under way, and for a peer that never got the
/// answer to its exchange.
const KEY_BEFORE_LIFE: Duration = Duration::from_secs(60);

/// The exchanged keys of all doors, in their file.
#[derive(Debug)]
pub struct ZoneKeeper {
    data: PathBuf,
    secrets: Arc<Secrets>,
    kept: Mutex<ExchangedKeys>,
}

impl ZoneKeeper {
    /// Reads what a data directory keeps.
    /// Errors: the file is damaged, or of another directory.
    pub fn open(data: &Path, secrets: Arc<Secrets>) -> Result<Self, ExchangedKeysError> {
        let kept = Mutex::new(secrets.read_zone_keys(data)?);
        Ok(Self { data: data.to_owned(), secrets, kept })
    }

    fn get(&self, place: &KeyPlace) -> Option<ExchangedKey> {
        self.kept.lock().get(&place.door, &place.usage).cloned()
    }

    fn keep(&self, place: &KeyPlace, key: ExchangedKey) -> Result<(), ExchangedKeysError> {
        let mut kept = self.kept.lock();
        let with = kept.with(&place.door, &place.usage, key);
        self.secrets.write_zone_keys(&self.data, &with)?;
        *kept = with;
        Ok(())
    }
}

/// Whose key it is, and what for.
#[derive(Clone, Debug)]
pub(super) struct KeyPlace {
    pub(super) door: String,
    pub(super) usage: String,
}

/// Why a key is not replaced.
#[derive(Debug)]
pub(super) enum NotReplaced {
    /// Its message is no later one than that of the key now.
    Repeated,
    /// It is none for this use.
    Unfit,
    /// It cannot be kept.
    Unsaved(ExchangedKeysError),
}

/// What makes a key ready for its use.
type Maker<K> = Box<dyn Fn(&ZoneKey) -> Result<K, KeyFault> + Send + Sync>;

/// A key, ready for use.
struct ReadyKey<K> {
    key: ZoneKey,
    ready: Arc<K>,
}

/// A key that is replaced now and then.
pub(super) struct Replaced<K> {
    make: Maker<K>,
    now: ReadyKey<K>,
    /// The key before, and until when it counts.
    before: Option<(ReadyKey<K>, Instant)>,
    /// The time that the message with the newest key has; at first the start of the door. What is not later is a
    /// repetition, also one of a message that came before the door was started. Units: seconds since 1970.
    newest_at: i64,
    /// When the key was exchanged; none where it is that of the file.
    exchanged_at: Option<i64>,
    /// The check value of the key in the door's file.
    base: String,
    keeper: Option<(KeyPlace, Arc<ZoneKeeper>)>,
}

impl<K> std::fmt::Debug for Replaced<K> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Replaced").field("now", &self.now.key).finish_non_exhaustive()
    }
}

impl<K> Replaced<K> {
    /// The key of a door's file.
    /// Errors: it does not serve.
    pub(super) fn new(key: ZoneKey, make: Maker<K>) -> Result<Self, KeyFault> {
        let base = to_hex(&key.check_value());
        Ok(Self {
            now: ready(key, &make)?,
            make,
            before: None,
            newest_at: Utc::now().timestamp(),
            exchanged_at: None,
            base,
            keeper: None,
        })
    }

    /// Goes on with the key that was exchanged in an earlier run, and keeps those that come.
    pub(super) fn keep_with(&mut self, keeper: &Arc<ZoneKeeper>, place: KeyPlace) {
        if let Some(kept) = keeper.get(&place) {
            self.newest_at = self.newest_at.max(kept.sent_at);
            let door = &place.door;
            match keys_of(&kept.secret) {
                _ if kept.base != self.base => {
                    tracing::warn!(
                        door,
                        usage = place.usage,
                        "the file has a new key, which counts in place of the exchanged one"
                    );
                }
                Some((key, before)) => self.resume((key, before), kept.sent_at),
                None => tracing::error!(door, usage = place.usage, "the exchanged key is none"),
            }
        }
        self.keeper = Some((place, Arc::clone(keeper)));
    }

    fn resume(&mut self, (key, before): (ZoneKey, Option<ZoneKey>), sent_at: i64) {
        let Ok(now) = ready(key, &self.make) else { return };
        let of_file = std::mem::replace(&mut self.now, now);
        let before = before.and_then(|key| ready(key, &self.make).ok()).unwrap_or(of_file);
        self.before = Some((before, Instant::now() + KEY_BEFORE_LIFE));
        self.exchanged_at = Some(sent_at);
    }

    /// The keys that count: the newest first.
    pub(super) fn usable(&self) -> [Option<Arc<K>>; 2] {
        let before = self.before.as_ref().filter(|(_, until)| Instant::now() < *until);
        [Some(self.now()), before.map(|(key, _)| Arc::clone(&key.ready))]
    }

    /// The newest key.
    pub(super) fn now(&self) -> Arc<K> {
        Arc::clone(&self.now.ready)
    }

    /// The newest key's check value, and when it was exchanged.
    pub(super) fn shown(&self) -> (String, Option<i64>) {
        (to_hex(&self.now.key.check_value()), self.exchanged_at)
    }

    /// Takes a key from a message of this time, and keeps it before it counts.
    /// Errors: that message is no later one, the key does not serve, or it cannot be kept. Nothing is changed then.
    /// Cost: three syncs.
    pub(super) fn replace(&mut self, key: ZoneKey, sent_at: i64) -> Result<(), NotReplaced> {
        if sent_at <= self.newest_at {
            return Err(NotReplaced::Repeated);
        }
        let new = ready(key, &self.make).map_err(|_| NotReplaced::Unfit)?;
        if let Some((place, keeper)) = &self.keeper {
            let before = self.exchanged_at.map(|_| &self.now.key);
            let secret = secret_of(&new.key, before);
            let key = ExchangedKey { sent_at, base: self.base.clone(), secret };
            keeper.keep(place, key).map_err(NotReplaced::Unsaved)?;
        }
        let before = std::mem::replace(&mut self.now, new);
        self.before = Some((before, Instant::now() + KEY_BEFORE_LIFE));
        (self.newest_at, self.exchanged_at) = (sent_at, Some(sent_at));
        Ok(())
    }
}

fn ready<K>(key: ZoneKey, make: &Maker<K>) -> Result<ReadyKey<K>, KeyFault> {
    let ready = Arc::new(make(&key)?);
    Ok(ReadyKey { key, ready })
}

/// A key and the exchanged one before it, each behind its length.
fn secret_of(now: &ZoneKey, before: Option<&ZoneKey>) -> Zeroizing<Vec<u8>> {
    let mut secret = Zeroizing::new(Vec::with_capacity(2 * 64));
    for key in std::iter::once(now).chain(before) {
        let own = key.to_secret();
        secret.push(u8::try_from(own.len()).unwrap_or(0));
        secret.extend_from_slice(&own);
    }
    secret
}

fn keys_of(secret: &[u8]) -> Option<(ZoneKey, Option<ZoneKey>)> {
    let (now, rest) = key_of(secret)?;
    match rest {
        [] => Some((now, None)),
        rest => key_of(rest).map(|(before, _)| (now, Some(before))),
    }
}

fn key_of(secret: &[u8]) -> Option<(ZoneKey, &[u8])> {
    let (len, rest) = secret.split_first()?;
    let (own, rest) = rest.split_at_checked(usize::from(*len))?;
    Some((ZoneKey::from_secret(own)?, rest))
}
