//! The form of a requisition as typed: shown again as it was, and the body of the API that it
//! means.

use cardswitch_edge::error::ApiError;
use cardswitch_engine::directory::requisition::Requisition;
use cardswitch_engine::domain::business_date::{BusinessDate, date_at, start_of_date};
use cardswitch_engine::domain::card::DimensionKind;
use cardswitch_engine::domain::company::Company;
use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_engine::store::StoreError;
use cardswitch_v1::routes::view::View;
use cardswitch_wire::amount::write_amount;
use cardswitch_wire::fault::{Fault, Flaw};
use cardswitch_wire::reference::DIMENSION_FIELDS;
use cardswitch_wire::time::{parse_date, render_date, render_time};
use chrono_tz::Tz;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::dimension_choices::{DimensionChoice, ids_of, put_dimensions};
use crate::faults::Faults;
use crate::form_snapshot::FormSnapshot;
use crate::forms::TypedFields;
use crate::words::{Moment, day_words, moment, requisition_badge};

/// A form as it was sent: fields with the names of `/v1`; `end_time` is the last day on which it may be bought.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct RequisitionForm {
    #[serde(flatten)]
    pub(super) typed: TypedFields,
}

impl RequisitionForm {
    /// The form of a requisition, with the stored values.
    pub(super) fn of(requisition: &Requisition, company: &Company) -> Self {
        let mut amount = String::new();
        write_amount(&mut amount, requisition.amount, company.currency);
        let typed = [
            ("amount", amount),
            ("description", requisition.description.clone()),
            ("end_time", last_day(requisition.end_time, company.zone)),
            ("note", requisition.note.clone().unwrap_or_default()),
        ];
        Self { typed: typed.into_iter().collect() }
    }

    /// The fields of dimensions with the values sent, else those of the requisition.
    pub(super) fn choices(
        &self,
        view: &View<'_>,
        known: Option<&Requisition>,
    ) -> Result<Vec<DimensionChoice>, StoreError> {
        let known = known.map(|known| &known.dimensions);
        self.typed.dimension_choices(view, &DimensionKind::ALL, known)
    }

    /// The body that the API would take. A day that is the known one is not sent: its end may have
    /// been set to the minute by a program, and may be past while something else is changed.
    pub(super) fn body(&self, zone: Tz, known: Option<&Requisition>) -> Map<String, Value> {
        let mut body = Map::new();
        body.insert("amount".to_owned(), text_or_null(self.typed.of("amount")));
        body.insert("description".to_owned(), text_or_null(self.typed.of("description")));
        body.insert("note".to_owned(), text_or_null(&unix_lines(self.typed.of("note"))));
        let was = known.map(|known| last_day(known.end_time, zone));
        let day = self.typed.of("end_time").trim();
        if was.as_deref() != Some(day) {
            body.insert("end_time".to_owned(), end_of_day(day, zone));
        }
        put_dimensions(&mut body, self.typed.dimensions());
        body
    }
}

fn text_or_null(text: &str) -> Value {
    match text.trim() {
        "" => Value::Null,
        text => json!(text),
    }
}

/// Lines as they are kept; browsers send them as mail has them.
pub(super) fn unix_lines(text: &str) -> String {
    text.replace("\r\n", "\n")
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
            json!(render_time(Timestamp(next.0 - 1)))
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
    let mut faults = error.faults().to_vec();
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
    let typed = RequisitionForm::of(requisition, company).typed;
    let seen = FormSnapshot::default()
        .field("status", requisition_badge(requisition.status).word)
        .field("amount", typed.of("amount"))
        .field("description", typed.of("description"))
        .field("last day", typed.of("end_time"))
        .field("note", typed.of("note"));
    let dimensions = DIMENSION_FIELDS.into_iter().zip(ids_of(&requisition.dimensions));
    dimensions.fold(seen, |seen, (name, id)| seen.field(name, id))
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
            ("amount", " 12.50 "),
            ("description", " Chairs "),
            ("note", "two\r\nof them"),
            ("label", ""),
        ];
        let form = RequisitionForm { typed: typed.into_iter().collect() };
        let expected = json!({
            "amount": "12.50", "description": "Chairs", "note": "two\nof them",
            "end_time": null, "label": null,
        });
        assert_eq!(Value::Object(form.body(ZONE, None)), expected);
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
