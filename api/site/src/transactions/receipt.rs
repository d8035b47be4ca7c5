//! The receipt of a transaction: handed in, fetched, deleted, or noted as lost.
//! GET and POST /transactions/{id}/receipt, and POST of `delete` and `lost` below it.

use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::Response;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::input::PathId;
use cardswitch_engine::command::seen_object::WatchedObject;
use cardswitch_engine::domain::ids::TransactionId;
use cardswitch_engine::domain::transaction_tags::Receipt;
use cardswitch_engine::store::query::TransactionRow;
use cardswitch_identity::actor_state::ActorState;
use cardswitch_identity::receipts::RECEIPT_BYTES_MAX;
use cardswitch_v1::routes::receipts::{hand_in, lost, receipt_file, set_receipt};
use serde::Deserialize;
use uuid::Uuid;

use super::page::{TransactionForms, receipt_seen, refused_page};
use super::upload::{UploadError, UploadForm, read_upload_form};
use super::{find, find_own};
use crate::faults::Faults;
use crate::form_snapshot::{RefusedChange, change_as_seen};
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
    let Some(file) = file else {
        let row = find_own(&acting, id).await?;
        return refused(&acting, &row, (StatusCode::BAD_REQUEST, "Choose a file first.")).await;
    };
    let is_as_seen = |row: &TransactionRow| seen == receipt_seen(row);
    change_receipt(&acting, (id, is_as_seen), async |state, _| {
        hand_in(acting.reader(&state), TransactionId(id), file).await?;
        Ok(Notice::RECEIPT_KEPT)
    })
    .await
}

/// Changes the receipt of a transaction, if it is as the page showed it.
async fn change_receipt(
    acting: &ActingMember,
    (id, is_as_seen): (Uuid, impl Fn(&TransactionRow) -> bool),
    change: impl AsyncFnOnce(ActorState, TransactionRow) -> Result<Notice, ApiError>,
) -> Result<Response, ApiError> {
    let find = || async {
        let row = find_own(acting, id).await?;
        Ok((WatchedObject::Transaction(row.record.seq), row))
    };
    let check = |row: &_| is_as_seen(row).then_some(()).ok_or_else(|| Faults::conflict(CHANGED));
    let saved = change_as_seen(acting, find, check, async |state, row| {
        let notice = change(state, row).await?;
        Ok(acting.go_on(&format!("/transactions/{id}"), notice))
    });
    match saved.await? {
        Ok(saved) => Ok(saved),
        Err((row, RefusedChange::Refused(error)))
            if error.status == StatusCode::UNSUPPORTED_MEDIA_TYPE =>
        {
            let text = "That file isn’t a PNG, JPEG or PDF.";
            refused(acting, &row, (error.status, text)).await
        }
        Err((row, RefusedChange::Refused(error))) if error.status == StatusCode::BAD_REQUEST => {
            let text = "The file name contains invisible characters. Rename the file first.";
            refused(acting, &row, (error.status, text)).await
        }
        Err((row, why)) => {
            let (_, faults) = why.shown((), Faults::of_refusal)?;
            refused(acting, &row, (faults.status, faults.alert())).await
        }
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
    set_as_seen(&acting, (id, &form.seen), (None, Notice::RECEIPT_DELETED)).await
}

/// Notes that there will be no receipt. POST /transactions/{id}/receipt/lost.
pub(super) async fn lose_receipt(
    acting: ActingMember,
    PathId(id): PathId,
    SiteForm(form): SiteForm<ReceiptFields>,
) -> Result<Response, ApiError> {
    let receipt = Some(lost(&acting.state));
    set_as_seen(&acting, (id, &form.seen), (receipt, Notice::RECEIPT_LOST)).await
}

/// Sets the receipt of a transaction, unless it already is as wanted.
async fn set_as_seen(
    acting: &ActingMember,
    (id, seen): (Uuid, &str),
    (receipt, notice): (Option<Receipt>, Notice),
) -> Result<Response, ApiError> {
    let is_lost = |receipt: Option<&Receipt>| receipt.map(|receipt| receipt.is_lost);
    let is_wanted_lost = is_lost(receipt.as_ref());
    let is_done = |row: &TransactionRow| is_lost(row.receipt()) == is_wanted_lost;
    let is_as_seen = |row: &TransactionRow| seen == receipt_seen(row) || is_done(row);
    change_receipt(acting, (id, is_as_seen), async |state, row| {
        if !is_done(&row) {
            set_receipt(acting.reader(&state), row.record.id, receipt).await?;
        }
        Ok(notice)
    })
    .await
}
