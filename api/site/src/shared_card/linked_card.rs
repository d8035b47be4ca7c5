//! The card behind a key. All reasons not to show it look the same: a key that never was, a link
//! that was taken away, a card that is closed.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use cardswitch_edge::error::ApiError;
use cardswitch_engine::directory::shared_link::SharedLink;
use cardswitch_engine::domain::card::CardState;
use cardswitch_engine::domain::company::{Company, CompanyState};
use cardswitch_engine::store::query::CardRow;
use cardswitch_engine::store::{Snapshot, StoreError};
use cardswitch_identity::auth::throttle::Source;
use cardswitch_identity::state::AppState;
use cardswitch_secrets::link_secrets::{LinkKey, PassphraseField, open_passphrase};

use super::pass;
use crate::error_page::error_page;

/// The least time until a visitor learns that there is nothing, so that it does not tell the
/// reason.
const NOTHING_AFTER: Duration = Duration::from_millis(25);

/// A link that works, with its card and company.
#[derive(Debug)]
pub(super) struct LinkedCard {
    pub(super) link: SharedLink,
    pub(super) card: CardRow,
    pub(super) company: Company,
    /// The passphrase fields that a viewer has to answer; empty where there is no passphrase.
    pub(super) passphrase: Vec<PassphraseField>,
    /// The path of its page.
    pub(super) path: String,
}

impl LinkedCard {
    /// Finds the card that `key` opens. Keys that open nothing count against the address.
    /// Errors: too many of them, or the tables cannot be read.
    pub(super) async fn find(
        state: &AppState,
        key: &str,
        address: IpAddr,
    ) -> Result<Option<Self>, ApiError> {
        let asked_at = Instant::now();
        let attempt = state.throttle.admit_on_page(None, Source::Address(address)).await?;
        let found = open(state, key).await?;
        if found.is_some() {
            attempt.succeeded();
        } else {
            // Others of the address need not wait with it.
            attempt.failed();
            tokio::time::sleep(NOTHING_AFTER.saturating_sub(asked_at.elapsed())).await;
        }
        Ok(found)
    }

    /// Whether the visitor has answered, or need not.
    pub(super) fn is_open_to(&self, state: &AppState, headers: &HeaderMap) -> bool {
        self.passphrase.is_empty() || pass::is_held(state, &self.link, headers)
    }
}

/// The page of a key that opens nothing, for whatever reason.
pub(super) fn gone() -> Response {
    let text = "The link is wrong, or the card is no longer shared. Ask the person who shared it.";
    error_page(StatusCode::NOT_FOUND, "Card not available", text)
}

async fn open(state: &AppState, key: &str) -> Result<Option<LinkedCard>, ApiError> {
    let Some(parsed) = LinkKey::parse(key) else { return Ok(None) };
    let digest = parsed.digest(&state.secrets);
    // A link that was taken away, or a card that was closed a moment ago, is gone.
    let found = state.switch.read(|snapshot| find_card(snapshot, digest)).await?;
    let Some((link, card, company)) = found else { return Ok(None) };
    let is_gone =
        card.record.usage.state == CardState::Terminated || company.state == CompanyState::Closed;
    if is_gone {
        return Ok(None);
    }
    let sealed = link.sealed_passphrase.as_deref();
    let passphrase = match sealed.map(|sealed| open_passphrase(&state.secrets, link.id, sealed)) {
        Some(opened) => opened.ok_or_else(not_ours)?,
        None => Vec::new(),
    };
    let path = format!("/s/{}", parsed.text());
    Ok(Some(LinkedCard { link, card, company, passphrase, path }))
}

type OpenedLink = (SharedLink, CardRow, Company);

fn find_card(snapshot: &Snapshot, digest: [u8; 16]) -> Result<Option<OpenedLink>, StoreError> {
    let Some(link) = snapshot.shared_link_by_key(digest)? else { return Ok(None) };
    if link.is_deleted {
        return Ok(None);
    }
    let card = snapshot.card(link.card)?;
    let company = snapshot.company(link.company)?;
    Ok(card.zip(company).map(|(card, company)| (link, card, company)))
}

fn not_ours() -> ApiError {
    ApiError::internal(&"a shared link was sealed with another key")
}
