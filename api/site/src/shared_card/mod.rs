//! The page that a shared link leads to: its card, for a holder of the link who knows its
//! passphrase.
//! Source: spec "Shared link".
//!
//! | file | what |
//! |---|---|
//! | `linked_card` | the card behind a key; all failures look the same |
//! | `passphrase`, `pass` | the check of answers, and the proof that saves repeating them |
//! | `card_words` | the card in words |
//!
//! INVARIANT: nothing of a card is on a page before its passphrase is known, its number is only on
//! a page that a form requested, and none of these pages is kept, found by searching or named to
//! others.

mod card_words;
mod linked_card;
pub mod pass;
mod passphrase;

use std::net::IpAddr;
use std::sync::Arc;

use axum::Extension;
use axum::Router;
use axum::extract::Path;
use axum::http::header::{REFERRER_POLICY, RETRY_AFTER, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::map_response;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use cardswitch_bounds::TooManyTries;
use cardswitch_edge::client_address::ClientAddress;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::write_error::WriteError;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::card::{CardCommand, NumberViewer};
use cardswitch_engine::directory::shared_link::SharedLinkCommand;
use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_identity::actor_state::ActorState;
use cardswitch_identity::auth::link_guesses::GuessKind;
use cardswitch_identity::auth::throttle::{AttemptTarget, Source};
use cardswitch_identity::state::AppState;
use serde::Deserialize;

use self::card_words::{ask_page, card_page};
use self::linked_card::{LinkedCard, gone};
use super::cards::secret::CardSecret;
use super::csrf::csrf_of;
use super::faults::with_status;
use super::forms::SiteForm;
use super::session::{OptionalSession, Session};
use super::visit::Visit;

const WRONG: &str = "Incorrect answers. Check them and try again.";
const PASSED: &str = "Timed out. Please answer again.";

/// The pages of shared cards.
pub(super) fn shared_card_routes() -> Router<AppState> {
    Router::new()
        .route("/s/{key}", get(show).post(act).fallback(async || ApiError::method_not_allowed()))
        .layer(map_response(keep_to_itself))
}

/// Keeps the address of the page from others, since it opens the card.
async fn keep_to_itself(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert("x-robots-tag", HeaderValue::from_static("noindex, nofollow, noarchive"));
    response
}

/// The state in the hands of a viewer, who acts as a member of the card's company or as nobody.
fn in_hands_of(state: ActorState, session: Option<&Session>, opened: &LinkedCard) -> ActorState {
    let actor = session.and_then(|session| session.actor_in(opened.company.id));
    actor.map_or(state.clone(), |actor| state.as_actor(actor))
}

/// A visitor's view of a shared card.
struct SharedCardView<'a> {
    state: &'a ActorState,
    opened: &'a LinkedCard,
    csrf: String,
    address: IpAddr,
}

/// The action that a viewer asks for.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ViewerAction {
    /// Entry by passphrase.
    Open,
    /// The number of the card.
    Show,
}

/// The form of `POST /s/{key}`.
#[derive(Debug, Deserialize)]
struct ViewerForm {
    action: ViewerAction,
    /// The answers, in the order of the passphrase fields.
    #[serde(default)]
    answer: Vec<String>,
}

/// Shows the card, or asks for its passphrase. GET /s/{key}.
async fn show(
    Extension(visit): Extension<Arc<Visit>>,
    ClientAddress(address): ClientAddress,
    OptionalSession(state, session): OptionalSession,
    (method, Path(key), headers): (Method, Path<String>, HeaderMap),
) -> Result<Response, ApiError> {
    let Some(opened) = LinkedCard::find(&state, &key, address).await? else { return Ok(gone()) };
    let state = in_hands_of(state, session.as_ref(), &opened);
    let csrf = csrf_of(&state, &visit, session.as_ref());
    let viewing = SharedCardView { state: &state, opened: &opened, csrf, address };
    if !opened.is_open_to(&state, &headers) {
        return Ok(ask_page(&viewing, ""));
    }
    // HEAD is answered without the page, so nobody has seen the card.
    if method == Method::GET {
        viewing.note_view().await;
    }
    Ok(card_page(&viewing, "", None))
}

/// Takes answers, or shows the number. POST /s/{key}.
async fn act(
    Extension(visit): Extension<Arc<Visit>>,
    ClientAddress(address): ClientAddress,
    OptionalSession(state, session): OptionalSession,
    (Path(key), headers): (Path<String>, HeaderMap),
    SiteForm(form): SiteForm<ViewerForm>,
) -> Result<Response, ApiError> {
    let Some(opened) = LinkedCard::find(&state, &key, address).await? else { return Ok(gone()) };
    let state = in_hands_of(state, session.as_ref(), &opened);
    let csrf = csrf_of(&state, &visit, session.as_ref());
    let viewing = SharedCardView { state: &state, opened: &opened, csrf, address };
    match form.action {
        ViewerAction::Open => viewing.judge(&form.answer).await,
        ViewerAction::Show if opened.is_open_to(&state, &headers) => viewing.reveal().await,
        ViewerAction::Show => Ok(with_status(ask_page(&viewing, PASSED), StatusCode::FORBIDDEN)),
    }
}

impl SharedCardView<'_> {
    /// Lets the viewer in whose answers are right.
    /// Errors: too many from this address.
    async fn judge(&self, answers: &[String]) -> Result<Response, ApiError> {
        let (state, link) = (self.state, &self.opened.link);
        let guess = match state.throttle.links.begin(GuessKind::Answer, link.id, self.address) {
            Ok(guess) => guess,
            Err(refused) => {
                return Ok(too_many(refused, |text| ask_page(self, text)));
            }
        };
        let account = Some(AttemptTarget::SharedLink(link.id));
        let source = Source::Address(self.address);
        let attempt = state.throttle.admit_on_page(account, source).await?;
        if !passphrase::are_right(&self.opened.passphrase, answers) {
            attempt.failed();
            guess.counts();
            return Ok(with_status(ask_page(self, WRONG), StatusCode::UNAUTHORIZED));
        }
        attempt.succeeded();
        let path = &self.opened.path;
        let mut response = Redirect::to(path).into_response();
        response.headers_mut().append(SET_COOKIE, pass::grant(state, link, path));
        Ok(response)
    }

    /// Shows the number, once it is on record that it was shown.
    /// Errors: it cannot be put on record, or the number cannot be opened.
    async fn reveal(&self) -> Result<Response, ApiError> {
        let (state, link) = (self.state, &self.opened.link);
        if !self.opened.card.profile.is_virtual {
            return Ok(with_status(card_page(self, "", None), StatusCode::CONFLICT));
        }
        match state.throttle.links.begin(GuessKind::Look, link.id, self.address) {
            Ok(look) => look.counts(),
            Err(refused) => return Ok(too_many(refused, |text| card_page(self, text, None))),
        }
        let noted = CardCommand::NoteNumberShown(
            self.opened.company.id,
            self.opened.card.profile.id,
            NumberViewer::Link(link.id),
        );
        match state.carry_out_unshown(AdminCommand::Card(noted)).await {
            // The link, the card or the company went meanwhile.
            Err(WriteError::Rejected(_)) => return Ok(gone()),
            outcome => outcome?,
        }
        let secret = CardSecret::open(state, &self.opened.card, &self.opened.company)?;
        tracing::info!(link = %link.id.0, "a card number was shown by a shared link");
        Ok(card_page(self, "", Some(secret)))
    }

    /// Puts on record that somebody looked, where the last time is a while ago. The viewer sees the
    /// card whether or not that works.
    async fn note_view(&self) {
        let now = self.state.now();
        let last = self.opened.link.last_viewed_at;
        if last.is_some_and(|last| now < last.plus(Timestamp::MINUTE)) {
            return;
        }
        let command = AdminCommand::SharedLink(SharedLinkCommand::View(self.opened.link.id));
        if let Err(error) = self.state.carry_out(command).await {
            tracing::warn!(link = %self.opened.link.id.0, ?error, "a look at a shared link is not on record");
        }
    }
}

/// The page again, with when to come back.
fn too_many(refused: TooManyTries, page: impl FnOnce(&str) -> Response) -> Response {
    let minutes = refused.retry_after_s.div_ceil(60);
    let unit = if minutes == 1 { "minute" } else { "minutes" };
    let text = format!("Too many tries. Please come back in {minutes} {unit}.");
    let mut page = with_status(page(&text), StatusCode::TOO_MANY_REQUESTS);
    page.headers_mut().insert(RETRY_AFTER, HeaderValue::from(refused.retry_after_s));
    page
}
