//! Transactions: their list, and each one's page, on which books and receipts are kept. Visitors
//! who see the whole company see all of them; everybody else sees their own.
//!
//! | file | what |
//! |---|---|
//! | `filter` | the filter, and the choices of its form |
//! | `list` | the list |
//! | `words` | sizes of files, and flags |
//! | `page` | one of them |
//! | `decision` | the reasons of the decision |
//! | `story` | its history, in order |
//! | `tags` | its dimensions, and a note |
//! | `receipt`, `upload` | its receipt |

pub(super) mod decision;
mod filter;
pub(crate) mod list;
mod page;
mod receipt;
mod story;
mod tags;
mod upload;
mod words;

use axum::Router;
use axum::routing::{get, post};
use cardswitch_edge::error::ApiError;
use cardswitch_engine::domain::ids::TransactionId;
use cardswitch_engine::store::query::TransactionRow;
use cardswitch_identity::state::AppState;
use cardswitch_v1::routes::transactions::{find_transaction, sequence_of};
use uuid::Uuid;

use crate::rights::{ActingMember, Right};

/// The list, and the pages of each.
pub(super) fn transaction_routes() -> Router<AppState> {
    Router::new()
        .route("/transactions", get(list::list_transactions))
        .route("/transactions/{id}", get(page::show_transaction).post(tags::tag_transaction))
        .route(
            "/transactions/{id}/receipt",
            get(receipt::get_receipt).post(receipt::hand_in_receipt),
        )
        .route("/transactions/{id}/receipt/delete", post(receipt::delete_receipt))
        .route("/transactions/{id}/receipt/lost", post(receipt::lose_receipt))
}

/// Finds a transaction that the visitor may see.
/// Errors: there is none with this id, or it is another's, which is the same.
pub(crate) async fn find(acting: &ActingMember, id: Uuid) -> Result<TransactionRow, ApiError> {
    let id = TransactionId(id);
    let seq = sequence_of(&acting.state, id)?;
    let row = acting.read(|view| find_transaction(view, seq, id)).await?;
    let row = row.ok_or_else(ApiError::not_found)?;
    acting.check_owner(row.record.member)?;
    Ok(row)
}

/// Finds a transaction whose note and receipt the visitor may change.
/// Errors: as `find`, and where the visitor only sees it.
async fn find_own(acting: &ActingMember, id: Uuid) -> Result<TransactionRow, ApiError> {
    let row = find(acting, id).await?;
    if may_note(acting, &row) { Ok(row) } else { Err(ApiError::not_found()) }
}

/// Whether the visitor may write its note and hand in its receipt: bookkeepers may, and the member
/// of the transaction.
fn may_note(acting: &ActingMember, row: &TransactionRow) -> bool {
    acting.may(Right::TagTransactions) || row.record.member == Some(acting.member.slot)
}
