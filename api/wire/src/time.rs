//! Instants and dates on the wire.
//!
//! Read: RFC 3339 with an offset. Written: UTC with microseconds and `Z`; dates as `yyyy-mm-dd`.

use cardswitch_engine::domain::business_date::BusinessDate;
use cardswitch_engine::domain::ids::Timestamp;
use chrono::{DateTime, Datelike, SecondsFormat};

use super::fault::Flaw;

/// The earliest place of the time zone in an RFC 3339 text.
const OFFSET_AT_MIN: usize = "2026-01-01T00:00:00".len();
/// The length of a date.
const DATE_BYTES: usize = "2026-01-01".len();

/// Parses an instant. Source: RFC 3339.
pub fn parse_time(text: &str) -> Option<Timestamp> {
    let instant = DateTime::parse_from_rfc3339(text).ok()?.to_utc();
    // RFC 3339 has no text for an instant that the offset moves out of these years.
    (0..=9_999).contains(&instant.year()).then(|| Timestamp(instant.timestamp_micros()))
}

/// Parses an instant from a query, where a `+` that nobody escaped arrives as a space.
pub fn parse_query_time(text: &str) -> Option<Timestamp> {
    match text.rfind(' ') {
        Some(at) if at >= OFFSET_AT_MIN => {
            parse_time(&format!("{}+{}", &text[..at], &text[at + 1..]))
        }
        _ => parse_time(text),
    }
}

/// The flaw of a text that is no instant.
pub fn not_a_time() -> Flaw {
    Flaw::new("not_a_time", "must be an RFC 3339 time with an offset")
}

/// Parses a date. Source: ISO 8601, `yyyy-mm-dd`.
pub fn parse_date(text: &str) -> Option<BusinessDate> {
    // The parser itself would take blanks and signs for digits.
    let is_in_place = |(place, byte): (usize, u8)| match place {
        4 | 7 => byte == b'-',
        _ => byte.is_ascii_digit(),
    };
    if text.len() != DATE_BYTES || !text.bytes().enumerate().all(is_in_place) {
        return None;
    }
    text.parse().ok().map(BusinessDate::from_naive)
}

/// The flaw of a text that is no date.
pub fn not_a_date() -> Flaw {
    Flaw::new("not_a_date", "must be a date, `yyyy-mm-dd`")
}

/// An instant as responses show it.
pub fn render_time(at: Timestamp) -> String {
    let utc = DateTime::from_timestamp_micros(at.0).unwrap_or(DateTime::UNIX_EPOCH);
    utc.to_rfc3339_opts(SecondsFormat::Micros, true)
}

/// A date as responses show it.
pub fn render_date(date: BusinessDate) -> String {
    date.to_naive().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_need_an_offset_and_print_in_utc() {
        let rows = [
            ("2026-03-01T10:20:30Z", Some("2026-03-01T10:20:30.000000Z")),
            ("2026-03-01T10:20:30.1234567Z", Some("2026-03-01T10:20:30.123456Z")),
            ("2026-03-01T10:20:30+02:00", Some("2026-03-01T08:20:30.000000Z")),
            ("2026-03-01T00:00:00-08:00", Some("2026-03-01T08:00:00.000000Z")),
            ("1969-12-31T23:59:59.5Z", Some("1969-12-31T23:59:59.500000Z")),
            ("9999-12-31T23:59:59Z", Some("9999-12-31T23:59:59.000000Z")),
            ("9999-12-31T23:59:59-01:00", None),
            ("0000-01-01T00:00:00+01:00", None),
            ("2026-03-01T10:20:30", None),
            ("2026-03-01", None),
            ("2026-02-30T00:00:00Z", None),
            ("2026-03-01T25:00:00Z", None),
            ("1772360430", None),
            ("now", None),
            ("", None),
        ];
        for (text, expected) in rows {
            assert_eq!(parse_time(text).map(render_time).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_plus_that_became_a_space_is_read_as_a_plus() {
        let plus = parse_time("2026-03-01T10:20:30+02:00");
        assert!(plus.is_some());
        assert_eq!(parse_query_time("2026-03-01T10:20:30 02:00"), plus);
        assert_eq!(parse_query_time("2026-03-01T10:20:30+02:00"), plus);
        assert_eq!(parse_query_time("2026-03-01T10:20:30.000 02:00"), plus);
        assert_eq!(parse_query_time("2026-03-01T10:20:30 "), None);
        assert_eq!(parse_query_time(" "), None);
    }

    #[test]
    fn dates_are_four_two_two() {
        assert_eq!(parse_date("2028-02-29").map(render_date).as_deref(), Some("2028-02-29"));
        for text in [
            "2026-02-29",
            "2026-2-1",
            "26-02-01",
            "2026-02-01T",
            "",
            "2026- 1- 1",
            " 026-01-01",
            "+999-01-01",
        ] {
            assert_eq!(parse_date(text), None, "{text}");
        }
    }
}
