//! The header `Idempotency-Key`, by which a client marks a request and its repeats; `/v1`,
//! `/scim/v2` and `/network/v1` read it alike.

use axum::http::{HeaderMap, HeaderName};
use cardswitch_wire::fault::Flaw;

use crate::error::ApiError;

/// The header.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The longest key. Units: bytes.
const KEY_BYTES_MAX: usize = 255;

/// The key of a request, where it has one.
/// Errors: more than one, none within the header, too long, or not of visible ASCII characters.
pub fn idempotency_key(headers: &HeaderMap) -> Result<Option<&[u8]>, ApiError> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let fault = |code, message: String| {
        Err(ApiError::invalid_field("Idempotency-Key", Flaw::new(code, message)))
    };
    if values.next().is_some() {
        return fault("repeated", "must come once".to_owned());
    }
    let key = value.as_bytes();
    if key.is_empty() || key.len() > KEY_BYTES_MAX {
        return fault("wrong_length", format!("must have 1 to {KEY_BYTES_MAX} characters"));
    }
    if !key.iter().all(u8::is_ascii_graphic) {
        return fault("not_visible_ascii", "must have visible ASCII characters only".to_owned());
    }
    Ok(Some(key))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn keys_are_short_visible_ascii() {
        let longest = "k".repeat(KEY_BYTES_MAX);
        let rows: [(&[u8], bool); 8] = [
            (b"1", true),
            (b"!~order-7/\"a\"", true),
            (longest.as_bytes(), true),
            (b"", false),
            (b"two words", false),
            (b"tab\there", false),
            ("schl\u{fc}ssel".as_bytes(), false),
            (&[b'k'; KEY_BYTES_MAX + 1], false),
        ];
        for (key, is_taken) in rows {
            let mut headers = HeaderMap::new();
            headers.insert(IDEMPOTENCY_KEY, HeaderValue::from_bytes(key).unwrap());
            let read = idempotency_key(&headers);
            assert_eq!(read.is_ok(), is_taken, "{}", String::from_utf8_lossy(key));
            assert!(read.is_err() || read == Ok(Some(key)));
        }
    }

    #[test]
    fn a_request_has_one_key_or_none() {
        let mut headers = HeaderMap::new();
        assert_eq!(idempotency_key(&headers), Ok(None));
        headers.append(IDEMPOTENCY_KEY, HeaderValue::from_static("a"));
        headers.append(IDEMPOTENCY_KEY, HeaderValue::from_static("a"));
        assert!(idempotency_key(&headers).is_err());
    }
}
