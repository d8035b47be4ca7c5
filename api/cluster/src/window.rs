//! The window of a chain in etcd.
//!
//! Each append is one transaction: if `tip` is exactly the one that the writer continues, then the
//! batches, the new tip, and away with what is older than the window. Reads are linearizable.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cardswitch_engine::journal::window::{Appended, ChainWindow, WindowError, WindowTip, WriterId};
use cardswitch_engine::journal::{BatchNumber, ChainPosition, SealedBatch, StoredBatch};
use serde_json::{Value, json};

use crate::address::ClusterAddress;
use crate::etcd::{EtcdClient, EtcdError, decoded, encoded, end_of};

/// Batches kept in the window: what a node may be behind without a backup.
const WINDOW_BATCHES: u64 = 4_096;
/// Batches read at once.
const READ_BATCHES: u64 = 64;
/// Revisions of etcd after which the past of its keys is let go of.
const COMPACT_EVERY: u64 = 2_000;
const TIP_BYTES: usize = ChainPosition::BYTES + 16;
const PUTS_DEFAULT: &str = "0";

/// Why there is no window to use.
#[derive(Debug, thiserror::Error)]
pub enum OpenWindowError {
    /// etcd.
    #[error(transparent)]
    Etcd(#[from] EtcdError),
    /// A release of etcd that loses data.
    #[error("etcd {0} is not used: it can lose data; take 3.4.10 or later, but not 3.5.0 to 3.5.2")]
    Release(String),
    /// Nothing is under the prefix.
    #[error(
        "`{0}` is no cluster yet: make one of a data directory with `cardswitch cluster adopt`"
    )]
    Absent(ClusterAddress),
    /// Something is under the prefix.
    #[error("`{0}` is a cluster already")]
    Present(ClusterAddress),
    /// It is the cluster of another data directory.
    #[error("`{cluster}` is the cluster of data directory {found}, not of {expected}")]
    OtherDirectory {
        /// The cluster.
        cluster: ClusterAddress,
        /// The directory's id there.
        found: String,
        /// The id of the directory at hand.
        expected: String,
    },
}

/// The keys of one cluster.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    prefix: String,
}

impl Keys {
    pub(crate) fn of(address: &ClusterAddress) -> Self {
        Self { prefix: address.prefix.clone() }
    }

    pub(crate) fn named(&self, name: &str) -> String {
        format!("{}/{name}", self.prefix)
    }

    pub(crate) fn tip(&self) -> String {
        self.named("tip")
    }

    pub(crate) fn beat(&self) -> String {
        self.named("beat")
    }

    pub(crate) fn step_down(&self) -> String {
        self.named("step-down")
    }

    fn batches(&self) -> String {
        self.named("j/")
    }

    fn batch(&self, number: u64) -> String {
        format!("{}{number:020}", self.batches())
    }
}

/// What changes beside the batches.
#[derive(Debug)]
pub(crate) struct Pulse {
    pub(crate) tip: WindowTip,
    /// The leader's last sign of life, empty before the first.
    pub(crate) beat: Vec<u8>,
    /// The writer that is asked to lead no more, empty where none was.
    pub(crate) step_down: String,
}

/// A connection to the window, as one run of one node.
#[derive(Debug)]
pub struct EtcdWindow {
    client: EtcdClient,
    keys: Keys,
    writer: WriterId,
    /// Set where the node stops: nothing is waited for any more.
    is_closed: Arc<AtomicBool>,
    compacted: u64,
}

impl EtcdWindow {
    /// Opens the window of a cluster for the node that has the data directory `directory`.
    /// Errors: no cluster is there, or another directory's; a release of etcd that loses data.
    pub fn open(
        address: &ClusterAddress,
        directory: [u8; 16],
        writer: WriterId,
        is_closed: &Arc<AtomicBool>,
    ) -> Result<Self, OpenWindowError> {
        let mut window = Self::reach(address, writer, is_closed)?;
        let found = window.client.get(&window.keys.named("directory"))?;
        let expected = hex(&directory);
        match found.map(|id| String::from_utf8_lossy(&id).into_owned()) {
            None => Err(OpenWindowError::Absent(address.clone())),
            Some(found) if found != expected => {
                Err(OpenWindowError::OtherDirectory { cluster: address.clone(), found, expected })
            }
            Some(_) => Ok(window),
        }
    }

    /// Makes the window of a new cluster, whose chain goes on after `tip` of the data directory.
    /// Errors: a cluster is there already; as for `open`.
    pub fn create(
        address: &ClusterAddress,
        directory: [u8; 16],
        tip: ChainPosition,
    ) -> Result<(), OpenWindowError> {
        let (mut window, _) = Self::look_at(address)?;
        let tip = WindowTip { position: tip, writer: WriterId(0) };
        let (tip_key, directory_key) = (window.keys.tip(), window.keys.named("directory"));
        let made = window.client.call(
            "/v3/kv/txn",
            &json!({
                "compare": [{
                    "key": encoded(&tip_key), "target": "VERSION", "result": "EQUAL",
                    "version": PUTS_DEFAULT,
                }],
                "success": [put(&tip_key, tip_bytes(&tip)), put(&directory_key, hex(&directory))],
            }),
        )?;
        if is_success(&made) { Ok(()) } else { Err(OpenWindowError::Present(address.clone())) }
    }

    /// Reaches a cluster that may not be there.
    pub(crate) fn reach(
        address: &ClusterAddress,
        writer: WriterId,
        is_closed: &Arc<AtomicBool>,
    ) -> Result<Self, OpenWindowError> {
        let (window, _) = Self::look_at(address)?;
        Ok(Self { writer, is_closed: Arc::clone(is_closed), ..window })
    }

    /// As `reach`, for who writes no batch; with the release of etcd.
    pub(crate) fn look_at(address: &ClusterAddress) -> Result<(Self, String), OpenWindowError> {
        let mut client = EtcdClient::new(&address.endpoints)?;
        let release = client.release()?;
        if loses_data(&release) {
            return Err(OpenWindowError::Release(release));
        }
        let (keys, writer) = (Keys::of(address), WriterId(0));
        let window = Self { client, keys, writer, is_closed: Arc::default(), compacted: 0 };
        Ok((window, release))
    }

    pub(crate) const fn client(&mut self) -> &mut EtcdClient {
        &mut self.client
    }

    /// Reads what changes beside the batches, at one moment.
    pub(crate) fn pulse(&mut self) -> Result<Pulse, WindowError> {
        let keys = [self.keys.tip(), self.keys.beat(), self.keys.step_down()];
        let reads: Vec<_> = keys.iter().map(|key| get(key)).collect();
        let read = self.ask("/v3/kv/txn", &json!({ "success": reads }))?;
        let found = |at: usize| value_of(&read["responses"][at]["response_range"]).map_err(foreign);
        let step_down = found(2)?.unwrap_or_default();
        let step_down = String::from_utf8(step_down).unwrap_or_default();
        Ok(Pulse { tip: tip_of(found(0)?)?, beat: found(1)?.unwrap_or_default(), step_down })
    }

    fn ask(&mut self, path: &str, body: &Value) -> Result<Value, WindowError> {
        if self.is_closed.load(Ordering::Acquire) {
            return Err(WindowError::Closed);
        }
        self.client.call(path, body).map_err(|error| match error {
            EtcdError::Unavailable(why) => WindowError::Unavailable(why),
            error => foreign(error),
        })
    }

    /// Lets go of the past of the keys now and then; etcd does not by itself.
    fn compact(&mut self, answer: &Value) {
        let revision = answer["header"]["revision"].as_str().and_then(|text| text.parse().ok());
        let Some(revision) = revision.filter(|now: &u64| *now > self.compacted + COMPACT_EVERY)
        else {
            return;
        };
        // Who compacted meanwhile has done it for this one.
        let body = json!({ "revision": (revision - COMPACT_EVERY / 2).to_string() });
        drop(self.client.call("/v3/kv/compaction", &body));
        self.compacted = revision;
    }
}

impl ChainWindow for EtcdWindow {
    fn writer(&self) -> WriterId {
        self.writer
    }

    fn tip(&mut self) -> Result<WindowTip, WindowError> {
        let key = self.keys.tip();
        let read = self.ask("/v3/kv/range", &json!({ "key": encoded(&key) }))?;
        tip_of(value_of(&read).map_err(foreign)?)
    }

    fn append(
        &mut self,
        after: &WindowTip,
        batches: &[SealedBatch],
    ) -> Result<Appended, WindowError> {
        let Some(last) = batches.last() else { return Ok(Appended::Written) };
        let tip_key = self.keys.tip();
        let new = WindowTip { position: last.position(), writer: self.writer };
        let mut writes: Vec<_> = batches
            .iter()
            .map(|batch| put(&self.keys.batch(batch.header.number.0), &batch.bytes))
            .collect();
        writes.push(put(&tip_key, tip_bytes(&new)));
        let kept_from = last.header.number.0.saturating_sub(WINDOW_BATCHES - 1);
        writes.push(json!({ "request_delete_range": {
            "key": encoded(self.keys.batches()),
            "range_end": encoded(self.keys.batch(kept_from)),
        }}));
        let answer = self.ask(
            "/v3/kv/txn",
            &json!({
                "compare": [{
                    "key": encoded(&tip_key), "target": "VALUE", "result": "EQUAL",
                    "value": encoded(tip_bytes(after)),
                }],
                "success": writes,
            }),
        )?;
        if !is_success(&answer) {
            return Ok(Appended::Refused);
        }
        self.compact(&answer);
        Ok(Appended::Written)
    }

    fn read_from(
        &mut self,
        number: BatchNumber,
        limit_bytes: usize,
    ) -> Result<Vec<StoredBatch>, WindowError> {
        let batches = self.keys.batches();
        let read = self.ask(
            "/v3/kv/range",
            &json!({
                "key": encoded(self.keys.batch(number.0)),
                "range_end": encoded(end_of(&batches)),
                "limit": READ_BATCHES.to_string(),
            }),
        )?;
        let mut found: Vec<StoredBatch> = Vec::new();
        let mut bytes_read = 0;
        for kv in read["kvs"].as_array().into_iter().flatten() {
            let key = String::from_utf8(decoded(&kv["key"]).map_err(foreign)?).unwrap_or_default();
            let named = key.strip_prefix(&batches).and_then(|digits| digits.parse().ok());
            let named =
                named.ok_or_else(|| WindowError::Foreign(format!("`{key}` is no batch")))?;
            let expected = number.0 + found.len() as u64;
            if named != expected && found.is_empty() {
                return Err(WindowError::Trimmed { wanted: number, first: BatchNumber(named) });
            }
            let bytes = decoded(&kv["value"]).map_err(foreign)?;
            bytes_read += bytes.len();
            found.push(StoredBatch { number: BatchNumber(named), bytes });
            if bytes_read >= limit_bytes {
                break;
            }
        }
        Ok(found)
    }
}

impl EtcdClient {
    pub(crate) fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>, EtcdError> {
        value_of(&self.call("/v3/kv/range", &json!({ "key": encoded(key) }))?)
    }

    pub(crate) fn put(&mut self, key: &str, value: &[u8]) -> Result<(), EtcdError> {
        let body = json!({ "key": encoded(key), "value": encoded(value) });
        self.call("/v3/kv/put", &body).map(drop)
    }

    /// All keys that begin with `prefix`, and their values.
    pub(crate) fn list(&mut self, prefix: &str) -> Result<Vec<Vec<u8>>, EtcdError> {
        let body = json!({ "key": encoded(prefix), "range_end": encoded(end_of(prefix)) });
        let read = self.call("/v3/kv/range", &body)?;
        read["kvs"].as_array().into_iter().flatten().map(|kv| decoded(&kv["value"])).collect()
    }

    /// What the database of the member that answers takes. Units: bytes.
    pub(crate) fn database_bytes(&mut self) -> Result<u64, EtcdError> {
        let status = self.call("/v3/maintenance/status", &json!({}))?;
        let bytes = status["dbSize"].as_str().and_then(|text| text.parse().ok());
        bytes.ok_or(EtcdError::Answer("it tells no size"))
    }

    fn release(&mut self) -> Result<String, EtcdError> {
        let status = self.call("/v3/maintenance/status", &json!({}))?;
        let release = status["version"].as_str().ok_or(EtcdError::Answer("it tells no version"))?;
        Ok(release.to_owned())
    }
}

/// Whether a release is too old for what is asked of it, or one of those that corrupt data
/// (etcd's announcement of 2022-04-20).
fn loses_data(release: &str) -> bool {
    let parts: Vec<u32> =
        release.split(['.', '-', '+']).map_while(|part| part.parse().ok()).collect();
    let [major, minor, patch, ..] = parts[..] else { return true };
    (major, minor, patch) < (3, 4, 10) || ((3, 5, 0)..=(3, 5, 2)).contains(&(major, minor, patch))
}

fn foreign(error: EtcdError) -> WindowError {
    WindowError::Foreign(error.to_string())
}

fn put(key: &str, value: impl AsRef<[u8]>) -> Value {
    json!({ "request_put": { "key": encoded(key), "value": encoded(value) } })
}

fn get(key: &str) -> Value {
    json!({ "request_range": { "key": encoded(key) } })
}

fn is_success(answer: &Value) -> bool {
    answer["succeeded"].as_bool().unwrap_or_default()
}

/// The value of the first key of a range.
fn value_of(range: &Value) -> Result<Option<Vec<u8>>, EtcdError> {
    match range["kvs"].get(0) {
        Some(kv) => decoded(&kv["value"]).map(Some),
        None => Ok(None),
    }
}

fn tip_bytes(tip: &WindowTip) -> [u8; TIP_BYTES] {
    let mut bytes = [0; TIP_BYTES];
    let (position, writer) = bytes.split_at_mut(ChainPosition::BYTES);
    position.copy_from_slice(&tip.position.to_bytes());
    writer.copy_from_slice(&tip.writer.0.to_be_bytes());
    bytes
}

fn tip_of(bytes: Option<Vec<u8>>) -> Result<WindowTip, WindowError> {
    let bytes =
        bytes.ok_or_else(|| WindowError::Foreign("the cluster's tip is gone".to_owned()))?;
    let (position, writer) = bytes.split_at_checked(ChainPosition::BYTES).unwrap_or_default();
    match (position.try_into(), writer.try_into()) {
        (Ok(position), Ok(writer)) => Ok(WindowTip {
            position: ChainPosition::from_bytes(position),
            writer: WriterId(u128::from_be_bytes(writer)),
        }),
        _ => Err(WindowError::Foreign("the cluster's tip is none of this build".to_owned())),
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cardswitch_engine::journal::{ChainHash, Epoch};

    #[test]
    fn releases_that_lose_data_are_known() {
        let lossy = ["3.4.9", "3.3.25", "3.5.0", "3.5.1", "3.5.2", "2.3.8", "", "new"];
        assert!(lossy.iter().all(|release| loses_data(release)));
        let sound = ["3.4.10", "3.4.23", "3.5.3", "3.5.3-rc.0", "3.6.0", "4.0.0"];
        assert!(!sound.iter().any(|release| loses_data(release)));
    }

    #[test]
    fn a_tip_is_read_as_it_was_written() {
        let hash = ChainHash([7; 32]);
        let position =
            ChainPosition { epoch: Epoch(3), number: BatchNumber(9), hash, last_seq: 41 };
        let tip = WindowTip { position, writer: WriterId(u128::MAX - 5) };
        assert_eq!(tip_of(Some(tip_bytes(&tip).to_vec())).unwrap(), tip);
        assert!(tip_of(Some(vec![0; TIP_BYTES + 1])).is_err());
        assert!(tip_of(None).is_err());
    }
}
