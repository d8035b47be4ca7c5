//! Forms that were sent: one that comes twice, by a double click or by going back, gets the answer that
//! it got before, and nothing is made twice. Excepted are forms whose answer shows a secret, and uploads.
//!
//! A page draws a mark for its forms, which is behind the value that binds them to the visitor. The same
//! form of the same page with the same content is the same form. Its outcome is kept for a day, beside
//! the answers to requests with a key: the record of its change holds its claim. Here is only who waits.
//!
//! INVARIANT: only answers that lead on to another page are kept, and those of changes that were made but
//! could not be shown in time: a form that was refused can be sent again.

use std::collections::HashMap;
use std::sync::Arc;

use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse, Redirect, Response};
use cardswitch_edge::write_error::UnshownChange;
use cardswitch_identity::idempotency::Claim;
use cardswitch_identity::idempotency::claim::ClaimFate;
use cardswitch_identity::idempotency::form_key::{FormKey, FormOutcome};
use cardswitch_identity::state::AppState;
use parking_lot::Mutex;
use tokio::sync::{Mutex as Turn, OwnedMutexGuard};
use uuid::Uuid;

use super::error_page::not_shown_yet;

/// Between the value that binds a form to the visitor and the mark of its page.
const BEFORE_MARK: char = '.';

/// The value of a form with a mark that no other page has.
pub(super) fn with_mark(value: &str, mark: Uuid) -> String {
    format!("{value}{BEFORE_MARK}{}", mark.simple())
}

/// The value without its mark.
pub(super) fn without_mark(sent: &str) -> &str {
    sent.split_once(BEFORE_MARK).map_or(sent, |(value, _)| value)
}

/// Whether a value has a mark.
pub(super) fn has_mark(sent: &str) -> bool {
    sent.contains(BEFORE_MARK)
}

/// The forms under way, each with the turn that the same form waits for.
#[derive(Debug, Default)]
pub(super) struct SentForms(Mutex<HashMap<FormKey, Arc<Turn<()>>>>);

impl SentForms {
    async fn turn(&self, key: FormKey) -> OwnedMutexGuard<()> {
        let turn = {
            let mut all = self.0.lock();
            // Only who has the list begins to wait, so nobody is at work on the others.
            all.retain(|_, turn| Arc::strong_count(turn) > 1);
            Arc::clone(all.entry(key).or_default())
        };
        turn.lock_owned().await
    }
}

/// Where a form of this request begins, and the claim that its change will carry.
#[derive(Clone, Debug)]
pub(super) struct FormDesk {
    pub(super) forms: Arc<SentForms>,
    pub(super) claim: Arc<Claim>,
}

/// A form that is being carried out. The same form waits until this goes.
pub(super) struct FormTurn {
    state: AppState,
    key: FormKey,
    claim: Arc<Claim>,
    _turn: OwnedMutexGuard<()>,
}

cardswitch_engine::opaque!(FormTurn);

impl FormDesk {
    /// Begins to carry out a form.
    /// Errors: it was carried out, with its answer; the tables cannot be read.
    pub(super) async fn begin(&self, state: &AppState, key: FormKey) -> Result<FormTurn, Response> {
        let turn = self.forms.turn(key).await;
        match key.find(state).map_err(IntoResponse::into_response)? {
            Some(FormOutcome::LedOn(to)) => {
                Err(Redirect::to(to.to_str().unwrap_or("/")).into_response())
            }
            Some(FormOutcome::MadeNotShown) => Err(not_shown_yet()),
            None => {
                self.claim.name(key);
                let claim = Arc::clone(&self.claim);
                Ok(FormTurn { state: state.clone(), key, claim, _turn: turn })
            }
        }
    }
}

impl FormTurn {
    /// Keeps the answer, if the form was carried out, and gives the answer to send.
    pub(super) async fn end(self, answer: Response) -> Response {
        let fate = self.claim.fate();
        if fate == ClaimFate::Taken {
            // The first one's change does not show in the tables yet.
            return not_shown_yet();
        }
        let outcome = outcome_of(&answer, fate);
        if let Some(outcome) = outcome
            && let Err(error) = self.key.keep(&self.state, &outcome).await
        {
            // A repeat of a change is told all the same that it was made.
            tracing::warn!(?error, "the answer to a form of the site was not kept");
        }
        answer
    }
}

/// The outcome that is still to be kept of a form with this answer.
fn outcome_of(answer: &Response, fate: ClaimFate) -> Option<FormOutcome> {
    match fate {
        ClaimFate::Waiting | ClaimFate::Made if answer.status() == StatusCode::SEE_OTHER => {
            answer.headers().get(LOCATION).cloned().map(FormOutcome::LedOn)
        }
        // Of a change with the claim this is said already.
        ClaimFate::Waiting => {
            answer.extensions().get::<UnshownChange>().map(|_| FormOutcome::MadeNotShown)
        }
        ClaimFate::Made | ClaimFate::Taken | ClaimFate::Refused | ClaimFate::Unknown => None,
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn only_forms_that_were_carried_out_are_kept() {
        let led_on = || Redirect::to("/cards/1").into_response();
        let to = FormOutcome::LedOn(HeaderValue::from_static("/cards/1"));
        let unshown = || {
            let mut page = not_shown_yet();
            page.extensions_mut().insert(UnshownChange);
            page
        };
        let rows = [
            (led_on(), ClaimFate::Made, Some(to.clone())),
            (led_on(), ClaimFate::Waiting, Some(to)),
            (led_on(), ClaimFate::Unknown, None),
            (led_on(), ClaimFate::Refused, None),
            (unshown(), ClaimFate::Made, None),
            (unshown(), ClaimFate::Waiting, Some(FormOutcome::MadeNotShown)),
            (StatusCode::OK.into_response(), ClaimFate::Waiting, None),
            (StatusCode::BAD_REQUEST.into_response(), ClaimFate::Waiting, None),
        ];
        for (answer, fate, expected) in rows {
            assert_eq!(outcome_of(&answer, fate), expected, "{} {fate:?}", answer.status());
        }
    }
}
