//! Forms that were sent: one that comes twice, by a double click or by going back, gets the answer that
//! it got before, and nothing is made twice. Excepted are forms whose answer shows a secret, and uploads.
//!
//! A page draws a mark for its forms, which is behind the value that binds them to the visitor. The same
//! form of the same page with the same content is the same form.
//!
//! INVARIANT: only answers that lead on to another page are kept, and those of changes that were made but
//! could not be shown in time: a form that was refused can be sent again.
//! INVARIANT: a form that is being carried out is not forgotten, and no visitor has others' forms forgotten
//! before their own.

use std::collections::VecDeque;
use std::sync::Arc;

use axum::http::header::LOCATION;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use cardswitch_edge::error::ApiError;
use cardswitch_edge::write_error::{UnshownChange, WriteError};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::sync::{Mutex as Turn, OwnedMutexGuard};
use uuid::Uuid;

/// How many forms are remembered, besides those that are being carried out.
const KEPT_MAX: usize = 16_384;
/// How many of them have the same bond, which is that of a session and a company.
const KEPT_OF_BOND_MAX: usize = 64;
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

/// The outcome of a form that was carried out.
#[derive(Clone, Debug)]
enum FormOutcome {
    /// It led on to the page at this address.
    LedOn(HeaderValue),
    /// Its change was made, but could not be shown in time.
    MadeNotShown,
}

/// The outcome of a form; none before it was carried out.
type KeptAnswer = Arc<Turn<Option<FormOutcome>>>;

/// The newest forms, the oldest first.
#[derive(Debug, Default)]
pub(super) struct SentForms(Mutex<VecDeque<SentForm>>);

#[derive(Debug)]
struct SentForm {
    /// The digest of the value that binds it to the visitor.
    bond: [u8; 32],
    /// The digest of the rest.
    form: [u8; 32],
    answer: KeptAnswer,
}

impl SentForm {
    /// Whether somebody carries it out, or waits for that. Only who has the list begins to.
    fn is_under_way(&self) -> bool {
        Arc::strong_count(&self.answer) > 1
    }
}

/// A form that is being carried out. The same form waits until this goes.
#[derive(Debug)]
pub(super) struct FormTurn(OwnedMutexGuard<Option<FormOutcome>>);

impl SentForms {
    /// Begins to carry out a form that came with the value `bond` before the mark of its page.
    /// Errors: it was carried out; its answer.
    pub(super) async fn begin(
        &self,
        bond: &str,
        path: &str,
        body: &[u8],
    ) -> Result<FormTurn, Response> {
        let mut digest = Sha256::new();
        digest.update(path);
        digest.update([0]);
        digest.update(body);
        let bond = Sha256::digest(bond).into();
        let turn = self.answer_of(bond, digest.finalize().into()).lock_owned().await;
        match &*turn {
            Some(FormOutcome::LedOn(to)) => {
                Err(Redirect::to(to.to_str().unwrap_or("/")).into_response())
            }
            Some(FormOutcome::MadeNotShown) => {
                Err(ApiError::from(WriteError::NotVisibleYet).into_response())
            }
            None => Ok(FormTurn(turn)),
        }
    }

    fn answer_of(&self, bond: [u8; 32], form: [u8; 32]) -> KeptAnswer {
        let mut kept = self.0.lock();
        if let Some(known) = kept.iter().find(|known| known.form == form) {
            return Arc::clone(&known.answer);
        }
        let own = kept.iter().filter(|known| known.bond == bond).count();
        let is_share_full = own >= KEPT_OF_BOND_MAX;
        if is_share_full || kept.len() >= KEPT_MAX {
            let is_of_share = |known: &SentForm| !is_share_full || known.bond == bond;
            let goes = |known: &SentForm| is_of_share(known) && !known.is_under_way();
            // Where all are under way, their number is bounded by that of requests.
            if let Some(oldest) = kept.iter().position(goes) {
                kept.remove(oldest);
            }
        }
        let answer = KeptAnswer::default();
        kept.push_back(SentForm { bond, form, answer: Arc::clone(&answer) });
        answer
    }
}

impl FormTurn {
    /// Keeps the answer, if the form was carried out.
    pub(super) fn end(mut self, answer: &Response) {
        if answer.status() == StatusCode::SEE_OTHER {
            *self.0 = answer.headers().get(LOCATION).cloned().map(FormOutcome::LedOn);
        } else if answer.extensions().get::<UnshownChange>().is_some() {
            *self.0 = Some(FormOutcome::MadeNotShown);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_form_that_led_on_is_carried_out_once_and_one_that_was_refused_again() {
        let forms = SentForms::default();
        let first = forms.begin("ada", "/cards/new", b"a").await.unwrap();
        first.end(&StatusCode::BAD_REQUEST.into_response());
        let again = forms.begin("ada", "/cards/new", b"a").await.unwrap();
        again.end(&Redirect::to("/cards/1").into_response());
        let answer = forms.begin("ada", "/cards/new", b"a").await.unwrap_err();
        assert_eq!(answer.headers()[LOCATION], "/cards/1");
        for (path, body) in [("/cards/new", b"b"), ("/members/new", b"a")] {
            drop(forms.begin("ada", path, body).await.unwrap());
        }
    }

    #[tokio::test]
    async fn the_same_form_waits_for_the_first() {
        let forms = Arc::new(SentForms::default());
        let first = forms.begin("ada", "/cards/new", b"a").await.unwrap();
        let waiting = Arc::clone(&forms);
        let second =
            tokio::spawn(async move { waiting.begin("ada", "/cards/new", b"a").await.map(|_| ()) });
        tokio::task::yield_now().await;
        assert!(!second.is_finished());
        first.end(&Redirect::to("/cards/1").into_response());
        assert!(second.await.unwrap().is_err());
    }

    async fn carry_out(forms: &SentForms, bond: &str, form: usize) {
        let turn = forms.begin(bond, "/cards/new", &form.to_be_bytes()).await.unwrap();
        turn.end(&Redirect::to("/cards/1").into_response());
    }

    async fn is_known(forms: &SentForms, bond: &str, form: usize) -> bool {
        forms.begin(bond, "/cards/new", &form.to_be_bytes()).await.is_err()
    }

    /// Once, the forms of all visitors shared one bound, and a form under way could be forgotten: a double
    /// click beside a busy visitor made two cards.
    #[tokio::test]
    async fn a_visitors_oldest_forms_are_forgotten_and_no_others() {
        let forms = SentForms::default();
        carry_out(&forms, "bea", usize::MAX).await;
        let under_way = forms.begin("ada", "/cards/new", b"slow").await.unwrap();
        for form in 0..=5_000 {
            carry_out(&forms, "ada", form).await;
        }
        assert!(forms.0.lock().len() <= KEPT_OF_BOND_MAX + 1);
        assert!(is_known(&forms, "bea", usize::MAX).await);
        assert!(is_known(&forms, "ada", 5_000).await);
        assert!(!is_known(&forms, "ada", 0).await);
        under_way.end(&Redirect::to("/cards/1").into_response());
        assert!(forms.begin("ada", "/cards/new", b"slow").await.is_err());
    }

    #[tokio::test]
    async fn the_oldest_forms_of_all_are_forgotten() {
        let forms = SentForms::default();
        carry_out(&forms, "ada", 0).await;
        carry_out(&forms, "bea", 1).await;
        let others = || SentForm { bond: [0; 32], form: [0; 32], answer: KeptAnswer::default() };
        forms.0.lock().extend(std::iter::repeat_with(others).take(KEPT_MAX - 2));
        carry_out(&forms, "cyd", 2).await;
        assert_eq!(forms.0.lock().len(), KEPT_MAX);
        assert!(is_known(&forms, "bea", 1).await);
        assert!(is_known(&forms, "cyd", 2).await);
        assert!(!is_known(&forms, "ada", 0).await);
    }
}
