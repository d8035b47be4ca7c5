//! The most usual ranges of days for statements, each under the words people know it by.

use cardswitch_engine::domain::business_date::{BusinessDate, Interval};
use cardswitch_statements::DAYS_APART_MAX;
use cardswitch_wire::time::render_date;

use super::months::Month;
use crate::words::day_words;

/// Days of which a statement can be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Range {
    /// Their label.
    pub(super) words: String,
    /// The first and the last day, in words.
    pub(super) days: String,
    /// The query of their addresses.
    pub(super) query: String,
}

impl Range {
    fn new(words: String, (first, last): DaySpan) -> Self {
        let days = format!("{} to {}", day_words(first), day_words(last));
        let query = format!("start_date={}&end_date={}", render_date(first), render_date(last));
        Self { words, days, query }
    }
}

/// The first day and the last one.
type DaySpan = (BusinessDate, BusinessDate);

/// The ranges offered on the page of a month: that month, this one and the one before, the quarter
/// before this one, and the longest round range of days up to today that a statement can have.
/// Ranges that ended before `oldest`, the day the account was made on, are left out, and so are repeats.
pub(super) fn ranges(shown: Month, oldest: BusinessDate, today: BusinessDate) -> Vec<Range> {
    let now = Month::of(today);
    // Both days included.
    let back = BusinessDate(today.0 - DAYS_APART_MAX + 1);
    let offered = [
        month(shown, today),
        month(now, today),
        month(now.before(), today),
        quarter_before(today),
        (format!("The last {DAYS_APART_MAX} days"), (back, today)),
    ];
    let mut known: Vec<DaySpan> = Vec::new();
    let mut ranges = Vec::new();
    for (words, span) in offered {
        let (first, last) = span;
        if first <= today && last >= oldest && !known.contains(&span) {
            known.push(span);
            ranges.push(Range::new(words, span));
        }
    }
    ranges
}

/// A month, of the present one the days that were.
fn month(month: Month, today: BusinessDate) -> (String, DaySpan) {
    let span = (month.first, month.last().min(today));
    let is_over = month.last() < today;
    let words = month.words();
    (if is_over { words } else { format!("{words} (to date)") }, span)
}

/// The quarter before the one that is under way.
fn quarter_before(today: BusinessDate) -> (String, DaySpan) {
    let last = BusinessDate(today.period_start(Interval::Quarterly).0 - 1);
    let first = last.period_start(Interval::Quarterly);
    let [from, to] = [first, last].map(|day| Month::of(day).words());
    let from = from.split(' ').next().unwrap_or_default();
    (format!("{from} to {to}"), (first, last))
}

#[cfg(test)]
mod tests {
    use cardswitch_wire::time::parse_date;

    use super::*;

    fn offered(shown: &str, oldest: &str, today: &str) -> Vec<(String, String)> {
        let day = |text| parse_date(text).unwrap();
        let ranges = ranges(Month::parse(shown).unwrap(), day(oldest), day(today));
        ranges.into_iter().map(|range| (range.words, range.query)).collect()
    }

    fn row(words: &str, first: &str, last: &str) -> (String, String) {
        (words.to_owned(), format!("start_date={first}&end_date={last}"))
    }

    #[test]
    fn the_days_that_people_ask_for_have_words() {
        let expected = [
            row("November 2026 (to date)", "2026-11-01", "2026-11-21"),
            row("October 2026", "2026-10-01", "2026-10-31"),
            row("July to September 2026", "2026-07-01", "2026-09-30"),
            row("The last 180 days", "2026-05-26", "2026-11-21"),
        ];
        assert_eq!(offered("2026-11", "2026-01-01", "2026-11-21"), expected);
        let february = offered("2026-02", "2026-01-01", "2026-11-21");
        assert_eq!(february[0], row("February 2026", "2026-02-01", "2026-02-28"));
        assert_eq!(february[1..], expected);
    }

    #[test]
    fn nothing_is_offered_from_before_the_account_or_after_today() {
        let first_day = offered("2026-03", "2026-03-04", "2026-03-04");
        let expected = [
            row("March 2026 (to date)", "2026-03-01", "2026-03-04"),
            row("The last 180 days", "2025-09-06", "2026-03-04"),
        ];
        assert_eq!(first_day, expected);
        let later = offered("2026-05", "2026-03-04", "2026-03-04");
        assert_eq!(later, expected, "a month to come has no lines");
        let new_year = offered("2026-01", "2025-01-01", "2026-01-01");
        assert_eq!(new_year[1], row("December 2025", "2025-12-01", "2025-12-31"));
        assert_eq!(new_year[2], row("October to December 2025", "2025-10-01", "2025-12-31"));
    }
}
