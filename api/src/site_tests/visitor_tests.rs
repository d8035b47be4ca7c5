//! A browser for tests: keeps cookies, says where its forms come from, and reads the value that
//! binds forms off the page it has seen last. It follows nothing by itself.

use std::collections::BTreeMap;
use std::net::IpAddr;

use axum::body::Body;
use axum::http::{HeaderMap, Request, header};
use cardswitch_edge::client_address::ClientAddress;
use tower::ServiceExt;
use url::form_urlencoded::Serializer;

use crate::bench::Bench;

/// The address of the site.
pub(super) const ORIGIN: &str = "https://cards.example.com";
/// The default address of visitors.
const ADDRESS: &str = "203.0.113.7";
/// The name of their browser.
const USER_AGENT: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";

/// An answer.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: String,
}

impl Page {
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The address that it leads to.
    pub(super) fn location(&self) -> &str {
        self.header("location")
    }

    /// The value that binds its forms.
    pub(super) fn csrf(&self) -> Option<String> {
        self.field("csrf")
    }

    /// The value that binds the last of its forms, which is about the company.
    pub(super) fn company_csrf(&self) -> String {
        let (_, rest) = self.body.rsplit_once("name=\"csrf\" value=\"").unwrap();
        rest.split_once('"').unwrap().0.to_owned()
    }

    /// The value of a hidden field.
    pub(super) fn field(&self, name: &str) -> Option<String> {
        let (_, rest) = self.body.split_once(&format!("name=\"{name}\" value=\""))?;
        Some(rest.split_once('"')?.0.to_owned())
    }

    #[track_caller]
    pub(super) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{} {}", self.location(), self.body);
        self
    }
}

/// A browser.
pub(super) struct Visitor<'a> {
    bench: &'a Bench,
    pub(super) cookies: BTreeMap<String, String>,
    pub(super) user_agent: &'a str,
    csrf: String,
}

impl<'a> Visitor<'a> {
    pub(super) fn new(bench: &'a Bench) -> Self {
        let (cookies, csrf) = (BTreeMap::new(), String::new());
        Self { bench, cookies, user_agent: USER_AGENT, csrf }
    }

    /// One with the same cookies.
    pub(super) fn copy(&self) -> Self {
        Self { cookies: self.cookies.clone(), csrf: self.csrf.clone(), ..Self::new(self.bench) }
    }

    pub(super) fn session(&self) -> Option<&str> {
        self.cookies.get("__Host-session").map(String::as_str)
    }

    pub(super) async fn get(&mut self, path: &str) -> Page {
        self.send("GET", path, &[("accept", "text/html")], "").await
    }

    /// Sends a form as the page seen last would.
    pub(super) async fn post(&mut self, path: &str, fields: &[(&str, &str)]) -> Page {
        let csrf = self.csrf.clone();
        let mut body = Serializer::new(String::new());
        body.append_pair("csrf", &csrf).extend_pairs(fields);
        let headers = [("origin", ORIGIN), ("sec-fetch-site", "same-origin")];
        self.post_with(path, &headers, &body.finish()).await
    }

    /// Sends a form of this page.
    pub(super) async fn post_from(
        &mut self,
        page: &Page,
        path: &str,
        fields: &[(&str, &str)],
    ) -> Page {
        let mut body = Serializer::new(String::new());
        body.append_pair("csrf", &page.company_csrf()).extend_pairs(fields);
        let headers = [("origin", ORIGIN), ("sec-fetch-site", "same-origin")];
        self.post_with(path, &headers, &body.finish()).await
    }

    /// Sends a form in any way.
    pub(super) async fn post_with(
        &mut self,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Page {
        let form = ("content-type", "application/x-www-form-urlencoded");
        let mut all = vec![form, ("accept", "text/html")];
        all.extend_from_slice(headers);
        self.send("POST", path, &all, body).await
    }

    /// Loads the page at `path`, then sends its form.
    pub(super) async fn fill(&mut self, path: &str, fields: &[(&str, &str)]) -> Page {
        self.get(path).await;
        self.post(path, fields).await
    }

    pub(super) async fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Page {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .extension(ClientAddress(ADDRESS.parse::<IpAddr>().unwrap()))
            .header(header::HOST, "cards.example.com")
            .header(header::USER_AGENT, self.user_agent);
        if !self.cookies.is_empty() {
            let cookies: Vec<_> =
                self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
            request = request.header(header::COOKIE, cookies.join("; "));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(body.to_owned())).unwrap();
        let response = self.bench.routes.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = axum::body::to_bytes(body, 1_000_000).await.unwrap();
        let page = Page {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body: String::from_utf8(bytes.to_vec()).unwrap(),
        };
        self.keep(&page);
        page
    }

    fn keep(&mut self, page: &Page) {
        for cookie in page.headers.get_all(header::SET_COOKIE) {
            let cookie = cookie::Cookie::parse(cookie.to_str().unwrap().to_owned()).unwrap();
            assert!(cookie.http_only() == Some(true) && cookie.secure() == Some(true), "{cookie}");
            if cookie.max_age().is_some_and(|age| age.is_zero()) {
                self.cookies.remove(cookie.name());
            } else {
                self.cookies.insert(cookie.name().to_owned(), cookie.value().to_owned());
            }
        }
        if let Some(csrf) = page.csrf() {
            self.csrf = csrf;
        }
    }
}
