//! Bank transfers: the requests of a simulation of the company's bank. Source: spec "Account",
//! pending_credits.

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::Response;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::idempotency_header::idempotency_key;
use cardswitch_edge::switch::LazySnapshot;
use cardswitch_engine::command::network::{
    ConcludeTransfer, NetworkCommand, Transfer, TransferConclusion, TransferTiming,
};
use cardswitch_engine::domain::ids::{AccountId, Timestamp, TransactionId};
use cardswitch_engine::domain::money::{CurrencyCode, Minor};
use cardswitch_engine::domain::transaction::{BankAccount, TransferDirection};
use cardswitch_wire::amount::parse_json_amount;
use cardswitch_wire::body::{flag, id, instant, part, rule, short_line};
use cardswitch_wire::fault::Flaw;
use cardswitch_wire::fields::Fields;
use cardswitch_wire::{bodies, words};
use uuid::Uuid;

use super::access::{EmptyBody, NetworkAccess};
use super::answers::{TransferAnswer, render_reply};
use super::json_response;
use super::requests::{DoorOperation, IncomingRequest, PlannedCommand, Repetition, planned};
use super::shared_fields::TIME_ABOUT;
use super::state::DoorState;
use super::subject::CURRENCY_DEFAULT;

/// The longest text of a bank account's fields.
const TEXT_CHARS_MAX: usize = 64;

/// Reads the body of a transfer.
/// Errors: the body names an account that is not there; the tables cannot be read.
pub(super) fn plan_transfer(
    state: &DoorState,
    view: &LazySnapshot<'_>,
    asked: &IncomingRequest<'_>,
    fields: &mut Fields<'_>,
) -> Result<PlannedCommand, ApiError> {
    // An amount can only be read in its currency; of an account that is not there, in any.
    let mut is_known = false;
    let currency_of = |account| {
        let known = view.snapshot()?.account_by_any_company(account)?;
        is_known = known.is_some();
        Ok(known.map_or(CURRENCY_DEFAULT, |row| row.account.currency))
    };
    let (transfer, supplied_at, currency) = read_transfer(fields, currency_of)?;
    fields.refuse_unread();
    if !is_known {
        return Err(ApiError::named_not_found("account_id", "account"));
    }
    Ok(planned(state, asked, NetworkCommand::Transfer(transfer), supplied_at, currency))
}

bodies! {
    /// The far end of a bank transfer.
    BankAccountGiven "BankAccountGiven" |fields| _ = read_bank_account(fields);
    /// Money from the company's bank, or to it where the amount is below zero.
    TransferRequest "TransferRequest" |fields| _ = read_transfer(fields, |_| Ok(CURRENCY_DEFAULT));
}

fn read_transfer(
    fields: &mut Fields<'_>,
    currency_of: impl FnOnce(AccountId) -> Result<CurrencyCode, ApiError>,
) -> Result<(Transfer, Option<Timestamp>, CurrencyCode), ApiError> {
    let account = AccountId(fields.must("account_id", "The account.", id()));
    let currency = currency_of(account)?;
    let amount = rule(part::<words::RequestAmount>, |value| {
        let amount = parse_json_amount(value, currency)?;
        let flaw = || Flaw::new("zero", "must not be zero");
        Some(amount).filter(|amount| !amount.is_zero()).ok_or_else(flaw)
    });
    let amount = fields.must("amount", "How much; not 0.", amount);
    let settled = fields.may("settled", "Whether it is posted at once.", flag()).unwrap_or(false);
    let supplied_at = fields.may("time", TIME_ABOUT, instant());
    let bank_account = fields.patch_object::<BankAccountGiven, _>(
        "bank_account",
        "The far end.",
        read_bank_account,
    );
    let direction = if amount.is_positive() {
        TransferDirection::Deposit
    } else {
        TransferDirection::Withdrawal
    };
    let transfer = Transfer {
        account,
        direction,
        amount: Minor(amount.0.saturating_abs()),
        bank_account: bank_account.flatten().unwrap_or_default(),
        timing: if settled { TransferTiming::AtOnce } else { TransferTiming::InTransit },
    };
    Ok((transfer, supplied_at, currency))
}

fn read_bank_account(fields: &mut Fields<'_>) -> BankAccount {
    let mut text = |name: &str, about: &str| {
        fields.may(name, about, short_line(TEXT_CHARS_MAX)).unwrap_or_default()
    };
    let account = BankAccount {
        description: text("description", "Text on the statement."),
        name: text("name", "Its name."),
        number: text("number", "Its number."),
    };
    fields.refuse_unread();
    account
}

/// The parts of a request about an existing transfer.
type ConclusionRequest = (State<DoorState>, NetworkAccess, Path<String>, HeaderMap, EmptyBody);

/// Post a transfer in transit.
#[utoipa::path(
    post, path = "/network/v1/transfers/{transaction_id}/settle",
    responses((status = 200, body = TransferAnswer)),
)]
pub(super) async fn settle(request: ConclusionRequest) -> Result<Response, ApiError> {
    conclude(request, TransferConclusion::Settle).await
}

/// Reverse a transfer.
#[utoipa::path(
    post, path = "/network/v1/transfers/{transaction_id}/return",
    responses((status = 200, body = TransferAnswer)),
)]
pub(super) async fn bring_back(request: ConclusionRequest) -> Result<Response, ApiError> {
    conclude(request, TransferConclusion::Return).await
}

async fn conclude(
    (State(state), _, Path(id), headers, _): ConclusionRequest,
    conclusion: TransferConclusion,
) -> Result<Response, ApiError> {
    let id: Uuid = id.parse().map_err(|_| ApiError::not_found())?;
    let repetition = idempotency_key(&headers)?.map(|key| Repetition { key, place: 0 });
    // The path is what is asked: it stands for the body that there is not.
    let body = [id.as_bytes().as_slice(), &[conclusion as u8]].concat();
    let asked = IncomingRequest { operation: DoorOperation::Transfer, body: &body, repetition };
    let command = NetworkCommand::ConcludeTransfer(ConcludeTransfer {
        transaction: TransactionId(id),
        conclusion,
    });
    let planned = planned(&state, &asked, command, None, CURRENCY_DEFAULT);
    let reply = state.switch.ask(planned.command).await?;
    render_reply(&reply, planned.currency).map(json_response)
}
