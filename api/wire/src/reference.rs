//! Reference objects: how other resources are embedded. Source: spec "Reference objects".

use cardswitch_engine::directory::dimension::Dimension;
use cardswitch_engine::directory::member::Member;
use cardswitch_engine::domain::card::{DimensionKind, SuspensionReason};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::urls::Urls;
use crate::words;

/// A member within another object.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct MemberReference {
    /// Its id.
    pub id: Uuid,
    /// Its address in this API.
    pub url: String,
    /// E-mail address.
    pub email: String,
    /// First name.
    pub first_name: String,
    /// Last name.
    pub last_name: String,
}

impl MemberReference {
    /// The reference to a member.
    pub fn new(member: &Member, urls: &Urls) -> Self {
        Self {
            id: member.id.0,
            url: urls.object("members", member.id.0),
            email: member.email.clone(),
            first_name: member.first_name.clone(),
            last_name: member.last_name.clone(),
        }
    }
}

/// A category, department, label or location within another object.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct DimensionReference {
    /// Its id.
    pub id: Uuid,
    /// Its address in this API.
    pub url: String,
    /// Its number in accounting.
    pub code: Option<String>,
    /// Its name.
    pub name: String,
}

impl DimensionReference {
    /// The reference to a category, department, label or location.
    pub fn new(dimension: &Dimension, urls: &Urls) -> Self {
        Self {
            id: dimension.id.0,
            url: urls.object(plural_of(dimension.kind), dimension.id.0),
            code: dimension.code.clone(),
            name: dimension.name.clone(),
        }
    }
}

/// The name of a kind of dimension in addresses.
pub const fn plural_of(kind: DimensionKind) -> &'static str {
    match kind {
        DimensionKind::Category => "categories",
        DimensionKind::Department => "departments",
        DimensionKind::Label => "labels",
        DimensionKind::Location => "locations",
    }
}

/// The fields that hold dimensions, in the order of `DimensionKind::ALL`.
pub const DIMENSION_FIELDS: [&str; 4] = DimensionKind::WORDS;

/// A card within another object.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct CardReference {
    /// Its id.
    pub id: Uuid,
    /// Its address in this API.
    pub url: String,
    /// Its state.
    #[schema(value_type = words::CardState)]
    pub state: &'static str,
    /// Shown above it.
    pub description: String,
    /// The last four digits of its number.
    pub last_four: String,
}

/// A shared link within its card. Source: spec "Card", shared_link.
#[derive(Debug, PartialEq, Serialize, ToSchema)]
pub struct SharedLinkReference {
    /// Its id.
    pub id: Uuid,
    /// Its address in this API.
    pub url: String,
    /// Address of the page that shows the card.
    pub link: String,
}

/// Why a card is suspended, as text; none where it is not.
pub const fn render_suspension(reason: SuspensionReason) -> Option<&'static str> {
    match reason {
        SuspensionReason::None => None,
        SuspensionReason::Manual => Some("manual"),
        SuspensionReason::SingleUse => Some("single_use"),
        SuspensionReason::EndTime => Some("end_time"),
    }
}

/// The last four digits of a card number as text.
pub fn render_last_four(digits: [u8; 4]) -> String {
    digits.into_iter().map(char::from).collect()
}
