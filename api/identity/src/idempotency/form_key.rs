//! Forms of the site, each of which is carried out once: kept as answers to requests with a key are,
//! under names that no key of a client has.
//!
//! | kept | of a form |
//! |---|---|
//! | no content | whose change was made, but never answered or not shown |
//! | an address, sealed | that led on to the page there |

use axum::http::{HeaderValue, StatusCode};
use cardswitch_edge::error::ApiError;
use cardswitch_engine::domain::ids::CompanyId;
use cardswitch_engine::domain::keyed_answer::KeyedContent;
use cardswitch_secrets::idempotency_keys::{AnswerName, FormShare};

use super::{KeyedRequest, find_answer, keep_content};
use crate::state::AppState;

/// The status under which forms are kept.
pub(super) const FORM_STATUS: StatusCode = StatusCode::SEE_OTHER;

/// The name of a form, and its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FormKey(pub(super) KeyedRequest);

/// The sender of a form.
#[derive(Clone, Copy, Debug)]
pub struct FormSender<'a> {
    /// The company that the form is about.
    pub company: CompanyId,
    /// The share of the company's keys that the form counts among.
    pub share: FormShare,
    /// The value that binds the form to the sender's session and to the company.
    pub bond: &'a str,
}

/// The outcome of a form that was carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormOutcome {
    /// It led on to the page at this address.
    LedOn(HeaderValue),
    /// Its change was made, but was not shown.
    MadeNotShown,
}

impl FormKey {
    /// The key of a form with this body, which was sent to `path`.
    pub fn of(state: &AppState, sender: FormSender<'_>, path: &str, body: &[u8]) -> Self {
        let keys = &state.secrets.idempotency;
        let request = keys.request_hash("POST", path, body);
        let key = keys.name_of_form((sender.company, sender.share), sender.bond, &request);
        Self(KeyedRequest { key, request })
    }

    /// The outcome of the form; none where it was not carried out within a day.
    /// Errors: the tables cannot be read.
    pub fn find(&self, state: &AppState) -> Result<Option<FormOutcome>, ApiError> {
        let Some(known) = find_answer(state, &self.0.key)? else { return Ok(None) };
        let address = match &known.content {
            KeyedContent::Object { .. } => None,
            KeyedContent::Body(sealed) => state.secrets.idempotency.open(&known, sealed),
        };
        let address = address.and_then(|address| HeaderValue::from_maybe_shared(address).ok());
        Ok(Some(address.map_or(FormOutcome::MadeNotShown, FormOutcome::LedOn)))
    }

    /// Keeps the outcome of the form, and waits until it is there for repeats.
    /// Errors: it cannot be kept.
    pub async fn keep(&self, state: &AppState, outcome: &FormOutcome) -> Result<(), ApiError> {
        let KeyedRequest { key, request } = self.0;
        let content = match outcome {
            FormOutcome::MadeNotShown => KeyedContent::Object { path: String::new() },
            FormOutcome::LedOn(address) => {
                let name = AnswerName { key, request, status: FORM_STATUS.as_u16() };
                let sealed = state.secrets.idempotency.seal(&name, address.as_bytes());
                KeyedContent::Body(sealed.map_err(|error| ApiError::internal(&error))?)
            }
        };
        keep_content(state, &self.0, FORM_STATUS.as_u16(), content).await
    }
}
