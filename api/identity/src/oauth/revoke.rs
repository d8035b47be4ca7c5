//! `POST /v1/oauth/token/revoke`: an app gives tokens back. Source: spec "OAuth", rule 7; RFC 7009.
//!
//! INVARIANT: an app touches its own tokens alone, and gets the same answer whatever it names: no
//! answer tells whether a token exists.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::write_error::WriteError;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::reply::Rejection;
use cardswitch_engine::directory::access_token::AccessTokenCommand;
use cardswitch_engine::directory::app::{App, AppCommand};
use cardswitch_engine::domain::audit::Actor;
use cardswitch_engine::domain::ids::{AccessTokenId, CompanyId};
use cardswitch_secrets::token_digest;
use cardswitch_wire::fault::Flaw;
use cardswitch_wire::fields::parse_id;
use serde::Serialize;

use super::parameters::Parameters;
use super::reply::reply;
use super::{address_of, client};
use crate::actor_state::ActorState;
use crate::auth::second_factor::Purpose;
use crate::state::AppState;

/// Tokens to revoke: `access_token` or `company_id`, not both.
#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "shows the fields to readers of the document")]
pub(crate) struct Revocation {
    /// The app, unless it says so over HTTP Basic.
    #[schema(nullable = false)]
    client_id: Option<String>,
    /// Its secret, unless it says so over HTTP Basic.
    #[schema(nullable = false)]
    client_secret: Option<String>,
    /// One token. `token` is taken too (RFC 7009).
    #[schema(nullable = false)]
    access_token: Option<String>,
    /// All tokens of this company.
    #[schema(nullable = false)]
    company_id: Option<String>,
}

/// Nothing to say.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Revoked)]
pub(crate) struct RevocationReply {}

enum RevocationTarget {
    Token([u8; 32]),
    Company(CompanyId),
}

/// Revoke an access token of the app, or all of its tokens of a company.
#[utoipa::path(
    post,
    path = "/v1/oauth/token/revoke",
    tag = "OAuth",
    request_body(
        content(
            (Revocation = "application/json", example = json!({
                "client_id": "0198f2a0-1b2c-7d3e-8f40-5a6b7c8d9e0f",
                "client_secret": "5f1b",
                "access_token": "c3d4",
            })),
            (Revocation = "application/x-www-form-urlencoded"),
        ),
    ),
    responses((status = 200, body = RevocationReply)),
)]
pub async fn revoke_tokens(State(state): State<AppState>, request: Request) -> Response {
    let address = address_of(request.extensions());
    let state = state.for_request(request.extensions(), Actor::Switch);
    let answered = async {
        let (app, parameters) = client::prove(&state, request, address).await?;
        revoke(&state, &app, &parameters).await?;
        Ok((StatusCode::OK, RevocationReply {}))
    };
    reply(answered.await)
}

async fn revoke(state: &ActorState, app: &App, parameters: &Parameters) -> Result<(), ApiError> {
    let waiting = &state.second_factors;
    let command = match parse(parameters)? {
        RevocationTarget::Token(digest) => {
            let is_it = |known: &[u8; 32], purpose: &Purpose| {
                *known == digest && is_pending(purpose, app, None)
            };
            // A token that is being made meanwhile is found below.
            waiting.end_where(is_it).await;
            let found = find_own(state, app, &digest)?;
            found.map(|(company, token)| {
                AdminCommand::AccessToken(AccessTokenCommand::Revoke(company, token))
            })
        }
        RevocationTarget::Company(company) => {
            waiting.end_where(|_, purpose| is_pending(purpose, app, Some(company))).await;
            Some(AdminCommand::App(AppCommand::RevokeTokens(app.id, company)))
        }
    };
    let Some(command) = command else { return Ok(()) };
    match state.as_actor(Actor::App { id: app.id }).carry_out(command).await {
        Ok(()) => Ok(()),
        Err(WriteError::Rejected(rejection)) if is_nothing(rejection) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Whether a refusal says that there is nothing to revoke; any other leaves a token alive.
pub const fn is_nothing(rejection: Rejection) -> bool {
    matches!(
        rejection,
        Rejection::CompanyNotFound | Rejection::AppNotFound | Rejection::TokenNotFound
    )
}

fn parse(parameters: &Parameters) -> Result<RevocationTarget, ApiError> {
    let token = parameters.text("access_token")?;
    let token = token.map_or_else(|| parameters.text("token"), |token| Ok(Some(token)))?;
    match (token, parameters.text("company_id")?) {
        (Some(token), None) => Ok(RevocationTarget::Token(token_digest(token))),
        (None, Some(company)) => {
            let flaw = || Flaw::new("not_an_id", "must be a UUID");
            let company = parse_id(company);
            company
                .map(|company| RevocationTarget::Company(CompanyId(company)))
                .ok_or_else(|| ApiError::invalid_field("company_id", flaw()))
        }
        (Some(_), Some(_)) => {
            let flaw = Flaw::new("one_of", "must not come besides `company_id`");
            Err(ApiError::invalid_field("access_token", flaw))
        }
        (None, None) => {
            let flaw = Flaw::new("required", "or `company_id` is required");
            Err(ApiError::invalid_field("access_token", flaw))
        }
    }
}

/// The token with this digest, where it is one of the app's.
fn find_own(
    state: &AppState,
    app: &App,
    digest: &[u8; 32],
) -> Result<Option<(CompanyId, AccessTokenId)>, ApiError> {
    let found = state.switch.read_at_once(|snapshot| {
        let Some(token) = snapshot.access_token(digest)? else { return Ok(None) };
        let is_own = token.app() == Some(app.slot);
        let company = snapshot.company(token.company)?.filter(|_| is_own);
        Ok(company.map(|company| (company.id, token.id)))
    });
    Ok(found?)
}

/// Whether a conversation is about a token of the app that is not one yet.
fn is_pending(purpose: &Purpose, app: &App, company: Option<CompanyId>) -> bool {
    match purpose {
        Purpose::Token(pending) => {
            pending.app == app.id && company.is_none_or(|company| company == pending.company)
        }
        Purpose::SignIn { .. } => false,
    }
}
