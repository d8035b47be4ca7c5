//! Instants to the second, for lists in which their order matters, by the wall clock of a zone.

use cardswitch_engine::domain::ids::Timestamp;
use chrono::DateTime;
use chrono_tz::Tz;

/// Date and time to the second.
pub(super) fn local_time(zone: Tz, at: Timestamp) -> String {
    let utc = DateTime::from_timestamp_micros(at.0).unwrap_or(DateTime::UNIX_EPOCH);
    utc.with_timezone(&zone).format("%Y-%m-%d %H:%M:%S").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::time::parse_time;

    #[test]
    fn times_are_those_of_the_companys_wall() {
        let zone = chrono_tz::America::Los_Angeles;
        let at = parse_time("2026-07-01T06:59:59.999999Z").unwrap();
        assert_eq!(local_time(zone, at), "2026-06-30 23:59:59");
    }
}
