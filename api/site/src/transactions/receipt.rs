//! The receipt of a transaction: handed in, fetched, deleted, or noted as lost.
//! GET and POST /transactions/{id}/receipt, and POST of `delete` and `lost` below it.

use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::Response;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::input::PathId;
use cardswitch_engine::command::seen_object::WatchedObject;
use cardswitch_engine::domain::ids::{RecordSeq, TransactionId};
use cardswitch_engine::domain::transaction_tags::Receipt;
use cardswitch_engine::store::query::TransactionRow;
use cardswitch_identity::receipts::RECEIPT_BYTES_MAX;
use cardswitch_v1::routes::receipts::{hand_in, lost, receipt_file, set_receipt};
use serde::Deserialize;
use uuid::Uuid;

use super::page::{TransactionForms, receipt_seen, refused_page};
use super::upload::{UploadError, UploadForm, read_upload_form};
use super::{find, find_own};
use crate::forms::SiteForm;
use crate::notice::Notice;
use crate::rights::{ActingMember, Right};

/// The message where somebody else was quicker.
const CHANGED: &str = "Not saved: someone else changed the receipt while you had this page open. Review it and try again.";

/// Fetches the file, to be saved. GET /transactions/{id}/receipt.
pub(super) async fn get_receipt(
    acting: ActingMember,
    PathId(id): PathId,
) -> Result<Response, ApiError> {
    let row = find(&acting, id).await?;
    // Of one's own transaction no right is needed.
    let right = Right::SeeCompany;
    let access = acting.lasting_access(acting.may(right).then_some(right));
    receipt_file((&acting.state, access), row.receipt()).await
}

/// Keeps a file as the receipt. POST /transactions/{id}/receipt.
pub(super) async fn hand_in_receipt(
    acting: ActingMember,
    PathId(id): PathId,
    request: Request,
) -> Result<Response, ApiError> {
    let row = find_own(&acting, id).await?;
    let _turn = acting.state.receipts.turn(acting.company.slot).await.ok_or_else(ApiError::busy)?;
    let form = match read_upload_form(&acting, request).await {
        Ok(form) => form,
        Err(UploadError::TooLong) => {
            let text = format!("The file is larger than {} MiB.", RECEIPT_BYTES_MAX >> 20);
            return refused(&acting, &row, (StatusCode::PAYLOAD_TOO_LARGE, &text)).await;
        }
        Err(UploadError::Refused(page)) => return Ok(*page),
    };
    let UploadForm { file, seen } = form;
    // The upload took its time.
    let since = acting.shown_seq().await;
    let row = find_own(&acting, id).await?;
    if seen != receipt_seen(&row) {
        return refused(&acting, &row, (StatusCode::CONFLICT, CHANGED)).await;
    }
    let Some(file) = file else {
        let text = "Choose a file first.";
        return refused(&acting, &row, (StatusCode::BAD_REQUEST, text)).await;
    };
    let acting = acting.if_unchanged(WatchedObject::Transaction(row.record.seq), since);
    match hand_in((&acting).into(), TransactionId(id), file).await {
        Ok(_) => Ok(done(&acting, id, Notice::RECEIPT_KEPT)),
        Err(error) if error.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE => {
            let text = "That file isn’t a PNG, JPEG or PDF.";
            refused(&acting, &row, (error.status(), text)).await
        }
        Err(error) if error.status() == StatusCode::PRECONDITION_FAILED => {
            refused(&acting, &row, (StatusCode::CONFLICT, CHANGED)).await
        }
        Err(error) if error.status() == StatusCode::BAD_REQUEST => {
            let text = "The file name contains invisible characters. Rename the file first.";
            refused(&acting, &row, (error.status(), text)).await
        }
        Err(error) => Err(error),
    }
}

async fn refused(
    acting: &ActingMember,
    row: &TransactionRow,
    (status, text): (StatusCode, &str),
) -> Result<Response, ApiError> {
    let said = TransactionForms { receipt_alert: text.to_owned(), ..TransactionForms::default() };
    refused_page(acting, row, (status, said)).await
}

fn done(acting: &ActingMember, id: Uuid, notice: Notice) -> Response {
    acting.go_on(&format!("/transactions/{id}"), notice)
}

/// The fields of the forms about a receipt.
#[derive(Debug, Deserialize)]
pub(super) struct ReceiptFields {
    #[serde(default)]
    seen: String,
}

/// Deletes the receipt, lost or not. POST /transactions/{id}/receipt/delete.
pub(super) async fn delete_receipt(
    acting: ActingMember,
    PathId(id): PathId,
    SiteForm(form): SiteForm<ReceiptFields>,
) -> Result<Response, ApiError> {
    let since = acting.shown_seq().await;
    let row = find_own(&acting, id).await?;
    if row.receipt().is_none() {
        return Ok(done(&acting, id, Notice::RECEIPT_DELETED));
    }
    if form.seen != receipt_seen(&row) {
        return refused(&acting, &row, (StatusCode::CONFLICT, CHANGED)).await;
    }
    set_as_seen(acting, (&row, since), (None, Notice::RECEIPT_DELETED)).await
}

/// Notes that there will be no receipt. POST /transactions/{id}/receipt/lost.
pub(super) async fn lose_receipt(
    acting: ActingMember,
    PathId(id): PathId,
    SiteForm(form): SiteForm<ReceiptFields>,
) -> Result<Response, ApiError> {
    let since = acting.shown_seq().await;
    let row = find_own(&acting, id).await?;
    if row.receipt().is_some_and(|receipt| receipt.is_lost) {
        return Ok(done(&acting, id, Notice::RECEIPT_LOST));
    }
    if form.seen != receipt_seen(&row) {
        return refused(&acting, &row, (StatusCode::CONFLICT, CHANGED)).await;
    }
    let receipt = Some(lost(&acting.state));
    set_as_seen(acting, (&row, since), (receipt, Notice::RECEIPT_LOST)).await
}

/// Sets the receipt of a transaction that was read behind the record `since`.
async fn set_as_seen(
    acting: ActingMember,
    (row, since): (&TransactionRow, RecordSeq),
    (receipt, notice): (Option<Receipt>, Notice),
) -> Result<Response, ApiError> {
    let acting = acting.if_unchanged(WatchedObject::Transaction(row.record.seq), since);
    let id = row.record.id;
    match set_receipt((&acting).into(), id, receipt).await.map_err(ApiError::from) {
        Ok(()) => Ok(done(&acting, id.0, notice)),
        Err(error) if error.status() == StatusCode::PRECONDITION_FAILED => {
            refused(&acting, row, (StatusCode::CONFLICT, CHANGED)).await
        }
        Err(error) => Err(error),
    }
}
