//! The addresses to which an app may have codes sent: judged when they are registered, compared
//! letter by letter after.
//!
//! Taken are `https`, `http` to this machine (an app under development, or of the desktop), and an
//! app's own scheme with a dot in it (RFC 8252, 7.1). An address is taken only as a browser would
//! write it, so that it has one reading; a name in it never changes the comparison.

use url::{Host, Url};

/// How many an app may have.
pub const REDIRECT_URLS_MAX: usize = 20;
/// The longest one. Units: bytes.
pub const REDIRECT_URL_BYTES_MAX: usize = 1_000;

/// A fault of a redirect URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RedirectUrlFault {
    /// Longer than `REDIRECT_URL_BYTES_MAX`.
    #[error("must have at most {REDIRECT_URL_BYTES_MAX} characters")]
    TooLong,
    /// No address, or not written as a browser would.
    #[error(
        "must be a whole address as a browser shows it, such as `https://app.example.com/callback`"
    )]
    Malformed,
    /// A scheme that others could listen to, or run.
    #[error(
        "must begin with `https://`, with `http://` and this machine, or with a scheme of the app's \
         own that has a dot in it"
    )]
    Scheme,
    /// It has a name or password before its host.
    #[error("must have no name or password before its host")]
    Credentials,
    /// It has a part behind `#`.
    #[error("must have no part behind `#`")]
    Fragment,
}

/// Judges a redirect URL.
/// Errors: the fault of the URL.
pub fn check_redirect_url(text: &str) -> Result<(), RedirectUrlFault> {
    if text.len() > REDIRECT_URL_BYTES_MAX {
        return Err(RedirectUrlFault::TooLong);
    }
    let url = Url::parse(text).map_err(|_| RedirectUrlFault::Malformed)?;
    if text.contains('#') {
        return Err(RedirectUrlFault::Fragment);
    }
    if !url.username().is_empty() || url.password().is_some() || has_user(text) {
        return Err(RedirectUrlFault::Credentials);
    }
    if !is_safe(&url) {
        return Err(RedirectUrlFault::Scheme);
    }
    // Browsers end a bare host with a slash, people do not.
    let is_plain = url.as_str() == text || url.as_str().strip_suffix('/') == Some(text);
    let is_visible = text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if is_plain && is_visible { Ok(()) } else { Err(RedirectUrlFault::Malformed) }
}

/// An empty name before the host, which is not shown as one.
fn has_user(text: &str) -> bool {
    let authority = text.split_once("://").map_or("", |(_, rest)| rest);
    authority.split(['/', '?']).next().is_some_and(|authority| authority.contains('@'))
}

fn is_safe(url: &Url) -> bool {
    match url.scheme() {
        "https" => url.host_str().is_some_and(|host| !host.ends_with('.')),
        "http" => match url.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        },
        scheme => scheme.contains('.'),
    }
}

#[cfg(test)]
mod tests {
    use super::RedirectUrlFault::{Credentials, Fragment, Malformed, Scheme, TooLong};
    use super::*;

    #[test]
    fn addresses_are_taken_as_browsers_write_them() {
        let longest = format!("https://a.example/{}", "x".repeat(REDIRECT_URL_BYTES_MAX - 18));
        let rows = [
            ("https://app.example.com/callback", Ok(())),
            ("https://app.example.com", Ok(())),
            ("https://app.example.com/", Ok(())),
            ("https://app.example.com:8443/a/b?tenant=7", Ok(())),
            ("https://app.example.com/a%2Fb", Ok(())),
            ("http://localhost:3000/callback", Ok(())),
            ("http://127.0.0.1/callback", Ok(())),
            ("http://[::1]:8080/callback", Ok(())),
            ("com.example.app:/callback", Ok(())),
            (longest.as_str(), Ok(())),
            ("", Err(Malformed)),
            ("/callback", Err(Malformed)),
            ("app.example.com/callback", Err(Malformed)),
            ("https://", Err(Malformed)),
            ("https:app.example.com", Err(Malformed)),
            ("HTTPS://app.example.com/", Err(Malformed)),
            ("https://App.example.com/", Err(Malformed)),
            ("https://app.example.com:443/", Err(Malformed)),
            ("https://app.example.com/a/../b", Err(Malformed)),
            ("https://app.example.com\\callback", Err(Malformed)),
            ("https://app.example.com/a b", Err(Malformed)),
            ("https://app.example.com/\r\nx: y", Err(Malformed)),
            (" https://app.example.com/", Err(Malformed)),
            ("https://bücher.example/", Err(Malformed)),
            ("https://app.example.com./callback", Err(Scheme)),
            ("http://app.example.com/callback", Err(Scheme)),
            ("http://localhost.example.com/", Err(Scheme)),
            ("http://10.0.0.1/", Err(Scheme)),
            ("javascript:alert(1)", Err(Scheme)),
            ("data:text/html,x", Err(Scheme)),
            ("file:///etc/passwd", Err(Scheme)),
            ("myapp:/callback", Err(Scheme)),
            ("https://ada@app.example.com/", Err(Credentials)),
            ("https://ada:secret@app.example.com/", Err(Credentials)),
            ("https://@app.example.com/", Err(Credentials)),
            ("https://app.example.com/#", Err(Fragment)),
            ("https://app.example.com/#there", Err(Fragment)),
        ];
        for (text, expected) in rows {
            assert_eq!(check_redirect_url(text), expected, "{text:?}");
        }
        assert_eq!(check_redirect_url(&format!("{longest}x")), Err(TooLong));
    }
}
