//! The form in which a card and its allowance are typed: what it offers, what was typed, and what is
//! wrong with it.

use cardswitch_engine::domain::card::DimensionKind;
use cardswitch_engine::domain::ids::CardId;
use cardswitch_engine::domain::member::MemberState;
use cardswitch_engine::domain::merchant_category;
use cardswitch_engine::limits::PAGE_LEN_MAX;
use cardswitch_engine::store::StoreError;
use cardswitch_engine::store::query::Page;
use uuid::Uuid;

use super::card_fields::CardFields;
use super::card_page::kind_words;
use super::list::offered_members;
use crate::routes::view::View;
use crate::site::choices::{Choice, choices};
use crate::site::faults::Faults;
use crate::wire::currency::render_currency;
use crate::wire::reference::DIMENSION_FIELDS;

/// How often a budget starts anew, to choose from.
const INTERVALS: [(&str, &str); 6] = [
    ("", "Never: it is spent once"),
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
    pub(super) zone: &'static str,
    pub(super) intervals: Vec<Choice>,
    pub(super) groups: Vec<Choice>,
    pub(super) dimensions: Vec<DimensionField>,
    pub(super) offered: Vec<String>,
    pub(super) ships_to: String,
}

/// One kind of dimension to choose from.
#[derive(Debug)]
pub(super) struct DimensionField {
    pub(super) name: &'static str,
    pub(super) label: &'static str,
    pub(super) choices: Vec<Choice>,
    pub(super) error: String,
}

impl CardForm {
    /// The form with what was typed.
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
        Ok(Self {
            currency: render_currency(view.company.currency),
            zone: view.company.zone.name(),
            intervals: choices(INTERVALS, &fields.interval),
            groups: groups.collect(),
            dimensions: dimension_fields(&fields, &faults, view)?,
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

fn dimension_fields(
    fields: &CardFields,
    faults: &Faults,
    view: &View<'_>,
) -> Result<Vec<DimensionField>, StoreError> {
    let mut shown = Vec::new();
    let kinds = DimensionKind::ALL.into_iter().zip(DIMENSION_FIELDS).zip(fields.dimensions());
    for ((kind, name), chosen) in kinds {
        let choices = dimension_choices(kind, chosen, view)?;
        // A company without any of a kind is not asked for one.
        if choices.len() > 1 {
            let error = faults.of(name).to_owned();
            shown.push(DimensionField { name, label: kind_words(kind), choices, error });
        }
    }
    Ok(shown)
}

fn dimension_choices(
    kind: DimensionKind,
    chosen: &str,
    view: &View<'_>,
) -> Result<Vec<Choice>, StoreError> {
    let listed =
        view.snapshot.list_dimensions(view.company.slot, kind, &Page::first(PAGE_LEN_MAX))?;
    let mut known: Vec<_> = listed
        .rows
        .into_iter()
        .map(|dimension| (dimension.id.0.to_string(), dimension.name))
        .collect();
    known.sort_unstable_by_key(|(_, name)| name.to_lowercase());
    let known = known.iter().map(|(id, name)| (id.as_str(), name.as_str()));
    Ok(choices(std::iter::once(("", "None")).chain(known), chosen))
}

/// The member with an e-mail address, if a card can be theirs or is already; an id that nobody has
/// where there is none, which the reader tells.
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
