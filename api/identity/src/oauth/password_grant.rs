//! A token for a member's e-mail address and password; it only reads. Source: spec "OAuth", rule 3;
//! RFC 6749, 4.3.
//!
//! If the user has a second factor, the token's text is handed out at once and becomes a token when
//! the last question is answered (`challenge`): until then no table knows of it.

use axum::http::StatusCode;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::write_error::WriteError;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::reply::Rejection;
use cardswitch_engine::directory::access_token::{
    AccessScope, AccessTokenCommand, NewAccessToken, NewTokenGrant, TokenOrigin,
};
use cardswitch_engine::directory::app::App;
use cardswitch_engine::directory::member::Member;
use cardswitch_engine::directory::user::{ProvenPassword, SignInProof, User};
use cardswitch_engine::domain::audit::Actor;
use cardswitch_engine::domain::company::Company;
use cardswitch_engine::domain::ids::{AccessTokenId, CompanyId};
use cardswitch_engine::domain::text::LineText;
use cardswitch_secrets::issuing::RandomSource;
use cardswitch_wire::fault::Flaw;
use cardswitch_wire::fields::parse_id;
use uuid::Uuid;

use super::authorize::{GrantRefusal, find_grantable};
use super::parameters::Parameters;
use super::reply::{ChallengeBody, TokenBody};
use crate::actor_state::ActorState;
use crate::auth::credentials;
use crate::auth::drawn_secret::DrawnSecret;
use crate::auth::failures::note_failure;
use crate::auth::second_factor::{PendingToken, Purpose};
use crate::auth::throttle::{AttemptTarget, Source};
use crate::state::AppState;

/// The scope of the token.
const READ: AccessScope = AccessScope { accountant: false, admin: false, scim: false, iam: false };

/// Errors: a scope is requested; no user has the e-mail address and password; the user may not let
/// apps in.
pub(super) async fn give(
    state: &ActorState,
    app: &App,
    parameters: &Parameters,
) -> Result<(StatusCode, TokenBody), ApiError> {
    if parameters.text("scope")?.is_some_and(|scope| !scope.trim_matches([' ', ',']).is_empty()) {
        return Err(ApiError::invalid_scope("must be empty: tokens for a password only read"));
    }
    let company = parse_company(parameters)?;
    let email = parameters.required("username")?;
    let password = parameters.required("password")?;
    let user = find_user(state, app, email, password).await?;
    let (company, member) = find_membership(state, &user, company)?;
    let secret = DrawnSecret::draw_token(&state.switch)?;
    let pending = PendingToken { app: app.id, company: company.id, member: member.id };
    let purpose = Purpose::Token(pending.clone());
    let source = Source::App(app.id);
    let begun = state.second_factors.begin(secret.digest, &user, (purpose, source), state.now())?;
    if let Some(challenge) = begun {
        let challenge = ChallengeBody::new(&challenge, state);
        let body = TokenBody::pending(&secret.text, challenge);
        return Ok((StatusCode::NON_AUTHORITATIVE_INFORMATION, body));
    }
    make_token(state, &ProvenPassword::of(&user), (secret.digest, &pending), &app.name).await?;
    Ok((StatusCode::CREATED, TokenBody::new(&secret.text, READ)))
}

fn parse_company(parameters: &Parameters) -> Result<Option<CompanyId>, ApiError> {
    let Some(text) = parameters.text("company_id")? else { return Ok(None) };
    let id: Option<Uuid> = parse_id(text);
    let id = id.ok_or_else(|| {
        ApiError::invalid_field("company_id", Flaw::new("not_an_id", "must be a UUID"))
    })?;
    Ok(Some(CompanyId(id)))
}

/// The user with this e-mail address and password.
/// Errors: there is none, in the same words and after the same time whichever of them is wrong.
async fn find_user(
    state: &ActorState,
    app: &App,
    email: &str,
    password: &str,
) -> Result<User, ApiError> {
    let account = AttemptTarget::Password(email);
    // The address is that of the app's server, which asks for everybody.
    let attempt = state.throttle.admit(Some(account), Some(Source::App(app.id))).await?;
    let Some(user) = credentials::find_user(state, Source::App(app.id), (email, password)).await?
    else {
        attempt.failed();
        let owner = state.switch.read_at_once(|snapshot| snapshot.user_by_email(email))?;
        note_failure(state, owner.as_ref(), SignInProof::Password);
        return Err(wrong_credentials());
    };
    attempt.succeeded();
    Ok(user)
}

fn wrong_credentials() -> ApiError {
    ApiError::invalid_grant("the username or the password is wrong")
}

/// The membership that the token is for: the oldest one, unless a company is named.
/// Errors: there is none in which the user may let apps in.
pub(super) fn find_membership(
    state: &AppState,
    user: &User,
    company: Option<CompanyId>,
) -> Result<(Company, Member), ApiError> {
    let memberships = state.switch.read_at_once(|snapshot| snapshot.memberships(&user.email))?;
    let asked = memberships
        .into_iter()
        .filter(|(known, _)| company.is_none_or(|company| company == known.id))
        .collect::<Vec<_>>();
    let refused = |refusal: GrantRefusal| ApiError::invalid_grant(refusal.description());
    let found = find_grantable(READ, &asked).map_err(refused)?;
    // The oldest comes first.
    found.into_iter().next().ok_or_else(|| refused(GrantRefusal::NoAccount))
}

/// Makes the token of a password grant.
/// Errors: the password, a second factor or the role was changed meanwhile, the member or the app is
/// gone, there is no room for a token, the switch cannot tell.
pub async fn make_token(
    state: &ActorState,
    proven: &ProvenPassword,
    (digest, pending): ([u8; 32], &PendingToken),
    label: &str,
) -> Result<(), ApiError> {
    let grant = NewTokenGrant {
        token: NewAccessToken {
            id: AccessTokenId(state.switch.random().id(state.now())?),
            digest,
            company: pending.company,
            scope: READ,
        },
        app: Some(pending.app),
        member: Some(pending.member),
        origin: TokenOrigin::Password,
        label: LineText::spaced(label),
    };
    let state = state.as_actor(Actor::Token { id: grant.token.id, member: grant.member });
    let grant = Box::new(AdminCommand::AccessToken(AccessTokenCommand::Grant(Box::new(grant))));
    match state.carry_out(AdminCommand::WithPassword(proven.clone(), grant)).await {
        // The text was drawn for this token, so the token that has it is this one: the answer to
        // the request that made it was lost.
        Ok(()) | Err(WriteError::Rejected(Rejection::IdTaken)) => Ok(()),
        Err(WriteError::Rejected(Rejection::PasswordChanged)) => Err(ApiError::invalid_grant(
            "the password or a second factor was changed meanwhile: ask again",
        )),
        Err(WriteError::Rejected(rejection)) if rejection != Rejection::TooManyTokens => Err(
            ApiError::invalid_grant("the app is gone, or the member may not let it in any more"),
        ),
        Err(error) => Err(error.into()),
    }
}
