//! Whether a form was sent by a page of the site, and not by one that makes its visitors' browsers
//! send it. The proofs are the browser's word for its origin, and a value that only pages of the
//! site can have.
//!
//! The value is a keyed hash of the session, with the company that the form is about, or of a cookie
//! where there is no session. The value of another session or company is therefore worth nothing, and
//! neither is one from before sign-in.

use axum::http::header::{HOST, ORIGIN, REFERER};
use axum::http::{HeaderMap, HeaderValue};
use cardswitch_identity::state::AppState;
use cardswitch_secrets::FormBond;
use subtle::ConstantTimeEq;
use url::{Position, Url};

use super::sent_forms::without_mark;
use super::session::Session;
use super::visit::Visit;

/// The field that carries the value.
pub(super) const FIELD: &str = "csrf";

/// The value for forms on the page of a visit.
pub(super) fn csrf_of(state: &AppState, visit: &Visit, session: Option<&Session>) -> String {
    match session {
        Some(session) => session.csrf(state),
        None => state.secrets.form_tag(FormBond::Visitor, visit.form_key().as_bytes()),
    }
}

/// Whether a form came with the value of a page that the visitor was shown.
pub(super) fn is_visitors(
    state: &AppState,
    visit: &Visit,
    session: Option<&Session>,
    sent: &str,
) -> bool {
    let of_visitor = |key: &str| state.secrets.form_tag(FormBond::Visitor, key.as_bytes());
    match session {
        Some(session) => is_of_session(state, session, sent),
        None => visit.form_key_sent().is_some_and(|key| is_own(&of_visitor(key), sent)),
    }
}

/// Whether a form came with the value of a page about the user, or about the company for which the
/// user still acts.
pub(super) fn is_of_session(state: &AppState, session: &Session, sent: &str) -> bool {
    let current = session.current.as_ref();
    let of_company = current.map(|(company, _)| session.company_csrf(state, company.id));
    is_own(&session.csrf(state), sent)
        || of_company.is_some_and(|value| is_own(&value, without_mark(sent)))
}

/// Whether a form came with the `expected` value.
pub(super) fn is_own(expected: &str, sent: &str) -> bool {
    expected.as_bytes().ct_eq(sent.as_bytes()).into()
}

/// Whether the browser says nothing against the form coming from the site at `app_url`.
pub(super) fn is_from_here(headers: &HeaderMap, app_url: &str) -> bool {
    let text = |value: &HeaderValue| value.to_str().unwrap_or("?").to_owned();
    let site = headers.get("sec-fetch-site").map(text);
    if let Some(site) = &site
        && site != "same-origin"
        && site != "none"
    {
        return false;
    }
    // A browser too old to say is left to the form's value.
    let Some(origin) = headers.get(ORIGIN).map(text) else { return true };
    // Pages that hide where their visitors come from send no origin to the site, either. Pages of
    // others can be made to do the same, but `sec-fetch-site` tells them apart.
    if origin == "null" {
        return site.as_deref() == Some("same-origin");
    }
    Url::parse(&origin).is_ok_and(|origin| is_of_site(&origin, headers, app_url))
}

/// The path of the page of the site that a request came from; blank where there is none.
pub(super) fn page_before(headers: &HeaderMap, app_url: &str) -> String {
    let before = headers.get(REFERER).and_then(|value| Url::parse(value.to_str().ok()?).ok());
    let before = before.filter(|before| is_of_site(before, headers, app_url));
    before.map_or_else(String::new, |before| {
        before[Position::BeforePath..Position::AfterQuery].to_owned()
    })
}

fn is_of_site(address: &Url, headers: &HeaderMap, app_url: &str) -> bool {
    let is_configured = Url::parse(app_url).is_ok_and(|app| app.origin() == address.origin());
    // The switch has names it does not know of: whichever the browser asked, it asked this one.
    let host = headers.get(HOST).and_then(|value| value.to_str().ok()).unwrap_or("?");
    let is_asked = Url::parse(&format!("{}://{host}", address.scheme()))
        .is_ok_and(|asked| asked.origin().is_tuple() && asked.origin() == address.origin());
    is_configured || is_asked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_other_origins_are_told_by_what_the_browser_says() {
        let app = "https://cards.example.com";
        let rows = [
            (None, None, true),
            (Some("https://cards.example.com"), Some("same-origin"), true),
            (Some("https://cards.example.com:443"), None, true),
            (None, Some("none"), true),
            (None, Some("same-origin"), true),
            // The name in `Host`.
            (Some("http://127.0.0.1:8080"), Some("same-origin"), true),
            (Some("https://127.0.0.1:8080"), Some("same-origin"), true),
            (Some("http://127.0.0.1:8081"), None, false),
            (Some("http://cards.example.com"), None, false),
            (Some("https://cards.example.com.evil.example"), None, false),
            (Some("https://evil.example"), None, false),
            (Some("https://cards.example.com@evil.example"), None, false),
            (Some("null"), None, false),
            (Some("null"), Some("same-origin"), true),
            (Some("null"), Some("cross-site"), false),
            (Some("null"), Some("none"), false),
            (Some(""), None, false),
            (Some("https://cards.example.com"), Some("cross-site"), false),
            (Some("https://cards.example.com"), Some("same-site"), false),
            (None, Some("cross-site"), false),
            (Some("data:text/html,x"), None, false),
        ];
        for (origin, site, expected) in rows {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, HeaderValue::from_static("127.0.0.1:8080"));
            if let Some(origin) = origin {
                headers.insert(ORIGIN, HeaderValue::from_str(origin).unwrap());
            }
            if let Some(site) = site {
                headers.insert("sec-fetch-site", HeaderValue::from_str(site).unwrap());
            }
            assert_eq!(is_from_here(&headers, app), expected, "{origin:?} {site:?}");
        }
    }
}
