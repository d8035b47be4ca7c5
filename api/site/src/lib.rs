//! The site: pages for people, made on the server and whole without scripts.
//!
//! | file | what |
//! |---|---|
//! | `frame`, `assets`, `error_page`, `notice` | the parts around every page |
//! | `visit`, `headers`, `cookies` | the common parts of requests and answers |
//! | `session`, `next` | the visitor's session, and the page after sign-in |
//! | `forms`, `csrf` | forms, and the proof that they come from here |
//! | `faults`, `choices`, `form_snapshot` | the faults and the choices of a form, and concurrent edits |
//! | `words` | money, times and states as people read them |
//! | `requisitions`, `members`, `dimension_choices` | requisitions, members, and their dimensions |
//! | `sign_in`, `second_factor`, `passwords`, `device` | the way in, and browsers that came in before |
//! | `account`, `password`, `totp`, `question` | the user's own account |
//! | `overview`, `cards` | figures that follow what happens, and cards; rooms of their own |
//! | `consent` | the consent that apps ask of members |
//! | `transactions`, `statements`, `dimensions` | purchases, postings, and bookkeeping |
//! | `apps`, `app_page`, `app_form` | the apps of a company |
//! | `tokens`, `audit`, `pager` | access to a company, its changes, and pages of lists |
//! | `peers` | the peers that speak ISO 8583 with the switch |
//! | `search` | cards, people and purchases from every page |
//! | `shared_card` | the card behind a shared link |
//! | `webhooks` | the endpoints to which events are sent, and attempts |
//! | `rights` | the right that each of this needs |
//!
//! INVARIANT: every value on a page went through a template, which escapes it.

mod account;
mod app_form;
mod app_page;
mod apps;
pub mod assets;
mod audit;
mod browser;
mod cards;
mod choices;
mod consent;
mod cookies;
pub mod csrf;
mod device;
mod dimension_choices;
mod dimensions;
pub mod error_page;
mod faults;
mod form_snapshot;
pub mod forms;
pub mod frame;
pub mod headers;
mod members;
pub mod next;
pub mod notice;
pub mod overview;
mod pager;
pub mod password;
mod passwords;
mod peers;
mod question;
mod requisitions;
mod rights;
mod search;
mod second_factor;
mod sent_forms;
pub mod session;
pub mod shared_card;
mod sign_in;
mod statements;
mod tokens;
mod totp;
mod transactions;
mod visit;
mod webhooks;
mod words;

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::response::Redirect;
use axum::routing::{get, post};
use cardswitch_edge::error::ApiError;
use cardswitch_identity::state::AppState;
use cardswitch_secrets::issuing::RandomSource;
use uuid::Uuid;

use self::session::OptionalSession;

/// Every page of the site, one line each, and the pages of `others` in its frame.
pub fn site_routes(state: &AppState, others: Router<AppState>) -> Router<AppState> {
    Router::new()
        .route("/", get(start))
        .route("/login", get(sign_in::show).post(sign_in::sign_in))
        .route(
            "/login/second-factor",
            get(second_factor::show).post(second_factor::answer_question),
        )
        .route("/password/forgot", get(passwords::show_forgot).post(passwords::forgot))
        .route("/password/set/{key}", get(passwords::show_set).post(passwords::set))
        .merge(account_routes())
        .merge(app_routes())
        .merge(shared_card::shared_card_routes())
        .merge(overview::overview_routes())
        .merge(cards::card_routes())
        .merge(transactions::transaction_routes())
        .merge(statements::statement_routes())
        .merge(dimensions::dimension_routes())
        .merge(requisitions::requisition_routes())
        .merge(members::member_routes())
        .merge(webhooks::webhook_routes())
        .route("/search", get(search::search))
        .route("/peers", get(peers::show))
        .merge(others)
        .route("/logout", post(session::sign_out))
        .route("/company", post(session::choose_company))
        .merge(assets::asset_routes())
        .method_not_allowed_fallback(async |_: OptionalSession| ApiError::method_not_allowed())
        .layer(from_fn_with_state((state.clone(), Arc::default()), visit::receive))
}

/// The pages of the user's own account.
fn account_routes() -> Router<AppState> {
    Router::new()
        .route("/account", get(account::show).post(account::save_profile))
        .route("/account/password", get(password::show).post(password::change))
        .route("/account/totp", get(totp::show).post(totp::change))
        .route("/account/question", get(question::show).post(question::change))
        .route("/account/sessions/{id}/end", post(account::end_session))
        .route("/account/sessions/end-others", post(account::end_other_sessions))
}

/// Apps, and the tokens with access to a company's data.
fn app_routes() -> Router<AppState> {
    Router::new()
        .route("/v1/oauth/authorize", get(consent::ask).post(consent::answer))
        .route("/apps", get(apps::list_apps))
        .route("/apps/new", get(apps::ask_for_app).post(apps::register_app))
        .route("/apps/{id}", get(app_page::show_app).post(app_page::update_app))
        .route("/apps/{id}/secret", post(app_page::replace_secret))
        .route("/apps/{id}/token", post(app_page::make_own_token))
        .route("/apps/{id}/delete", post(app_page::delete_app))
        .route("/tokens", get(tokens::list_tokens))
        .route("/tokens/{id}/revoke", post(tokens::revoke_token))
        .route("/audit", get(audit::list::list_events))
}

/// GET /.
async fn start(OptionalSession(_, session): OptionalSession) -> Redirect {
    Redirect::to(if session.is_some() { next::START_PATH } else { "/login" })
}

/// A new id.
/// Errors: no randomness.
fn fresh_id(state: &AppState) -> Result<Uuid, ApiError> {
    Ok(state.switch.random().id(state.now())?)
}
