//! The requests of the cluster's parts to etcd: one key, all keys with a prefix, the state of a member.

use bytes::Bytes;

use crate::etcd::{EtcdClient, EtcdError, end_of};
use crate::proto::{
    DeleteRangeRequest, EtcdRequest, PutRequest, RangeRequest, RangeResponse, RequestOp,
    StatusRequest, StatusResponse, TxnRequest,
};

/// Names read at once.
const NAMES_READ: i64 = 1_000;

/// The state of a member of etcd.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemberStatus {
    pub(crate) release: String,
    /// The size of its database. Units: bytes.
    pub(crate) bytes: u64,
    /// It takes nothing more.
    pub(crate) is_full: bool,
}

impl From<StatusResponse> for MemberStatus {
    fn from(status: StatusResponse) -> Self {
        Self {
            release: status.version,
            bytes: u64::try_from(status.database_size).unwrap_or_default(),
            is_full: status.errors.iter().any(|error| error.contains("NOSPACE")),
        }
    }
}

impl EtcdClient {
    pub(crate) fn get(&mut self, key: String) -> Result<Option<Bytes>, EtcdError> {
        self.call(&one(key)).map(value_of)
    }

    pub(crate) fn put(&mut self, key: String, value: Vec<u8>) -> Result<(), EtcdError> {
        self.call(&PutRequest { key: key.into(), value: value.into() }).map(drop)
    }

    pub(crate) fn delete(&mut self, key: String) -> Result<(), EtcdError> {
        let one = DeleteRangeRequest { key: key.into(), range_end: Bytes::new() };
        let success = vec![EtcdRequest::DeleteRange(one).into()];
        self.call(&TxnRequest { compare: Vec::new(), success }).map(drop)
    }

    /// All keys that begin with `prefix`, and their values.
    pub(crate) fn list(&mut self, prefix: String) -> Result<Vec<(String, Bytes)>, EtcdError> {
        let range_end = end_of(&prefix);
        let whole = RangeRequest { key: prefix.into(), range_end, ..RangeRequest::default() };
        let read = self.call(&whole)?;
        let name = |key: Bytes| String::from_utf8_lossy(&key).into_owned();
        Ok(read.kvs.into_iter().map(|kv| (name(kv.key), kv.value)).collect())
    }

    /// All keys that begin with `prefix`.
    pub(crate) fn names(&mut self, prefix: String) -> Result<Vec<String>, EtcdError> {
        let range_end = end_of(&prefix);
        let mut names: Vec<String> = Vec::new();
        let mut from = prefix.into_bytes();
        // etcd reads the values, too, and would be silent for long over all of them.
        loop {
            let (key, range_end) = (Bytes::from(from), range_end.clone());
            let page = RangeRequest {
                key,
                range_end,
                limit: NAMES_READ,
                keys_only: true,
                ..Default::default()
            };
            let found = self.call(&page)?.kvs;
            let Some(last) = found.last().map(|kv| kv.key.clone()) else { return Ok(names) };
            names.extend(found.iter().map(|kv| String::from_utf8_lossy(&kv.key).into_owned()));
            from = [&last[..], &[0]].concat();
        }
    }

    /// The state of the member that is asked.
    pub(crate) fn status(&mut self) -> Result<MemberStatus, EtcdError> {
        self.call(&StatusRequest {}).map(MemberStatus::from)
    }

    /// The state of the first member that answers; it is asked from then on.
    pub(crate) fn status_of_any(&mut self) -> Result<MemberStatus, EtcdError> {
        self.call_any(&StatusRequest {}).map(MemberStatus::from)
    }
}

pub(crate) fn put(key: String, value: Bytes) -> RequestOp {
    EtcdRequest::Put(PutRequest { key: key.into(), value }).into()
}

/// Asks for one key.
pub(crate) fn one(key: String) -> RangeRequest {
    RangeRequest { key: key.into(), ..RangeRequest::default() }
}

/// The value of the first key of a range.
pub(crate) fn value_of(range: RangeResponse) -> Option<Bytes> {
    range.kvs.into_iter().next().map(|kv| kv.value)
}
