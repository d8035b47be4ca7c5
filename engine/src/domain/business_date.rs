//! Local days and the periods built on them, in a company's IANA zone.
//!
//! A day starts at the first instant whose local date it is: midnight of the wall clock, or later
//! where the zone skips midnight. Days have 23, 24 or 25 hours. This module reads no clock.

use chrono::{DateTime, Datelike, Days, NaiveDate, NaiveTime, TimeDelta, TimeZone};
use chrono_tz::Tz;
use serde::{Deserialize, Serialize};

use super::enumeration::enumeration;
use super::ids::Timestamp;

/// A calendar date in some zone. Units: days since 1970-01-01.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[repr(transparent)]
pub struct BusinessDate(pub i32);

impl BusinessDate {
    /// The date as chrono's type; dates beyond chrono's range clamp to its ends.
    pub fn to_naive(self) -> NaiveDate {
        NaiveDate::from_epoch_days(self.0).unwrap_or(if self.0 < 0 {
            NaiveDate::MIN
        } else {
            NaiveDate::MAX
        })
    }

    /// The date of chrono's type.
    pub fn from_naive(date: NaiveDate) -> Self {
        Self(date.to_epoch_days())
    }

    /// The first date of the period of kind `interval` that holds this date.
    #[must_use]
    pub fn period_start(self, interval: Interval) -> Self {
        if let Some(start) = self.plain_period_start(interval) {
            return start;
        }
        let date = self.to_naive();
        let first_of = |month| NaiveDate::from_ymd_opt(date.year(), month, 1).unwrap_or(date);
        let start = match interval {
            Interval::None => return Self(i32::MIN),
            Interval::Daily => date,
            Interval::Weekly => date - Days::new(u64::from(date.weekday().num_days_from_monday())),
            Interval::Monthly => first_of(date.month()),
            Interval::Quarterly => first_of((date.month0() / 3) * 3 + 1),
            Interval::Yearly => first_of(1),
        };
        Self::from_naive(start)
    }

    /// The first date of the period, without a calendar: enough for nearly every purchase.
    fn plain_period_start(self, interval: Interval) -> Option<Self> {
        let days = self.plain_days()?;
        let back = match interval {
            Interval::Daily => 0,
            // 1970 began on a Thursday.
            Interval::Weekly => (days + 3) % 7,
            Interval::Monthly => self.plain()?.day - 1,
            Interval::None | Interval::Quarterly | Interval::Yearly => return None,
        };
        Some(Self(self.0 - back.cast_signed()))
    }

    /// Year, month and day of a date between 1970 and 2399.
    /// Source: Neri and Schneider, "Euclidean affine functions and their application to calendar
    /// algorithms", with years that begin in March.
    pub(super) fn plain(self) -> Option<PlainDate> {
        let quarters = 4 * (self.plain_days()? + DAYS_BEFORE_1970) + 3;
        let (century, quarters) = (quarters / CENTURY_QUARTERS, (quarters % CENTURY_QUARTERS) | 3);
        let (year, day) = (quarters / 1_461, quarters % 1_461 / 4);
        let (month, day) = ((5 * day + 461) / 153, (5 * day + 461) % 153 / 5 + 1);
        let (year, is_next) = (100 * century + year, month > 12);
        Some(PlainDate {
            year: year + u32::from(is_next),
            month: if is_next { month - 12 } else { month },
            day,
        })
    }

    fn plain_days(self) -> Option<u32> {
        u32::try_from(self.0).ok().filter(|days| *days < PLAIN_DAYS_END)
    }

    /// The first date of the period after the one that holds this date; none without an interval.
    pub fn next_period_start(self, interval: Interval) -> Option<Self> {
        let start = self.period_start(interval);
        let days = match interval {
            Interval::None => return None,
            Interval::Daily => 1,
            Interval::Weekly => 7,
            Interval::Monthly => 31,
            Interval::Quarterly => 92,
            Interval::Yearly => 366,
        };
        // Adding the longest such period lands in the next one, whose start is the result.
        Some(Self(start.0 + days).period_start(interval))
    }
}

/// A date as year, month and day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlainDate {
    pub(super) year: u32,
    pub(super) month: u32,
    pub(super) day: u32,
}

/// The end of the dates that are split without a calendar, 1970 to 2399.
const PLAIN_DAYS_END: u32 = 157_054;
/// The days from the first of March of the year 0.
const DAYS_BEFORE_1970: u32 = 719_468;
/// Quarters of a day in a century, on average.
const CENTURY_QUARTERS: u32 = 146_097;

enumeration! {
    /// The length of an allowance's budget period.
    /// Source: spec "Allowance", interval; quarterly and yearly are extensions.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[repr(u8)]
    pub enum Interval {
        /// One period without end.
        #[default]
        None,
        /// Each local day.
        Daily,
        /// Each Monday.
        Weekly,
        /// On the first of each month.
        Monthly,
        /// On the first of January, April, July and October.
        Quarterly,
        /// On the first of January.
        Yearly,
    }
}

/// One local day as a span of instants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DayWindow {
    /// The local date.
    pub date: BusinessDate,
    /// The first instant of the day.
    pub starts_at: Timestamp,
    /// The first instant of the next day.
    pub ends_at: Timestamp,
    /// The first dates of the periods that hold the day, in the order of `Interval`: computed once
    /// for all purchases of the day.
    period_starts: [BusinessDate; Interval::ALL.len()],
}

impl DayWindow {
    /// The local day in `zone` that holds the instant `at`.
    pub fn containing(zone: Tz, at: Timestamp) -> Self {
        let date = date_at(zone, at);
        let ends_at = start_of_date(zone, BusinessDate(date.0 + 1));
        let period_starts = Interval::ALL.map(|interval| date.period_start(interval));
        Self { date, starts_at: start_of_date(zone, date), ends_at, period_starts }
    }

    /// The first date of the period of kind `interval` that holds the day.
    pub const fn period_start(&self, interval: Interval) -> BusinessDate {
        self.period_starts[interval as usize]
    }

    /// Whether the instant falls into this day.
    pub fn contains(&self, at: Timestamp) -> bool {
        self.starts_at <= at && at < self.ends_at
    }
}

/// The local date in `zone` at the instant `at`.
pub fn date_at(zone: Tz, at: Timestamp) -> BusinessDate {
    let utc = DateTime::from_timestamp_micros(at.0).unwrap_or(DateTime::UNIX_EPOCH);
    BusinessDate::from_naive(utc.with_timezone(&zone).date_naive())
}

/// The first instant in `zone` whose local date is `date`.
pub fn start_of_date(zone: Tz, date: BusinessDate) -> Timestamp {
    let mut wall = date.to_naive().and_time(NaiveTime::MIN);
    // A zone that skips midnight (or, once, a whole day) has its first instant at the end of the
    // gap; all gaps are whole quarters of an hour.
    for _ in 0..=96 {
        if let Some(first) = zone.from_local_datetime(&wall).earliest() {
            return Timestamp(first.timestamp_micros());
        }
        wall += TimeDelta::minutes(15);
    }
    Timestamp(wall.and_utc().timestamp_micros())
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono_tz::America::{Los_Angeles, Sao_Paulo};

    fn date(text: &str) -> BusinessDate {
        BusinessDate::from_naive(text.parse().unwrap())
    }

    fn instant(text: &str) -> Timestamp {
        Timestamp(DateTime::parse_from_rfc3339(text).unwrap().timestamp_micros())
    }

    #[test]
    fn days_follow_the_wall_clock_through_daylight_saving() {
        for (day, hours) in [("2026-03-07", 24), ("2026-03-08", 23), ("2026-11-01", 25)] {
            let start = start_of_date(Los_Angeles, date(day));
            let window = DayWindow::containing(Los_Angeles, start);
            assert_eq!(window.date, date(day));
            assert_eq!(window.ends_at.0 - window.starts_at.0, hours * Timestamp::HOUR, "{day}");
            assert!(window.contains(window.starts_at));
            assert!(!window.contains(window.ends_at));
        }
    }

    #[test]
    fn a_day_without_midnight_starts_when_the_gap_ends() {
        // On 2018-11-04 the clocks of São Paulo went from 00:00 to 01:00.
        let start = start_of_date(Sao_Paulo, date("2018-11-04"));
        assert_eq!(start, instant("2018-11-04T01:00:00-02:00"));
        assert_eq!(date_at(Sao_Paulo, start.plus(-1)), date("2018-11-03"));
    }

    #[test]
    fn every_plain_date_is_what_the_calendar_says() {
        for days in -40..PLAIN_DAYS_END.cast_signed() + 40 {
            let (found, calendar) = (BusinessDate(days), BusinessDate(days).to_naive());
            let is_plain = (0..PLAIN_DAYS_END.cast_signed()).contains(&days);
            assert_eq!(found.plain().is_some(), is_plain, "{calendar}");
            if let Some(PlainDate { year, month, day }) = found.plain() {
                let expected = (calendar.year().cast_unsigned(), calendar.month(), calendar.day());
                assert_eq!((year, month, day), expected);
            }
            let (monday, first) = (
                calendar - Days::new(u64::from(calendar.weekday().num_days_from_monday())),
                calendar.with_day(1).unwrap(),
            );
            assert_eq!(found.period_start(Interval::Daily), found);
            assert_eq!(found.period_start(Interval::Weekly).to_naive(), monday);
            assert_eq!(found.period_start(Interval::Monthly).to_naive(), first);
        }
    }

    #[test]
    fn periods_start_where_the_calendar_says() {
        let rows = [
            (Interval::Daily, "2026-02-28", "2026-02-28", "2026-03-01"),
            (Interval::Weekly, "2026-03-01", "2026-02-23", "2026-03-02"),
            (Interval::Weekly, "2026-03-02", "2026-03-02", "2026-03-09"),
            (Interval::Monthly, "2028-02-29", "2028-02-01", "2028-03-01"),
            (Interval::Monthly, "2026-12-31", "2026-12-01", "2027-01-01"),
            (Interval::Quarterly, "2026-05-31", "2026-04-01", "2026-07-01"),
            (Interval::Quarterly, "2026-01-01", "2026-01-01", "2026-04-01"),
            (Interval::Yearly, "2028-12-31", "2028-01-01", "2029-01-01"),
        ];
        for (interval, day, start, next) in rows {
            assert_eq!(date(day).period_start(interval), date(start), "{interval:?} {day}");
            assert_eq!(
                date(day).next_period_start(interval),
                Some(date(next)),
                "{interval:?} {day}"
            );
        }
        assert_eq!(date("2026-01-01").next_period_start(Interval::None), None);
    }
}
