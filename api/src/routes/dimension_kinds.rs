//! The handlers of categories, departments, labels and locations, each with its place in the published
//! document. What they do is the same, and stands in `dimensions`.

use std::borrow::Cow;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use cardswitch_engine::domain::card::DimensionKind;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaType, Type};
use utoipa::{PartialSchema, ToSchema};

use super::dimensions::{self, DimensionBody};
use super::input::{JsonBody, ListQuery, PathId};
use crate::auth::{AccountantAccess, ReadAccess};
use crate::error::ApiError;
use crate::openapi::words;
use crate::state::AppState;
use crate::wire::page::{Listing, PageParameters};

/// A category, department, label or location to be made.
#[derive(Debug, ToSchema)]
pub struct NewDimension {
    /// What it is called.
    #[schema(max_length = 200, pattern = r"\S")]
    pub name: String,
    /// Its number in accounting; no other one of the kind has it.
    pub code: Option<DigitsGiven>,
    /// One of the same kind that it stands below.
    pub parent: Option<words::Reference>,
}

/// What is to change; what is absent stays, null clears.
#[derive(Debug, ToSchema)]
pub struct DimensionUpdate {
    /// What it is called.
    #[schema(nullable = false, max_length = 200, pattern = r"\S")]
    pub name: Option<String>,
    /// Its number in accounting; no other one of the kind has it.
    pub code: Option<DigitsGiven>,
    /// One of the same kind that it stands below.
    pub parent: Option<words::Reference>,
}

/// A number that is a name: digits as text, or a whole number.
#[derive(Debug)]
pub struct DigitsGiven;

impl PartialSchema for DigitsGiven {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(SchemaType::from_iter([Type::String, Type::Integer]))
            .description(Some("1 to 20 digits: text, or a whole number."))
            .pattern(Some("^[0-9]{1,20}$"))
            .minimum(Some(0))
            .into()
    }
}

impl ToSchema for DigitsGiven {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("Digits")
    }
}

macro_rules! resource {
    ($module:ident, $kind:ident, $plural:literal, $singular:literal) => {
        /// The handlers of one of the four resources.
        pub mod $module {
            use super::*;

            const KIND: DimensionKind = DimensionKind::$kind;

            /// Lists them, the newest first.
            #[utoipa::path(
                get,
                path = concat!("/v1/", $plural),
                operation_id = concat!("list_", $plural),
                summary = concat!("Lists ", $plural, ", the newest first."),
                tag = "Dimensions",
                params(PageParameters),
                responses((status = 200, body = Listing<DimensionBody>)),
            )]
            pub async fn list(
                state: State<AppState>,
                access: ReadAccess,
                query: ListQuery,
            ) -> Result<Json<Listing<DimensionBody>>, ApiError> {
                dimensions::list_dimensions(KIND, state, access, query).await
            }

            /// Shows one.
            #[utoipa::path(
                get,
                path = concat!("/v1/", $plural, "/{", $singular, "_id}"),
                operation_id = concat!("get_", $singular),
                summary = concat!("Shows a ", $singular, "."),
                tag = "Dimensions",
                responses((status = 200, body = DimensionBody)),
            )]
            pub async fn get(
                state: State<AppState>,
                access: ReadAccess,
                id: PathId,
            ) -> Result<Json<DimensionBody>, ApiError> {
                dimensions::get_dimension(KIND, state, access, id).await
            }

            /// Makes one.
            #[utoipa::path(
                post,
                path = concat!("/v1/", $plural),
                operation_id = concat!("create_", $singular),
                summary = concat!("Makes a ", $singular, "."),
                tag = "Dimensions",
                request_body = NewDimension,
                responses((status = 201, body = DimensionBody)),
            )]
            pub async fn create(
                state: State<AppState>,
                access: AccountantAccess,
                body: JsonBody,
            ) -> Result<(StatusCode, Json<DimensionBody>), ApiError> {
                dimensions::create_dimension(KIND, state, access, body).await
            }

            /// Changes one.
            #[utoipa::path(
                put,
                path = concat!("/v1/", $plural, "/{", $singular, "_id}"),
                operation_id = concat!("update_", $singular),
                summary = concat!("Changes a ", $singular, "."),
                tag = "Dimensions",
                request_body = DimensionUpdate,
                responses((status = 200, body = DimensionBody)),
            )]
            pub async fn update(
                state: State<AppState>,
                access: AccountantAccess,
                id: PathId,
                body: JsonBody,
            ) -> Result<Json<DimensionBody>, ApiError> {
                dimensions::update_dimension(KIND, state, access, id, body).await
            }

            /// Deletes one: everything that carried it carries it no more.
            #[utoipa::path(
                delete,
                path = concat!("/v1/", $plural, "/{", $singular, "_id}"),
                operation_id = concat!("delete_", $singular),
                summary = concat!("Deletes a ", $singular, "; nothing carries it any more."),
                tag = "Dimensions",
                responses((status = 204)),
            )]
            pub async fn delete(
                state: State<AppState>,
                access: AccountantAccess,
                id: PathId,
            ) -> Result<StatusCode, ApiError> {
                dimensions::delete_dimension(KIND, state, access, id).await
            }
        }
    };
}

resource!(categories, Category, "categories", "category");
resource!(departments, Department, "departments", "department");
resource!(labels, Label, "labels", "label");
resource!(locations, Location, "locations", "location");
