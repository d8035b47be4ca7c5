//! The browsers that users signed in with before. Their tries are judged apart from all others, so
//! guesses of others do not hold up an account's owner.
//!
//! The cookie holds a random id and its tag under a key of the switch, over user and password:
//! nobody makes one without having signed in, and a new password makes all of them strangers again.
//! It opens nothing.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::HeaderValue;
use axum::http::request::Parts;
use cardswitch_edge::client_address::ClientAddress;
use cardswitch_edge::error::ApiError;
use cardswitch_engine::directory::user::User;
use cardswitch_engine::domain::ids::UserId;
use cardswitch_identity::auth::throttle::Source;
use cardswitch_identity::state::AppState;
use cardswitch_secrets::issuing::{RandomSource as _, SystemRandom};
use cardswitch_secrets::{FormBond, digests_equal, token_digest};

use super::cookies::SiteCookie;

/// How long a browser is known. Units: seconds.
const DEVICE_S: i64 = 365 * 24 * 3600;
/// The digits of an id, and of a tag.
const DIGITS: usize = 32;

/// The source that a try counts against.
#[derive(Clone, Debug)]
pub(super) struct Client {
    pub(super) address: ClientAddress,
    /// The device id and its tag, as the browser sends them.
    device: Option<([u8; 16], String)>,
}

impl FromRequestParts<AppState> for Client {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Infallible> {
        let address = ClientAddress::from_request_parts(parts, state).await?;
        let cookie = SiteCookie::Device.find(&parts.headers, state.urls().is_behind_tls());
        Ok(Self { address, device: cookie.as_deref().and_then(parse) })
    }
}

fn parse(cookie: &str) -> Option<([u8; 16], String)> {
    let (id, tag) = cookie.split_once('-')?;
    let is_whole = id.len() == DIGITS && tag.len() == DIGITS;
    let id = u128::from_str_radix(id, 16).ok().filter(|_| is_whole)?;
    Some((id.to_be_bytes(), tag.to_owned()))
}

fn tag(state: &AppState, device: [u8; 16], user: UserId, password_hash: &str) -> String {
    let bound_to = [&device, user.0.as_bytes(), password_hash.as_bytes()].concat();
    state.secrets.form_tag(FormBond::Device, &bound_to)
}

impl Client {
    /// The source of a try at the account of `user`: a known device, else the address.
    pub(super) fn source(&self, state: &AppState, user: Option<&User>) -> Source {
        let hash = |user: &User| Some((user.id, user.password_hash.clone()?));
        match user.and_then(hash).and_then(|(user, hash)| self.known_device(state, user, &hash)) {
            Some(device) => Source::Device(device),
            None => Source::Address(self.address.0),
        }
    }

    fn known_device(&self, state: &AppState, user: UserId, hash: &str) -> Option<[u8; 16]> {
        let (device, sent) = self.device.as_ref()?;
        let expected = tag(state, *device, user, hash);
        digests_equal(&token_digest(&expected), &token_digest(sent)).then_some(*device)
    }

    /// The header by which the browser is known from now on to one who has proven to be `user`.
    /// Errors: no randomness.
    pub(super) fn remember(
        &self,
        state: &AppState,
        user: UserId,
        password_hash: &str,
    ) -> Result<HeaderValue, ApiError> {
        let mut device = [0; 16];
        match self.known_device(state, user, password_hash) {
            Some(known) => device = known,
            None => SystemRandom.fill(&mut device)?,
        }
        let id = u128::from_be_bytes(device);
        let value = format!("{id:032x}-{}", tag(state, device, user, password_hash));
        Ok(SiteCookie::Device.set(&value, DEVICE_S, state.urls().is_behind_tls()))
    }
}
