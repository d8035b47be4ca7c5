//! The frame around every page: its head with the ways on, the notice, and the page itself.
//!
//! A handler renders its template and leaves it in its answer. `visit`, which knows the request, puts
//! the frame around it on the way out.
//!
//! INVARIANT: the template of a page escapes its values; the frame takes a rendered template and
//! nothing else as it is.

use askama::Template;
use axum::body::Body;
use axum::http::StatusCode;
use axum::http::header::CONTENT_SECURITY_POLICY;
use axum::response::{Html, IntoResponse, Response};
use cardswitch_engine::directory::member::Member;
use cardswitch_engine::domain::company::Company;

use super::assets::{Asset, MARK, STYLE};
use super::headers;
use super::notice::Notice;
use super::rights::Right;
use super::session::Session;
use super::visit::{SignedInVisitor, Visit};
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
struct FrameLayout<'a> {
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
    searched: &'a str,
    others: Vec<OtherCompany<'a>>,
    ways: Vec<Ways>,
    csrf: &'a str,
}

struct OtherCompany<'a> {
    id: String,
    name: &'a str,
}

/// A page that waits in the answer of its handler for the frame, which `visit` puts around it.
#[derive(Clone)]
struct Page {
    title: String,
    /// The rendered template.
    body: String,
    /// Ways on of the page's own.
    ways: Option<Vec<Ways>>,
    forward: Option<String>,
    scripts: Vec<&'static Asset>,
    is_small: bool,
    hides_visitor: bool,
}

impl Page {
    /// A page at full width, with the ways on that the visitor has.
    /// Errors: the template cannot be rendered.
    fn of(title: &str, content: impl Template) -> askama::Result<Self> {
        Ok(Self {
            title: title.to_owned(),
            body: content.render()?,
            ways: None,
            forward: None,
            scripts: Vec::new(),
            is_small: false,
            hides_visitor: false,
        })
    }
}

/// The answer in which a page waits for its frame.
fn waiting(page: askama::Result<Page>) -> Response {
    match page {
        Ok(page) => {
            let mut response = Html(Body::empty()).into_response();
            response.extensions_mut().insert(page);
            response
        }
        Err(error) => broken(&error),
    }
}

fn broken(error: &askama::Error) -> Response {
    tracing::error!(%error, "a page could not be made");
    StatusCode::INTERNAL_SERVER_ERROR.into_response()
}

/// A page at full width, with the ways on that the visitor has; narrow for somebody who has not
/// signed in.
pub(super) fn page(title: &str, content: impl Template) -> Response {
    waiting(Page::of(title, content))
}

/// A page as of `page`, with scripts of the site that make more of it; without them it is whole as
/// well.
pub(super) fn page_with_scripts(
    title: &str,
    scripts: &[&'static Asset],
    content: impl Template,
) -> Response {
    let page = Page::of(title, content).map(|page| Page { scripts: scripts.to_vec(), ..page });
    allowing_scripts(waiting(page))
}

/// A page to read, for anybody: with ways on of its own in place of those of the site.
pub fn reading_page(title: &str, ways: Vec<Ways>, content: Markup) -> Response {
    waiting(Page::of(title, content).map(|page| Page { ways: Some(ways), ..page }))
}

/// A page for one question: narrow, without ways on.
pub(super) fn small_page(title: &str, content: impl Template) -> Response {
    waiting(Page::of(title, content).map(|page| Page { is_small: true, ..page }))
}

/// A page as of `small_page`, which shows nothing of its visitor.
pub(super) fn plain_page(title: &str, content: impl Template) -> Response {
    waiting(plain(title, content))
}

/// A page as of `plain_page`, with scripts of the site that make more of it.
pub(super) fn plain_page_with_scripts(
    title: &str,
    scripts: &[&'static Asset],
    content: impl Template,
) -> Response {
    let page = plain(title, content).map(|page| Page { scripts: scripts.to_vec(), ..page });
    allowing_scripts(waiting(page))
}

/// A page from which the browser goes on to `target` by itself.
pub(super) fn forwarding_page(title: &str, target: &str, content: impl Template) -> Response {
    waiting(plain(title, content).map(|page| Page { forward: Some(target.to_owned()), ..page }))
}

fn plain(title: &str, content: impl Template) -> askama::Result<Page> {
    Ok(Page { is_small: true, hides_visitor: true, ..Page::of(title, content)? })
}

fn allowing_scripts(mut response: Response) -> Response {
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, headers::policy_with_scripts());
    response
}

/// The answer with the frame around the page that waits in it; any other answer as it is.
pub(super) fn framed(mut response: Response, visit: &Visit) -> Response {
    let Some(page) = response.extensions_mut().remove::<Page>() else { return response };
    match render(&page, visit) {
        Ok(html) => {
            *response.body_mut() = Body::from(html);
            response
        }
        Err(error) => broken(&error),
    }
}

fn render(page: &Page, visit: &Visit) -> askama::Result<String> {
    let known = visit.visitor.get().filter(|_| !page.hides_visitor);
    let mut visitor = known.map(|known| visitor_of(known, visit));
    let own = visitor.as_mut().map(|visitor| std::mem::take(&mut visitor.ways));
    let is_small = page.is_small || (visitor.is_none() && page.ways.is_none());
    let ways = if is_small { Vec::new() } else { page.ways.clone().or(own).unwrap_or_default() };
    let layout = FrameLayout {
        title: &page.title,
        style: STYLE.path(),
        mark: MARK.path(),
        forward: page.forward.as_deref(),
        scripts: &page.scripts,
        is_small,
        visitor,
        ways,
        notice: visit.take_notice(),
        has_faults: visit.has_faults,
        body: &page.body,
    };
    layout.render()
}

fn visitor_of<'a>(known: &'a SignedInVisitor, visit: &'a Visit) -> Visitor<'a> {
    let SignedInVisitor { session, csrf } = known;
    let (user, here) = (&session.user, &visit.path);
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
        searched: &visit.searched,
        others: others.map(other).collect(),
        ways: vec![shown("", Group::Company), shown("Settings", Group::Settings)],
        csrf,
    }
}
