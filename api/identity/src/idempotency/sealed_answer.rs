//! An answer as it is kept: its status in the row, the rest sealed. Other headers are made anew
//! each time, as the request's id is.
//!
//! | at | bytes | content, before it is sealed |
//! |---|---|---|
//! | 0 | 1 | format, 2 |
//! | 1 | 1 | length of the content type; 0 where there is none |
//! | 2 | n | content type |
//! | | 1 + n | the same of the tag of its object |
//! | | | body |

use std::collections::BTreeMap;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use cardswitch_edge::error::ApiError;
use cardswitch_secrets::idempotency_keys::AnswerName;
use serde_json::value::RawValue;

use super::KeyedRequest;

/// The header that tells a repeat's answer from the first.
pub const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

const FORMAT: u8 = 2;
/// The longest answer that is kept where nothing was changed. A refusal or an unchanged object costs its
/// caller next to nothing, so longer ones would fill the disk; a repeat is carried out. Units: bytes.
const UNCHANGED_BYTES_MAX: usize = 16 << 10;

/// Status, content type, tag and body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AnswerParts {
    status: StatusCode,
    content_type: Option<HeaderValue>,
    tag: Option<HeaderValue>,
    body: Bytes,
}

impl AnswerParts {
    /// The kept part of a response.
    /// Errors: its body breaks off.
    pub(super) async fn of(response: Response) -> Result<Self, ApiError> {
        let (parts, body) = response.into_parts();
        let [content_type, tag] =
            [header::CONTENT_TYPE, header::ETAG].map(|name| parts.headers.get(name).cloned());
        // Handlers that change something answer from memory.
        let body = to_bytes(body, usize::MAX).await.map_err(|error| ApiError::internal(&error))?;
        Ok(Self { status: parts.status, content_type, tag, body })
    }

    /// An answer that shows nothing.
    pub(super) fn without_content(status: u16) -> Self {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
        let is_empty = status == StatusCode::NO_CONTENT;
        let content_type = HeaderValue::from_static("application/json");
        Self {
            status,
            content_type: (!is_empty).then_some(content_type),
            tag: None,
            body: if is_empty { Bytes::new() } else { Bytes::from_static(b"{}") },
        }
    }

    /// The member of this name in a JSON object, as it is written there.
    pub(super) fn member(&self, name: &str) -> Option<Self> {
        let members: BTreeMap<String, &RawValue> = serde_json::from_slice(&self.body).ok()?;
        let body = Bytes::copy_from_slice(members.get(name)?.get().as_bytes());
        Some(Self { body, ..self.clone() })
    }

    /// A JSON object with the list of these.
    pub(super) fn of_results(results: &[Self]) -> Self {
        let bodies: Vec<_> = results.iter().map(|result| &*result.body).collect();
        let list = bodies.join(&b","[..]);
        let body = [&b"{\"results\":["[..], &list, b"]}"].concat();
        Self { body: body.into(), ..Self::without_content(200) }
    }

    pub(super) fn with_status(self, status: u16) -> Self {
        Self { status: StatusCode::from_u16(status).unwrap_or(self.status), ..self }
    }

    pub(super) fn status(&self) -> u16 {
        self.status.as_u16()
    }

    /// Whether it is kept only for a change that was made.
    pub(super) fn is_long(&self) -> bool {
        self.body.len() > UNCHANGED_BYTES_MAX
    }

    /// The name that the answer is sealed for.
    pub(super) fn name(&self, asked: &KeyedRequest) -> AnswerName {
        AnswerName { key: asked.key, request: asked.request, status: self.status() }
    }

    pub(super) fn pack(&self) -> Vec<u8> {
        let mut packed = vec![FORMAT];
        for header in [&self.content_type, &self.tag] {
            let value = header.as_ref().map_or(&b""[..], HeaderValue::as_bytes);
            // Ours are short; one that is not would be left out.
            let (length, value) =
                u8::try_from(value.len()).map_or((0, &b""[..]), |length| (length, value));
            packed.push(length);
            packed.extend(value);
        }
        packed.extend(&self.body);
        packed
    }

    /// None for bytes that `pack` did not write.
    pub(super) fn unpack(status: u16, plain: &[u8]) -> Option<Self> {
        let [FORMAT, rest @ ..] = plain else { return None };
        let (content_type, rest) = split_header(rest)?;
        let (tag, body) = split_header(rest)?;
        let status = StatusCode::from_u16(status).ok()?;
        Some(Self { status, content_type, tag, body: Bytes::copy_from_slice(body) })
    }
}

/// A header's value, none where it is empty, and what follows it.
fn split_header(packed: &[u8]) -> Option<(Option<HeaderValue>, &[u8])> {
    let (length, rest) = packed.split_first()?;
    let (value, rest) = rest.split_at_checked(usize::from(*length))?;
    let header = (!value.is_empty()).then(|| HeaderValue::from_bytes(value));
    Some((header.transpose().ok()?, rest))
}

impl IntoResponse for AnswerParts {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.body));
        *response.status_mut() = self.status;
        // Some of these answers hold links and passphrases: none is for a cache.
        let no_store = HeaderValue::from_static("no-store");
        response.headers_mut().insert(header::CACHE_CONTROL, no_store);
        for (name, value) in [(header::CONTENT_TYPE, self.content_type), (header::ETAG, self.tag)] {
            if let Some(value) = value {
                response.headers_mut().insert(name, value);
            }
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_as_it_was_kept() {
        let json = Some(HeaderValue::from_static("application/json"));
        let rows = [
            (201, json.clone(), &b"{\"id\": 1}"[..]),
            (200, json, b""),
            (204, None, b""),
            (500, None, &[0, 1, 255]),
        ];
        for (status, content_type, body) in rows {
            let status_code = StatusCode::from_u16(status).unwrap();
            for tag in [None, Some(HeaderValue::from_static("\"a tag\""))] {
                let (content_type, body) = (content_type.clone(), Bytes::from_static(body));
                let answer = AnswerParts { status: status_code, content_type, tag, body };
                assert_eq!(AnswerParts::unpack(status, &answer.pack()), Some(answer));
            }
        }
        let shown = |body: &'static [u8]| AnswerParts {
            body: Bytes::from_static(body),
            ..AnswerParts::without_content(200)
        };
        let whole = shown(b"{\"a\": 1.50, \"b\": {\"c\": 2.00}}");
        assert_eq!(whole.member("b"), Some(shown(b"{\"c\": 2.00}")), "digits stay");
        assert_eq!((whole.member("d"), shown(b"[]").member("a")), (None, None));
        let list = AnswerParts::of_results(&[shown(b"{\"a\":1.50}"), shown(b"2")]);
        assert_eq!(list, shown(b"{\"results\":[{\"a\":1.50},2]}"));
        for damaged in [&b""[..], b"\x02", b"\x01\x00\x00", b"\x02\x05json", b"\x02\x00"] {
            assert_eq!(AnswerParts::unpack(200, damaged), None);
        }
    }
}
