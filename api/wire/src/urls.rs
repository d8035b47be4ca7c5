//! The addresses of objects and of pages for people, built from the configured URLs.

use uuid::Uuid;

/// Builds addresses below the base URL and that of the site.
#[derive(Clone, Debug)]
pub struct Urls {
    base: String,
    /// The address of the site, without a slash at its end.
    pub app: String,
}

impl Urls {
    /// Addresses below `base`, with or without a slash at its end; the site is there too.
    pub fn new(base: &str) -> Self {
        Self::with_app(base, base)
    }

    /// Addresses below `base`, and `app` for the site.
    pub fn with_app(base: &str, app: &str) -> Self {
        let trimmed = |url: &str| url.trim_end_matches('/').to_owned();
        Self { base: trimmed(base), app: trimmed(app) }
    }

    /// The address of the page that shows a shared card. Source: spec "Shared link", link.
    pub fn shared_link(&self, key: &str) -> String {
        format!("{}/s/{key}", self.app)
    }

    /// The address of a page of the site, by its path.
    pub fn page(&self, path: &str) -> String {
        format!("{}{path}", self.app)
    }

    /// The address of the page that sets a password, by the key of its link.
    pub fn password_link(&self, key: &str) -> String {
        self.page(&format!("/password/set/{key}"))
    }

    /// Whether browsers reach the site by TLS.
    pub fn is_behind_tls(&self) -> bool {
        self.app.starts_with("https://")
    }

    /// The address of an object of the resource `plural`.
    pub fn object(&self, plural: &str, id: Uuid) -> String {
        // Most of a page's texts are such addresses: they are put together without the machinery of formats.
        let mut id_text = Uuid::encode_buffer();
        [&self.base, "/v1/", plural, "/", id.hyphenated().encode_lower(&mut id_text)].concat()
    }

    /// The address of a path that begins with `/v1`.
    pub fn path(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slash_after_the_base_is_not_doubled() {
        for base in ["http://localhost:8080", "http://localhost:8080/"] {
            let url = Urls::new(base).object("cards", Uuid::nil());
            assert_eq!(url, "http://localhost:8080/v1/cards/00000000-0000-0000-0000-000000000000");
        }
    }

    #[test]
    fn shared_links_lead_to_the_site() {
        let urls = Urls::with_app("http://localhost:8080", "https://cards.example.com/");
        assert_eq!(urls.shared_link("k"), "https://cards.example.com/s/k");
        assert_eq!(
            Urls::new("http://localhost:8080").shared_link("k"),
            "http://localhost:8080/s/k"
        );
    }
}
