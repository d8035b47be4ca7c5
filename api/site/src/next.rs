//! The destination after sign-in: only ever a page of the site itself.

use url::Url;
use url::form_urlencoded::byte_serialize;

/// The page on which signed-in visitors begin.
pub(super) const START_PATH: &str = "/overview";
/// The page of the user's own account.
pub(super) const ACCOUNT_PATH: &str = "/account";
/// The longest path that is gone on to. Units: bytes.
const NEXT_BYTES_MAX: usize = 8 * 1024;
/// An address that nothing has, against which paths are read as a browser reads them.
const NOWHERE: &str = "http://nowhere.invalid";

/// The path within the site that `next` names as browsers read it; none where it leads elsewhere.
pub fn local_path(next: &str) -> Option<String> {
    // Browsers drop tabs and line ends, and take a backslash for a slash: nothing honest has them.
    let is_odd = |letter: char| letter.is_control() || letter == '\\';
    if next.len() > NEXT_BYTES_MAX || !next.starts_with('/') || next.contains(is_odd) {
        return None;
    }
    let nowhere = Url::parse(NOWHERE).ok()?;
    let target = nowhere.join(next).ok()?;
    if target.origin() != nowhere.origin() || !target.username().is_empty() {
        return None;
    }
    let path = &target[url::Position::BeforePath..url::Position::AfterQuery];
    // Reading it has resolved dots: a part of the path may then name a host.
    (!path.starts_with("//")).then(|| path.to_owned())
}

/// The address of the sign-in page that goes on to `next`, where that is a page of the site.
pub fn login_path(next: &str) -> String {
    match local_path(next).filter(|next| next != "/" && next != START_PATH) {
        Some(next) => {
            format!("/login?next={}", byte_serialize(next.as_bytes()).collect::<String>())
        }
        None => "/login".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_of_the_site_are_gone_on_to() {
        let long = format!("/{}", "a".repeat(NEXT_BYTES_MAX));
        let rows = [
            ("/account", Some("/account")),
            ("/apps/1?tab=a&b=%2F%2Fevil.example", Some("/apps/1?tab=a&b=%2F%2Fevil.example")),
            (
                "/v1/oauth/authorize?redirect_uri=https://app.example/cb&state=a%20b",
                Some("/v1/oauth/authorize?redirect_uri=https://app.example/cb&state=a%20b"),
            ),
            ("/a/../apps#top", Some("/apps")),
            ("/%2F%2Fevil.example", Some("/%2F%2Fevil.example")),
            ("/<script>", Some("/%3Cscript%3E")),
            ("/é", Some("/%C3%A9")),
            ("/@evil.example", Some("/@evil.example")),
            ("//evil.example", None),
            ("///evil.example", None),
            ("/\\evil.example", None),
            ("\\\\evil.example", None),
            ("/\t/evil.example", None),
            ("/\n/evil.example", None),
            ("/a\r\nset-cookie: a=b", None),
            ("/.//evil.example", None),
            ("/a/..//evil.example", None),
            ("/%2e//evil.example", None),
            ("https://evil.example/", None),
            ("https:evil.example", None),
            ("javascript:alert(1)", None),
            ("data:text/html,x", None),
            ("evil.example", None),
            (" /account", None),
            ("", None),
            (long.as_str(), None),
        ];
        for (next, expected) in rows {
            assert_eq!(local_path(next).as_deref(), expected, "{next:?}");
        }
    }

    #[test]
    fn the_way_back_survives_the_sign_in_page() {
        assert_eq!(login_path("/apps?a=b&c=d"), "/login?next=%2Fapps%3Fa%3Db%26c%3Dd");
        assert_eq!(login_path("//evil.example"), "/login");
        assert_eq!(login_path("/overview"), "/login");
    }
}
