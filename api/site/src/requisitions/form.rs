//! The form of a requisition as typed: shown again as it was, and the body of the API that it
//! means. Fields have the names of `/v1`; `end_time` is the last day on which it may be bought.

use cardswitch_edge::error::ApiError;
use cardswitch_engine::directory::requisition::Requisition;
use cardswitch_engine::domain::business_date::{BusinessDate, date_at, start_of_date};
use cardswitch_engine::domain::company::Company;
use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_engine::domain::money::CurrencyCode;
use cardswitch_wire::fault::{Fault, Flaw};
use cardswitch_wire::reference::DIMENSION_FIELDS;
use cardswitch_wire::time::{parse_date, render_date, render_time};
use chrono_tz::Tz;
use serde_json::{Map, Value, json};

use crate::dimension_choices::{ids_of, put_dimensions};
use crate::faults::Faults;
use crate::form_snapshot::FormSnapshot;
use crate::forms::{TypedFields, unix_lines};
use crate::words::{Moment, day_words, field_amount, moment, requisition_badge, typed_amount};

/// The fields of a requisition's form, as the requisition is.
pub(super) fn shown_of(
    requisition: &Requisition,
    (zone, currency): (Tz, CurrencyCode),
) -> TypedFields {
    let shown = [
        ("amount", field_amount(requisition.amount, currency)),
        ("description", requisition.description.clone()),
        ("end_time", last_day(requisition.end_time, zone)),
        ("note", requisition.note.clone().unwrap_or_default()),
    ];
    shown.into_iter().collect()
}

/// The body that the API would take; of a known requisition, with what differs from it. A known day
/// is not sent: its end may have been set to the minute by a program, and may be past.
pub(super) fn body_of(
    typed: &TypedFields,
    (zone, currency): (Tz, CurrencyCode),
    known: Option<&Requisition>,
) -> Map<String, Value> {
    let mut body = Map::new();
    let shown = known.map(|known| shown_of(known, (zone, currency)));
    let is_new = |name, value: &str| {
        shown.as_ref().is_none_or(|shown| shown.of(name).trim() != value.trim())
    };
    let amount = typed_amount(typed.of("amount"), currency);
    let note = unix_lines(typed.of("note"));
    for (name, text) in
        [("amount", &*amount), ("description", typed.of("description")), ("note", &*note)]
    {
        if is_new(name, text) {
            body.insert(name.to_owned(), text_or_null(text));
        }
    }
    let day = typed.of("end_time").trim();
    if is_new("end_time", day) {
        body.insert("end_time".to_owned(), end_of_day(day, zone));
    }
    let mut dimensions = typed.dimensions();
    let ids = known.map(|known| ids_of(&known.dimensions)).unwrap_or_default();
    for (value, shown) in dimensions.iter_mut().zip(&ids) {
        *value = value.filter(|value| known.is_none() || value.trim() != shown);
    }
    put_dimensions(&mut body, dimensions);
    body
}

/// A text without blanks around it; null where nothing is left.
fn text_or_null(text: &str) -> Value {
    match text.trim() {
        "" => Value::Null,
        text => json!(text),
    }
}

/// The last instant of a day, as the API takes it; a text that is no day stays as it is, and is
/// refused.
fn end_of_day(day: &str, zone: Tz) -> Value {
    if day.is_empty() {
        return Value::Null;
    }
    match parse_date(day) {
        Some(date) => {
            let next = start_of_date(zone, BusinessDate(date.0.saturating_add(1)));
            json!(render_time(Timestamp(next.0 - 1).min(Timestamp::CALENDAR_MAX)))
        }
        None => json!(day),
    }
}

/// The day that an instant belongs to, as a field for dates has it.
fn last_day(at: Option<Timestamp>, zone: Tz) -> String {
    at.map_or_else(String::new, |at| render_date(date_at(zone, at)))
}

/// The end of the time to buy: as a day where it is the end of one.
pub(super) fn deadline(at: Timestamp, zone: Tz) -> Moment {
    let day = date_at(zone, at);
    let words = moment(at, zone);
    let is_last = start_of_date(zone, BusinessDate(day.0.saturating_add(1))).0 - 1 == at.0;
    if is_last { Moment { words: day_words(day), ..words } } else { words }
}

/// The faults of the form, of those that the reader found. Errors: failures with pages of their
/// own.
pub(super) fn faults_of(error: ApiError) -> Result<Faults, ApiError> {
    let mut faults = error.faults.to_vec();
    for Fault { flaw, .. } in &mut faults {
        // The form has days where the API has instants.
        *flaw = match flaw.code {
            "past" => Flaw::new("past_day", "must be today or later"),
            "not_a_time" => Flaw::new("not_a_day", "must be a date, such as 2030-03-31"),
            _ => continue,
        };
    }
    if faults.is_empty() { Faults::of_refusal(error) } else { Ok(Faults::new(&faults)) }
}

/// The values that a requisition's form shows, compared where two people edit it at once.
pub(super) fn seen(requisition: &Requisition, company: &Company) -> FormSnapshot {
    let shown = shown_of(requisition, (company.zone, company.currency));
    FormSnapshot::default()
        .field("status", requisition_badge(requisition.status).word)
        .field("amount", shown.of("amount"))
        .field("description", shown.of("description"))
        .field("last day", shown.of("end_time"))
        .field("note", shown.of("note"))
        .fields(DIMENSION_FIELDS.into_iter().zip(ids_of(&requisition.dimensions)))
}

#[cfg(test)]
mod tests {
    use cardswitch_wire::time::parse_time;

    use super::*;

    const ZONE: Tz = Tz::America__Los_Angeles;

    #[test]
    fn a_day_ends_with_its_last_instant_by_the_companys_clock() {
        let rows = [
            ("2026-03-04", json!("2026-03-05T07:59:59.999999Z")),
            // The day on which clocks go forward.
            ("2026-03-08", json!("2026-03-09T06:59:59.999999Z")),
            // Days end later than years in the west; no time is told that has five digits of a year.
            ("9999-12-31", json!("9999-12-31T23:59:59.999999Z")),
            ("", Value::Null),
            ("tomorrow", json!("tomorrow")),
            ("2026-02-30", json!("2026-02-30")),
        ];
        for (day, expected) in rows {
            assert_eq!(end_of_day(day, ZONE), expected, "{day}");
        }
        let at = parse_time("2026-03-09T06:59:59.999999Z").unwrap();
        assert_eq!(last_day(Some(at), ZONE), "2026-03-08");
        assert_eq!(deadline(at, ZONE).words, "8 Mar 2026");
        assert_eq!(deadline(Timestamp(at.0 - 1), ZONE).words, "8 Mar 2026, 23:59");
    }

    #[test]
    fn what_is_typed_becomes_the_body_of_the_api() {
        let typed = [
            ("amount", " 1,012.50 "),
            ("description", " Chairs "),
            ("note", "two\r\nof them"),
            ("label", ""),
        ];
        let typed = typed.into_iter().collect();
        let expected = json!({
            "amount": "1012.50", "description": "Chairs", "note": "two\nof them",
            "end_time": null, "label": null,
        });
        assert_eq!(Value::Object(body_of(&typed, (ZONE, CurrencyCode(840)), None)), expected);
    }

    #[test]
    fn faults_of_days_are_told_in_words_of_days() {
        let fault = |code| Fault::new("end_time", Flaw::new(code, "must be an RFC 3339 time"));
        let shown = |code| faults_of(ApiError::invalid(vec![fault(code)])).unwrap();
        assert_eq!(shown("past").of("end_time"), "Must be today or later.");
        assert_eq!(shown("not_a_time").of("end_time"), "Must be a date, such as 2030-03-31.");
        assert_eq!(shown("not_text").of("end_time"), "Must be an RFC 3339 time.");
    }
}
