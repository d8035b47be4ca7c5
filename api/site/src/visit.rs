//! The frame of every request of the site: the facts that its page uses, and the headers of its
//! answer.
//!
//! The facts (its path, its notice, the key of its forms) go to extractors with the request. Pages get
//! their frame, and failures of handlers, which are those of the API, become pages here.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use axum::extract::{Request, State};
use axum::http::header::{ALLOW, CONTENT_TYPE, REFERRER_POLICY, RETRY_AFTER, SET_COOKIE};
use axum::http::{Extensions, HeaderMap, HeaderName, Method, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use cardswitch_edge::error::{ApiError, ConflictMessage};
use cardswitch_edge::request_id::{answer_of, to_the_end};
use cardswitch_edge::write_error::UnshownChange;
use cardswitch_identity::auth::drawn_secret::DrawnSecret;
use cardswitch_identity::idempotency::Claim;
use cardswitch_identity::state::AppState;
use parking_lot::Mutex;

use super::cookies::SiteCookie;
use super::error_page::{conflict_page, failure_page, not_shown_yet};
use super::frame::framed;
use super::headers;
use super::notice::Notice;
use super::sent_forms::{FormDesk, FormTurn, SentForms};
use super::session::Session;

/// How long forms of a visitor without a session are good. Units: seconds.
const FORM_KEY_S: i64 = 12 * 3600;

/// The facts of a request that pages use.
#[derive(Debug)]
pub(super) struct Visit {
    /// The path of the page.
    pub(super) path: String,
    /// The visitor's search text, on the page of the results; blank elsewhere.
    pub(super) searched: String,
    /// Whether the switch misbehaves on purpose.
    pub(super) has_faults: bool,
    form_key: String,
    is_form_key_new: bool,
    is_form_key_used: AtomicBool,
    notice: Option<Notice>,
    is_notice_shown: AtomicBool,
    pub(super) visitor: OnceLock<SignedInVisitor>,
    /// The form that is being carried out, if it comes from a page of a company.
    form: Mutex<Option<FormTurn>>,
}

/// The signed-in visitor, and the value that their forms carry.
#[derive(Debug)]
pub(super) struct SignedInVisitor {
    pub(super) session: Session,
    pub(super) csrf: String,
}

impl Visit {
    fn of(request: &Request, state: &AppState, is_secure: bool) -> Result<Self, ApiError> {
        let headers = request.headers();
        let kept = SiteCookie::Form.find(headers, is_secure);
        let word = SiteCookie::Notice.find(headers, is_secure);
        Ok(Self {
            path: request.uri().path().to_owned(),
            searched: searched(request.uri()),
            has_faults: state.config.faults.is_some(),
            is_form_key_new: kept.is_none(),
            form_key: match kept {
                Some(kept) => kept,
                None => DrawnSecret::draw()?.text,
            },
            is_form_key_used: AtomicBool::new(false),
            notice: word.as_deref().and_then(Notice::named),
            is_notice_shown: AtomicBool::new(false),
            visitor: OnceLock::new(),
            form: Mutex::new(None),
        })
    }

    /// The visit of a request of the site.
    pub(super) fn find(extensions: &Extensions) -> Option<&Self> {
        extensions.get::<Arc<Self>>().map(Arc::as_ref)
    }

    /// Notes the visitor, for the frame of the page.
    pub(super) fn note_visitor(&self, session: &Session, state: &AppState) {
        let csrf = session.csrf(state);
        self.visitor.get_or_init(|| SignedInVisitor { session: session.clone(), csrf });
    }

    /// The key that binds forms without a session; the visitor gets it with the answer.
    pub(super) fn form_key(&self) -> &str {
        self.is_form_key_used.store(true, Ordering::Relaxed);
        &self.form_key
    }

    /// The key that binds the forms the visitor was shown; none where they were shown none.
    pub(super) fn form_key_sent(&self) -> Option<&str> {
        (!self.is_form_key_new).then_some(&self.form_key)
    }

    /// The notice on top of the page, shown once.
    pub(super) fn take_notice(&self) -> Option<Notice> {
        self.is_notice_shown.store(true, Ordering::Relaxed);
        self.notice
    }

    /// Keeps the turn of a form until its answer is there.
    pub(super) fn keep_turn(&self, turn: FormTurn) {
        *self.form.lock() = Some(turn);
    }

    fn leave(&self, headers: &mut HeaderMap, is_secure: bool) {
        if self.is_form_key_new && self.is_form_key_used.load(Ordering::Relaxed) {
            let cookie = SiteCookie::Form.set(&self.form_key, FORM_KEY_S, is_secure);
            headers.append(SET_COOKIE, cookie);
        }
        if self.notice.is_some() && self.is_notice_shown.load(Ordering::Relaxed) {
            headers.append(SET_COOKIE, SiteCookie::Notice.clear(is_secure));
        }
    }
}

#[cfg(test)]
impl Visit {
    /// The visit of a stranger without cookies.
    pub(super) fn of_nobody() -> Self {
        Self {
            path: "/".to_owned(),
            searched: String::new(),
            has_faults: false,
            form_key: String::new(),
            is_form_key_new: true,
            is_form_key_used: AtomicBool::new(false),
            notice: None,
            is_notice_shown: AtomicBool::new(false),
            visitor: OnceLock::new(),
            form: Mutex::new(None),
        }
    }
}

/// The text in the search field.
fn searched(uri: &Uri) -> String {
    let query = uri.query().filter(|_| uri.path() == "/search").unwrap_or_default();
    let mut pairs = url::form_urlencoded::parse(query.as_bytes());
    pairs.find(|(name, _)| name == "q").map(|(_, text)| text.into_owned()).unwrap_or_default()
}

/// Answers a request of the site. A form is carried out also where its sender hangs up, as browsers
/// do when a button is pressed twice.
pub(super) async fn receive(
    State((state, forms)): State<(AppState, Arc<SentForms>)>,
    mut request: Request,
    next: Next,
) -> Response {
    if request.method() != Method::POST {
        return receive_here(state, request, next).await;
    }
    let claim = Arc::new(Claim::of_form());
    request.extensions_mut().insert(Arc::clone(&claim));
    request.extensions_mut().insert(FormDesk { forms, claim });
    to_the_end(receive_here(state, request, next)).await
}

async fn receive_here(state: AppState, request: Request, next: Next) -> Response {
    receive_with(&state, request, async |request, visit| {
        let answer = as_page(answer_of(next.run(request)).await);
        let turn = visit.form.lock().take();
        match turn {
            Some(turn) => turn.end(answer).await,
            None => answer,
        }
    })
    .await
}

/// Answers a request by `handle`, and puts the frame around its page.
pub(super) async fn receive_with(
    state: &AppState,
    mut request: Request,
    handle: impl AsyncFnOnce(Request, &Visit) -> Response,
) -> Response {
    let is_secure = state.urls().is_behind_tls();
    let visit = match Visit::of(&request, state, is_secure) {
        Ok(visit) => Arc::new(visit),
        Err(error) => return error.into_response(),
    };
    request.extensions_mut().insert(Arc::clone(&visit));
    let mut response = framed(handle(request, &visit).await, &visit);
    visit.leave(response.headers_mut(), is_secure);
    headers::secure(response.headers_mut());
    if is_secure {
        headers::demand_tls(response.headers_mut());
    }
    response
}

/// The page of a failure that came in another form.
fn as_page(response: Response) -> Response {
    let is_failure = response.status().is_client_error() || response.status().is_server_error();
    let media_type = response.headers().get(CONTENT_TYPE);
    if !is_failure || media_type.is_some_and(|kind| kind.as_bytes().starts_with(b"text/html")) {
        return response;
    }
    let made = response.extensions().get::<UnshownChange>().copied();
    let conflict = response.extensions().get::<ConflictMessage>();
    let mut page = match (made, conflict) {
        (Some(made), _) => {
            let mut page = not_shown_yet();
            page.extensions_mut().insert(made);
            page
        }
        (None, Some(ConflictMessage(message))) => conflict_page(message),
        (None, None) => failure_page(response.status()),
    };
    // Headers that keep a page's address from others hold for its failures, too.
    let kept = [ALLOW, RETRY_AFTER, REFERRER_POLICY, HeaderName::from_static("x-robots-tag")];
    for name in kept {
        if let Some(value) = response.headers().get(&name) {
            page.headers_mut().insert(name, value.clone());
        }
    }
    page
}
