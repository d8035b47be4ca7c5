//! A browser as far as the site needs one: it keeps cookies, sends forms from the pages it has seen,
//! and follows nothing by itself, so that a test sees every step.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::http_client::{HttpClient, HttpRequest, HttpResponse};

/// A browser with its cookies.
#[derive(Debug, Clone)]
pub struct Browser {
    client: HttpClient,
    origin: String,
    cookies: BTreeMap<String, String>,
    /// The value that binds the forms of the page seen last.
    csrf: String,
}

impl Browser {
    /// A browser that has been nowhere yet, for the site at `address`.
    pub fn new(address: SocketAddr) -> Self {
        Self {
            client: HttpClient::anonymous(address),
            origin: format!("http://{address}"),
            cookies: BTreeMap::new(),
            csrf: String::new(),
        }
    }

    /// The same browser, where the site is at another address now.
    #[must_use]
    pub fn moved_to(self, address: SocketAddr) -> Self {
        let Self { cookies, csrf, .. } = self;
        Self { cookies, csrf, ..Self::new(address) }
    }

    /// The value of a cookie it keeps.
    pub fn cookie(&self, name: &str) -> Option<&str> {
        self.cookies.get(name).map(String::as_str)
    }

    /// Loads a page.
    #[track_caller]
    pub fn get(&mut self, path: &str) -> HttpResponse {
        self.get_with(path, &[])
    }

    /// As `get`, with further headers.
    #[track_caller]
    pub fn get_with(&mut self, path: &str, headers: &[(&str, &str)]) -> HttpResponse {
        let mut all = vec![("accept", "text/html")];
        all.extend_from_slice(headers);
        self.send("GET", path, &all, "")
    }

    /// Sends a form of the page seen last.
    #[track_caller]
    pub fn post(&mut self, path: &str, fields: &[(&str, &str)]) -> HttpResponse {
        self.post_with(path, fields, &[])
    }

    /// As `post`, with further headers.
    #[track_caller]
    pub fn post_with(
        &mut self,
        path: &str,
        fields: &[(&str, &str)],
        headers: &[(&str, &str)],
    ) -> HttpResponse {
        let mut body = format!("csrf={}", encoded(&self.csrf));
        for (name, value) in fields {
            body.push_str(&format!("&{}={}", encoded(name), encoded(value)));
        }
        let origin = self.origin.clone();
        let mut all = vec![
            ("accept", "text/html"),
            ("content-type", "application/x-www-form-urlencoded"),
            ("origin", origin.as_str()),
            ("sec-fetch-site", "same-origin"),
        ];
        all.extend_from_slice(headers);
        self.send("POST", path, &all, &body)
    }

    /// Loads the page at `path`, then sends its form.
    #[track_caller]
    pub fn fill(&mut self, path: &str, fields: &[(&str, &str)]) -> HttpResponse {
        self.get(path);
        self.post(path, fields)
    }

    /// Signs in by password alone and asserts that it worked.
    #[track_caller]
    pub fn sign_in(&mut self, email: &str, password: &str) {
        let answer = self.fill("/login", &[("email", email), ("password", password)]);
        assert_eq!(answer.status, 303, "sign-in: {}", answer.text());
        assert_eq!(self.get("/account").status, 200);
    }

    #[track_caller]
    fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> HttpResponse {
        let pairs = self.cookies.iter().map(|(name, value)| format!("{name}={value}"));
        let cookies = pairs.collect::<Vec<_>>().join("; ");
        let mut all = headers.to_vec();
        if !cookies.is_empty() {
            all.push(("cookie", &cookies));
        }
        let request = HttpRequest { method, path, headers: &all, body: body.as_bytes() };
        let response = self.client.send(&request);
        self.keep(&response);
        response
    }

    fn keep(&mut self, response: &HttpResponse) {
        for cookie in response.headers_named("set-cookie") {
            let (pair, attributes) = cookie.split_once(';').expect("a cookie has attributes");
            let (name, value) = pair.split_once('=').expect("a cookie has a value");
            if attributes.to_ascii_lowercase().contains("max-age=0") {
                self.cookies.remove(name);
            } else {
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
        }
        let is_page = response.header("content-type").is_some_and(|kind| kind.contains("html"));
        if let Some(csrf) = is_page.then(|| hidden_field(&response.text(), "csrf")).flatten() {
            self.csrf = csrf;
        }
    }
}

/// The value of a hidden field of a page.
pub fn hidden_field(page: &str, name: &str) -> Option<String> {
    let (_, rest) = page.split_once(&format!("name=\"{name}\" value=\""))?;
    Some(rest.split_once('"')?.0.to_owned())
}

/// A text as forms send it.
fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_fields_are_found_and_texts_encoded() {
        let page = "<input type=\"hidden\" name=\"csrf\" value=\"abc\"><input name=\"x\">";
        assert_eq!(hidden_field(page, "csrf").as_deref(), Some("abc"));
        assert_eq!(hidden_field(page, "x"), None);
        assert_eq!(encoded("a b&c=é"), "a%20b%26c%3D%C3%A9");
    }
}
