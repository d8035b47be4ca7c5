//! The tag of an object as an answer shows it, and the condition `If-Match` that it still looks like that.
//! Source: RFC 9110, 8.8.3 and 13.1.1.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::HeaderValue;
use axum::http::header::{ETAG, IF_MATCH};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use cardswitch_edge::error::ApiError;
use cardswitch_edge::json::Json;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// An answer that carries the tag of its body.
#[derive(Clone, Copy, Debug)]
pub struct TaggedBody<T>(pub T);

impl<T: Serialize> IntoResponse for TaggedBody<T> {
    fn into_response(self) -> Response {
        let tag = tag_of(&self.0);
        let mut response = Json(self.0).into_response();
        if let Some(tag) = tag.and_then(|tag| HeaderValue::try_from(tag).ok()) {
            response.headers_mut().insert(ETAG, tag);
        }
        response
    }
}

/// The tag of a body: the same from every node of a cluster, and after a restart. So addresses, which
/// may be those of the node, are no part of it. None for what is no JSON.
fn tag_of(body: &impl Serialize) -> Option<String> {
    let mut content = serde_json::to_value(body).ok()?;
    take_addresses(&mut content);
    let digest: [u8; 32] = Sha256::digest(content.to_string()).into();
    let digits: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    Some(format!("\"{digits}\""))
}

/// Takes the address of every object out of a body. The ids that they end with stay.
fn take_addresses(body: &mut Value) {
    match body {
        Value::Object(fields) => {
            fields.remove("url");
            fields.values_mut().for_each(take_addresses);
        }
        Value::Array(items) => items.iter_mut().for_each(take_addresses),
        _ => {}
    }
}

/// The condition of a request; none where the header is absent.
#[derive(Clone, Debug)]
pub struct IfMatch(Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for IfMatch {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let values = parts.headers.get_all(IF_MATCH).iter();
        // A header that is no text matches nothing.
        let texts: Vec<_> = values.map(|value| value.to_str().unwrap_or_default()).collect();
        Ok(Self((!texts.is_empty()).then(|| texts.join(","))))
    }
}

impl IfMatch {
    /// Whether the request has a condition.
    pub const fn is_given(&self) -> bool {
        self.0.is_some()
    }

    /// Errors: none of the tags is that of the object as it is now.
    pub fn check(&self, body: &impl Serialize) -> Result<(), ApiError> {
        let Some(tags) = &self.0 else { return Ok(()) };
        let present = tag_of(body);
        let is_matched = |tag: &str| tag == "*" || Some(tag) == present.as_deref();
        if tags.split(',').map(str::trim).any(is_matched) {
            return Ok(());
        }
        Err(ApiError::precondition_failed())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_of_the_tags_has_to_be_that_of_the_body() {
        let (shown, other) = (tag_of(&"shown").unwrap(), tag_of(&"other").unwrap());
        let rows = [
            (None, true),
            (Some("*".to_owned()), true),
            (Some(shown.clone()), true),
            (Some(format!("{other} , {shown}")), true),
            (Some(other), false),
            // A weak tag is worth nothing here, nor is one without quotes.
            (Some(format!("W/{shown}")), false),
            (Some(shown.trim_matches('"').to_owned()), false),
            (Some(String::new()), false),
        ];
        for (given, expected) in rows {
            assert_eq!(IfMatch(given.clone()).check(&"shown").is_ok(), expected, "{given:?}");
        }
    }

    /// Without a `base_url` each node has addresses of its own: its tags were worth nothing elsewhere.
    #[test]
    fn the_address_of_a_node_is_no_part_of_a_tag() {
        let body = |node: &str, number: u8| {
            let url = format!("http://{node}/v1/members/1");
            let card = json!({"id": 2, "url": format!("http://{node}/v1/cards/2")});
            tag_of(&json!({"id": number, "url": url, "cards": [card]})).unwrap()
        };
        assert_eq!(body("a.example", 1), body("b.example", 1));
        assert_ne!(body("a.example", 1), body("a.example", 2));
    }
}
