//! The HTTP door: the operations of the ISO 8583 door as JSON under `/network/v1`, and a few more
//! that only a simulation needs.
//!
//! | file | content |
//! |---|---|
//! | `access` | the network key; bodies |
//! | `direct` | the way around the router for the most frequent requests |
//! | `subject` | the card or transaction a body names, and its currency |
//! | `requests`, `shared_fields`, `values` | from a body to a command; the parts that bodies share; single values |
//! | `transfers` | the same for transfers from and to the company's bank |
//! | `answers` | from the engine's reply to a body |
//! | `faults` | answers that come late, false or not at all, for clients under test |
//! | `catalog` | the operations |
//! | `cards`, `clock` | cards and clock, for simulations |
//!
//! INVARIANT: the engine decides everything that is decided here, in the same words as over ISO
//! 8583; this door chooses nothing.

mod access;
mod answers;
mod cards;
mod catalog;
mod clock;
mod direct;
mod faults;
mod requests;
mod shared_fields;
mod state;
mod subject;
mod transfers;
mod values;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use cardswitch_edge::error::ApiError;
use cardswitch_edge::idempotency_header::idempotency_key;
use cardswitch_edge::switch::LazySnapshot;
use cardswitch_engine::command::TimedCommand;
use cardswitch_wire::fault::Flaw;
use cardswitch_wire::fields::{self, Fields};
use serde_json::value::RawValue;

use self::access::{NetworkAccess, NetworkBody};
use self::answers::render_reply;
pub use self::catalog::{document, network_routes};
pub use self::direct::{answer_directly, is_direct};
pub use self::faults::HttpFaults;
use self::requests::{DoorOperation, IncomingRequest, PlannedCommand, Repetition, plan_request};
pub use self::state::DoorState;
use super::limits;

/// The operations that are bodies alone, each with its path, request and answer.
macro_rules! operations {
    ($($(#[doc = $about:literal])+ $handler:ident $path:literal $operation:ident:
        $request:path => $answer:path, $example:tt;)*) => {$(
        $(#[doc = $about])+
        #[utoipa::path(
            post, path = $path, request_body(content = $request, example = json!($example)),
            responses((status = 200, body = $answer)),
        )]
        async fn $handler(
            State(state): State<DoorState>,
            _: NetworkAccess,
            headers: HeaderMap,
            body: NetworkBody,
        ) -> Result<Response, ApiError> {
            carry_out(&state, DoorOperation::$operation, &headers, body.bytes()).await
        }
    )*};
}

/// An id in examples.
const EXAMPLE_ID: &str = "0198f2a0-1b2c-7d3e-8f40-5a6b7c8d9e0f";

operations! {
    /// Decide whether a purchase may be made, and hold its amount.
    authorize "/network/v1/authorizations" Authorization:
        requests::AuthorizationRequest => answers::CardUseAnswer,
        {"card_id": EXAMPLE_ID, "amount": 12.5, "merchant": {"mcc": "5812", "name": "Corner Bakery"}};
    /// Record a stand-in decision of the network (advice).
    advise "/network/v1/advices" Advice:
        requests::AdviceRequest => answers::AuthorizationAnswer, {"card_id": EXAMPLE_ID, "amount": 12.5};
    /// Give back what a purchase holds, wholly or in part.
    reverse "/network/v1/reversals" Reversal:
        requests::ReversalRequest => answers::ReversalAnswer, {"transaction_id": EXAMPLE_ID};
    /// Post a purchase.
    present "/network/v1/presentments" Presentment:
        requests::PresentmentRequest => answers::PostingAnswer,
        {"transaction_id": EXAMPLE_ID, "amount": 12.5};
    /// Give money back for a purchase, or for none.
    refund "/network/v1/refunds" Refund:
        requests::RefundRequest => answers::PostingAnswer, {"transaction_id": EXAMPLE_ID, "amount": 12.5};
    /// Add to the hold of a purchase.
    increment "/network/v1/increments" Increment:
        requests::IncrementRequest => answers::AuthorizationAnswer,
        {"transaction_id": EXAMPLE_ID, "amount": 12.5};
    /// Move money from the company's bank, or to it.
    transfer "/network/v1/transfers" Transfer:
        transfers::TransferRequest => answers::TransferAnswer,
        {"account_id": EXAMPLE_ID, "amount": 500, "settled": true};
}

async fn carry_out(
    state: &DoorState,
    operation: DoorOperation,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Response, ApiError> {
    let repetition = idempotency_key(headers)?.map(|key| Repetition { key, place: 0 });
    let mut fields = Fields::parse(body).ok_or_else(ApiError::malformed_body)?;
    let asked = IncomingRequest { operation, body, repetition };
    wait_for_named(state, body).await;
    let planned = plan_request(state, &state.switch.view(), &asked, &mut fields);
    fields.finish()?;
    let planned = planned?;
    let faulty = state.faults.as_deref().map(|faults| faults.of(&planned));
    let PlannedCommand { command, currency, .. } = planned;
    let reply = state.switch.ask(command).await?;
    if let Some(faulty) = faulty
        && let Some(answer) = faulty.meet(&reply).await
    {
        return answer;
    }
    render_reply(&reply, currency).map(json_response)
}

/// An answer whose body is JSON already.
fn json_response(body: String) -> Response {
    let content_type = HeaderValue::from_static("application/json");
    ([(header::CONTENT_TYPE, content_type)], body).into_response()
}

/// Carry out many independent requests. One at fault has its error in its place;
/// the others go to the engine together.
#[utoipa::path(
    post, path = "/network/v1/batch",
    request_body(
        content = Vec<serde_json::Value>,
        description = "The body of each request, with its operation as `type`: `authorization`, \
            `advice`, `reversal`, `presentment`, `refund`, `increment` or `transfer`.",
        example = json!([{"type": "authorization", "card_id": EXAMPLE_ID, "amount": 12.5}]),
    ),
    responses((status = 200, body = Vec<Object>)),
)]
async fn carry_out_batch(
    State(state): State<DoorState>,
    _: NetworkAccess,
    headers: HeaderMap,
    body: NetworkBody<{ limits::BATCH_BYTES_MAX }>,
) -> Result<Response, ApiError> {
    let key = idempotency_key(&headers)?;
    let items: Vec<&RawValue> =
        serde_json::from_slice(body.bytes()).map_err(|_| ApiError::not_an_array())?;
    if items.len() > limits::BATCH_LEN_MAX {
        return Err(ApiError::batch_too_long(limits::BATCH_LEN_MAX));
    }
    wait_for_named(&state, body.bytes()).await;
    let planned = plan_items(&state, &items, key);
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
            answer.unwrap_or_else(|error| error.body().to_string())
        })
        .collect::<Vec<_>>();
    Ok(json_response(format!("[{}]", answers.join(","))))
}

fn plan_items(
    state: &DoorState,
    items: &[&RawValue],
    key: Option<&[u8]>,
) -> Vec<Result<PlannedCommand, ApiError>> {
    let view = state.switch.view();
    let plan = |(place, item): (u64, &&RawValue)| {
        let repetition = key.map(|key| Repetition { key, place });
        plan_item(state, &view, item.get().as_bytes(), repetition)
    };
    (0..).zip(items).map(plan).collect()
}

fn plan_item(
    state: &DoorState,
    view: &LazySnapshot<'_>,
    item: &[u8],
    repetition: Option<Repetition<'_>>,
) -> Result<PlannedCommand, ApiError> {
    let mut fields = Fields::parse(item).ok_or_else(ApiError::malformed_body)?;
    let operation = fields.required("type", |value| {
        DoorOperation::parse(&fields::borrowed_text(value)?)
            .map(Some)
            .ok_or_else(|| Flaw::new("unknown_value", "must name an operation, as `reversal`"))
    });
    let planned = operation.map(|operation| {
        let asked = IncomingRequest { operation, body: item, repetition };
        plan_request(state, view, &asked, &mut fields)
    });
    fields.finish()?;
    planned.unwrap_or_else(|| Err(ApiError::malformed_body()))
}

/// Waits for the tables where a body may name a transaction, whose row is as old as its answer.
/// Cards need no wait: their creation was answered when they were there.
async fn wait_for_named(state: &DoorState, body: &[u8]) {
    const NAME: &[u8] = b"\"transaction_id\"";
    if body.windows(NAME.len()).any(|window| window == NAME) {
        state.switch.visible(state.switch.engine.durable_seq()).await;
    }
}
