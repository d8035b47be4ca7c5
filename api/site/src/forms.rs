//! Forms as handlers take them: of the right origin, with the value that binds them to the visitor,
//! of bounded length, and read into a struct.
//!
//! A field that comes once is text (or `true` for a box that is ticked); one that may come several
//! times is a `Vec<String>` with `#[serde(default)]`. The handler interprets the texts.
//! `TypedFields` holds fields that are named elsewhere: by a table, or by `/v1`.

use std::collections::BTreeMap;

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use cardswitch_edge::error::ApiError;
use cardswitch_edge::request_body::{media_type, read_body};
use cardswitch_engine::directory::member::MemberRole;
use cardswitch_identity::idempotency::form_key::{FormKey, FormSender};
use cardswitch_identity::state::AppState;
use cardswitch_secrets::idempotency_keys::FormShare;
use cardswitch_wire::fields::Fields;
use serde::de::value::{Error as FormError, MapDeserializer, SeqDeserializer};
use serde::de::{DeserializeOwned, Error as _, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use url::form_urlencoded;

use super::csrf;
use super::error_page::{error_page, failure_page};
use super::sent_forms::{FormDesk, has_mark, without_mark};
use super::session::{OptionalSession, Session};
use super::visit::Visit;

/// The longest form. Units: bytes.
const FORM_BYTES_MAX: usize = 64 * 1024;
/// How many fields a form may have.
const FIELDS_MAX: usize = 200;

/// A form that a page of the site has sent.
#[derive(Clone, Copy, Debug)]
pub struct SiteForm<T>(pub T);

impl<T: DeserializeOwned> FromRequest<AppState> for SiteForm<T> {
    type Rejection = Response;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, Response> {
        let (mut parts, body) = request.into_parts();
        if !csrf::is_from_here(&parts.headers, &state.urls().app) {
            return Err(foreign_form());
        }
        if !is_form(&parts.headers) {
            return Err(failure_page(StatusCode::UNSUPPORTED_MEDIA_TYPE));
        }
        let OptionalSession(_, session) = OptionalSession::from_request_parts(&mut parts, state)
            .await
            .map_err(IntoResponse::into_response)?;
        let body = read_body(body, FORM_BYTES_MAX).await.map_err(IntoResponse::into_response)?;
        let changed = session.as_ref().and_then(|session| refusal_where_changed(session, state));
        if let Some(refusal) = changed {
            return Err(refusal);
        }
        let fields = fields_of(&body).ok_or_else(|| failure_page(StatusCode::BAD_REQUEST))?;
        let sent = fields.iter().find(|(name, _)| name == csrf::FIELD);
        let sent =
            sent.and_then(|(_, FormField(values))| values.first()).map_or("", String::as_str);
        let visit = Visit::find(&parts.extensions);
        let visit = visit.filter(|visit| csrf::is_visitors(state, visit, session.as_ref(), sent));
        let visit = visit.ok_or_else(stale_form)?;
        let current = session.as_ref().and_then(|session| session.current.as_ref());
        if has_mark(sent)
            && let Some((company, member)) = current
            && let Some(desk) = parts.extensions.get::<FormDesk>()
        {
            let share = match member.role {
                MemberRole::Administrator => FormShare::Administrators,
                _ => FormShare::Others,
            };
            let sender = FormSender { company: company.id, share, bond: without_mark(sent) };
            let key = FormKey::of(state, sender, parts.uri.path(), &body);
            visit.keep_turn(desk.begin(state, key).await?);
        }
        read_form(fields).map(Self).map_err(|_| failure_page(StatusCode::BAD_REQUEST))
    }
}

/// Values of fields that come once, by their names.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(transparent)]
pub(super) struct TypedFields(BTreeMap<String, String>);

impl TypedFields {
    /// The value of a field; none where the form does not have it.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The value of a field; blank where the form does not have it.
    pub(super) fn of(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    /// Whether a box is ticked.
    pub(super) fn is_ticked(&self, name: &str) -> bool {
        is_yes(self.of(name))
    }
}

impl<T: Into<String>> FromIterator<(&'static str, T)> for TypedFields {
    fn from_iter<I: IntoIterator<Item = (&'static str, T)>>(fields: I) -> Self {
        Self(fields.into_iter().map(|(name, text)| (name.to_owned(), text.into())).collect())
    }
}

fn is_yes(text: &str) -> bool {
    matches!(text, "true" | "on" | "1")
}

/// Lines as they are kept; browsers send them as mail has them.
pub(super) fn unix_lines(text: &str) -> String {
    text.replace("\r\n", "\n")
}

/// The fields of a form, as a body of `/v1`.
#[derive(Debug)]
pub(super) struct FormBody(String);

impl FormBody {
    pub(super) fn of(body: impl Into<Value>) -> Self {
        Self(body.into().to_string())
    }

    /// The fields for the parser of `/v1`.
    pub(super) fn fields(&self) -> Result<Fields<'_>, ApiError> {
        Fields::parse(self.0.as_bytes()).ok_or_else(ApiError::malformed_body)
    }
}

/// A form whose only field is a box to tick.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct ConfirmForm {
    #[serde(default)]
    pub(super) is_confirmed: bool,
}

/// The refusal of a form whose sender has lost the rights they had when it began to come: their
/// session, membership or rights have changed meanwhile.
pub(super) fn refusal_where_changed(session: &Session, state: &AppState) -> Option<Response> {
    match session.stands(state) {
        Ok(true) => None,
        Ok(false) => Some(stale_form()),
        Err(error) => Some(error.into_response()),
    }
}

/// The refusal of a form that another site has sent.
pub(super) fn foreign_form() -> Response {
    let text = "The form was sent from another site. To do this, use the form of this site.";
    error_page(StatusCode::FORBIDDEN, "Blocked: cross-site request", text)
}

/// The refusal of a form that was not made for the visitor, or for another of their companies.
pub(super) fn stale_form() -> Response {
    let text = "Go back, load the page again and send the form once more. You may have switched to \
                another company. If that does not help, your browser may be refusing cookies of this \
                site.";
    error_page(StatusCode::FORBIDDEN, "This form is out of date", text)
}

fn is_form(headers: &HeaderMap) -> bool {
    media_type(headers).eq_ignore_ascii_case("application/x-www-form-urlencoded")
}

/// Fields by name, in the order in which the names came first; none where there are too many.
fn fields_of(body: &[u8]) -> Option<Vec<(String, FormField)>> {
    let mut fields: Vec<(String, FormField)> = Vec::new();
    for (count, (name, value)) in form_urlencoded::parse(body).enumerate() {
        if count == FIELDS_MAX {
            return None;
        }
        match fields.iter_mut().find(|(known, _)| *known == name) {
            Some((_, FormField(values))) => values.push(value.into_owned()),
            None => fields.push((name.into_owned(), FormField(vec![value.into_owned()]))),
        }
    }
    Some(fields)
}

fn read_form<T: DeserializeOwned>(fields: Vec<(String, FormField)>) -> Result<T, FormError> {
    T::deserialize(MapDeserializer::new(fields.into_iter()))
}

/// The values of a field.
struct FormField(Vec<String>);

impl FormField {
    fn only(self) -> Result<String, FormError> {
        let mut values = self.0.into_iter();
        match (values.next(), values.next()) {
            (Some(value), None) => Ok(value),
            _ => Err(FormError::custom("a field came more than once")),
        }
    }
}

impl IntoDeserializer<'_, FormError> for FormField {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for FormField {
    type Error = FormError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FormError> {
        visitor.visit_string(self.only()?)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FormError> {
        visitor.visit_bool(is_yes(&self.only()?))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FormError> {
        visitor.visit_some(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FormError> {
        visitor.visit_seq(SeqDeserializer::new(self.0.into_iter()))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, FormError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, FormError> {
        let value: serde::de::value::StringDeserializer<FormError> =
            self.only()?.into_deserializer();
        value.deserialize_enum(name, variants, visitor)
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct tuple tuple_struct map struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize, PartialEq, Eq)]
    struct Sample {
        name: String,
        #[serde(default)]
        note: Option<String>,
        #[serde(default)]
        scope: Vec<String>,
        #[serde(default)]
        is_sure: bool,
    }

    fn read(body: &str) -> Option<Sample> {
        read_form(fields_of(body.as_bytes())?).ok()
    }

    #[test]
    fn fields_are_read_by_name() {
        let sample = |name: &str| Sample {
            name: name.to_owned(),
            note: None,
            scope: Vec::new(),
            is_sure: false,
        };
        let rows = [
            ("name=Ada+Lovelace&unknown=1&csrf=2", Some(sample("Ada Lovelace"))),
            ("name=%3Cb%3E%00%22", Some(sample("<b>\0\""))),
            ("name=", Some(sample(""))),
            (
                "name=a&scope=x&note=n&scope=y&is_sure=on",
                Some(Sample {
                    note: Some("n".to_owned()),
                    scope: vec!["x".to_owned(), "y".to_owned()],
                    is_sure: true,
                    ..sample("a")
                }),
            ),
            // Neither of two values counts more than the other.
            ("name=a&name=b", None),
            ("note=a", None),
            ("", None),
        ];
        for (body, expected) in rows {
            assert_eq!(read(body), expected, "{body}");
        }
        assert_eq!(read(&"name=a&".repeat(FIELDS_MAX + 1)), None);
    }
}
