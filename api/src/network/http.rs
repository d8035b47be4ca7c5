//! The HTTP door: the operations of the ISO 8583 door as JSON under `/network/v1`, and a few more
//! that only a simulation needs.
//!
//! | file | what |
//! |---|---|
//! | `access` | the network key; bodies |
//! | `named` | the card or transaction a body names, and its currency |
//! | `requests`, `values` | from a body to what is asked of the engine |
//! | `answers` | from the engine's reply to a body |
//! | `cards`, `clock` | what simulations look at and turn |
//!
//! INVARIANT: whatever is decided here is decided by the engine, in the same words as over ISO
//! 8583; this door chooses nothing.

mod access;
mod answers;
mod cards;
mod clock;
mod named;
mod requests;
mod values;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use cardswitch_engine::command::TimedCommand;
use cardswitch_engine::store::Snapshot;
use serde_json::value::RawValue;

use self::access::{NetworkAccess, NetworkBody};
use self::answers::{render_reply, to_json};
use self::requests::{Asked, Operation, Planned, Repetition, plan_request};
use super::limits;
use crate::error::ApiError;
use crate::state::AppState;
use crate::wire::fault::Flaw;
use crate::wire::fields::{self, Fields};

/// The header by which a client marks a request and its repeats.
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// The longest such mark. Units: bytes.
const IDEMPOTENCY_KEY_BYTES_MAX: usize = 255;

/// The routes of `/network/v1`, to be merged with others.
pub fn network_routes() -> Router<AppState> {
    Router::new()
        .route("/network/v1/authorizations", post(authorize))
        .route("/network/v1/advices", post(advise))
        .route("/network/v1/reversals", post(reverse))
        .route("/network/v1/presentments", post(present))
        .route("/network/v1/refunds", post(refund))
        .route("/network/v1/batch", post(carry_out_batch))
        .route("/network/v1/cards/{card_id}", get(cards::get_card))
        .route("/network/v1/cards/{card_id}/transactions", get(cards::list_transactions))
        .route("/network/v1/clock", get(clock::get_clock).post(clock::set_clock))
}

/// POST /network/v1/authorizations
async fn authorize(
    State(state): State<AppState>,
    _: NetworkAccess,
    headers: HeaderMap,
    body: NetworkBody,
) -> Result<Json<Box<RawValue>>, ApiError> {
    carry_out(&state, Operation::Authorization, &headers, &body).await
}

/// POST /network/v1/advices
async fn advise(
    State(state): State<AppState>,
    _: NetworkAccess,
    headers: HeaderMap,
    body: NetworkBody,
) -> Result<Json<Box<RawValue>>, ApiError> {
    carry_out(&state, Operation::Advice, &headers, &body).await
}

/// POST /network/v1/reversals
async fn reverse(
    State(state): State<AppState>,
    _: NetworkAccess,
    headers: HeaderMap,
    body: NetworkBody,
) -> Result<Json<Box<RawValue>>, ApiError> {
    carry_out(&state, Operation::Reversal, &headers, &body).await
}

/// POST /network/v1/presentments
async fn present(
    State(state): State<AppState>,
    _: NetworkAccess,
    headers: HeaderMap,
    body: NetworkBody,
) -> Result<Json<Box<RawValue>>, ApiError> {
    carry_out(&state, Operation::Presentment, &headers, &body).await
}

/// POST /network/v1/refunds
async fn refund(
    State(state): State<AppState>,
    _: NetworkAccess,
    headers: HeaderMap,
    body: NetworkBody,
) -> Result<Json<Box<RawValue>>, ApiError> {
    carry_out(&state, Operation::Refund, &headers, &body).await
}

async fn carry_out(
    state: &AppState,
    operation: Operation,
    headers: &HeaderMap,
    body: &NetworkBody,
) -> Result<Json<Box<RawValue>>, ApiError> {
    let repetition = idempotency_key(headers)?.map(|key| Repetition { key, place: 0 });
    let mut fields = Fields::parse(body.bytes()).ok_or_else(ApiError::malformed_body)?;
    let waits = names_transaction(body.bytes());
    let asked = Asked { operation, body: body.bytes(), repetition };
    let mut plan = |snapshot: &Snapshot| Ok(plan_request(state, snapshot, &asked, &mut fields));
    let planned =
        if waits { state.switch.read(plan).await } else { state.switch.read_at_once(&mut plan) };
    let planned = planned?;
    fields.finish()?;
    let Planned { command, currency } = planned?;
    let reply = state.switch.ask(command).await?;
    render_reply(&reply, currency).map(Json)
}

/// POST /network/v1/batch: the requests stand for themselves. One at fault has its error in its
/// place; the others go to the engine together.
async fn carry_out_batch(
    State(state): State<AppState>,
    _: NetworkAccess,
    headers: HeaderMap,
    body: NetworkBody,
) -> Result<Response, ApiError> {
    let key = idempotency_key(&headers)?;
    let items: Vec<&RawValue> =
        serde_json::from_slice(body.bytes()).map_err(|_| ApiError::not_an_array())?;
    if items.len() > limits::BATCH_LEN_MAX {
        return Err(ApiError::batch_too_long(limits::BATCH_LEN_MAX));
    }
    let plan = |snapshot: &Snapshot| {
        let places = (0..).zip(&items);
        Ok(places
            .map(|(place, item)| {
                let repetition = key.map(|key| Repetition { key, place });
                plan_item(&state, snapshot, item.get().as_bytes(), repetition)
            })
            .collect::<Vec<_>>())
    };
    let planned = if names_transaction(body.bytes()) {
        state.switch.read(plan).await?
    } else {
        state.switch.read_at_once(plan)?
    };
    let commands: Vec<TimedCommand> =
        planned.iter().flatten().map(|planned| planned.command.clone()).collect();
    let mut replies = state.switch.ask_many(commands).await?.into_iter();
    let answers = planned
        .into_iter()
        .map(|planned| {
            let answer = planned.and_then(|planned| match replies.next() {
                Some(reply) => render_reply(&reply, planned.currency),
                None => Err(ApiError::outcome_unknown()),
            });
            answer.or_else(|error| to_json(&error.body()))
        })
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Json(answers).into_response())
}

fn plan_item(
    state: &AppState,
    snapshot: &Snapshot,
    item: &[u8],
    repetition: Option<Repetition<'_>>,
) -> Result<Planned, ApiError> {
    let mut fields = Fields::parse(item).ok_or_else(ApiError::malformed_body)?;
    let operation = fields.required("type", |value| {
        Operation::parse(&fields::text(value)?)
            .map(Some)
            .ok_or_else(|| Flaw::new("unknown_value", "must name an operation, as `reversal`"))
    });
    let planned = operation.map(|operation| {
        let asked = Asked { operation, body: item, repetition };
        plan_request(state, snapshot, &asked, &mut fields)
    });
    fields.finish()?;
    planned.unwrap_or_else(|| Err(ApiError::malformed_body()))
}

/// Whether a body may name a transaction, whose row has to be waited for. Cards need not be: who
/// made one was answered when it was there.
fn names_transaction(body: &[u8]) -> bool {
    const NAME: &[u8] = b"\"transaction_id\"";
    body.windows(NAME.len()).any(|window| window == NAME)
}

/// The client's mark on the request.
/// Errors: it is empty, too long or not text.
fn idempotency_key(headers: &HeaderMap) -> Result<Option<&[u8]>, ApiError> {
    let Some(value) = headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    let key = value.as_bytes();
    if key.is_empty() || key.len() > IDEMPOTENCY_KEY_BYTES_MAX {
        let message = format!("must have 1 to {IDEMPOTENCY_KEY_BYTES_MAX} characters");
        return Err(ApiError::invalid_field("Idempotency-Key", Flaw::new("wrong_length", message)));
    }
    Ok(Some(key))
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod tests;
