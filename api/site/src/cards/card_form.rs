//! The form in which a card and its allowance are typed: its choices, the values typed, and their
//! faults.

use cardswitch_engine::directory::member::MemberState;
use cardswitch_engine::domain::card::DimensionKind;
use cardswitch_engine::domain::ids::CardId;
use cardswitch_engine::domain::merchant_category;
use cardswitch_engine::store::StoreError;
use cardswitch_v1::routes::card_texts::{CARD_TEXTS, CardText};
use cardswitch_v1::routes::view::View;
use cardswitch_wire::currency::render_currency;
use uuid::Uuid;

use super::card_fields::CardFields;
use super::list::offered_members;
use crate::choices::{Choice, choices};
use crate::dimension_choices::{DimensionChoice, dimension_choices};
use crate::faults::Faults;
use crate::words::zone_words;

/// How often a budget starts anew, to choose from.
const INTERVALS: [(&str, &str); 6] = [
    ("", "Never (one-time budget)"),
    ("daily", "Every day"),
    ("weekly", "Every Monday"),
    ("monthly", "On the 1st of every month"),
    ("quarterly", "Every quarter"),
    ("yearly", "Every year"),
];

/// The form as it is shown.
#[derive(Debug)]
pub(super) struct CardForm {
    pub(super) fields: CardFields,
    pub(super) faults: Faults,
    pub(super) currency: String,
    pub(super) zone: String,
    pub(super) intervals: Vec<Choice>,
    pub(super) groups: Vec<Choice>,
    pub(super) dimensions: Vec<DimensionChoice>,
    pub(super) offered: Vec<String>,
    pub(super) ships_to: String,
}

impl CardForm {
    /// The texts of a card that can be changed later, or those that cannot, with their names.
    pub(super) fn texts(
        &self,
        are_changeable: bool,
    ) -> impl Iterator<Item = (&'static str, &'static CardText)> {
        let texts = CARD_TEXTS.named().into_iter();
        texts.filter(move |(_, text)| text.is_changeable == are_changeable)
    }

    /// The form with the values typed.
    pub(super) fn new(
        fields: CardFields,
        faults: Faults,
        view: &View<'_>,
    ) -> Result<Self, StoreError> {
        let groups = merchant_category::groups().iter().map(|group| Choice {
            value: group.id.to_string(),
            label: group.name.to_owned(),
            is_chosen: fields.scope.contains(&group.id.to_string()),
        });
        let shipping = &view.company.shipping_address;
        let chosen = fields.typed.dimensions().map(|chosen| chosen.unwrap_or_default().to_owned());
        Ok(Self {
            currency: render_currency(view.company.currency),
            zone: zone_words(view.company.zone),
            intervals: choices(INTERVALS, fields.typed.of("interval")),
            groups: groups.collect(),
            dimensions: dimension_choices(view, &DimensionKind::ALL, &chosen)?,
            offered: offered_members(view)?,
            ships_to: format!(
                "{}, {} {} {}",
                shipping.address_1, shipping.city, shipping.state, shipping.zip_code
            ),
            fields,
            faults,
        })
    }
}

/// The member with an e-mail address, if a card can be theirs or is already. Else an id that nobody
/// has, which the reader refuses.
pub(super) fn holder_id(
    email: &str,
    card: Option<CardId>,
    view: &View<'_>,
) -> Result<Option<Uuid>, StoreError> {
    let email = email.trim();
    if email.is_empty() {
        return Ok(None);
    }
    let member = view.snapshot.member_by_email(view.company.slot, email)?;
    let found = member.filter(|member| member.state == MemberState::Active || card.is_some());
    Ok(Some(found.map_or(Uuid::nil(), |member| member.id.0)))
}
