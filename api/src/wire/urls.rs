//! The addresses of objects, built from the configured base URL.

use uuid::Uuid;

/// Builds addresses below one base URL.
#[derive(Clone, Debug)]
pub struct Urls {
    base: String,
}

impl Urls {
    /// Addresses below `base`, with or without a slash at its end.
    #[must_use]
    pub fn new(base: &str) -> Self {
        Self { base: base.trim_end_matches('/').to_owned() }
    }

    /// The address of an object of the resource `plural`.
    #[must_use]
    pub fn object(&self, plural: &str, id: Uuid) -> String {
        format!("{}/v1/{plural}/{id}", self.base)
    }

    /// The address of a path that begins with `/v1`.
    #[must_use]
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
}
