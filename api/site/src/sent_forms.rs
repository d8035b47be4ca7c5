//! Forms that were sent: one that comes twice, by a double click or by going back, gets the answer that
//! it got before, and nothing is made twice. Excepted are forms whose answer shows a secret, and uploads.
//!
//! A page draws a mark for its forms, which is behind the value that binds them to the visitor. The same
//! form of the same page with the same content is the same form.
//!
//! INVARIANT: only answers that lead on to another page are kept: a form that was refused can be sent again.

use std::collections::VecDeque;
use std::sync::Arc;

use axum::http::header::LOCATION;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::sync::{Mutex as Turn, OwnedMutexGuard};
use uuid::Uuid;

/// How many forms are remembered.
const KEPT_MAX: usize = 4_096;
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

/// The answer of a form; none before it has led on to another page.
type KeptAnswer = Arc<Turn<Option<HeaderValue>>>;

/// The newest forms.
#[derive(Debug, Default)]
pub(super) struct SentForms(Mutex<VecDeque<([u8; 32], KeptAnswer)>>);

/// A form that is being carried out. The same form waits until this goes.
#[derive(Debug)]
pub(super) struct FormTurn(OwnedMutexGuard<Option<HeaderValue>>);

impl SentForms {
    /// Begins to carry out a form.
    /// Errors: it was carried out; its answer.
    pub(super) async fn begin(&self, path: &str, body: &[u8]) -> Result<FormTurn, Response> {
        let mut digest = Sha256::new();
        digest.update(path);
        digest.update([0]);
        digest.update(body);
        let turn = self.answer_of(digest.finalize().into()).lock_owned().await;
        match &*turn {
            Some(to) => Err(Redirect::to(to.to_str().unwrap_or("/")).into_response()),
            None => Ok(FormTurn(turn)),
        }
    }

    fn answer_of(&self, form: [u8; 32]) -> KeptAnswer {
        let mut kept = self.0.lock();
        if let Some((_, answer)) = kept.iter().find(|(known, _)| *known == form) {
            return Arc::clone(answer);
        }
        if kept.len() >= KEPT_MAX {
            kept.pop_front();
        }
        let answer = KeptAnswer::default();
        kept.push_back((form, Arc::clone(&answer)));
        answer
    }
}

impl FormTurn {
    /// Keeps the answer, if it leads on to another page.
    pub(super) fn end(mut self, answer: &Response) {
        if answer.status() == StatusCode::SEE_OTHER {
            *self.0 = answer.headers().get(LOCATION).cloned();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_form_that_led_on_is_carried_out_once_and_one_that_was_refused_again() {
        let forms = SentForms::default();
        let first = forms.begin("/cards/new", b"a").await.unwrap();
        first.end(&StatusCode::BAD_REQUEST.into_response());
        let again = forms.begin("/cards/new", b"a").await.unwrap();
        again.end(&Redirect::to("/cards/1").into_response());
        let answer = forms.begin("/cards/new", b"a").await.unwrap_err();
        assert_eq!(answer.headers()[LOCATION], "/cards/1");
        for (path, body) in [("/cards/new", b"b"), ("/members/new", b"a")] {
            drop(forms.begin(path, body).await.unwrap());
        }
    }

    #[tokio::test]
    async fn the_same_form_waits_for_the_first() {
        let forms = Arc::new(SentForms::default());
        let first = forms.begin("/cards/new", b"a").await.unwrap();
        let waiting = Arc::clone(&forms);
        let second =
            tokio::spawn(async move { waiting.begin("/cards/new", b"a").await.map(|_| ()) });
        tokio::task::yield_now().await;
        assert!(!second.is_finished());
        first.end(&Redirect::to("/cards/1").into_response());
        assert!(second.await.unwrap().is_err());
    }

    #[tokio::test]
    async fn the_oldest_forms_are_forgotten() {
        let forms = SentForms::default();
        for form in 0..=KEPT_MAX {
            let turn = forms.begin("/cards/new", &form.to_be_bytes()).await.unwrap();
            turn.end(&Redirect::to("/cards/1").into_response());
        }
        assert!(forms.begin("/cards/new", &0_usize.to_be_bytes()).await.is_ok());
        assert!(forms.begin("/cards/new", &KEPT_MAX.to_be_bytes()).await.is_err());
    }
}
