//! An app's request for a member's consent, and the addresses its answer goes to; no page is made
//! here. Source: spec "OAuth", GET authorize; RFC 6749, 4.1.1 and 4.1.2; RFC 7636; RFC 9207.
//!
//! INVARIANT: nobody is ever sent to an address that is not, letter by letter, on the app's list:
//! as long as app or address are in doubt, the fault is shown as a page.

use cardswitch_edge::error::ApiError;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::access_token::AccessScope;
use cardswitch_engine::directory::app::App;
use cardswitch_engine::directory::member::Member;
use cardswitch_engine::directory::ticket::{
    NewAuthorizationCode, NewTicket, NewTicketContent, TicketCommand,
};
use cardswitch_engine::domain::company::{Company, CompanyState};
use cardswitch_engine::domain::ids::{AppId, TicketId, Timestamp, UserId};
use cardswitch_secrets::issuing::RandomSource;
use cardswitch_wire::fields::parse_id;
use url::form_urlencoded;

use super::{pkce, scope};
use crate::actor_state::ActorState;
use crate::auth::drawn_secret::DrawnSecret;
use crate::state::AppState;

/// How long a code can be exchanged. Units: microseconds.
pub const CODE_LIFETIME: i64 = 10 * Timestamp::MINUTE;
/// The longest `state` that is sent back. Units: bytes.
const STATE_BYTES_MAX: usize = 2_000;

/// A request that may be put before a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizationRequest {
    /// The app that asks.
    pub app: App,
    /// The address of the answer, from the app's list.
    pub redirect_uri: String,
    /// The address that the app requested; none where it left that out.
    pub asked_redirect_uri: Option<String>,
    /// The scope that it requests.
    pub scope: AccessScope,
    /// The text that it gets back as it sent it.
    pub state: Option<String>,
    /// The challenge that it will have to prove, by S256.
    pub code_challenge: Option<String>,
    /// The issuer: an app of several servers knows by it which one answered.
    issuer: String,
}

/// The outcome of checking a request, before a member is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestCheck {
    /// A member is to be asked.
    Ask(Box<AuthorizationRequest>),
    /// The request is refused by a page, since no address is safe.
    Page(PageFault),
    /// The request is refused, and the app learns so at this address.
    Redirect(String),
}

/// A fault of a request that leads nowhere safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PageFault {
    /// No app has this `client_id`.
    #[error("No app is registered under this client_id.")]
    UnknownApp,
    /// The app's company is closed.
    #[error("The company that registered the app is closed.")]
    Closed,
    /// The app's list is empty.
    #[error("The app has no approved redirect URL.")]
    NoRedirectUrls,
    /// The address is not on the app's list.
    #[error("The redirect_uri is not one of the app's approved redirect URLs.")]
    RedirectNotApproved,
    /// `client_id` or `redirect_uri` came twice.
    #[error("A parameter came more than once.")]
    Repeated,
}

/// Why a request is not granted though nothing is wrong with it.
/// Source: spec "Authentication", 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantRefusal {
    /// The member declined.
    Declined,
    /// The user belongs to no company.
    NoAccount,
    /// The company is not approved yet.
    PendingApproval,
    /// The member may not allow it.
    NotAllowed,
}

impl GrantRefusal {
    /// The description of the refusal for the app.
    pub const fn description(self) -> &'static str {
        match self {
            Self::Declined => "The request was declined",
            Self::NoAccount => "No account",
            Self::PendingApproval => "Pending approval",
            Self::NotAllowed => "The member may not authorize this request",
        }
    }
}

/// Judges a request by the query of its address.
/// Errors: the tables cannot be read.
pub fn check(state: &AppState, query: &str) -> Result<RequestCheck, ApiError> {
    let asked = QueryParameters::parse(query);
    let id = asked.text("client_id").and_then(|text| parse_id(&text)).map(AppId);
    let app = match id {
        Some(id) => state.switch.read_at_once(|snapshot| snapshot.app_by_id(id))?,
        None => None,
    };
    if app.as_ref().map_or(Ok(false), |app| is_stopped(state, app))? {
        return Ok(RequestCheck::Page(PageFault::Closed));
    }
    Ok(asked.check(app, &state.urls().app))
}

/// Whether the company that registered an app is closed: nobody lets the app in any more.
/// Errors: the tables cannot be read.
pub(super) fn is_stopped(state: &AppState, app: &App) -> Result<bool, ApiError> {
    let owner = state.switch.read_at_once(|snapshot| snapshot.company(app.company))?;
    Ok(owner.is_none_or(|owner| owner.state == CompanyState::Closed))
}

/// The parameters of a request.
struct QueryParameters(Vec<(String, String)>);

/// The error code that an app gets at its address, and its description.
type RedirectError = (&'static str, &'static str);

impl QueryParameters {
    fn parse(query: &str) -> Self {
        Self(form_urlencoded::parse(query.as_bytes()).into_owned().collect())
    }

    fn is_repeated(&self, name: &str) -> bool {
        self.0.iter().filter(|(known, _)| known == name).count() > 1
    }

    /// A parameter; one without a value counts as left out. Source: RFC 6749, 3.1.
    fn text(&self, name: &str) -> Option<String> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, text)| text.clone()).filter(|text| !text.is_empty())
    }

    fn check(&self, app: Option<App>, issuer: &str) -> RequestCheck {
        if self.is_repeated("client_id") || self.is_repeated("redirect_uri") {
            return RequestCheck::Page(PageFault::Repeated);
        }
        let Some(app) = app.filter(|app| !app.is_deleted) else {
            return RequestCheck::Page(PageFault::UnknownApp);
        };
        let asked_redirect_uri = self.text("redirect_uri");
        let redirect_uri = match find_redirect(&app, asked_redirect_uri.as_deref()) {
            Ok(redirect_uri) => redirect_uri,
            Err(fault) => return RequestCheck::Page(fault),
        };
        let state = self.state();
        match self.check_rest(&app) {
            Ok((scope, code_challenge)) => RequestCheck::Ask(Box::new(AuthorizationRequest {
                app,
                redirect_uri,
                asked_redirect_uri,
                scope,
                state,
                code_challenge,
                issuer: issuer.to_owned(),
            })),
            Err((error, description)) => {
                let told = [("error", error), ("error_description", description)];
                RequestCheck::Redirect(answer_at(&redirect_uri, &told, issuer, state.as_deref()))
            }
        }
    }

    /// The `state` that the app gets back, where it came once and is not too long.
    fn state(&self) -> Option<String> {
        let is_kept = |state: &String| state.len() <= STATE_BYTES_MAX;
        self.text("state").filter(|state| is_kept(state) && !self.is_repeated("state"))
    }

    /// Checks the rules whose faults the app's address may get.
    fn check_rest(&self, app: &App) -> Result<(AccessScope, Option<String>), RedirectError> {
        let once = ["response_type", "scope", "state", "code_challenge", "code_challenge_method"];
        if once.iter().any(|name| self.is_repeated(name)) {
            return Err(("invalid_request", "A parameter came more than once"));
        }
        if self.text("state").is_some() && self.state().is_none() {
            return Err(("invalid_request", "The state is too long"));
        }
        match self.text("response_type").as_deref() {
            Some("code") => {}
            Some(_) => return Err(("unsupported_response_type", "The response_type must be code")),
            None => return Err(("invalid_request", "The response_type is missing")),
        }
        let scope = scope::parse(&self.text("scope").unwrap_or_default());
        let scope = scope.map_err(|_| ("invalid_scope", "There is no such scope"))?;
        scope::check_approved(scope, app.approved)
            .map_err(|_| ("invalid_scope", "The app is not approved for this scope"))?;
        Ok((scope, self.challenge()?))
    }

    /// The challenge that the app will have to prove.
    fn challenge(&self) -> Result<Option<String>, RedirectError> {
        let challenge = self.text("code_challenge");
        match (&challenge, self.text("code_challenge_method").as_deref()) {
            (None, None) => Ok(None),
            (Some(text), Some("S256")) if pkce::is_challenge(text) => Ok(challenge),
            (Some(_), Some("S256")) => Err(("invalid_request", "The code_challenge is malformed")),
            // A method left out would be `plain`, which proves nothing against a reader of the
            // request.
            (Some(_), _) => Err(("invalid_request", "The code_challenge_method must be S256")),
            (None, Some(_)) => Err(("invalid_request", "The code_challenge is missing")),
        }
    }
}

/// The address of the answer, compared letter by letter. Source: spec "OAuth", rule 1.
fn find_redirect(app: &App, asked: Option<&str>) -> Result<String, PageFault> {
    let first = app.redirect_urls.first().ok_or(PageFault::NoRedirectUrls)?;
    let found = match asked {
        None => Some(first),
        Some(asked) => app.redirect_urls.iter().find(|approved| *approved == asked),
    };
    found.cloned().ok_or(PageFault::RedirectNotApproved)
}

/// A registered address with parameters behind those it has.
fn with_parameters(address: &str, parameters: &[(&str, &str)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(parameters);
    let between = match address.split_once('?') {
        None => "?",
        Some((_, query)) if query.is_empty() || query.ends_with('&') => "",
        Some(_) => "&",
    };
    format!("{address}{between}{}", query.finish())
}

/// An answer to the app at `address`.
fn answer_at(address: &str, told: &[(&str, &str)], issuer: &str, state: Option<&str>) -> String {
    let echoed = state.map(|state| ("state", state));
    let own = [("iss", issuer)].into_iter().chain(echoed);
    with_parameters(address, &told.iter().copied().chain(own).collect::<Vec<_>>())
}

impl AuthorizationRequest {
    fn answered(&self, told: &[(&str, &str)]) -> String {
        answer_at(&self.redirect_uri, told, &self.issuer, self.state.as_deref())
    }

    /// The address at which the app learns that it is refused.
    pub fn refused(&self, refusal: GrantRefusal) -> String {
        let description = refusal.description();
        self.answered(&[("error", "access_denied"), ("error_description", description)])
    }

    /// The address at which the app gets its code.
    pub fn granted(&self, code: &str) -> String {
        self.answered(&[("code", code)])
    }

    /// The memberships in which a user may grant the request.
    /// Errors: there is none, and why.
    pub fn grantable(
        &self,
        memberships: &[(Company, Member)],
    ) -> Result<Vec<(Company, Member)>, GrantRefusal> {
        find_grantable(self.scope, memberships)
    }

    /// Grants the request in one of `grantable`: makes a code, and returns the address for the
    /// user's browser.
    /// Errors: the code cannot be made.
    pub async fn grant(
        &self,
        state: &ActorState,
        user: UserId,
        (company, member): (&Company, &Member),
        address: &str,
    ) -> Result<String, ApiError> {
        let (secret, now) = (DrawnSecret::draw()?, state.now());
        let code = NewAuthorizationCode {
            app: self.app.id,
            company: company.id,
            member: member.id,
            redirect_uri: self.asked_redirect_uri.clone(),
            scope: self.scope,
            code_challenge: self.code_challenge.clone(),
        };
        let ticket = NewTicket {
            digest: secret.digest,
            id: TicketId(state.switch.random().id(now)?),
            user,
            expires_at: now.plus(CODE_LIFETIME),
            address: address.to_owned(),
            content: NewTicketContent::AuthorizationCode(Box::new(code)),
        };
        state.carry_out(AdminCommand::Ticket(TicketCommand::Issue(ticket))).await?;
        Ok(self.granted(&secret.text))
    }
}

/// The memberships in which a user may give these scopes.
/// Errors: there is none, and why.
pub(super) fn find_grantable(
    scope: AccessScope,
    memberships: &[(Company, Member)],
) -> Result<Vec<(Company, Member)>, GrantRefusal> {
    let in_state =
        |state: CompanyState| memberships.iter().filter(move |(company, _)| company.state == state);
    let may = |(_, member): &&(Company, Member)| scope::may_give(member.role, scope);
    let grantable: Vec<_> = in_state(CompanyState::Active).filter(may).cloned().collect();
    if !grantable.is_empty() {
        return Ok(grantable);
    }
    if in_state(CompanyState::Active).next().is_some() {
        return Err(GrantRefusal::NotAllowed);
    }
    match in_state(CompanyState::Pending).next() {
        Some(_) => Err(GrantRefusal::PendingApproval),
        None => Err(GrantRefusal::NoAccount),
    }
}

#[cfg(test)]
#[path = "authorize_tests.rs"]
pub(crate) mod tests;
