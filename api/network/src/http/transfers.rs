//! Bank transfers: what a simulation of the company's bank asks for. Source: spec "Account",
//! pending_credits.

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::Response;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::idempotency_header::idempotency_key;
use cardswitch_edge::switch::View;
use cardswitch_engine::command::network::{
    ConcludeTransfer, NetworkCommand, Transfer, TransferConclusion, TransferTiming,
};
use cardswitch_engine::domain::ids::{AccountId, TransactionId};
use cardswitch_engine::domain::money::Minor;
use cardswitch_engine::domain::text::LineText;
use cardswitch_engine::domain::transaction::{BankAccount, TransferDirection};
use cardswitch_wire::fields::{self, Fields};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::access::{EmptyBody, NetworkAccess};
use super::answers::render_reply;
use super::json_response;
use super::named::CURRENCY_DEFAULT;
use super::requests::{Asked, Operation, Planned, Repetition, planned};
use super::shapes::TransferAnswer;
use super::state::DoorState;
use super::values::{Lowest, amount};

/// The longest text of a bank account's fields.
const TEXT_CHARS_MAX: usize = 64;

/// Reads the body of a transfer: `{account_id, amount, bank_account, settled, time}`.
/// Errors: the tables cannot be read.
pub(super) fn plan_transfer(
    state: &DoorState,
    view: &View<'_>,
    asked: &Asked<'_>,
    fields: &mut Fields<'_>,
) -> Result<Planned, ApiError> {
    let account = AccountId(fields.required("account_id", fields::id));
    // An amount can only be read in its currency; of an account that is not there, in any.
    let known = view.snapshot()?.account_by_any_company(account)?;
    let currency = known.map_or(CURRENCY_DEFAULT, |row| row.account.currency);
    let amount = fields.required("amount", |value| amount(value, currency, Lowest::NotZero));
    let settled = fields.optional("settled", fields::boolean).unwrap_or(false);
    let supplied_at = fields.optional("time", fields::timestamp);
    let bank_account = fields.object("bank_account", bank_account);
    fields.refuse_unread();
    let direction = if amount.is_positive() {
        TransferDirection::Deposit
    } else {
        TransferDirection::Withdrawal
    };
    let command = NetworkCommand::Transfer(Transfer {
        account,
        direction,
        amount: Minor(amount.0.saturating_abs()),
        bank_account: bank_account.unwrap_or_else(|| BankAccount {
            description: LineText::default(),
            name: LineText::default(),
            number: LineText::default(),
        }),
        timing: if settled { TransferTiming::AtOnce } else { TransferTiming::InTransit },
    });
    Ok(planned(state, asked, command, supplied_at, currency))
}

fn bank_account(inner: &mut Fields<'_>) -> BankAccount {
    let mut text = |name: &str| {
        let read = |value: &RawValue| fields::short_text(value, TEXT_CHARS_MAX);
        inner.optional(name, read).unwrap_or_default()
    };
    let [description, name, number] = ["description", "name", "number"].map(&mut text);
    inner.refuse_unread();
    BankAccount { description, name, number }
}

/// Post a transfer in transit.
#[utoipa::path(
    post, path = "/network/v1/transfers/{transaction_id}/settle",
    responses((status = 200, body = TransferAnswer)),
)]
pub(super) async fn settle(
    state: State<DoorState>,
    access: NetworkAccess,
    id: Path<String>,
    headers: HeaderMap,
    _: EmptyBody,
) -> Result<Response, ApiError> {
    conclude(state, access, id, headers, TransferConclusion::Settle).await
}

/// Reverse a transfer.
#[utoipa::path(
    post, path = "/network/v1/transfers/{transaction_id}/return",
    responses((status = 200, body = TransferAnswer)),
)]
pub(super) async fn bring_back(
    state: State<DoorState>,
    access: NetworkAccess,
    id: Path<String>,
    headers: HeaderMap,
    _: EmptyBody,
) -> Result<Response, ApiError> {
    conclude(state, access, id, headers, TransferConclusion::Return).await
}

async fn conclude(
    State(state): State<DoorState>,
    _: NetworkAccess,
    Path(id): Path<String>,
    headers: HeaderMap,
    conclusion: TransferConclusion,
) -> Result<Response, ApiError> {
    let id: Uuid = id.parse().map_err(|_| ApiError::not_found())?;
    let repetition = idempotency_key(&headers)?.map(|key| Repetition { key, place: 0 });
    // The path is what is asked: it stands for the body that there is not.
    let body = [id.as_bytes().as_slice(), &[conclusion as u8]].concat();
    let asked = Asked { operation: Operation::Transfer, body: &body, repetition };
    let command = NetworkCommand::ConcludeTransfer(ConcludeTransfer {
        transaction: TransactionId(id),
        conclusion,
    });
    let planned = planned(&state, &asked, command, None, CURRENCY_DEFAULT);
    let reply = state.switch.ask(planned.command).await?;
    render_reply(&reply, planned.currency).map(json_response)
}
