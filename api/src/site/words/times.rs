//! Instants and days as people read them: by the wall clock of a company.

use cardswitch_engine::domain::business_date::BusinessDate;
use cardswitch_engine::domain::ids::Timestamp;
use chrono::DateTime;
use chrono_tz::Tz;

use crate::wire::time::render_time;

/// An instant as a page shows it: `<time datetime="{{ exact }}">{{ words }}</time>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::site) struct Moment {
    /// For programs.
    pub(in crate::site) exact: String,
    /// For people.
    pub(in crate::site) words: String,
}

/// An instant by the clock of a zone, such as `4 Mar 2026, 12:00`.
pub(in crate::site) fn moment(at: Timestamp, zone: Tz) -> Moment {
    let utc = DateTime::from_timestamp_micros(at.0).unwrap_or_default();
    let words = utc.with_timezone(&zone).format("%-d %b %Y, %H:%M").to_string();
    Moment { exact: render_time(at), words }
}

/// A day, such as `4 Mar 2026`.
pub(in crate::site) fn day_words(day: BusinessDate) -> String {
    day.to_naive().format("%-d %b %Y").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::time::{parse_date, parse_time};

    #[test]
    fn instants_and_days_are_those_of_the_companys_wall() {
        let shown = moment(parse_time("2026-07-01T06:59:59.5Z").unwrap(), Tz::America__Los_Angeles);
        assert_eq!(shown.words, "30 Jun 2026, 23:59");
        assert_eq!(shown.exact, "2026-07-01T06:59:59.500000Z");
        assert_eq!(day_words(parse_date("2028-02-29").unwrap()), "29 Feb 2028");
    }
}
