//! The filter of a list of transactions: as typed, as `/v1` takes it, and as the form shows it.
//!
//! Days shown in the company, both ends included; everything else is the filter of `/v1` by the
//! same names.

use cardswitch_engine::domain::business_date::{BusinessDate, start_of_date};
use cardswitch_engine::domain::card::DimensionKind;
use cardswitch_engine::domain::ids::{CardId, MemberId, MemberSlot};
use cardswitch_engine::store::StoreError;
use cardswitch_engine::store::query::{CardFilter, Page};
use cardswitch_v1::routes::transactions::ListTransactionsRequest;
use cardswitch_v1::routes::view::View;
use cardswitch_wire::fields::parse_id;
use cardswitch_wire::reference::DIMENSION_FIELDS;
use cardswitch_wire::time::{parse_date, render_time};
use chrono_tz::Tz;

use crate::choices::{Choice, choices};
use crate::dimension_choices::{DimensionChoice, dimension_choices, meant};
use crate::faults::Faults;
use crate::pager::{ListForm, ORDERS};
use crate::words::{card_name, person};

/// How many cards and members the form offers; further ones are reached from their own pages.
const OFFERED_MAX: usize = 200;

/// The filter with ids in place of names or codes of dimensions; a text that names none stays as it
/// is.
/// Errors: the tables cannot be read.
pub(super) fn with_ids(mut asked: ListForm, view: &View<'_>) -> Result<ListForm, StoreError> {
    for (kind, name) in DimensionKind::ALL.into_iter().zip(DIMENSION_FIELDS) {
        let text = asked.of(name);
        if !text.is_empty()
            && parse_id(text).is_none()
            && let Some(id) = meant(view, kind, text)?
        {
            asked.set(name, id.0.to_string());
        }
    }
    Ok(asked)
}

/// The fields of the form for the whole company, or for the visitor's own transactions alone.
pub(super) fn fields_of_form(own: Option<MemberSlot>) -> Vec<&'static str> {
    let of_company = ["member"].into_iter().chain(DIMENSION_FIELDS).filter(|_| own.is_none());
    ["from", "to", "state", "order", "card"].into_iter().chain(of_company).collect()
}

/// Whether the filter uses a field that the form keeps folded away.
pub(super) fn is_detailed(asked: &ListForm) -> bool {
    ["card", "member"].into_iter().chain(DIMENSION_FIELDS).any(|name| !asked.of(name).is_empty())
}

/// The request to `/v1` that asks for the same, and the page. `fields` are those of the form.
/// Errors: a day that is none, days in the wrong order, a filter that `/v1` refuses.
pub(super) fn request(
    asked: &ListForm,
    zone: Tz,
    fields: &[&str],
) -> Result<(ListTransactionsRequest, Page), Faults> {
    let [first, last] = days(asked)?;
    let day_start = |day: BusinessDate| render_time(start_of_date(zone, day));
    let after = first.map(day_start);
    let before = last.map(|last| day_start(BusinessDate(last.0.saturating_add(1))));
    let days = [("after", after.as_deref()), ("before", before.as_deref())];
    let mut query = asked.query(days.into_iter().filter_map(|(name, text)| Some((name, text?))));
    let request = (ListTransactionsRequest::parse(&mut query), asked.page(&mut query));
    query.finish().map_err(|faults| Faults::of_filters(&faults, fields))?;
    Ok(request)
}

fn days(asked: &ListForm) -> Result<[Option<BusinessDate>; 2], Faults> {
    let mut faults = Faults::default();
    let days = ["from", "to"].map(|name| {
        let text = asked.of(name);
        let day = parse_date(text);
        if day.is_none() && !text.is_empty() {
            faults = std::mem::take(&mut faults).and(name, "Must be a day, yyyy-mm-dd.");
        }
        day
    });
    if let [Some(first), Some(last)] = days
        && first.0 > last.0
    {
        faults = faults.and("from", "Must not be after “To”.");
    }
    if faults.is_empty() { Ok(days) } else { Err(faults) }
}

/// The choices that the form offers.
pub(super) struct FilterChoices {
    pub(super) states: Vec<Choice>,
    pub(super) orders: Vec<Choice>,
    pub(super) cards: Vec<Choice>,
    /// Members; none where only one's own transactions are seen.
    pub(super) members: Vec<Choice>,
    /// Categories, departments, labels and locations.
    pub(super) dimensions: Vec<DimensionChoice>,
}

impl FilterChoices {
    /// The choices for a visitor who sees the whole company.
    /// Errors: the tables cannot be read.
    pub(super) fn of_company(view: &View<'_>, asked: &ListForm) -> Result<Self, StoreError> {
        let (company, page) = (view.company.slot, Page::first(OFFERED_MAX));
        let cards = view.snapshot.list_cards(company, &CardFilter::default(), &page)?;
        let chosen = match parse_id(asked.of("card")) {
            Some(id) => view.find_card(CardId(id))?,
            None => None,
        };
        let cards = cards.rows.into_iter().chain(chosen);
        let cards = cards.map(|card| (card.profile.id.0.to_string(), card_name(&card.profile)));
        let members = view.snapshot.list_members(company, &page, |_| true)?;
        let chosen = match parse_id(asked.of("member")) {
            Some(id) => view.find_member(MemberId(id))?,
            None => None,
        };
        let members = members.rows.into_iter().chain(chosen).map(|member| {
            let name = person(&member.first_name, &member.last_name, &member.email);
            (member.id.0.to_string(), name)
        });
        Ok(Self {
            states: states(asked.of("state")),
            orders: choices(ORDERS, asked.of("order")),
            cards: with_any("All cards", cards.collect(), asked.of("card")),
            members: with_any("Everybody", members.collect(), asked.of("member")),
            dimensions: dimensions(view, asked)?,
        })
    }

    /// The choices for a visitor who sees only their own transactions: the cards they hold.
    /// Errors: the tables cannot be read.
    pub(super) fn of_member(
        view: &View<'_>,
        asked: &ListForm,
        own: MemberSlot,
    ) -> Result<Self, StoreError> {
        let filter = CardFilter { assigned_to: Some(own), ..CardFilter::default() };
        let page = Page::first(OFFERED_MAX);
        let cards = view.snapshot.list_cards(view.company.slot, &filter, &page)?.rows.into_iter();
        let cards = cards.map(|card| (card.profile.id.0.to_string(), card_name(&card.profile)));
        Ok(Self {
            states: states(asked.of("state")),
            orders: choices(ORDERS, asked.of("order")),
            cards: with_any("All cards", cards.collect(), asked.of("card")),
            members: Vec::new(),
            dimensions: Vec::new(),
        })
    }
}

fn states(chosen: &str) -> Vec<Choice> {
    let known = [
        ("", "All statuses"),
        ("pending", "Pending"),
        ("completed", "Completed"),
        ("declined", "Declined"),
        ("canceled", "Canceled"),
    ];
    choices(known, chosen)
}

/// All of them by name, each once, behind the choice of any.
fn with_any(any: &str, mut known: Vec<(String, String)>, chosen: &str) -> Vec<Choice> {
    known.sort_by_cached_key(|(value, label)| (label.to_lowercase(), value.clone()));
    known.dedup();
    let known = known.iter().map(|(value, label)| (value.as_str(), label.as_str()));
    choices(std::iter::once(("", any)).chain(known), chosen)
}

fn dimensions(view: &View<'_>, asked: &ListForm) -> Result<Vec<DimensionChoice>, StoreError> {
    let chosen = DIMENSION_FIELDS.map(|name| asked.of(name).to_owned());
    let mut fields = dimension_choices(view, &DimensionKind::ALL, &chosen)?;
    for field in &mut fields {
        if field.typed.is_none()
            && let Some(blank) = field.options.first_mut()
        {
            "Any".clone_into(&mut blank.label);
        }
    }
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(from: &str, to: &str, card: &str) -> ListForm {
        [("from", from), ("to", to), ("card", card)].into_iter().collect()
    }

    #[test]
    fn days_and_ids_are_read_from_what_was_typed() {
        let id = "01890000-0000-7000-8000-000000000000";
        let rows = [
            (asked("", "", ""), None),
            (asked(" 2026-03-01 ", "2026-03-01", id), None),
            (asked("2026-03-02", "2026-03-01", ""), Some("from")),
            (asked("1 March", "", ""), Some("from")),
            (asked("", "2026-02-30", ""), Some("to")),
            (asked("", "", "\"><script>"), Some("card")),
        ];
        for (asked, fault) in rows {
            let found = request(&asked, Tz::America__Los_Angeles, &fields_of_form(None));
            match fault {
                None => assert!(found.is_ok(), "{asked:?}"),
                Some(name) => assert!(!found.unwrap_err().of(name).is_empty(), "{asked:?}"),
            }
        }
    }

    #[test]
    fn whole_days_are_asked_for_by_the_companys_clock() {
        // Clocks go forward on this day, which has 23 hours.
        let day = asked("2026-03-08", "2026-03-08", "");
        let found = request(&day, Tz::America__Los_Angeles, &fields_of_form(None));
        let shown = format!("{:?}", found.unwrap());
        let midnight = 1_772_956_800_000_000_i64;
        assert!(shown.contains(&format!("after: Some(Timestamp({midnight}))")), "{shown}");
        let next = midnight + 23 * 3_600_000_000;
        assert!(shown.contains(&format!("before: Some(Timestamp({next}))")), "{shown}");
    }

    #[test]
    fn choices_are_by_name_and_each_once() {
        let pair = |value: &str, label: &str| (value.to_owned(), label.to_owned());
        let known = vec![pair("2", "b"), pair("1", "A"), pair("2", "b")];
        let labels: Vec<_> =
            with_any("All", known, "2").into_iter().map(|one| (one.label, one.is_chosen)).collect();
        let expected = [("All", false), ("A", false), ("b", true)];
        assert_eq!(labels, expected.map(|(label, is_chosen)| (label.to_owned(), is_chosen)));
    }
}
