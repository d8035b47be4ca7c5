//! A form with a file in it, which a page of the site has sent.
//!
//! The sender is known before any of the form is read, and it is read within the bounds that `/v1`
//! has for receipts. INVARIANT: a form that is bound to another visitor, or to none, is refused
//! whatever is in it.

use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::request_body::read_upload;
use cardswitch_identity::receipts::RECEIPT_BYTES_MAX;
use cardswitch_v1::routes::receipts::{FORM_BYTES_MAX, Upload};
use cardswitch_wire::disposition::name_in_form;

use crate::csrf;
use crate::error_page::failure_page;
use crate::forms::{foreign_form, refusal_where_changed, stale_form};
use crate::rights::ActingMember;

/// The fields of the form.
#[derive(Debug)]
pub(super) struct UploadForm {
    /// The file; none where none was chosen.
    pub(super) file: Option<Upload>,
    /// The id of the receipt that the page showed.
    pub(super) seen: String,
}

/// Why a form cannot be taken.
#[derive(Debug)]
pub(super) enum UploadError {
    /// The form is too long, which the page says.
    TooLong,
    /// Any other failure, with its page.
    Refused(Box<Response>),
}

impl From<ApiError> for UploadError {
    fn from(error: ApiError) -> Self {
        match error.status {
            StatusCode::PAYLOAD_TOO_LARGE => Self::TooLong,
            _ => Self::Refused(Box::new(error.into_response())),
        }
    }
}

impl From<multer::Error> for UploadError {
    fn from(_: multer::Error) -> Self {
        ApiError::malformed_form().into()
    }
}

/// Reads the form in a request.
pub(super) async fn read_upload_form(
    acting: &ActingMember,
    request: Request,
) -> Result<UploadForm, UploadError> {
    let refused = |page| UploadError::Refused(Box::new(page));
    let (parts, body) = request.into_parts();
    if !csrf::is_from_here(&parts.headers, &acting.state.urls().app) {
        return Err(refused(foreign_form()));
    }
    let kind = parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let boundary = multer::parse_boundary(kind.unwrap_or_default())
        .map_err(|_| refused(failure_page(StatusCode::UNSUPPORTED_MEDIA_TYPE)))?;
    let body = read_upload(body, RECEIPT_BYTES_MAX + FORM_BYTES_MAX).await?;
    let (form, sent) = read_fields(body, boundary).await?;
    if let Some(changed) = refusal_where_changed(&acting.session, &acting.state) {
        return Err(refused(changed));
    }
    if !csrf::is_of_session(&acting.state, &acting.session, &sent) {
        return Err(refused(stale_form()));
    }
    match &form.file {
        Some(file) if file.content.len() > RECEIPT_BYTES_MAX => Err(UploadError::TooLong),
        _ => Ok(form),
    }
}

/// The form, and the value that binds it to the visitor.
async fn read_fields(body: Bytes, boundary: String) -> Result<(UploadForm, String), UploadError> {
    let mut form = multer::Multipart::new(Body::from(body).into_data_stream(), boundary);
    let mut read = UploadForm { file: None, seen: String::new() };
    let mut sent = String::new();
    while let Some(field) = form.next_field().await? {
        match field.name() {
            Some("file") => {
                let filename = field.file_name().map(name_in_form);
                let content = field.bytes().await?;
                // Browsers send an empty file without a name where no file was chosen.
                let is_chosen =
                    !content.is_empty() || filename.as_ref().is_some_and(|name| !name.is_empty());
                read.file = is_chosen.then_some(Upload { filename, content });
            }
            Some("seen") => read.seen = read_text(field).await?,
            Some(name) if name == csrf::FIELD => sent = read_text(field).await?,
            _ => {}
        }
    }
    Ok((read, sent))
}

/// A field as text. Pages are UTF-8, so what browsers send is too; `Field::text` would bring the tables of all others.
async fn read_text(field: multer::Field<'_>) -> Result<String, multer::Error> {
    Ok(String::from_utf8_lossy(&field.bytes().await?).into_owned())
}
