//! Instants as pages show them: by the clock of the company that the visitor acts for.

use cardswitch_engine::domain::ids::Timestamp;
use chrono::DateTime;
use chrono_tz::Tz;

use super::session::Session;
use super::words::{Moment, moment};

/// An instant in words, such as `4 March 2026, 12:00 PST`.
#[must_use]
pub fn shown_time(at: Timestamp, session: &Session) -> String {
    in_zone(at, zone_of(session))
}

/// An instant as lists show it, such as `4 Mar 2026, 12:00`.
pub(super) fn shown_moment(at: Timestamp, session: &Session) -> Moment {
    moment(at, zone_of(session))
}

fn zone_of(session: &Session) -> Tz {
    session.current.as_ref().map_or(Tz::UTC, |(company, _)| company.zone)
}

fn in_zone(at: Timestamp, zone: Tz) -> String {
    let instant = DateTime::from_timestamp_micros(at.0).unwrap_or_default();
    instant.with_timezone(&zone).format("%-d %B %Y, %H:%M %Z").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::time::parse_time;

    #[test]
    fn instants_are_shown_by_the_companys_clock() {
        let at = parse_time("2026-03-04T20:00:00Z").unwrap();
        assert_eq!(in_zone(at, Tz::UTC), "4 March 2026, 20:00 UTC");
        assert_eq!(in_zone(at, Tz::America__Los_Angeles), "4 March 2026, 12:00 PST");
    }
}
