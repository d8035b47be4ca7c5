//! The frame around every page: its head with the ways on, the notice, and the page itself.
//!
//! INVARIANT: what a page shows is escaped by its template; the frame takes a rendered template and
//! nothing else as it is.

use askama::Template;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use cardswitch_engine::domain::company::Company;
use cardswitch_engine::domain::member::Member;

use super::assets::{MARK, STYLE};
use super::rights::Right;
use super::session::Session;
use super::visit::Visit;
use crate::state::AppState;

/// A way on in the head of pages.
struct Link {
    label: &'static str,
    path: &'static str,
    is_for: fn(&Session) -> bool,
}

/// All of them, in the order in which they are shown.
const LINKS: [Link; 4] = [
    Link { label: "Apps", path: "/apps", is_for: |session| Right::ManageApps.is_with(session) },
    Link {
        label: "Access tokens",
        path: "/tokens",
        is_for: |session| Right::SeeTokens.is_with(session),
    },
    Link {
        label: "Audit log",
        path: "/audit",
        is_for: |session| Right::ReadAudit.is_with(session),
    },
    Link { label: "Your account", path: "/account", is_for: |_| true },
];

#[derive(Template)]
#[template(path = "layout.html")]
struct Layout<'a> {
    title: &'a str,
    style: &'a str,
    mark: &'a str,
    forward: Option<&'a str>,
    is_small: bool,
    visitor: Option<Visitor<'a>>,
    notice: Option<&'static str>,
    body: &'a str,
}

struct Visitor<'a> {
    name: String,
    email: &'a str,
    company: Option<&'a str>,
    others: Vec<OtherCompany<'a>>,
    links: Vec<ShownLink>,
    csrf: String,
}

struct OtherCompany<'a> {
    id: String,
    name: &'a str,
}

struct ShownLink {
    label: &'static str,
    path: &'static str,
    is_here: bool,
}

/// A page at full width, with the ways on that the visitor has.
#[must_use]
pub fn page(
    state: &AppState,
    title: &str,
    session: Option<&Session>,
    content: impl Template,
) -> Response {
    let visitor = session.map(|session| visitor_of(state, session));
    frame(Frame { title, visitor, is_small: session.is_none(), forward: None }, content)
}

/// A page for one question: narrow, without ways on.
#[must_use]
pub fn small_page(
    state: &AppState,
    title: &str,
    session: Option<&Session>,
    content: impl Template,
) -> Response {
    let visitor = session.map(|session| visitor_of(state, session));
    frame(Frame { title, visitor, is_small: true, forward: None }, content)
}

/// A page that knows nothing of its visitor.
#[must_use]
pub(super) fn plain_page(title: &str, content: impl Template) -> Response {
    frame(Frame { title, visitor: None, is_small: true, forward: None }, content)
}

/// A page from which the browser goes on to `target` by itself.
#[must_use]
pub(super) fn forwarding_page(title: &str, target: &str, content: impl Template) -> Response {
    frame(Frame { title, visitor: None, is_small: true, forward: Some(target) }, content)
}

struct Frame<'a> {
    title: &'a str,
    visitor: Option<Visitor<'a>>,
    is_small: bool,
    forward: Option<&'a str>,
}

fn frame(frame: Frame<'_>, content: impl Template) -> Response {
    let Frame { title, visitor, is_small, forward } = frame;
    let notice = Visit::at_hand().and_then(|visit| visit.take_notice());
    let rendered = content.render().and_then(|body| {
        let layout = Layout {
            title,
            style: STYLE.path(),
            mark: MARK.path(),
            forward,
            is_small,
            visitor,
            notice: notice.map(|notice| notice.text()),
            body: &body,
        };
        layout.render()
    });
    match rendered {
        Ok(html) => Html(html).into_response(),
        Err(error) => {
            tracing::error!(%error, "a page could not be made");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

fn visitor_of<'a>(state: &AppState, session: &'a Session) -> Visitor<'a> {
    let user = &session.user;
    let here = Visit::at_hand();
    let here = here.as_deref().map_or("", Visit::path);
    let is_below = |path: &str| {
        here.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let links = LINKS.iter().filter(|link| (link.is_for)(session));
    let links =
        links.map(|Link { label, path, .. }| ShownLink { label, path, is_here: is_below(path) });
    let current = session.current.as_ref().map(|(company, _)| company);
    let others = session
        .memberships
        .iter()
        .filter(|(company, _)| current.is_none_or(|current| current.id != company.id));
    let other = |(company, _): &'a (Company, Member)| OtherCompany {
        id: company.id.0.to_string(),
        name: &company.name,
    };
    Visitor {
        name: shown_name(&user.first_name, &user.last_name, &user.email),
        email: &user.email,
        company: current.map(|company| company.name.as_str()),
        others: others.map(other).collect(),
        links: links.collect(),
        csrf: session.csrf(state),
    }
}

/// How a person is called; by e-mail where there is no name.
fn shown_name(first: &str, last: &str, email: &str) -> String {
    let name = format!("{first} {last}");
    match name.trim() {
        "" => email.to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_called_by_what_is_known_of_them() {
        assert_eq!(shown_name("Ada", "Lovelace", "ada@example.com"), "Ada Lovelace");
        assert_eq!(shown_name("Ada", "", "ada@example.com"), "Ada");
        assert_eq!(shown_name("", " ", "ada@example.com"), "ada@example.com");
    }
}
