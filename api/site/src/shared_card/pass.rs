//! The proof that a viewer has answered the passphrase of a link: a cookie that is sent to the page of
//! that link alone, for a quarter of an hour.
//!
//! Its value is when it ends and a keyed hash over that, the link and the passphrase: nobody can make
//! or prolong one, it opens no other link, and a new passphrase makes it worthless.

use axum::http::{HeaderMap, HeaderValue};
use cardswitch_engine::directory::shared_link::SharedLink;
use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_identity::state::AppState;
use cardswitch_secrets::FormBond;
use cookie::time::Duration;
use cookie::{Cookie, SameSite};
use subtle::ConstantTimeEq;

use crate::cookies::find_cookie;
use crate::session::later;

/// How long an answer is good. Units: seconds.
pub const PASS_S: i64 = 15 * 60;

/// The header that lets the viewer at `path` in until the pass is over.
pub(super) fn grant(state: &AppState, link: &SharedLink, path: &str) -> HeaderValue {
    let until = later(state.now(), PASS_S);
    let value = format!("{}-{}", until.0, tag(state, link, until));
    let is_secure = state.urls().is_behind_tls();
    let cookie = Cookie::build((name(is_secure), value))
        .path(path)
        .http_only(true)
        .secure(is_secure)
        .same_site(SameSite::Lax)
        .max_age(Duration::seconds(PASS_S));
    // INVARIANT: the path is that of a link that exists, hexadecimal digits behind `/s/`.
    HeaderValue::try_from(cookie.to_string()).unwrap_or(HeaderValue::from_static(""))
}

/// Whether these headers hold a pass for `link` that is good now.
pub(super) fn is_held(state: &AppState, link: &SharedLink, headers: &HeaderMap) -> bool {
    let value = find_cookie(headers, name(state.urls().is_behind_tls())).unwrap_or_default();
    let Some((until, sent)) = value.split_once('-') else { return false };
    let Ok(until) = until.parse().map(Timestamp) else { return false };
    let is_own: bool = tag(state, link, until).as_bytes().ct_eq(sent.as_bytes()).into();
    is_own && state.now() < until
}

/// `__Host-` would demand the path of the whole site.
const fn name(is_secure: bool) -> &'static str {
    if is_secure { "__Secure-shared-card" } else { "shared-card" }
}

fn tag(state: &AppState, link: &SharedLink, until: Timestamp) -> String {
    let mut bound_to = link.id.0.as_bytes().to_vec();
    bound_to.extend(until.0.to_be_bytes());
    bound_to.extend(link.sealed_passphrase.as_deref().unwrap_or_default());
    state.secrets.form_tag(FormBond::SharedLink, &bound_to)
}
