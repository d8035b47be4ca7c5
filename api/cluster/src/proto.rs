//! The messages to etcd and its answers: the part of its API version 3 that is used here.
//!
//! Source: `rpc.proto` and `kv.proto` of etcd 3.4. Written out, so that a build needs no `protoc`.

use bytes::Bytes;

/// A message, its method and its answer.
pub(crate) trait RpcCall: prost::Message {
    /// The path of the method.
    const PATH: &'static str;
    type Answer: prost::Message + Default;
}

macro_rules! calls {
    ($($request:ident $path:literal $answer:ident;)*) => {
        $(impl RpcCall for $request {
            const PATH: &'static str = $path;
            type Answer = $answer;
        })*
    };
}

calls! {
    RangeRequest "/etcdserverpb.KV/Range" RangeResponse;
    PutRequest "/etcdserverpb.KV/Put" PutResponse;
    TxnRequest "/etcdserverpb.KV/Txn" TxnResponse;
    CompactionRequest "/etcdserverpb.KV/Compact" CompactionResponse;
    StatusRequest "/etcdserverpb.Maintenance/Status" StatusResponse;
    AuthenticateRequest "/etcdserverpb.Auth/Authenticate" AuthenticateResponse;
}

/// Its fields are left out of `Debug`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
#[prost(skip_debug)]
pub(crate) struct AuthenticateRequest {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) password: String,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
#[prost(skip_debug)]
pub(crate) struct AuthenticateResponse {
    #[prost(string, tag = "2")]
    pub(crate) token: String,
}

cardswitch_engine::opaque!(AuthenticateRequest);
cardswitch_engine::opaque!(AuthenticateResponse);

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct ResponseHeader {
    #[prost(int64, tag = "3")]
    pub(crate) revision: i64,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct KeyValue {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) key: Bytes,
    #[prost(bytes = "bytes", tag = "5")]
    pub(crate) value: Bytes,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct RangeRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) key: Bytes,
    /// The first key that is not wanted; empty for one key alone.
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) range_end: Bytes,
    /// How many at most; 0 for all.
    #[prost(int64, tag = "3")]
    pub(crate) limit: i64,
    /// To tell keys without values.
    #[prost(bool, tag = "8")]
    pub(crate) keys_only: bool,
    /// To tell how many there are, and none of them.
    #[prost(bool, tag = "9")]
    pub(crate) count_only: bool,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct RangeResponse {
    #[prost(message, repeated, tag = "2")]
    pub(crate) kvs: Vec<KeyValue>,
    /// The number of all keys in the range, also beyond the limit.
    #[prost(int64, tag = "4")]
    pub(crate) count: i64,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct PutRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) value: Bytes,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct PutResponse {}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct DeleteRangeRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) range_end: Bytes,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct DeleteRangeResponse {}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct RequestOp {
    #[prost(oneof = "EtcdRequest", tags = "1, 2, 3")]
    pub(crate) request: Option<EtcdRequest>,
}

#[derive(Clone, PartialEq, Eq, prost::Oneof)]
pub(crate) enum EtcdRequest {
    #[prost(message, tag = "1")]
    Range(RangeRequest),
    #[prost(message, tag = "2")]
    Put(PutRequest),
    #[prost(message, tag = "3")]
    DeleteRange(DeleteRangeRequest),
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct ResponseOp {
    #[prost(oneof = "Response", tags = "1, 2, 3")]
    pub(crate) response: Option<Response>,
}

#[derive(Clone, PartialEq, Eq, prost::Oneof)]
pub(crate) enum Response {
    #[prost(message, tag = "1")]
    Range(RangeResponse),
    #[prost(message, tag = "2")]
    Put(PutResponse),
    #[prost(message, tag = "3")]
    DeleteRange(DeleteRangeResponse),
}

/// The condition that an attribute of a key is the expected one, or below it.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct Compare {
    #[prost(enumeration = "CompareResult", tag = "1")]
    pub(crate) result: i32,
    #[prost(enumeration = "CompareTarget", tag = "2")]
    pub(crate) target: i32,
    #[prost(bytes = "bytes", tag = "3")]
    pub(crate) key: Bytes,
    #[prost(oneof = "ExpectedValue", tags = "4, 7")]
    pub(crate) expected: Option<ExpectedValue>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub(crate) enum CompareResult {
    Equal = 0,
    Less = 2,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub(crate) enum CompareTarget {
    Version = 0,
    Value = 3,
}

#[derive(Clone, PartialEq, Eq, prost::Oneof)]
pub(crate) enum ExpectedValue {
    /// How often the key was put since it is there; 0 where it is not.
    #[prost(int64, tag = "4")]
    Version(i64),
    #[prost(bytes = "bytes", tag = "7")]
    Value(Bytes),
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct TxnRequest {
    #[prost(message, repeated, tag = "1")]
    pub(crate) compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) success: Vec<RequestOp>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct TxnResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<ResponseHeader>,
    #[prost(bool, tag = "2")]
    pub(crate) succeeded: bool,
    #[prost(message, repeated, tag = "3")]
    pub(crate) responses: Vec<ResponseOp>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct CompactionRequest {
    #[prost(int64, tag = "1")]
    pub(crate) revision: i64,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct CompactionResponse {}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct StatusRequest {}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct StatusResponse {
    #[prost(string, tag = "2")]
    pub(crate) version: String,
    /// Units: bytes.
    #[prost(int64, tag = "3")]
    pub(crate) database_size: i64,
    /// The member's alarms, such as that it has no room.
    #[prost(string, repeated, tag = "8")]
    pub(crate) errors: Vec<String>,
}

impl Compare {
    /// The condition that the value of a key is this one.
    pub(crate) fn value(key: impl Into<Bytes>, value: Bytes) -> Self {
        let expected = Some(ExpectedValue::Value(value));
        let (result, target) = (CompareResult::Equal.into(), CompareTarget::Value.into());
        Self { result, target, key: key.into(), expected }
    }

    /// The condition that the value of an existing key comes before this one.
    pub(crate) fn below(key: impl Into<Bytes>, value: Bytes) -> Self {
        Self { result: CompareResult::Less.into(), ..Self::value(key, value) }
    }

    /// The condition that a key does not exist.
    pub(crate) fn absent(key: impl Into<Bytes>) -> Self {
        let expected = Some(ExpectedValue::Version(0));
        let (result, target) = (CompareResult::Equal.into(), CompareTarget::Version.into());
        Self { result, target, key: key.into(), expected }
    }
}

impl From<EtcdRequest> for RequestOp {
    fn from(request: EtcdRequest) -> Self {
        Self { request: Some(request) }
    }
}
