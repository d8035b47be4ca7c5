//! SCIM 2.0 under `/scim/v2`, for tokens with the scope `scim`: an identity provider keeps the
//! members of a company in step. Source: RFC 7643 and RFC 7644.
//!
//! | file | what |
//! |---|---|
//! | `users` | the handlers of `/Users`: members as users |
//! | `user` | a member as it is shown |
//! | `draft`, `patch` | a user as a client wants it; operations that change it |
//! | `attribute` | the names of attributes |
//! | `filter`, `selection` | which users, which page of them, which attributes |
//! | `discovery` | what this side can do, and the schemas |
//! | `input`, `error` | requests, and failures in the shape of SCIM |
//!
//! INVARIANT: no rule about members lives here; the engine decides as it does for `/v1/members`.

mod attribute;
mod discovery;
mod draft;
mod error;
pub mod filter;
mod input;
mod patch;
mod selection;
mod user;
mod users;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use cardswitch_edge::error::ApiError;
use cardswitch_identity::auth::{Caller, answer_to, count_request, find_caller};
use cardswitch_identity::idempotency::{RouteManners, once_per_key};
use cardswitch_identity::state::AppState;
use serde_json::{Value, json};

pub use self::error::failure;
use self::error::{SCIM_JSON, ScimError};

const LIST_SCHEMA: &str = "urn:ietf:params:scim:api:messages:2.0:ListResponse";

/// The routes under `/scim/v2`. Every request there needs a token of the scope, even one to a path
/// that does not exist.
pub fn scim_routes(state: &AppState) -> Router<AppState> {
    let routes = Router::new()
        .route("/ServiceProviderConfig", get(discovery::get_config))
        .route("/ResourceTypes", get(discovery::list_resource_types))
        .route("/ResourceTypes/{name}", get(discovery::get_resource_type))
        .route("/Schemas", get(discovery::list_schemas))
        .route("/Schemas/{urn}", get(discovery::get_schema))
        .route("/Users", get(users::list_users).post(users::create_user))
        // Users are all there is to be searched.
        .route("/.search", post(users::search_users))
        .route("/Users/.search", post(users::search_users))
        .route(
            "/Users/{id}",
            get(users::get_user)
                .put(users::replace_user)
                .patch(users::patch_user)
                .delete(users::delete_user),
        )
        .fallback(async || ScimError::from(ApiError::not_found()))
        .method_not_allowed_fallback(async || ScimError::from(ApiError::method_not_allowed()))
        .layer(from_fn_with_state(state.clone(), check_scope));
    let manners = RouteManners { permit, refuse, long_bodies: &[] };
    once_per_key(Router::new().nest("/scim/v2", routes), state.clone(), manners)
}

/// Lets a request through where its token has the scope; handlers find the caller with it.
async fn check_scope(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    match permit(&parts, &state) {
        Ok(caller) => answer_to(&state, caller, Request::from_parts(parts, body), next).await,
        Err(refusal) => *refusal,
    }
}

/// The caller of a request, if its token has the scope.
/// Errors: the answer to a caller without access.
fn permit(parts: &Parts, state: &AppState) -> Result<Caller, Box<Response>> {
    let refused = |error: ApiError| Box::new(refuse(error));
    let caller = find_caller(&parts.headers, state).map_err(refused)?;
    count_request(parts, &caller, state).map_err(refused)?;
    if caller.scope.scim { Ok(caller) } else { Err(refused(ApiError::scope_too_small("scim"))) }
}

fn refuse(error: ApiError) -> Response {
    ScimError::from(error).into_response()
}

/// A body of an answer.
#[derive(Debug)]
struct ScimJson(Value);

impl IntoResponse for ScimJson {
    fn into_response(self) -> Response {
        ([(CONTENT_TYPE, SCIM_JSON)], self.0.to_string()).into_response()
    }
}

/// A page of a list. Source: RFC 7644, 3.4.2.
fn list_response(count: u64, start_index: usize, resources: Vec<Value>) -> Value {
    json!({
        "schemas": [LIST_SCHEMA],
        "totalResults": count,
        "startIndex": start_index,
        "itemsPerPage": resources.len(),
        "Resources": resources,
    })
}
