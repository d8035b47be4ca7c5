//! The rules that the head of every request has to meet.
//!
//! A proxy and the switch that read a head differently can be played off against each other: which of
//! two fields counts is nobody's to choose. Hyper refuses lengths that contradict each other, and
//! fields that are no text of HTTP.

use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, TRANSFER_ENCODING};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Version};

use crate::error::ApiError;

/// The fields that decide who asks, whom, and how the body is read.
static SINGLE_FIELDS: [HeaderName; 4] = [HOST, AUTHORIZATION, CONTENT_TYPE, TRANSFER_ENCODING];

/// Whether a head may be judged any further.
/// Errors: a field is repeated that may come once; the host is missing or malformed; the body is coded
/// otherwise than in chunks.
pub(crate) fn check_head(version: Version, headers: &HeaderMap) -> Result<(), ApiError> {
    for name in &SINGLE_FIELDS {
        if headers.get_all(name).iter().nth(1).is_some() {
            return Err(ApiError::repeated_header(name));
        }
    }
    let host = headers.get(HOST);
    let may_lack_host = version < Version::HTTP_11;
    if !host.map_or(may_lack_host, is_host) {
        return Err(ApiError::malformed_host());
    }
    let coding = headers.get(TRANSFER_ENCODING);
    if coding.is_some_and(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"chunked")) {
        return Err(ApiError::unsupported_transfer_coding());
    }
    Ok(())
}

/// Whether a value can be a host and port as URIs have them.
fn is_host(value: &HeaderValue) -> bool {
    let is_of_hosts =
        |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=%:[]".contains(byte);
    !value.is_empty() && value.as_bytes().iter().all(is_of_hosts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code_of(version: Version, fields: &[(&'static str, &[u8])]) -> Option<String> {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_bytes(value).unwrap());
        }
        let refused = check_head(version, &headers).err()?;
        assert_eq!(refused.status.as_u16(), 400);
        Some(refused.body()["detail"]["code"].as_str().unwrap().to_owned())
    }

    #[test]
    fn heads_that_can_be_read_in_two_ways_are_refused() {
        const HOST: (&str, &[u8]) = ("host", b"switch.example:8443");
        type Fields<'a> = &'a [(&'a str, &'a [u8])];
        let rows: [(Fields<'_>, Option<&str>); 15] = [
            (&[HOST], None),
            (&[("host", b"[2001:db8::1]:80")], None),
            (&[("host", b"bank_1.example")], None),
            (&[], Some("malformed_host")),
            (&[("host", b"")], Some("malformed_host")),
            (&[("host", b"a b")], Some("malformed_host")),
            (&[("host", b"a/b")], Some("malformed_host")),
            (&[("host", b"user@a")], Some("malformed_host")),
            (&[("host", b"\xff")], Some("malformed_host")),
            (&[HOST, HOST], Some("repeated_header")),
            (&[HOST, ("authorization", b"a"), ("authorization", b"a")], Some("repeated_header")),
            (&[HOST, ("content-type", b"a"), ("content-type", b"b")], Some("repeated_header")),
            (&[HOST, ("x-forwarded-for", b"a"), ("x-forwarded-for", b"b")], None),
            (&[HOST, ("transfer-encoding", b"Chunked")], None),
            (&[HOST, ("transfer-encoding", b"gzip, chunked")], Some("unsupported_transfer_coding")),
        ];
        for (fields, code) in rows {
            assert_eq!(code_of(Version::HTTP_11, fields).as_deref(), code, "{fields:?}");
        }
        assert_eq!(code_of(Version::HTTP_10, &[]), None, "HTTP/1.0 has no need of a host");
        assert_eq!(code_of(Version::HTTP_10, &[HOST, HOST]).as_deref(), Some("repeated_header"));
    }
}
