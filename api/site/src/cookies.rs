//! The cookies of the site: their names, and how they are set and read.
//!
//! Behind TLS a cookie is `Secure` and its name begins with `__Host-`, so that no other host and no
//! page without TLS can set it. No script reads any of them.

use axum::http::header::COOKIE;
use axum::http::{HeaderMap, HeaderValue};
use cookie::time::Duration;
use cookie::{Cookie, SameSite};

/// The longest value that is read. Units: bytes.
const VALUE_BYTES_MAX: usize = 128;

/// One of the site's cookies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SiteCookie {
    /// The key of a session.
    Session,
    /// The key that binds the forms of a visitor without a session.
    Form,
    /// The notice that the next page shows.
    Notice,
    /// The sign-in that waits for its second factor.
    SecondFactor,
    /// The cookie of a browser in which a user signed in before.
    Device,
    /// The company that a member of several has chosen.
    Company,
}

impl SiteCookie {
    const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Session => ("session", "__Host-session"),
            Self::Form => ("form", "__Host-form"),
            Self::Notice => ("notice", "__Host-notice"),
            Self::SecondFactor => ("second-factor", "__Host-second-factor"),
            Self::Device => ("device", "__Host-device"),
            Self::Company => ("company", "__Host-company"),
        }
    }

    const fn name(self, is_secure: bool) -> &'static str {
        let (plain, prefixed) = self.names();
        if is_secure { prefixed } else { plain }
    }

    /// Its value among the headers of a request.
    pub(super) fn find(self, headers: &HeaderMap, is_secure: bool) -> Option<String> {
        find_cookie(headers, self.name(is_secure))
    }

    /// The header that sets it for `seconds`.
    pub(super) fn set(self, value: &str, seconds: i64, is_secure: bool) -> HeaderValue {
        let cookie = Cookie::build((self.name(is_secure), value))
            .path("/")
            .http_only(true)
            .secure(is_secure)
            .same_site(SameSite::Lax)
            .max_age(Duration::seconds(seconds));
        // INVARIANT: values are letters, digits and hyphens of our own making.
        HeaderValue::try_from(cookie.to_string()).unwrap_or(HeaderValue::from_static(""))
    }

    /// The header that takes it away.
    pub(super) fn clear(self, is_secure: bool) -> HeaderValue {
        self.set("", 0, is_secure)
    }
}

/// The value of a cookie among the headers of a request, where it can be of our own making.
pub(super) fn find_cookie(headers: &HeaderMap, name: &str) -> Option<String> {
    let sent = headers.get_all(COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    let mut cookies = sent.flat_map(Cookie::split_parse).flatten();
    let found = cookies.find(|cookie| cookie.name() == name)?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let value = found.value();
    let is_ours = value.len() <= VALUE_BYTES_MAX && value.bytes().all(is_plain);
    (is_ours && !value.is_empty()).then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers_with(cookies: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for cookie in cookies {
            headers.append(COOKIE, HeaderValue::from_str(cookie).unwrap());
        }
        headers
    }

    #[test]
    fn a_cookie_is_found_by_its_whole_name() {
        let long = format!("session={}", "a".repeat(VALUE_BYTES_MAX + 1));
        let rows: [(&[&str], Option<&str>); 8] = [
            (&["session=abc"], Some("abc")),
            (&["other=1; session=abc; form=2"], Some("abc")),
            (&["other=1", "session=abc"], Some("abc")),
            (&["xsession=abc"], None),
            (&["session="], None),
            (&["session=a b"], None),
            (&["session=<b>"], None),
            (&[&long], None),
        ];
        for (cookies, expected) in rows {
            let found = SiteCookie::Session.find(&headers_with(cookies), false);
            assert_eq!(found.as_deref(), expected, "{cookies:?}");
        }
    }

    #[test]
    fn behind_tls_only_prefixed_cookies_count() {
        let headers = headers_with(&["session=planted; __Host-session=own"]);
        assert_eq!(SiteCookie::Session.find(&headers, true).as_deref(), Some("own"));
        let set = SiteCookie::Session.set("abc", 60, true);
        let set = set.to_str().unwrap();
        for part in ["__Host-session=abc", "HttpOnly", "SameSite=Lax", "Secure", "Path=/"] {
            assert!(set.split("; ").any(|known| known == part), "{part} in {set}");
        }
        assert!(!set.contains("Domain"));
        let plain = SiteCookie::Session.set("abc", 60, false);
        assert!(plain.to_str().unwrap().starts_with("session=abc; HttpOnly; SameSite=Lax; Path=/"));
    }
}
