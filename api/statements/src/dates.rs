//! The days that a client asks for, and the default of an end that it leaves open.
//! Source: spec "Accounts and statements", rules.
//!
//! Days are those of the company's zone, both ends included.

use cardswitch_engine::domain::business_date::{BusinessDate, Interval};

use cardswitch_edge::error::ApiError;
use cardswitch_wire::fault::Flaw;
use cardswitch_wire::query::Query;

/// How far apart the two ends may be. Units: days.
pub const DAYS_APART_MAX: i32 = 180;

/// The days as asked for; either end may be open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DateRange {
    start: Option<BusinessDate>,
    end: Option<BusinessDate>,
}

/// The days of a statement, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    /// The first.
    pub start: BusinessDate,
    /// The last.
    pub end: BusinessDate,
}

impl DateRange {
    /// Reads `start_date` and `end_date`, which mean `about`.
    pub fn parse(query: &mut Query, about: [&str; 2]) -> Self {
        let [start, end] = about;
        Self { start: query.date("start_date", start), end: query.date("end_date", end) }
    }

    /// The days of a list: open ends stay open, but with a start alone the end is today.
    /// Errors: the start is after the end, or too far before it.
    pub fn of_list(
        self,
        today: BusinessDate,
    ) -> Result<(Option<BusinessDate>, Option<BusinessDate>), ApiError> {
        let Some(start) = self.start else { return Ok((None, self.end)) };
        // CHOICE: a start in days to come is an empty list, not an error: it is not the client who
        // put it before an end. So is the tomorrow of a client who lives further east.
        let end = self.end.unwrap_or(today.max(start));
        check(start, end)?;
        Ok((Some(start), Some(end)))
    }

    /// The days of a statement: up to today, or a start in days to come, from the first of the last day's month.
    /// Errors: the start is after the end, or too far before it.
    pub fn of_statement(self, today: BusinessDate) -> Result<Period, ApiError> {
        let end = self.end.unwrap_or(self.start.map_or(today, |start| start.max(today)));
        let start = self.start.unwrap_or(end.period_start(Interval::Monthly));
        check(start, end)?;
        Ok(Period { start, end })
    }
}

fn check(start: BusinessDate, end: BusinessDate) -> Result<(), ApiError> {
    let flaw = if start > end {
        Flaw::new("after_end_date", "must not be after `end_date`")
    } else if end.0 - start.0 > DAYS_APART_MAX {
        let message = format!("must be at most {DAYS_APART_MAX} days before `end_date`");
        Flaw::new("range_too_long", message)
    } else {
        return Ok(());
    };
    Err(ApiError::invalid_field("start_date", flaw))
}

#[cfg(test)]
mod tests {
    use cardswitch_wire::time::{parse_date, render_date};

    use super::*;

    const TODAY: &str = "2026-03-04";

    fn date(text: &str) -> BusinessDate {
        parse_date(text).unwrap()
    }

    fn range(start: &str, end: &str) -> DateRange {
        DateRange { start: parse_date(start), end: parse_date(end) }
    }

    fn code(error: &ApiError) -> String {
        format!("{error:?}").split('"').nth(1).unwrap_or_default().to_owned()
    }

    #[test]
    fn statement_covers_the_month_up_to_today_unless_it_says_otherwise() {
        let rows = [
            ("", "", Ok(("2026-03-01", "2026-03-04"))),
            ("", "2026-02-28", Ok(("2026-02-01", "2026-02-28"))),
            ("", "2028-02-29", Ok(("2028-02-01", "2028-02-29"))),
            ("2026-02-15", "", Ok(("2026-02-15", "2026-03-04"))),
            ("2026-03-04", "", Ok(("2026-03-04", "2026-03-04"))),
            ("2026-03-04", "2026-03-04", Ok(("2026-03-04", "2026-03-04"))),
            ("2025-12-31", "2026-01-01", Ok(("2025-12-31", "2026-01-01"))),
            // 180 days apart, and one more; once over a leap day.
            ("2026-01-01", "2026-06-30", Ok(("2026-01-01", "2026-06-30"))),
            ("2026-01-01", "2026-07-01", Err("range_too_long")),
            ("2028-01-01", "2028-06-29", Ok(("2028-01-01", "2028-06-29"))),
            ("2028-01-01", "2028-06-30", Err("range_too_long")),
            ("2025-09-04", "", Err("range_too_long")),
            ("2025-09-05", "", Ok(("2025-09-05", "2026-03-04"))),
            ("0001-01-01", "9999-12-31", Err("range_too_long")),
            ("2026-03-05", "2026-03-04", Err("after_end_date")),
            ("2026-03-05", "", Ok(("2026-03-05", "2026-03-05"))),
            ("2026-03-05", "2026-03-06", Ok(("2026-03-05", "2026-03-06"))),
        ];
        for (start, end, expected) in rows {
            let found = range(start, end).of_statement(date(TODAY));
            match (&found, expected) {
                (Ok(period), Ok((start, end))) => {
                    let told = (render_date(period.start), render_date(period.end));
                    assert_eq!(told, (start.to_owned(), end.to_owned()));
                }
                (Err(error), Err(expected)) => assert_eq!(code(error), expected, "{start} {end}"),
                _ => panic!("`{start}` to `{end}` is {found:?}, not {expected:?}"),
            }
        }
    }

    #[test]
    fn list_is_open_where_it_says_nothing() {
        let rows = [
            ("", "", Ok(("", ""))),
            ("", "2020-01-01", Ok(("", "2020-01-01"))),
            ("2026-03-01", "", Ok(("2026-03-01", TODAY))),
            ("2026-03-05", "", Ok(("2026-03-05", "2026-03-05"))),
            ("2026-03-01", "2026-03-02", Ok(("2026-03-01", "2026-03-02"))),
            ("2025-09-04", "", Err("range_too_long")),
            ("2026-03-02", "2026-03-01", Err("after_end_date")),
        ];
        for (start, end, expected) in rows {
            let found = range(start, end).of_list(date(TODAY));
            match (&found, expected) {
                (Ok(found), Ok((start, end))) => {
                    assert_eq!(*found, (parse_date(start), parse_date(end)), "{start} {end}");
                }
                (Err(error), Err(expected)) => assert_eq!(code(error), expected, "{start} {end}"),
                _ => panic!("`{start}` to `{end}` is {found:?}, not {expected:?}"),
            }
        }
    }
}
