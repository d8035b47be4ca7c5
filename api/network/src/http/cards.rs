//! Cards as a simulated card network needs them: their numbers, and the states of their purchases.
//! Source: the network door of a simulation, not for production networks.

use axum::extract::State;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::input::{ListQuery, PathId};
use cardswitch_edge::json::Json;
use cardswitch_engine::domain::ids::CardId;
use cardswitch_engine::domain::money::CurrencyCode;
use cardswitch_engine::domain::transaction::{TransactionKind, TransactionState};
use cardswitch_engine::shard::authorization_id_of;
use cardswitch_engine::store::query::{CardRow, ListPage, TransactionRow};
use cardswitch_engine::store::{Snapshot, StoreError};
use cardswitch_wire::amount::Amount;
use cardswitch_wire::page::{PageParameters, describe_ordering, parse_page};
use cardswitch_wire::queries;
use cardswitch_wire::time::{render_date, render_time};
use cardswitch_wire::words;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::access::NetworkAccess;
use super::state::DoorState;
use super::subject::open_pan;
use cardswitch_acquiring::marks::render_authorization_id;

/// A card with its secrets.
#[derive(Serialize, ToSchema)]
pub(super) struct CardSecretsBody {
    card_id: Uuid,
    card_number: String,
    expiration: String,
    cvv: String,
}

/// A page of a card's transactions, the newest first.
#[derive(Serialize, ToSchema)]
#[schema(as = NetworkTransactionList)]
pub(super) struct TransactionsBody {
    count: u64,
    results: Vec<NetworkTransactionBody>,
}

/// A transaction as its merchant's side sees it: amounts are above zero for purchases.
#[derive(Serialize, ToSchema)]
pub(super) struct NetworkTransactionBody {
    transaction_id: Uuid,
    rrn: String,
    stan: String,
    acquirer: String,
    #[schema(value_type = words::TransactionState)]
    state: &'static str,
    amount: Amount,
    held: Amount,
    posted: Amount,
    response_code: u16,
    sub_reason: Option<&'static str>,
    #[schema(value_type = Vec<words::TransactionFlag>)]
    flags: Vec<&'static str>,
    authorization_id: Option<String>,
    authorized_at: String,
}

impl NetworkTransactionBody {
    fn new(row: &TransactionRow, currency: CurrencyCode) -> Self {
        let (record, progress) = (&row.record, &row.progress);
        let amount = |minor| Amount::new(minor, currency);
        let is_authorization =
            record.kind != TransactionKind::Refund && record.kind.transfer_direction().is_none();
        let is_approved = record.response_code.is_approved() && is_authorization;
        let authorization_id =
            is_approved.then(|| render_authorization_id(authorization_id_of(record.seq)));
        Self {
            transaction_id: record.id.0,
            rrn: record.trace.rrn.to_string(),
            stan: record.trace.stan.to_string(),
            acquirer: record.trace.acquirer.to_string(),
            state: match progress.state {
                TransactionState::Pending => "pending",
                TransactionState::Completed => "completed",
                TransactionState::Declined => "declined",
                TransactionState::Canceled => "canceled",
            },
            amount: amount(progress.amount(record.kind, record.requested)),
            held: amount(progress.held.total()),
            posted: amount(progress.posted),
            response_code: record.response_code.number(),
            sub_reason: record.sub_reason.text(),
            flags: progress.flags.names().collect(),
            authorization_id,
            authorized_at: render_time(record.authorized_at),
        }
    }
}

/// Retrieve the secrets of a card, which a simulated network needs.
#[utoipa::path(
    get, path = "/network/v1/cards/{card_id}", responses((status = 200, body = CardSecretsBody)),
)]
pub(super) async fn get_card(
    State(state): State<DoorState>,
    _: NetworkAccess,
    PathId(id): PathId,
) -> Result<Json<CardSecretsBody>, ApiError> {
    let row = state.switch.read(|snapshot| snapshot.card_by_any_company(CardId(id))).await?;
    let row = row.ok_or_else(ApiError::not_found)?;
    let pan = open_pan(&state.secrets, &row)
        .ok_or_else(|| ApiError::internal(&"a card number cannot be opened with these keys"))?;
    Ok(Json(CardSecretsBody {
        card_id: id,
        card_number: pan.reveal(),
        expiration: render_date(row.record.expires_on),
        cvv: state.secrets.cvv(&pan).map(char::from).iter().collect(),
    }))
}

queries! {
    /// How a card's transactions are ordered.
    NetworkOrdering |query| {
        let about = "By what the list is ordered; `-` for the newest first.";
        describe_ordering(query, about, "authorized_at", "-authorized_at");
    };
}

/// List the transactions of a card as its merchant's side sees them, the newest first.
#[utoipa::path(
    get, path = "/network/v1/cards/{card_id}/transactions", operation_id = "list_card_transactions",
    params(PageParameters, NetworkOrdering), responses((status = 200, body = TransactionsBody)),
)]
pub(super) async fn list_transactions(
    State(state): State<DoorState>,
    _: NetworkAccess,
    PathId(id): PathId,
    ListQuery { mut query, .. }: ListQuery,
) -> Result<Json<TransactionsBody>, ApiError> {
    let page = parse_page(&mut query, &["authorized_at"]);
    query.finish()?;
    let found = state
        .switch
        .read(|snapshot| {
            let Some(card) = snapshot.card_by_any_company(CardId(id))? else { return Ok(None) };
            let currency = account_currency(snapshot, &card)?;
            let listed = snapshot.list_card_transactions(card.profile.slot, &page)?;
            Ok(currency.map(|currency| (listed, currency)))
        })
        .await?;
    let (ListPage { count, rows }, currency) = found.ok_or_else(ApiError::not_found)?;
    let results = rows.iter().map(|row| NetworkTransactionBody::new(row, currency)).collect();
    Ok(Json(TransactionsBody { count, results }))
}

fn account_currency(
    snapshot: &Snapshot,
    card: &CardRow,
) -> Result<Option<CurrencyCode>, StoreError> {
    Ok(snapshot.account(card.record.account)?.map(|row| row.account.currency))
}
