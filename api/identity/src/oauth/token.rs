//! `POST /v1/oauth/token`: an access token for a code or a password. Source: spec "OAuth";
//! RFC 6749, 4.1.3 and 4.3.2.
//!
//! Access tokens do not expire by time, so there are no refresh tokens.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use cardswitch_edge::error::ApiError;
use cardswitch_engine::directory::app::App;
use cardswitch_engine::domain::audit::Actor;

use super::address_of;
use super::authorize::is_stopped;
use super::parameters::Parameters;
use super::reply::{TokenBody, reply};
use super::{client, code_grant, password_grant};
use crate::actor_state::ActorState;
use crate::auth::throttle::Source;
use crate::state::AppState;

/// Request of an app for a token.
#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "shows the fields to readers of the document")]
pub(crate) struct TokenRequest {
    /// `authorization_code` or `password`.
    grant_type: String,
    /// The app, unless it says so over HTTP Basic.
    #[schema(nullable = false)]
    client_id: Option<String>,
    /// Its secret, unless it says so over HTTP Basic.
    #[schema(nullable = false)]
    client_secret: Option<String>,
    /// For `authorization_code`: the code.
    #[schema(nullable = false)]
    code: Option<String>,
    /// For `authorization_code`: the address the code was asked to be sent to.
    #[schema(nullable = false)]
    redirect_uri: Option<String>,
    /// For `authorization_code`: what the request's `code_challenge` was made of.
    #[schema(nullable = false)]
    code_verifier: Option<String>,
    /// For `password`: the member's e-mail address.
    #[schema(nullable = false)]
    username: Option<String>,
    /// For `password`: the member's password.
    #[schema(nullable = false)]
    password: Option<String>,
    /// For `password`: empty, since such tokens only read.
    #[schema(nullable = false)]
    scope: Option<String>,
    /// For `password`: which company, where the member has several; else the first.
    #[schema(nullable = false)]
    company_id: Option<String>,
}

/// Give an access token.
#[utoipa::path(
    post,
    path = "/v1/oauth/token",
    tag = "OAuth",
    request_body(
        content(
            (TokenRequest = "application/json", example = json!({
                "grant_type": "authorization_code",
                "client_id": "0198f2a0-1b2c-7d3e-8f40-5a6b7c8d9e0f",
                "client_secret": "5f1b",
                "code": "9c2e",
            })),
            (TokenRequest = "application/x-www-form-urlencoded"),
        ),
    ),
    responses((status = 201, body = TokenBody), (status = 203, body = TokenBody)),
)]
pub async fn create_token(State(state): State<AppState>, request: Request) -> Response {
    let address = address_of(request.extensions());
    let state = state.for_request(request.extensions(), Actor::Switch);
    let answered = async {
        let (app, parameters) = client::prove(&state, request, address).await?;
        give_token(&state, &app, &parameters).await
    };
    reply(answered.await)
}

/// Errors: the app's company is closed, or its proof is not right.
async fn give_token(
    state: &ActorState,
    app: &App,
    parameters: &Parameters,
) -> Result<(StatusCode, TokenBody), ApiError> {
    let grant_type = parameters.required("grant_type")?;
    if is_stopped(state, app)? {
        return Err(ApiError::unauthorized_client());
    }
    // From here on the app's users may be at fault, and its server asks for all of them.
    let source = Source::App(app.id);
    match grant_type {
        "authorization_code" => {
            let attempt = state.throttle.admit(None, Some(source)).await?;
            let given = code_grant::give(state, app, parameters).await;
            attempt.judge(&given);
            given
        }
        "password" => password_grant::give(state, app, parameters).await,
        _ => Err(ApiError::unsupported_grant_type()),
    }
}
