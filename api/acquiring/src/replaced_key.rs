//! Keys of a zone that are replaced by exchange now and then. The engine's directory keeps them, sealed.
//!
//! INVARIANT: a new key counts once its exchange is durable, so that what was answered holds after a kill, and on
//! every node that leads; and no message gives a key twice, neither before nor after a restart.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::reply::Reply;
use cardswitch_engine::command::{Command, NotedCommand};
use cardswitch_engine::directory::exchanged_key::{
    ExchangedKey, ExchangedKeyCommand, NewExchangedKey,
};
use cardswitch_engine::domain::audit::{Actor, AuditNote};
use cardswitch_engine::domain::ids::{ExchangedKeyId, Timestamp};
use cardswitch_engine::store::{Snapshot, StoreError};
use cardswitch_engine::submission::{Envelope, ReplyPort};
use cardswitch_secrets::hex::to_hex;
use cardswitch_secrets::issuing::IssueError;
use cardswitch_secrets::{SealedSecret, Secrets};
use cardswitch_zone::{KeyFault, KeyUsage, ZoneKey};
use chrono::DateTime;

use super::zone::Zone;
use super::zone_port::ZonePort;

/// The time that the key before still counts: for messages that were under way, and for a peer that
/// never got the answer to its exchange.
const KEY_BEFORE_LIFE: Duration = Duration::from_secs(60);

/// A key that a message brings.
#[derive(Debug)]
pub struct BroughtKey {
    pub(crate) usage: KeyUsage,
    pub(crate) key: ZoneKey,
    /// The sealed form, which the engine keeps.
    pub(crate) sealed: NewExchangedKey,
}

impl BroughtKey {
    /// The engine's command, for a peer that waits for the answer at `port`.
    pub(crate) fn exchange(
        self,
        zone: &Arc<Zone>,
        peer: IpAddr,
        (tag, port): (u64, Arc<dyn ReplyPort>),
    ) -> Envelope {
        let Self { usage, key, sealed } = self;
        let (zone, sent_at) = (Arc::clone(zone), sealed.sent_at);
        // The actor is the switch, since no caller of the API acts: the peer has the master key, at
        // this address.
        let note = AuditNote { actor: Actor::Switch, address: Some(peer.to_string()) };
        let change = AdminCommand::ExchangedKey(ExchangedKeyCommand::Exchange(sealed));
        let command = Command::Noted(Box::new(NotedCommand { note, change })).into();
        Envelope { command, tag, port: Arc::new(Exchange { zone, usage, key, sent_at, port }) }
    }
}

/// A key that the engine is asked to keep. Its door takes it as soon as it is durable, whether its peer still
/// waits for the answer or not.
struct Exchange {
    zone: Arc<Zone>,
    usage: KeyUsage,
    key: ZoneKey,
    sent_at: Timestamp,
    port: Arc<dyn ReplyPort>,
}

impl ReplyPort for Exchange {
    fn deliver(&self, tag: u64, reply: Reply) {
        if matches!(reply, Reply::Done(_)) {
            self.zone.take_key(self.usage, &self.key, self.sent_at);
        }
        self.port.deliver(tag, reply);
    }

    fn flush(&self) {
        self.port.flush();
    }
}

/// The reason why a key is not replaced.
#[derive(Debug)]
pub(crate) enum ReplacementRefusal {
    /// Its message is no later one than that of the key now.
    Repeated,
    /// It is none for this use.
    Unfit,
    /// It cannot be sealed.
    Unsealed(IssueError),
}

/// The function that makes a key ready for its use.
type Maker<K> = Box<dyn Fn(&ZoneKey) -> Result<K, KeyFault> + Send + Sync>;

/// A key, ready for use.
struct ReadyKey<K> {
    key: ZoneKey,
    ready: Arc<K>,
}

/// A key that is replaced now and then.
pub(crate) struct RotatingKey<K> {
    door: String,
    usage: KeyUsage,
    make: Maker<K>,
    port: Arc<dyn ZonePort>,
    now: ReadyKey<K>,
    /// The key before, and the end of its time by the steady clock.
    before: Option<(ReadyKey<K>, Duration)>,
    /// The time of the message with the newest key; at first the start of the door. A message that
    /// is not later is a repetition, also one that came before the door was started.
    newest_at: Timestamp,
    /// The instant when the key was exchanged; none if it is that of the file.
    exchanged_at: Option<Timestamp>,
    /// The check value of the key in the door's file.
    base: [u8; 3],
}

cardswitch_engine::opaque!(for<K> RotatingKey<K>);

/// The operations of an exchange on a key for any use.
pub(crate) trait KeyExchange: Send {
    /// The sealed form, for the engine, of a key from a message of this time.
    /// Errors: that message is no later one, the key does not serve, or it cannot be sealed.
    fn offer(
        &self,
        key: &ZoneKey,
        sent_at: Timestamp,
        secrets: &Secrets,
    ) -> Result<NewExchangedKey, ReplacementRefusal>;

    /// Takes a key that is kept.
    fn take(&mut self, key: &ZoneKey, sent_at: Timestamp);

    /// Goes on with the key that was exchanged before the door was started. Returns the command that makes it void
    /// where the door's file has another key: it must be durable before the door opens.
    /// Errors: the tables cannot be read.
    fn resume(
        &mut self,
        tables: &Snapshot,
        secrets: &Secrets,
    ) -> Result<Option<ExchangedKeyCommand>, StoreError>;
}

impl<K> RotatingKey<K> {
    /// The key of a door's file.
    /// Errors: it does not serve.
    pub(crate) fn new(
        (door, usage): (&str, KeyUsage),
        key: ZoneKey,
        make: Maker<K>,
        port: Arc<dyn ZonePort>,
    ) -> Result<Self, KeyFault> {
        let base = key.check_value();
        Ok(Self {
            door: door.to_owned(),
            usage,
            now: ready(key, &make)?,
            make,
            before: None,
            newest_at: port.wall_time(),
            port,
            exchanged_at: None,
            base,
        })
    }

    /// The keys that count: the newest first.
    pub(crate) fn usable(&self) -> [Option<Arc<K>>; 2] {
        let before = self.before.as_ref().filter(|(_, until)| self.port.steady_time() < *until);
        [Some(self.now()), before.map(|(key, _)| Arc::clone(&key.ready))]
    }

    /// The newest key.
    pub(crate) fn now(&self) -> Arc<K> {
        Arc::clone(&self.now.ready)
    }

    /// The newest key's check value, and when it was exchanged.
    pub(crate) fn shown(&self) -> (String, Option<Timestamp>) {
        (to_hex(&self.now.key.check_value()), self.exchanged_at)
    }

    /// The check value of the key in the door's file.
    pub(crate) const fn base(&self) -> [u8; 3] {
        self.base
    }

    fn id(&self) -> ExchangedKeyId {
        ExchangedKeyId::of(&self.door, &self.usage.to_string())
    }

    fn opened(&self, sealed: &[u8], secrets: &Secrets) -> Option<ReadyKey<K>> {
        let secret = secrets.open(SealedSecret::ZoneKey(self.id()), sealed)?;
        ready(ZoneKey::from_secret(&secret)?, &self.make).ok()
    }

    /// Returns the command that makes the exchanged key void, if it is to be.
    fn go_on(&mut self, kept: &ExchangedKey, secrets: &Secrets) -> Option<ExchangedKeyCommand> {
        let (door, usage) = (&self.door, self.usage);
        self.newest_at = self.newest_at.max(kept.key.sent_at);
        if kept.is_void {
            return None;
        }
        if kept.key.base != self.base {
            tracing::warn!(
                door,
                %usage,
                "the file has a new key, which counts in place of the exchanged one"
            );
            return Some(ExchangedKeyCommand::Void(kept.id, self.base));
        }
        let Some(newest) = self.opened(&kept.key.sealed, secrets) else {
            tracing::error!(door, %usage, "the exchanged key is none");
            return None;
        };
        let of_file = std::mem::replace(&mut self.now, newest);
        let before = match &kept.sealed_before {
            Some(sealed) => self.opened(sealed, secrets),
            None => Some(of_file),
        };
        let left = kept.key.overlap_until.0.saturating_sub(self.port.wall_time().0);
        let left = Duration::from_micros(u64::try_from(left).unwrap_or(0)).min(KEY_BEFORE_LIFE);
        let until = self.port.steady_time() + left;
        self.before = before.map(|key| (key, until));
        self.exchanged_at = Some(kept.key.sent_at);
        let check_value = to_hex(&kept.key.check_value);
        let exchanged_at = DateTime::from_timestamp_micros(kept.key.sent_at.0).unwrap_or_default();
        tracing::info!(
            door,
            %usage,
            check_value,
            %exchanged_at,
            "an exchanged key counts in place of the file's"
        );
        None
    }
}

impl<K: Send + Sync> KeyExchange for RotatingKey<K> {
    fn offer(
        &self,
        key: &ZoneKey,
        sent_at: Timestamp,
        secrets: &Secrets,
    ) -> Result<NewExchangedKey, ReplacementRefusal> {
        if sent_at <= self.newest_at {
            return Err(ReplacementRefusal::Repeated);
        }
        (self.make)(key).map_err(|_| ReplacementRefusal::Unfit)?;
        let mut random = self.port.random();
        let sealed = secrets.seal_zone_key(&key.to_secret(), self.id(), random.as_mut());
        let life = i64::try_from(KEY_BEFORE_LIFE.as_micros()).unwrap_or(i64::MAX);
        Ok(NewExchangedKey {
            door: self.door.clone(),
            usage: self.usage.to_string(),
            sealed: sealed.map_err(ReplacementRefusal::Unsealed)?,
            check_value: key.check_value(),
            base: self.base,
            sent_at,
            overlap_until: self.port.wall_time().plus(life),
        })
    }

    fn take(&mut self, key: &ZoneKey, sent_at: Timestamp) {
        let Ok(mut before) = ready(key.clone(), &self.make) else { return };
        // A key that comes late, behind its successor, is itself the key before.
        if sent_at > self.newest_at {
            std::mem::swap(&mut before, &mut self.now);
            (self.newest_at, self.exchanged_at) = (sent_at, Some(sent_at));
        }
        self.before = Some((before, self.port.steady_time() + KEY_BEFORE_LIFE));
    }

    fn resume(
        &mut self,
        tables: &Snapshot,
        secrets: &Secrets,
    ) -> Result<Option<ExchangedKeyCommand>, StoreError> {
        // A node has read its file long before: the door starts now.
        self.newest_at = self.newest_at.max(self.port.wall_time());
        let kept = tables.exchanged_key(&self.door, &self.usage.to_string())?;
        Ok(kept.and_then(|kept| self.go_on(&kept, secrets)))
    }
}

fn ready<K>(key: ZoneKey, make: &Maker<K>) -> Result<ReadyKey<K>, KeyFault> {
    let ready = Arc::new(make(&key)?);
    Ok(ReadyKey { key, ready })
}
