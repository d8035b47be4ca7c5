//! The addresses to which an app may have people sent back.
//!
//! They are compared letter by letter, so what is kept is what was written. An address is refused
//! here wherever a browser might read it otherwise than it looks. Source: RFC 6749, 3.1.2;
//! RFC 8252, 7.3.

use url::{Host, Url};

use super::fault::Flaw;

/// How many addresses an app has at most.
pub const REDIRECT_URLS_MAX: usize = 10;
/// How long an address is at most. Units: bytes.
pub const REDIRECT_URL_BYTES_MAX: usize = 1_000;

/// Reads an address that is to be put on an app's list.
/// Errors: it is no address that people can safely be sent to.
pub fn parse_redirect_url(text: &str) -> Result<String, Flaw> {
    if text.len() > REDIRECT_URL_BYTES_MAX {
        let message = format!("must have at most {REDIRECT_URL_BYTES_MAX} characters");
        return Err(Flaw::new("too_long", message));
    }
    // Browsers drop or turn some of these; whoever reads the list would not see it.
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"\\\"<>^`{|}*".contains(&byte);
    let url = Url::parse(text).ok().filter(|_| text.bytes().all(is_plain));
    let Some(url) = url else { return Err(flaw("must be an absolute address")) };
    if !is_allowed_scheme(&url) {
        return Err(flaw("must begin with https://, or with http:// on this computer itself"));
    }
    if !url.username().is_empty() || url.password().is_some() || text.contains('@') {
        return Err(flaw("must not contain a user name or `@`"));
    }
    if text.contains('#') {
        return Err(flaw("must not contain a fragment (`#`)"));
    }
    if !begins_as_written(text, &url) || has_dot_segment(text) {
        return Err(flaw("must be written the way a browser shows it"));
    }
    Ok(text.to_owned())
}

/// Reads a list, one address a line.
/// Errors: one of them is none, there are too many, or one stands there twice.
pub fn parse_redirect_urls(lines: &str) -> Result<Vec<String>, Flaw> {
    let mut urls = Vec::new();
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let url = parse_redirect_url(line).map_err(|flaw| {
            let shown: String = line.chars().take(80).collect();
            Flaw::new(flaw.code, format!("`{shown}` {}", flaw.message))
        })?;
        if urls.contains(&url) {
            return Err(Flaw::new("duplicate", format!("`{url}` stands there twice")));
        }
        urls.push(url);
    }
    if urls.len() > REDIRECT_URLS_MAX {
        let message = format!("there can be at most {REDIRECT_URLS_MAX} addresses");
        return Err(Flaw::new("too_many", message));
    }
    Ok(urls)
}

fn flaw(message: &str) -> Flaw {
    Flaw::new("not_a_redirect_url", message)
}

/// TLS everywhere; what never leaves the computer needs none. Source: RFC 8252, 8.3.
fn is_allowed_scheme(url: &Url) -> bool {
    let is_loopback = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    url.scheme() == "https" || (url.scheme() == "http" && is_loopback)
}

/// Whether scheme, host and port stand in the text as a browser understands them: no capitals, no
/// numbers for addresses in other notations, no default port, no encoded letters.
fn begins_as_written(text: &str, url: &Url) -> bool {
    let port = url.port().map_or(String::new(), |port| format!(":{port}"));
    let origin = format!("{}://{}{port}", url.scheme(), url.host_str().unwrap_or_default());
    let rest = text.strip_prefix(&origin);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?']))
}

/// Whether the path goes up, openly or encoded: browsers would follow it.
fn has_dot_segment(text: &str) -> bool {
    let path = text.split(['?', '#']).next().unwrap_or_default().to_ascii_lowercase();
    let mut segments = path.split('/');
    segments.any(|segment| matches!(segment.replace("%2e", ".").as_str(), "." | ".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_kept_as_written() {
        for text in [
            "https://app.example.com",
            "https://app.example.com/",
            "https://app.example.com:8443/cb?tenant=1&x=%2F",
            "https://app.example.com/a%2Fb/CallBack",
            "https://xn--bcher-kva.example/cb",
            "http://127.0.0.1:8080/cb",
            "http://[::1]:9/cb",
            "http://localhost/cb",
        ] {
            assert_eq!(parse_redirect_url(text).as_deref(), Ok(text));
        }
    }

    #[test]
    fn what_a_browser_could_read_otherwise_is_refused() {
        let long = format!("https://a.example/{}", "x".repeat(REDIRECT_URL_BYTES_MAX));
        for text in [
            "",
            "app.example.com/cb",
            "//app.example.com/cb",
            "/cb",
            "http://app.example.com/cb",
            "http://127.0.0.1.example.com/cb",
            "http://localhost.example.com/cb",
            "javascript:alert(1)",
            "data:text/html,x",
            "file:///etc/passwd",
            "ftp://app.example.com/",
            "myapp:/cb",
            "https:app.example.com",
            "https:///app.example.com",
            "https://",
            "https://app.example.com/cb#",
            "https://app.example.com/cb#fragment",
            "https://app.example.com@evil.example/cb",
            "https://user:word@app.example.com/cb",
            "https://@app.example.com/cb",
            "https://app.example.com\\@evil.example/cb",
            "https://app.example.com\\cb",
            "https://App.Example.com/cb",
            "HTTPS://app.example.com/cb",
            "https://app.example.com:443/cb",
            "https://app.example.com:/cb",
            "https://0x7f.1/cb",
            "http://2130706433/cb",
            "https://app.ex%61mple.com/cb",
            "https://app.example.com/a/../cb",
            "https://app.example.com/a/%2e%2E/cb",
            "https://app.example.com/./cb",
            "https://*.example.com/cb",
            "https://app.example.com/*",
            "https://bücher.example/cb",
            "https://app.example.com/c b",
            " https://app.example.com/cb",
            "https://app.example.com/cb\r\nset-cookie: a=b",
            "https://app.example.com/\"><script>",
            &long,
        ] {
            assert!(parse_redirect_url(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_list_has_one_address_a_line_and_none_twice() {
        let two = "https://a.example/1\r\n\r\n  https://a.example/2  \n";
        let urls = parse_redirect_urls(two).unwrap();
        assert_eq!(urls, ["https://a.example/1", "https://a.example/2"]);
        assert_eq!(parse_redirect_urls(" \n "), Ok(Vec::new()));
        let twice = parse_redirect_urls("https://a.example/\nhttps://a.example/").unwrap_err();
        assert_eq!(twice.code, "duplicate");
        let wrong = parse_redirect_urls("https://a.example/\nnonsense").unwrap_err();
        assert!(wrong.message.starts_with("`nonsense` must"), "{}", wrong.message);
        let many: Vec<_> = (0..=REDIRECT_URLS_MAX).map(|n| format!("https://a.example/{n}")).collect();
        assert_eq!(parse_redirect_urls(&many.join("\n")).unwrap_err().code, "too_many");
        assert!(parse_redirect_urls(&many[1..].join("\n")).is_ok());
    }
}
