//! The window of a chain in etcd.
//!
//! Each append is one transaction: if `tip` is exactly the one that the writer continues, it writes
//! the batches and the new tip, and deletes batches older than the window. Reads are linearizable.
//!
//! etcd 3.4 goes through every key of a range, whatever the limit: no range that is read often is that of all batches.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use cardswitch_engine::clock::Stopwatch;
use cardswitch_engine::journal::window::{
    AppendOutcome, ChainWindow, WindowError, WindowTip, WriterId,
};
use cardswitch_engine::journal::{BatchNumber, ChainPosition, SealedBatch, StoredBatch};
use cardswitch_secrets::hex::to_hex;

use crate::address::ClusterAddress;
use crate::etcd::{EtcdClient, EtcdError, end_of};
use crate::extent::Extent;
use crate::proto::{
    CompactionRequest, Compare, DeleteRangeRequest, EtcdRequest, KeyValue, RangeRequest, RequestOp,
    Response, RpcCall, TxnRequest,
};
use crate::requests::{MemberStatus, one, put, value_of};

/// Batches read at once.
const READ_BATCHES: u64 = 64;
/// Revisions of etcd between two compactions of its history: each goes through every key.
const COMPACT_EVERY: i64 = 8_192;
/// The same in bytes that were appended, for deleted batches have their room until then.
const COMPACT_BYTES: u64 = 64 << 20;
const TIP_BYTES: usize = ChainPosition::BYTES + 16;

/// Why there is no window to use.
#[derive(Debug, thiserror::Error)]
pub enum OpenWindowError {
    /// etcd.
    #[error(transparent)]
    Etcd(#[from] EtcdError),
    /// A release of etcd that loses data.
    #[error("etcd {0} is not used: it can lose data; take 3.4.10 or later, but not 3.5.0 to 3.5.2")]
    Release(String),
    /// There is no key under the prefix.
    #[error(
        "`{0}` is no cluster yet: make one of a data directory with `cardswitch cluster adopt`"
    )]
    Absent(Box<ClusterAddress>),
    /// There are keys under the prefix.
    #[error("`{0}` is a cluster already")]
    Present(Box<ClusterAddress>),
    /// It is the cluster of another data directory.
    #[error("`{cluster}` is the cluster of data directory {found}, not of {expected}")]
    OtherDirectory {
        /// The cluster.
        cluster: Box<ClusterAddress>,
        /// The directory's id there.
        found: String,
        /// The id of the directory at hand.
        expected: String,
    },
}

/// The writer of the tip of a new cluster, which no node has led yet.
pub(crate) const NOBODY: WriterId = WriterId(0);

/// The key of the newest batch's place in the chain.
const TIP: &str = "tip";
/// The key of the window's extent.
const EXTENT: &str = "extent";
/// The key of the leader's last sign of life.
pub(crate) const BEAT: &str = "beat";
/// The key of the writer that is asked to lead no more.
pub(crate) const STEP_DOWN: &str = "step-down";

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

    pub(crate) fn node(&self, name: &str) -> String {
        self.named(&format!("node/{name}"))
    }

    pub(crate) fn batches(&self) -> String {
        self.named("j/")
    }

    fn batch(&self, number: u64) -> String {
        format!("{}{number:020}", self.batches())
    }
}

/// The keys that change beside the batches.
#[derive(Debug)]
pub(crate) struct Pulse {
    /// When etcd was asked.
    pub(crate) asked: Stopwatch,
    pub(crate) tip: WindowTip,
    /// The leader's last sign of life, empty before the first.
    pub(crate) beat: Vec<u8>,
    /// The writer that is asked to lead no more, empty where none was.
    pub(crate) step_down: String,
}

/// A connection to the window, as one run of one node.
#[derive(Debug)]
pub struct EtcdWindow {
    pub(crate) client: EtcdClient,
    keys: Keys,
    writer: WriterId,
    /// Set where the node stops: nothing is waited for any more.
    is_closed: Arc<AtomicBool>,
    /// There once this writer has appended.
    extent: Option<Extent>,
    /// The revision of the last compaction, and the bytes that were appended since.
    compacted: (i64, u64),
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
        let found = window.client.get(window.keys.named("directory"))?;
        let expected = to_hex(&directory);
        match found.map(|id| String::from_utf8_lossy(&id).into_owned()) {
            None => Err(OpenWindowError::Absent(Box::new(address.clone()))),
            Some(found) if found != expected => Err(OpenWindowError::OtherDirectory {
                cluster: Box::new(address.clone()),
                found,
                expected,
            }),
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
        let tip = WindowTip { position: tip, writer: NOBODY };
        let (tip_key, directory_key) = (window.keys.named(TIP), window.keys.named("directory"));
        let made = window.client.call(&TxnRequest {
            compare: vec![Compare::absent(tip_key.clone())],
            success: vec![
                put(tip_key, tip_bytes(&tip)),
                put(directory_key, to_hex(&directory).into()),
            ],
        })?;
        if made.succeeded {
            Ok(())
        } else {
            Err(OpenWindowError::Present(Box::new(address.clone())))
        }
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

    /// As `reach`, for a reader that writes no batch; with the release of etcd.
    pub(crate) fn look_at(address: &ClusterAddress) -> Result<(Self, String), OpenWindowError> {
        let mut client = EtcdClient::new(address)?;
        let MemberStatus { release, .. } = client.status_of_any()?;
        if loses_data(&release) {
            return Err(OpenWindowError::Release(release));
        }
        let (keys, writer) = (Keys::of(address), NOBODY);
        let (is_closed, extent, compacted) = (Arc::default(), None, (0, 0));
        Ok((Self { client, keys, writer, is_closed, extent, compacted }, release))
    }

    /// The tip, if a cluster is there.
    pub(crate) fn find_tip(&mut self) -> Result<Option<WindowTip>, EtcdError> {
        let Some(bytes) = self.client.get(self.keys.named(TIP))? else { return Ok(None) };
        let tip = tip_of(Some(bytes));
        tip.map(Some).map_err(|_| EtcdError::Answer("its tip is none of this build"))
    }

    /// Whether the run of the node that uses this one has written the tip.
    pub(crate) fn is_of(&self, tip: &WindowTip) -> bool {
        tip.writer == self.writer
    }

    /// Reads the keys that change beside the batches, at one moment.
    pub(crate) fn pulse(&mut self) -> Result<Pulse, WindowError> {
        let read = |name| EtcdRequest::Range(one(self.keys.named(name))).into();
        let reads = [TIP, BEAT, STEP_DOWN].map(read).to_vec();
        let request = TxnRequest { compare: Vec::new(), success: reads };
        let asked = Stopwatch::start();
        let read = self.open_client()?.look(&request).map_err(no_answer)?;
        let mut found = read.responses.into_iter().map(|read| match read.response {
            Some(Response::Range(range)) => value_of(range),
            _ => None,
        });
        let mut next = || found.next().flatten();
        let (tip, beat, step_down) = (next(), next(), next());
        let step_down = String::from_utf8_lossy(&step_down.unwrap_or_default()).into_owned();
        let beat = beat.unwrap_or_default().to_vec();
        Ok(Pulse { asked, tip: tip_of(tip)?, beat, step_down })
    }

    fn ask<C: RpcCall>(&mut self, request: &C) -> Result<C::Answer, WindowError> {
        self.open_client()?.call(request).map_err(no_answer)
    }

    fn open_client(&mut self) -> Result<&mut EtcdClient, WindowError> {
        match self.is_closed.load(Ordering::Acquire) {
            true => Err(WindowError::Closed),
            false => Ok(&mut self.client),
        }
    }

    /// The extent of the window, as the writer before left it; `next` is appended now.
    fn extent(&mut self, next: u64) -> Result<Extent, WindowError> {
        let key = self.keys.named(EXTENT);
        if let Some(saved) = value_of(self.ask(&one(key))?) {
            return extent_of(&saved);
        }
        // None was written yet: there are few batches.
        let batches = self.keys.batches();
        let (key, range_end) = (batches.clone().into(), end_of(&batches));
        let read =
            self.ask(&RangeRequest { key, range_end, limit: 1, ..RangeRequest::default() })?;
        let oldest = read.kvs.first().map(|kv| batch_number(&batches, &kv.key));
        Ok(Extent::from(oldest.unwrap_or(Ok(next))?))
    }

    /// Notes the batches of an append. Returns the writes that delete old ones, if it is time for that.
    fn note(&mut self, batches: &[SealedBatch]) -> Result<Vec<RequestOp>, WindowError> {
        let Some(next) = batches.first().map(|batch| batch.header.number.0) else {
            return Ok(Vec::new());
        };
        let mut extent = match self.extent.take() {
            Some(extent) => extent,
            None => self.extent(next)?,
        };
        batches.iter().for_each(|batch| extent.note(batch.header.number.0, batch.bytes.len()));
        let mut writes = Vec::new();
        if extent.trim() {
            let old = DeleteRangeRequest {
                key: self.keys.batches().into(),
                range_end: self.keys.batch(extent.first).into(),
            };
            writes.push(put(self.keys.named(EXTENT), extent.to_bytes().into()));
            writes.push(EtcdRequest::DeleteRange(old).into());
        }
        self.extent = Some(extent);
        Ok(writes)
    }

    /// Lets go of the past of the keys now and then; etcd does not by itself.
    fn compact(&mut self, revision: i64, appended: u64) {
        self.compacted.1 += appended;
        let (since, bytes) = self.compacted;
        if revision <= since + COMPACT_EVERY && bytes <= COMPACT_BYTES {
            return;
        }
        // Another node's compaction meanwhile serves this one too.
        drop(self.client.call(&CompactionRequest { revision }));
        self.compacted = (revision, 0);
    }
}

fn no_answer(error: EtcdError) -> WindowError {
    match error {
        EtcdError::Unavailable(why) => WindowError::Unavailable(why),
        error => WindowError::Foreign(error.to_string()),
    }
}

impl ChainWindow for EtcdWindow {
    fn writer(&self) -> WriterId {
        self.writer
    }

    fn tip(&mut self) -> Result<WindowTip, WindowError> {
        let key = self.keys.named(TIP);
        tip_of(value_of(self.ask(&one(key))?))
    }

    fn append(
        &mut self,
        after: &WindowTip,
        batches: &[SealedBatch],
    ) -> Result<AppendOutcome, WindowError> {
        let Some(last) = batches.last() else { return Ok(AppendOutcome::Written) };
        let tip_key = self.keys.named(TIP);
        let new = WindowTip { position: last.position(), writer: self.writer };
        let mut writes = self.note(batches)?;
        writes.extend(batches.iter().map(|batch| {
            let key = self.keys.batch(batch.header.number.0);
            put(key, Bytes::copy_from_slice(&batch.bytes))
        }));
        writes.push(put(tip_key.clone(), tip_bytes(&new)));
        let answer = self.ask(&TxnRequest {
            compare: vec![Compare::value(tip_key, tip_bytes(after))],
            success: writes,
        })?;
        if !answer.succeeded {
            return Ok(AppendOutcome::Refused);
        }
        let appended = batches.iter().map(|batch| batch.bytes.len() as u64).sum();
        self.compact(answer.header.unwrap_or_default().revision, appended);
        Ok(AppendOutcome::Written)
    }

    fn read_from(
        &mut self,
        number: BatchNumber,
        limit_bytes: usize,
    ) -> Result<Vec<StoredBatch>, WindowError> {
        let batches = self.keys.batches();
        let range = RangeRequest {
            key: self.keys.batch(number.0).into(),
            range_end: self.keys.batch(number.0 + READ_BATCHES).into(),
            ..RangeRequest::default()
        };
        let mut found: Vec<StoredBatch> = Vec::new();
        let mut bytes_read = 0;
        for KeyValue { key, value } in self.ask(&range)?.kvs {
            let named = batch_number(&batches, &key)?;
            if found.is_empty() && named != number.0 {
                return Err(WindowError::Trimmed { wanted: number, first: BatchNumber(named) });
            }
            bytes_read += value.len();
            found.push(StoredBatch { number: BatchNumber(named), bytes: value.to_vec() });
            if bytes_read >= limit_bytes {
                break;
            }
        }
        if found.is_empty() {
            let key = self.keys.named(EXTENT);
            let extent =
                value_of(self.ask(&one(key))?).map(|saved| extent_of(&saved)).transpose()?;
            let first = extent.map_or(0, |extent| extent.first);
            if first > number.0 {
                return Err(WindowError::Trimmed { wanted: number, first: BatchNumber(first) });
            }
        }
        Ok(found)
    }
}

fn batch_number(batches: &str, key: &[u8]) -> Result<u64, WindowError> {
    let key = String::from_utf8_lossy(key);
    let named = key.strip_prefix(batches).and_then(|digits| digits.parse().ok());
    named.ok_or_else(|| WindowError::Foreign(format!("`{key}` is no batch")))
}

fn extent_of(saved: &[u8]) -> Result<Extent, WindowError> {
    let wrong = || WindowError::Foreign("the cluster's extent is none of this build".to_owned());
    Extent::parse(saved).ok_or_else(wrong)
}

impl EtcdClient {
    /// The number of batches in a window. etcd counts them only before an extent is written, while they are few.
    pub(crate) fn window_batches(&mut self, keys: &Keys) -> Result<u64, EtcdError> {
        let extent = self.get(keys.named(EXTENT))?.and_then(|saved| Extent::parse(&saved));
        let tip = tip_of(self.get(keys.named(TIP))?);
        if let (Some(extent), Ok(tip)) = (extent, tip) {
            return Ok((tip.position.number.0 + 1).saturating_sub(extent.first));
        }
        let batches = keys.batches();
        let (key, range_end) = (batches.clone().into(), end_of(&batches));
        let range = RangeRequest { key, range_end, count_only: true, ..RangeRequest::default() };
        Ok(u64::try_from(self.call(&range)?.count).unwrap_or_default())
    }
}

/// Whether a release is too old for the calls made here, or one of the releases that corrupt data
/// (etcd's announcement of 2022-04-20).
fn loses_data(release: &str) -> bool {
    let parts: Vec<u32> =
        release.split(['.', '-', '+']).map_while(|part| part.parse().ok()).collect();
    let [major, minor, patch, ..] = parts[..] else { return true };
    (major, minor, patch) < (3, 4, 10) || ((3, 5, 0)..=(3, 5, 2)).contains(&(major, minor, patch))
}

fn tip_bytes(tip: &WindowTip) -> Bytes {
    let mut bytes = Vec::with_capacity(TIP_BYTES);
    bytes.extend_from_slice(&tip.position.to_bytes());
    bytes.extend_from_slice(&tip.writer.0.to_be_bytes());
    Bytes::from(bytes)
}

fn tip_of(bytes: Option<Bytes>) -> Result<WindowTip, WindowError> {
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

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use cardswitch_engine::journal::chain::seal_barrier;
    use cardswitch_engine::journal::{ChainHash, Epoch};
    use http_body_util::Empty;
    use hyper::server::conn::http2::Builder;
    use hyper::service::service_fn;
    use hyper_util::rt::{TokioExecutor, TokioIo};

    use super::*;

    /// A member of etcd that answers everything with one code of gRPC. Returns its address.
    fn start_member(code: u16) -> ClusterAddress {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("etcd://{}/test", listener.local_addr().unwrap());
        let serve = async move {
            listener.set_nonblocking(true).unwrap();
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                let answer = service_fn(move |_| async move {
                    let answer = hyper::Response::builder().header("grpc-status", code);
                    Ok::<_, Infallible>(answer.body(Empty::<Bytes>::new()).unwrap())
                });
                let http2 = Builder::new(TokioExecutor::new());
                drop(http2.serve_connection(TokioIo::new(stream), answer).await);
            }
        };
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(serve);
        });
        address.parse().unwrap()
    }

    /// Once, a leader gave up the lead, and a follower that took it ended, where etcd's own leader stopped meanwhile:
    /// raft drops a proposal then, which etcd tells as "unknown".
    #[test]
    fn an_append_that_etcd_dropped_may_be_tried_again() {
        let genesis = WindowTip { position: ChainPosition::GENESIS, writer: NOBODY };
        let barrier = seal_barrier(0, &genesis.position);
        for (code, passes) in [(2, true), (14, true), (3, false), (7, false), (12, false)] {
            let address = start_member(code);
            let mut window = EtcdWindow {
                client: EtcdClient::new(&address).unwrap(),
                keys: Keys::of(&address),
                writer: WriterId(1),
                is_closed: Arc::default(),
                extent: Some(Extent::from(1)),
                compacted: (0, 0),
            };
            let appended = window.append(&genesis, std::slice::from_ref(&barrier)).unwrap_err();
            let is_unavailable = |error: WindowError| matches!(error, WindowError::Unavailable(_));
            assert_eq!(is_unavailable(appended), passes, "code {code}");
            assert_eq!(is_unavailable(window.tip().unwrap_err()), passes, "code {code}");
        }
    }

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
        assert_eq!(tip_of(Some(tip_bytes(&tip))).unwrap(), tip);
        assert!(tip_of(Some(vec![0; TIP_BYTES + 1].into())).is_err());
        assert!(tip_of(None).is_err());
    }
}
