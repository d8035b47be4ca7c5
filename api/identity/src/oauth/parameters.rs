//! The body of a request to a token endpoint: a form or a JSON object, read alike.
//!
//! A name without a value counts as left out (RFC 6749, 3.1), unknown names are ignored, and no
//! name may come twice.

use axum::extract::{FromRequest, Request};
use axum::http::HeaderMap;
use serde_json::Value;
use url::form_urlencoded;

use cardswitch_edge::error::ApiError;
use cardswitch_edge::request_body::{media_type, read_body, read_json_text};
use cardswitch_wire::fault::Flaw;

/// The longest body. Units: bytes.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// The parameters of a request.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Parameters(Vec<(String, Parameter)>);

// Passwords and secrets are among them.
cardswitch_engine::opaque!(Parameters);

#[derive(Clone, PartialEq, Eq)]
enum Parameter {
    Text(String),
    NotText,
}

/// The format of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    UrlEncoded,
    Json,
}

impl Parameters {
    /// The parameter `name`; none where it has no value.
    /// Errors: it came twice, or is no text.
    pub(super) fn text(&self, name: &str) -> Result<Option<&str>, ApiError> {
        let mut found = self.0.iter().filter(|(known, _)| known == name);
        let fault =
            |code, message: &str| Err(ApiError::invalid_field(name, Flaw::new(code, message)));
        match (found.next(), found.next()) {
            (_, Some(_)) => fault("repeated", "must come once"),
            (Some((_, Parameter::NotText)), None) => fault("not_text", "must be text"),
            (Some((_, Parameter::Text(text))), None) => {
                Ok(Some(text.as_str()).filter(|text| !text.is_empty()))
            }
            (None, None) => Ok(None),
        }
    }

    /// The parameter `name`, which must have a value.
    /// Errors: it has none, came twice, or is no text.
    pub(super) fn required(&self, name: &str) -> Result<&str, ApiError> {
        self.text(name)?.ok_or_else(|| ApiError::invalid_field(name, Flaw::required()))
    }

    fn parse(form: Form, body: &[u8]) -> Result<Self, ApiError> {
        match form {
            Form::UrlEncoded => {
                let pairs = form_urlencoded::parse(body);
                let texts = pairs.map(|(name, text)| (name.into(), Parameter::Text(text.into())));
                Ok(Self(texts.collect()))
            }
            Form::Json => match serde_json::from_slice(body) {
                Ok(Value::Object(fields)) => Ok(Self(
                    fields.into_iter().map(|(name, value)| (name, Parameter::of(value))).collect(),
                )),
                _ => Err(ApiError::malformed_body()),
            },
        }
    }
}

impl Parameter {
    /// A list of words, as answers show scopes, is its words.
    fn of(value: Value) -> Self {
        match value {
            Value::String(text) => Self::Text(text),
            Value::Null => Self::Text(String::new()),
            Value::Array(items) => {
                let words: Option<Vec<_>> = items.iter().map(Value::as_str).collect();
                words.map_or(Self::NotText, |words| Self::Text(words.join(" ")))
            }
            _ => Self::NotText,
        }
    }
}

impl<S: Send + Sync> FromRequest<S> for Parameters {
    type Rejection = ApiError;

    async fn from_request(request: Request, _state: &S) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        let form = form_of(&parts.headers).ok_or_else(ApiError::not_a_form)?;
        let body = match form {
            Form::UrlEncoded => read_body(body, BODY_BYTES_MAX).await?,
            Form::Json => read_json_text(body, BODY_BYTES_MAX).await?,
        };
        Self::parse(form, &body)
    }
}

fn form_of(headers: &HeaderMap) -> Option<Form> {
    match media_type(headers).to_ascii_lowercase().as_str() {
        "application/json" => Some(Form::Json),
        "application/x-www-form-urlencoded" => Some(Form::UrlEncoded),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use axum::http::header::CONTENT_TYPE;

    use super::*;

    fn form(body: &str) -> Parameters {
        Parameters::parse(Form::UrlEncoded, body.as_bytes()).unwrap()
    }

    fn json(body: &str) -> Parameters {
        Parameters::parse(Form::Json, body.as_bytes()).unwrap()
    }

    #[test]
    fn forms_and_objects_are_read_alike() {
        for parameters in [
            form("a=1+2%263&b=&x=%C3%A4"),
            json(r#"{"a": "1 2&3", "b": "", "x": "ä"}"#),
            json(r#"{"a": ["1", "2&3"], "b": null, "x": "ä", "y": {}}"#),
        ] {
            assert_eq!(parameters.text("a"), Ok(Some("1 2&3")));
            assert_eq!(parameters.text("b"), Ok(None));
            assert_eq!(parameters.text("c"), Ok(None));
            assert_eq!(parameters.text("x"), Ok(Some("ä")));
            assert!(parameters.required("a").is_ok());
            assert!(parameters.required("b").is_err() && parameters.required("c").is_err());
            assert_eq!(format!("{parameters:?}"), "Parameters(..)");
        }
    }

    #[test]
    fn nothing_comes_twice_and_everything_is_text() {
        assert!(form("a=1&a=1").text("a").is_err());
        assert!(form("a=1&a=").text("a").is_err());
        assert!(form("a=1&b=2&b=3").text("a").is_ok());
        for body in [r#"{"a": 1}"#, r#"{"a": true}"#, r#"{"a": {}}"#, r#"{"a": ["b", 1]}"#] {
            assert!(json(body).text("a").is_err(), "{body}");
        }
        for body in ["", "[]", "a=1", "{", "\"a\"", "null"] {
            assert!(Parameters::parse(Form::Json, body.as_bytes()).is_err(), "{body}");
        }
        assert_eq!(form("").text("a"), Ok(None));
        assert_eq!(form("%ff=%ff&a").text("a"), Ok(None));
    }

    #[test]
    fn bodies_are_of_two_types() {
        let rows = [
            (Some("application/json"), Some(Form::Json)),
            (Some("Application/JSON; charset=utf-8"), Some(Form::Json)),
            (Some("application/x-www-form-urlencoded"), Some(Form::UrlEncoded)),
            (Some("application/x-www-form-urlencoded; charset=UTF-8"), Some(Form::UrlEncoded)),
            (Some("multipart/form-data"), None),
            (Some("text/plain"), None),
            (Some(""), None),
            (None, None),
        ];
        for (value, expected) in rows {
            let mut headers = HeaderMap::new();
            if let Some(value) = value {
                headers.insert(CONTENT_TYPE, value.parse().unwrap());
            }
            assert_eq!(form_of(&headers), expected, "{value:?}");
        }
    }
}
