//! Receipts of transactions: handed in, shown, taken back, or told to be lost. An extension.
//!
//! The content is kept as a file before the transaction names it, so a receipt that is shown can be
//! fetched, whatever happened in between.

use std::io;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use cardswitch_edge::company_turns::CompanyTurn;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::input::{Answer, JsonBody, PathId};
use cardswitch_edge::json::Json;
use cardswitch_edge::lasting_access::LastingAccess;
use cardswitch_edge::lasting_file::lasting_file;
use cardswitch_edge::request_body::{self, read_upload};
use cardswitch_edge::write_error::WriteError;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::transaction::TransactionCommand;
use cardswitch_engine::domain::ids::{CompanyId, ReceiptId, TransactionId};
use cardswitch_engine::domain::text::LineText;
use cardswitch_engine::domain::transaction_tags::{Receipt, ReceiptType, TagChanges};
use cardswitch_identity::auth::Call;
use cardswitch_identity::receipts::{
    KeptReceipt, RECEIPT_BYTES_MAX, ReceiptContent, filename, media_type, sniff,
};
use cardswitch_identity::state::AppState;
use cardswitch_wire::bodies;
use cardswitch_wire::body::{ValueRule, flag};
use cardswitch_wire::disposition::{name_in_disposition, name_in_form, render_attachment};
use cardswitch_wire::fault::Flaw;
use cardswitch_wire::fields::Fields;
use cardswitch_wire::time::render_time;
use cardswitch_wire::urls::Urls;
use serde::Serialize;
use tracing::Instrument;
use utoipa::ToSchema;
use uuid::Uuid;

use super::transactions::{find_transaction, sequence_of};
use super::view::{Reader, read_view};
use crate::words;

/// How much longer than a receipt the form around it may make the body. Units: bytes.
pub const FORM_BYTES_MAX: usize = 64 * 1024;

/// A receipt as responses show it. Of a lost one nothing but that is known.
#[derive(Debug, Serialize, ToSchema)]
pub struct ReceiptBody {
    id: Uuid,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    filename: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    content_type: Option<&'static str>,
    /// Units: bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    size: Option<u32>,
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    is_lost: Option<bool>,
}

impl ReceiptBody {
    /// The receipt of `transaction` as it is shown.
    pub fn new(receipt: &Receipt, transaction: TransactionId, urls: &Urls) -> Self {
        let url = format!("{}/receipt", urls.object("transactions", transaction.0));
        let is_there = !receipt.is_lost;
        Self {
            id: receipt.id.0,
            url: is_there.then_some(url),
            filename: is_there.then(|| receipt.filename.to_string()),
            content_type: is_there.then(|| media_type(receipt.content_type)),
            size: is_there.then_some(receipt.size),
            created_at: render_time(receipt.created_at),
            is_lost: receipt.is_lost.then_some(true),
        }
    }
}

/// A form with a receipt in it.
#[derive(Debug, ToSchema)]
pub struct ReceiptForm {
    /// The file: PNG, JPEG or PDF, at most 10 MiB.
    #[schema(value_type = words::File)]
    pub file: Vec<u8>,
}

bodies! {
    /// Changes of a receipt.
    ReceiptUpdate "ReceiptUpdate" parse_loss;
}

fn parse_loss(fields: &mut Fields<'_>) {
    let is_lost = fields.must("is_lost", "True: it was lost.", flag().example("true"));
    if !is_lost && !fields.is_faulty("is_lost") {
        let flaw = Flaw::new("not_settable", "can only be set; upload the receipt, or delete it");
        fields.fault("is_lost", flaw);
    }
}

/// A file as it was handed in.
#[derive(Debug)]
pub struct Upload {
    /// The file's name at its sender.
    pub filename: Option<String>,
    /// The file's bytes.
    pub content: Bytes,
}

/// Upload a receipt of a transaction; it takes the place of one that is there.
///
/// The body is the file, or a form with the file in the field `file`.
#[utoipa::path(
    post, path = "/v1/transactions/{transaction_id}/receipt",
    request_body(content(
        (words::File = "image/png"),
        (words::File = "image/jpeg"),
        (words::File = "application/pdf"),
        (ReceiptForm = "multipart/form-data"),
    )),
    responses((status = 201, body = ReceiptBody)),
)]
pub async fn upload_receipt(
    call: Call,
    PathId(id): PathId,
    request: Request,
) -> Answer<(StatusCode, Json<ReceiptBody>)> {
    let Call(state, _) = &call;
    let id = TransactionId(id);
    let _turn = turn_of(&call, request.extensions().get().cloned()).await?;
    find_receipt_of((&call).into(), id).await?;
    let upload = read_file(request).await?;
    let receipt = hand_in((&call).into(), id, upload).await?;
    Ok((StatusCode::CREATED, Json(ReceiptBody::new(&receipt, id, state.urls()))))
}

/// The turn of an upload. A request with a key brings the turn in which its body was read.
/// Errors: too many others.
async fn turn_of(
    call: &Call,
    held: Option<Arc<CompanyTurn>>,
) -> Result<Arc<CompanyTurn>, ApiError> {
    let Call(state, caller) = call;
    match held {
        Some(turn) => Ok(turn),
        None => {
            state.receipts.turn(caller.company.slot).await.map(Arc::new).ok_or_else(ApiError::busy)
        }
    }
}

/// Makes a file the receipt of a transaction of a company.
/// Errors: it is no receipt, cannot be kept, or the change was not made.
pub async fn hand_in(
    reader: Reader<'_>,
    id: TransactionId,
    Upload { filename: given, content }: Upload,
) -> Result<Receipt, ApiError> {
    let kind = sniff(&content).ok_or_else(ApiError::not_a_receipt)?;
    let filename = filename(given.as_deref(), kind)
        .map_err(|flaw| ApiError::invalid_field("filename", flaw))?;
    let size = u32::try_from(content.len()).unwrap_or(u32::MAX);
    let kept = keep(reader.state, content).await?;
    let receipt = Receipt {
        id: ReceiptId(reader.state.switch.new_id()),
        filename,
        content_type: kind,
        size,
        digest: kept.digest,
        is_lost: false,
        created_at: reader.state.now(),
    };
    let (state, command) =
        (reader.state.clone(), change_of(reader.company.id, id, Some(receipt.clone())));
    // A task of its own: a client that hangs up gives up no content whose change is under way.
    let change = async move {
        let changed = state.carry_out(command).await;
        drop(kept);
        changed
    };
    let changed = tokio::spawn(change.in_current_span()).await;
    changed.map_err(|error| ApiError::internal(&error))??;
    Ok(receipt)
}

async fn keep(state: &AppState, content: Bytes) -> Result<KeptReceipt, ApiError> {
    let files = state.receipts.clone();
    let kept = tokio::task::spawn_blocking(move || files.keep(&content)).await;
    kept.map_err(|error| ApiError::internal(&error))?.map_err(|error| ApiError::internal(&error))
}

/// The file in the body: the body itself, or the field `file` of a form.
async fn read_file(request: Request) -> Result<Upload, ApiError> {
    let (parts, body) = request.into_parts();
    let content_type = text_of(&parts.headers, CONTENT_TYPE).unwrap_or_default();
    let boundary = multer::parse_boundary(content_type).ok();
    let media = request_body::media_type(&parts.headers);
    let kinds = [ReceiptType::Png, ReceiptType::Jpeg, ReceiptType::Pdf].map(media_type);
    if boundary.is_none() && !kinds.iter().any(|kind| kind.eq_ignore_ascii_case(media)) {
        return Err(ApiError::not_a_receipt());
    }
    let bytes_max = RECEIPT_BYTES_MAX + if boundary.is_some() { FORM_BYTES_MAX } else { 0 };
    let content = read_upload(body, bytes_max).await?;
    let upload = match boundary {
        Some(boundary) => read_form(content, boundary).await?,
        None => {
            let disposition = parts.headers.get(CONTENT_DISPOSITION).map(HeaderValue::as_bytes);
            let disposition = disposition.and_then(|bytes| str::from_utf8(bytes).ok());
            Upload { filename: disposition.and_then(name_in_disposition), content }
        }
    };
    if upload.content.len() > RECEIPT_BYTES_MAX {
        return Err(ApiError::body_too_large(RECEIPT_BYTES_MAX));
    }
    Ok(upload)
}

fn text_of(headers: &HeaderMap, name: axum::http::HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// The field `file` of a form, which is all there. Errors: it has none, or is not whole.
async fn read_form(form: Bytes, boundary: String) -> Result<Upload, ApiError> {
    let mut form = multer::Multipart::new(Body::from(form).into_data_stream(), boundary);
    while let Some(field) = form.next_field().await.map_err(|_| ApiError::malformed_form())? {
        if field.name() == Some("file") {
            let filename = field.file_name().map(name_in_form);
            let content = field.bytes().await.map_err(|_| ApiError::malformed_form())?;
            return Ok(Upload { filename, content });
        }
    }
    Err(ApiError::invalid_field("file", Flaw::required()))
}

/// The receipt of a transaction of the company.
/// Errors: the company has no such transaction.
async fn find_receipt_of(
    reader: Reader<'_>,
    id: TransactionId,
) -> Result<Option<Receipt>, ApiError> {
    let seq = sequence_of(reader.state, id)?;
    let row = read_view(reader, |view| find_transaction(view, seq, id)).await?;
    let row = row.ok_or_else(ApiError::not_found)?;
    Ok(row.receipt().cloned())
}

/// Sets the receipt of a transaction of a company, or takes it away.
pub async fn set_receipt(
    reader: Reader<'_>,
    id: TransactionId,
    receipt: Option<Receipt>,
) -> Result<(), WriteError> {
    reader.state.carry_out(change_of(reader.company.id, id, receipt)).await
}

fn change_of(company: CompanyId, id: TransactionId, receipt: Option<Receipt>) -> AdminCommand {
    let changes = TagChanges { receipt: Some(receipt), ..TagChanges::default() };
    AdminCommand::Transaction(TransactionCommand::Tag(company, id, changes))
}

/// Download the file of a receipt, as it was uploaded.
#[utoipa::path(
    get, path = "/v1/transactions/{transaction_id}/receipt",
    responses((status = 200, content(
        (words::File = "image/png"),
        (words::File = "image/jpeg"),
        (words::File = "application/pdf"),
    ))),
)]
pub async fn get_receipt(call: Call, PathId(id): PathId) -> Answer<Response> {
    let receipt = find_receipt_of((&call).into(), TransactionId(id)).await?;
    let access = call.1.lasting_access(&call.0.switch);
    receipt_file((&call.0, access), receipt.as_ref()).await
}

/// The file of a receipt, as it was handed in; it breaks off when `access` ends.
/// Errors: there is none, or it cannot be read.
pub async fn receipt_file(
    (state, access): (&AppState, LastingAccess),
    receipt: Option<&Receipt>,
) -> Result<Response, ApiError> {
    let receipt = receipt.filter(|receipt| !receipt.is_lost).ok_or_else(ApiError::not_found)?;
    let (files, digest) = (state.receipts.clone(), receipt.digest);
    let content = tokio::task::spawn_blocking(move || files.open_content(&digest)).await;
    let content = content
        .map_err(|error| ApiError::internal(&error))?
        .map_err(|error| ApiError::internal(&error))?;
    // These headers keep a browser from guessing the file's type and from running any of it.
    let headers = [
        (CONTENT_TYPE, media_type(receipt.content_type).to_owned()),
        (CONTENT_LENGTH, receipt.size.to_string()),
        (CONTENT_DISPOSITION, render_attachment(&receipt.filename)),
        (X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (CONTENT_SECURITY_POLICY, "sandbox; default-src 'none'".to_owned()),
        (CACHE_CONTROL, "private, no-store".to_owned()),
    ];
    Ok((headers, lasting_file("a receipt", (content, access), next_piece)).into_response())
}

/// The next piece of a file; none at its end.
async fn next_piece(mut content: ReceiptContent) -> io::Result<Option<(Bytes, ReceiptContent)>> {
    let read = tokio::task::spawn_blocking(move || {
        let piece = content.next_piece()?;
        Ok((!piece.is_empty()).then_some((piece, content)))
    });
    read.await?
}

/// Mark a receipt as lost. One that is there is removed.
#[utoipa::path(
    put, path = "/v1/transactions/{transaction_id}/receipt", request_body = ReceiptUpdate,
    responses((status = 200, body = ReceiptBody)),
)]
pub async fn lose_receipt(
    call: Call,
    PathId(id): PathId,
    body: JsonBody,
) -> Answer<Json<ReceiptBody>> {
    let Call(state, _) = &call;
    let id = TransactionId(id);
    let mut fields = body.fields()?;
    parse_loss(&mut fields);
    let known = find_receipt_of((&call).into(), id).await?;
    fields.finish()?;
    let receipt = match known {
        Some(receipt) if receipt.is_lost => receipt,
        _ => {
            let receipt = lost(state);
            set_receipt((&call).into(), id, Some(receipt.clone())).await?;
            receipt
        }
    };
    Ok(Json(ReceiptBody::new(&receipt, id, state.urls())))
}

/// The record of a lost receipt.
pub fn lost(state: &AppState) -> Receipt {
    Receipt {
        id: ReceiptId(state.switch.new_id()),
        filename: LineText::default(),
        content_type: ReceiptType::Pdf,
        size: 0,
        digest: [0; 32],
        is_lost: true,
        created_at: state.now(),
    }
}

/// Delete the receipt of a transaction, lost or not.
#[utoipa::path(
    delete, path = "/v1/transactions/{transaction_id}/receipt", responses((status = 204)),
)]
pub async fn delete_receipt(call: Call, PathId(id): PathId) -> Answer<StatusCode> {
    let id = TransactionId(id);
    let receipt = find_receipt_of((&call).into(), id).await?;
    if receipt.is_none() {
        return Err(ApiError::not_found());
    }
    match set_receipt((&call).into(), id, None).await {
        // The answer shows nothing, so it need not wait for late tables.
        Ok(()) | Err(WriteError::NotVisibleYet) => Ok(StatusCode::NO_CONTENT),
        Err(error) => Err(error.into()),
    }
}

#[cfg(any(test, fuzzing))]
#[path = "receipts_properties.rs"]
pub mod properties;
