//! The token or network key that a request shows.

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;

/// The secret in the Authorization header, under the scheme `Token` or `Bearer`.
pub fn bearer_of(headers: &HeaderMap) -> Option<&str> {
    let (scheme, shown) = headers.get(AUTHORIZATION)?.to_str().ok()?.trim().split_once(' ')?;
    let is_known = ["token", "bearer"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
    Some(shown.trim()).filter(|shown| is_known && !shown.is_empty())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn tokens_come_under_either_scheme() {
        let rows = [
            ("Token abc", Some("abc")),
            ("token abc", Some("abc")),
            ("Bearer abc", Some("abc")),
            ("BEARER  abc ", Some("abc")),
            ("Basic abc", None),
            ("abc", None),
            ("Token", None),
            ("Token ", None),
            ("", None),
        ];
        for (header, token) in rows {
            let headers = [(AUTHORIZATION, HeaderValue::from_static(header))].into_iter().collect();
            assert_eq!(bearer_of(&headers), token, "{header}");
        }
        assert_eq!(bearer_of(&HeaderMap::new()), None);
    }
}
