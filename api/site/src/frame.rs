//! The frame around every page: its head with the ways on, the notice, and the page itself.
//!
//! INVARIANT: the template of a page escapes its values; the frame takes a rendered template and
//! nothing else as it is.

use askama::Template;
use axum::http::StatusCode;
use axum::http::header::CONTENT_SECURITY_POLICY;
use axum::response::{Html, IntoResponse, Response};
use cardswitch_engine::directory::member::Member;
use cardswitch_engine::domain::company::Company;
use cardswitch_identity::state::AppState;

use super::assets::{Asset, MARK, STYLE};
use super::headers;
use super::notice::Notice;
use super::rights::Right;
use super::session::Session;
use super::visit::Visit;
use super::words::person;

/// A way on beside every page.
struct Link {
    label: &'static str,
    path: &'static str,
    group: Group,
    is_for: fn(&Session) -> bool,
}

/// The group of links under which a link stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Group {
    Company,
    Settings,
}

/// All of them, in the order in which they are shown.
const LINKS: [Link; 14] = [
    link("Overview", "/overview", Group::Company, is_member),
    link("Cards", "/cards", Group::Company, is_member),
    link("Transactions", "/transactions", Group::Company, is_member),
    link("Requisitions", "/requisitions", Group::Company, is_member),
    link("Members", "/members", Group::Company, |visitor| Right::SeeMembers.is_with(visitor)),
    link("Accounting", "/dimensions", Group::Company, |visitor| {
        Right::ManageDimensions.is_with(visitor)
    }),
    link("Statements", "/statements", Group::Company, |visitor| {
        Right::SeeStatements.is_with(visitor)
    }),
    link("Apps", "/apps", Group::Settings, |visitor| Right::ManageApps.is_with(visitor)),
    link("Access tokens", "/tokens", Group::Settings, |visitor| Right::SeeTokens.is_with(visitor)),
    link("Webhooks", "/webhooks", Group::Settings, |visitor| {
        Right::ManageWebhooks.is_with(visitor)
    }),
    link("Peers", "/peers", Group::Settings, |visitor| Right::SeePeers.is_with(visitor)),
    link("Audit log", "/audit", Group::Settings, |visitor| Right::ReadAudit.is_with(visitor)),
    link("API docs", "/docs", Group::Settings, |_| true),
    link("Your account", "/account", Group::Settings, |_| true),
];

const fn link(
    label: &'static str,
    path: &'static str,
    group: Group,
    is_for: fn(&Session) -> bool,
) -> Link {
    Link { label, path, group, is_for }
}

const fn is_member(session: &Session) -> bool {
    session.current.is_some()
}

#[derive(Template)]
#[template(path = "layout.html")]
struct Layout<'a> {
    title: &'a str,
    style: &'a str,
    mark: &'a str,
    forward: Option<&'a str>,
    scripts: &'a [&'a Asset],
    is_small: bool,
    visitor: Option<Visitor<'a>>,
    ways: Vec<Ways>,
    notice: Option<Notice>,
    has_faults: bool,
    body: &'a str,
}

/// Ways on that stand together beside a page.
#[derive(Clone, Debug)]
pub struct Ways {
    /// Their heading; blank if the panel needs none.
    pub head: &'static str,
    /// The ways.
    pub links: Vec<WayOn>,
}

/// A way on.
#[derive(Clone, Debug)]
pub struct WayOn {
    /// Its label.
    pub label: String,
    /// The path to which it leads.
    pub path: String,
    /// Whether it leads here.
    pub is_here: bool,
}

/// Markup that was rendered, and escaped, elsewhere.
#[derive(Clone, Debug, Template)]
#[template(source = "{{ self.0|safe }}", ext = "html")]
pub struct Markup(pub String);

struct Visitor<'a> {
    name: String,
    email: &'a str,
    company: Option<&'a str>,
    searched: String,
    others: Vec<OtherCompany<'a>>,
    ways: Vec<Ways>,
    csrf: String,
}

struct OtherCompany<'a> {
    id: String,
    name: &'a str,
}

/// A page at full width, with the ways on that the visitor has.
#[must_use]
pub fn page(
    state: &AppState,
    title: &str,
    session: Option<&Session>,
    content: impl Template,
) -> Response {
    let visitor = session.map(|session| visitor_of(session.csrf(state), session));
    frame(Frame { title, visitor, is_small: session.is_none(), ..Frame::default() }, content)
}

/// A page as of `page`, with scripts of the site that make more of it; without them it is whole as
/// well.
#[must_use]
pub(super) fn page_with_scripts(
    state: &AppState,
    title: &str,
    session: &Session,
    scripts: &[&Asset],
    content: impl Template,
) -> Response {
    let visitor = Some(visitor_of(session.csrf(state), session));
    let mut response = frame(Frame { title, visitor, scripts, ..Frame::default() }, content);
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, headers::policy_with_scripts());
    response
}

/// A page to read, for anybody: with ways on of its own in place of those of the site.
#[must_use]
pub fn reading_page(
    state: &AppState,
    (title, session): (&str, Option<&Session>),
    ways: Vec<Ways>,
    content: Markup,
) -> Response {
    let visitor = session.map(|session| visitor_of(session.csrf(state), session));
    frame(Frame { title, visitor, ways: Some(ways), ..Frame::default() }, content)
}

/// A page for one question: narrow, without ways on.
#[must_use]
pub fn small_page(
    state: &AppState,
    title: &str,
    session: Option<&Session>,
    content: impl Template,
) -> Response {
    let visitor = session.map(|session| visitor_of(session.csrf(state), session));
    frame(Frame { title, visitor, is_small: true, ..Frame::default() }, content)
}

/// The page of a failure: with the ways on where a handler has found out who visits.
#[must_use]
pub(super) fn failure_page(title: &str, content: impl Template) -> Response {
    let visit = Visit::at_hand();
    let visitor = visit.as_deref().and_then(Visit::visitor);
    let visitor = visitor.map(|known| visitor_of(known.csrf.clone(), &known.session));
    frame(Frame { title, is_small: visitor.is_none(), visitor, ..Frame::default() }, content)
}

/// A page that knows nothing of its visitor.
#[must_use]
pub(super) fn plain_page(title: &str, content: impl Template) -> Response {
    frame(Frame { title, is_small: true, ..Frame::default() }, content)
}

/// A page as of `plain_page`, with scripts of the site that make more of it.
#[must_use]
pub(super) fn plain_page_with_scripts(
    title: &str,
    scripts: &[&Asset],
    content: impl Template,
) -> Response {
    let mut response = frame(Frame { title, is_small: true, scripts, ..Frame::default() }, content);
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, headers::policy_with_scripts());
    response
}

/// A page from which the browser goes on to `target` by itself.
#[must_use]
pub(super) fn forwarding_page(title: &str, target: &str, content: impl Template) -> Response {
    frame(Frame { title, is_small: true, forward: Some(target), ..Frame::default() }, content)
}

#[derive(Default)]
struct Frame<'a> {
    title: &'a str,
    visitor: Option<Visitor<'a>>,
    /// Ways on of the page's own.
    ways: Option<Vec<Ways>>,
    is_small: bool,
    forward: Option<&'a str>,
    scripts: &'a [&'a Asset],
}

fn frame(frame: Frame<'_>, content: impl Template) -> Response {
    let Frame { title, mut visitor, ways, is_small, forward, scripts } = frame;
    let own = visitor.as_mut().map(|visitor| std::mem::take(&mut visitor.ways));
    let ways = if is_small { Vec::new() } else { ways.or(own).unwrap_or_default() };
    let visit = Visit::at_hand();
    let has_faults = visit.as_ref().is_some_and(|visit| visit.has_faults());
    let notice = visit.and_then(|visit| visit.take_notice());
    let rendered = content.render().and_then(|body| {
        let layout = Layout {
            title,
            style: STYLE.path(),
            mark: MARK.path(),
            forward,
            scripts,
            is_small,
            visitor,
            ways,
            notice,
            has_faults,
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

fn visitor_of(csrf: String, session: &Session) -> Visitor<'_> {
    let user = &session.user;
    let here = Visit::at_hand();
    let here = here.as_deref().map_or("", Visit::path);
    let is_below = |path: &str| {
        here.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let shown = |head: &'static str, group: Group| {
        let links = LINKS.iter().filter(|link| link.group == group && (link.is_for)(session));
        let shown = |link: &Link| WayOn {
            label: link.label.to_owned(),
            path: link.path.to_owned(),
            is_here: is_below(link.path),
        };
        Ways { head, links: links.map(shown).collect() }
    };
    let current = session.current.as_ref().map(|(company, _)| company);
    let others = session
        .memberships
        .iter()
        .filter(|(company, _)| current.is_none_or(|current| current.id != company.id));
    fn other((company, _): &(Company, Member)) -> OtherCompany<'_> {
        OtherCompany { id: company.id.0.to_string(), name: &company.name }
    }
    Visitor {
        name: person(&user.first_name, &user.last_name, &user.email),
        email: &user.email,
        company: current.map(|company| company.name.as_str()),
        searched: Visit::at_hand().map(|visit| visit.searched().to_owned()).unwrap_or_default(),
        others: others.map(other).collect(),
        ways: vec![shown("", Group::Company), shown("Settings", Group::Settings)],
        csrf,
    }
}
