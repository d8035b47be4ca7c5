//! Instants and days as people read them: by the wall clock of a company.

use cardswitch_engine::domain::business_date::{BusinessDate, Interval};
use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_wire::time::render_time;
use chrono::{DateTime, Datelike, NaiveDateTime, TimeZone};
use chrono_tz::Tz;

use crate::session::Session;

/// An instant as a page shows it, see `parts.html`. Days are written in one way on all pages, and
/// so are instants: by the company's clock, to the minute unless their order matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// The form for programs.
    pub(crate) exact: String,
    /// The form for people.
    pub(crate) words: String,
    /// The form for people to the second, with its clock.
    pub(crate) title: String,
}

/// How a day is written.
const DAY_FORM: &str = "%-d %b %Y";
/// How an instant is written.
const MINUTE_FORM: &str = "%-d %b %Y, %H:%M";
/// How an instant is written where its order among others matters.
const SECOND_FORM: &str = "%-d %b %Y, %H:%M:%S";

fn written(at: Timestamp, zone: Tz, form: &str) -> String {
    let utc = DateTime::from_timestamp_micros(at.0).unwrap_or_default();
    utc.with_timezone(&zone).format(form).to_string()
}

/// An instant by the clock of a zone, such as `4 Mar 2026, 12:00`.
pub(crate) fn moment(at: Timestamp, zone: Tz) -> Moment {
    let title = format!("{} ({})", written(at, zone, SECOND_FORM), zone_words(zone));
    Moment { exact: render_time(at), words: written(at, zone, MINUTE_FORM), title }
}

/// An instant in a list, as short as it is clear at `now`: `Today, 12:00:05`, `4 Mar, 12:00`, or with
/// another year.
pub(crate) fn near_moment(at: Timestamp, now: Timestamp, zone: Tz) -> Moment {
    let form = if written(at, zone, DAY_FORM) == written(now, zone, DAY_FORM) {
        "Today, %H:%M:%S"
    } else if written(at, zone, "%Y") == written(now, zone, "%Y") {
        "%-d %b, %H:%M"
    } else {
        MINUTE_FORM
    };
    Moment { words: written(at, zone, form), ..moment(at, zone) }
}

/// An instant to the second, such as `4 Mar 2026, 12:00:05`.
pub(crate) fn moment_to_second(at: Timestamp, zone: Tz) -> Moment {
    Moment { words: written(at, zone, SECOND_FORM), ..moment(at, zone) }
}

/// An instant by the clock of the company that a visitor acts for, where no other words on the page
/// say whose clock that is, such as `4 Mar 2026, 12:00 PST`.
pub(crate) fn shown_time(at: Timestamp, session: &Session) -> String {
    let zone = zone_of(session);
    format!("{}{}", written(at, zone, MINUTE_FORM), written(at, zone, " %Z"))
}

/// An instant in a list, by the clock of the company that a visitor acts for.
pub(crate) fn shown_moment(at: Timestamp, session: &Session) -> Moment {
    moment(at, zone_of(session))
}

fn zone_of(session: &Session) -> Tz {
    session.current.as_ref().map_or(Tz::UTC, |(company, _)| company.zone)
}

/// The time of day by the clock of a zone, such as `12:00:15`.
pub(crate) fn clock_words(at: Timestamp, zone: Tz) -> String {
    written(at, zone, "%H:%M:%S")
}

/// The name of a zone, such as `America/Los Angeles`.
pub(crate) fn zone_words(zone: Tz) -> String {
    zone.name().replace('_', " ")
}

/// How often a budget starts anew.
pub(crate) const fn every(interval: Interval) -> &'static str {
    match interval {
        Interval::None => "never",
        Interval::Daily => "every day",
        Interval::Weekly => "every week",
        Interval::Monthly => "every month",
        Interval::Quarterly => "every quarter",
        Interval::Yearly => "every year",
    }
}

/// A day, such as `4 Mar 2026`.
pub(crate) fn day_words(day: BusinessDate) -> String {
    day.to_naive().format(DAY_FORM).to_string()
}

/// How a field of type `datetime-local` writes an instant.
const FIELD_FORM: &str = "%Y-%m-%dT%H:%M";

/// An instant as a field of type `datetime-local` shows it, by the clock of a zone.
pub(crate) fn field_time(at: Timestamp, zone: Tz) -> String {
    written(at, zone, FIELD_FORM)
}

/// The instant that such a field names, as `/v1` takes it; of an hour that comes twice the first.
/// None where the text is none, or the clock skips it.
pub(crate) fn parse_field_time(text: &str, zone: Tz) -> Option<String> {
    let local = NaiveDateTime::parse_from_str(text, FIELD_FORM)
        .or_else(|_| NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S"))
        .ok()?;
    let instant = zone.from_local_datetime(&local).earliest()?;
    let is_written = (0..=9_999).contains(&instant.naive_utc().year());
    is_written.then(|| render_time(Timestamp(instant.timestamp_micros())))
}

#[cfg(test)]
mod tests {
    use cardswitch_wire::time::{parse_date, parse_time};

    use super::*;

    #[test]
    fn instants_and_days_are_those_of_the_companys_wall() {
        let shown = moment(parse_time("2026-07-01T06:59:59.5Z").unwrap(), Tz::America__Los_Angeles);
        assert_eq!(shown.words, "30 Jun 2026, 23:59");
        assert_eq!(shown.exact, "2026-07-01T06:59:59.500000Z");
        assert_eq!(shown.title, "30 Jun 2026, 23:59:59 (America/Los Angeles)");
        let exact = moment_to_second(parse_time("2026-07-01T06:59:59.5Z").unwrap(), Tz::UTC);
        assert_eq!(exact.words, "1 Jul 2026, 06:59:59");
        let near = |now| near_moment(parse_time("2026-07-01T06:59:59Z").unwrap(), now, Tz::UTC);
        let rows = [
            ("2026-07-01T23:59:59Z", "Today, 06:59:59"),
            ("2026-07-02T00:00:00Z", "1 Jul, 06:59"),
            ("2027-01-01T00:00:00Z", "1 Jul 2026, 06:59"),
        ];
        for (now, expected) in rows {
            assert_eq!(near(parse_time(now).unwrap()).words, expected);
        }
        assert_eq!(day_words(parse_date("2028-02-29").unwrap()), "29 Feb 2028");
    }

    #[test]
    fn fields_name_instants_of_the_zone() {
        let zone = Tz::America__Los_Angeles;
        let rows = [
            ("2026-07-01T10:30", Some("2026-07-01T17:30:00.000000Z")),
            ("2026-07-01T10:30:15", Some("2026-07-01T17:30:15.000000Z")),
            // Skipped in March, twice in November.
            ("2026-03-08T02:30", None),
            ("2026-11-01T01:30", Some("2026-11-01T08:30:00.000000Z")),
            ("9999-12-31T23:59", None),
            ("2026-07-01", None),
            ("tomorrow", None),
            ("", None),
        ];
        for (text, expected) in rows {
            assert_eq!(parse_field_time(text, zone).as_deref(), expected, "{text}");
        }
        let at = parse_time("2026-07-01T17:30:15Z").unwrap();
        assert_eq!(field_time(at, zone), "2026-07-01T10:30");
    }
}
