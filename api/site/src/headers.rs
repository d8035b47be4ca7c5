//! The headers of every page: it loads nothing from elsewhere, runs nothing unless it has scripts
//! of the site, stands in no frame, tells nobody where its visitors come from, and is not to be
//! kept.
//!
//! A handler that needs another header sets it itself; a header that is set stays.

use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, STRICT_TRANSPORT_SECURITY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue};

/// The policy of a page: the sources it may load from, and the targets of its forms.
const PAGE_POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self' data:; \
                           form-action 'self'; frame-ancestors 'none'; base-uri 'none'";
/// The policy of a page with scripts, all of them files of the site.
const SCRIPTED_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; \
                               connect-src 'self'; img-src 'self' data:; form-action 'self'; \
                               frame-ancestors 'none'; base-uri 'none'";

/// The headers of every page, each unless the page has set it itself.
static OF_EVERY_PAGE: [(HeaderName, &str); 8] = [
    (CONTENT_SECURITY_POLICY, PAGE_POLICY),
    (X_FRAME_OPTIONS, "DENY"),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    // Forms of the site must still say where they come from, which `no-referrer` would suppress.
    (REFERRER_POLICY, "same-origin"),
    (CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()"),
];

/// The rule for a site behind TLS: browsers come back by TLS only.
const TLS_ONLY: &str = "max-age=31536000";

/// Adds the headers of every page.
pub fn secure(headers: &mut HeaderMap) {
    for (name, value) in &OF_EVERY_PAGE {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
}

/// Adds the header of pages of a site behind TLS.
pub(super) fn demand_tls(headers: &mut HeaderMap) {
    headers.insert(STRICT_TRANSPORT_SECURITY, HeaderValue::from_static(TLS_ONLY));
}

pub(super) const fn policy_with_scripts() -> HeaderValue {
    HeaderValue::from_static(SCRIPTED_POLICY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_handler_set_stays() {
        let mut headers = HeaderMap::new();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        secure(&mut headers);
        assert_eq!(headers[CACHE_CONTROL], "no-cache");
        assert_eq!(headers[X_CONTENT_TYPE_OPTIONS], "nosniff");
        assert_eq!(headers.len(), OF_EVERY_PAGE.len());
    }

    #[test]
    fn the_policy_allows_nothing_inline_and_no_frames() {
        assert!(!PAGE_POLICY.contains("unsafe") && !PAGE_POLICY.contains('*'));
        assert!(!SCRIPTED_POLICY.contains("unsafe") && !SCRIPTED_POLICY.contains('*'));
        let more = "script-src 'self'; connect-src 'self'; ";
        assert_eq!(SCRIPTED_POLICY.replace(more, ""), PAGE_POLICY);
        for part in ["default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'"] {
            assert!(PAGE_POLICY.split("; ").any(|known| known == part), "{part}");
        }
    }
}
