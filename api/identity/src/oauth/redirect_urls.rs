//! The addresses to which an app may have codes sent: judged when they are registered, compared
//! letter by letter after.
//!
//! Taken are `https`, `http` to this machine (an app under development, or of the desktop), and an
//! app's own scheme with a dot in it (RFC 8252, 7.1). An address is taken only as a browser would
//! write it, so that it has one reading; a name in it never changes the comparison.

use cardswitch_notify::webhooks::addresses::{AddressFault, Reach, check_leading};
use url::{Host, Url};

/// How many an app may have.
pub const REDIRECT_URLS_MAX: usize = 20;

/// Judges a redirect URL.
/// Errors: what it must be, in words.
pub fn check_redirect_url(text: &str) -> Result<(), &'static str> {
    check(text).map_err(|fault| match fault {
        AddressFault::Malformed => {
            "must be a whole address as a browser shows it, such as \
             https://app.example.com/callback"
        }
        AddressFault::Scheme => {
            "must begin with https://, with http:// and this machine, or with a scheme of the app's \
             own that has a dot in it"
        }
        other => other.text(Reach::Public),
    })
}

/// Refuses a scheme that others could listen to, or run.
fn check(text: &str) -> Result<(), AddressFault> {
    check_leading(text, |url| if is_safe(url) { Ok(()) } else { Err(AddressFault::Scheme) })
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
    use cardswitch_notify::webhooks::addresses::ADDRESS_BYTES_MAX;

    use super::AddressFault::{Credentials, Fragment, Malformed, Scheme, TooLong};
    use super::*;

    #[test]
    fn addresses_are_taken_as_browsers_write_them() {
        let longest = format!("https://a.example/{}", "x".repeat(ADDRESS_BYTES_MAX - 18));
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
            assert_eq!(check(text), expected, "{text:?}");
        }
        assert_eq!(check(&format!("{longest}x")), Err(TooLong));
        let told = check_redirect_url(&format!("{longest}x"));
        assert_eq!(told, Err("must have at most 1000 characters"));
    }
}
