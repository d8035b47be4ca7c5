//! Local days and resets against the slowest way to find them: looking at every minute, and at every
//! day. Zones are all there are, dates prefer those on which clocks change, years end or leap.

use cardswitch_engine::domain::allowance::CardUsage;
use cardswitch_engine::domain::business_date::{
    BusinessDate, DayWindow, Interval, date_at, start_of_date,
};
use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_engine::domain::money::Minor;
use chrono::{DateTime, Datelike, Days, NaiveDate, NaiveTime, Offset, TimeZone, Weekday};
use chrono_tz::{TZ_VARIANTS, Tz};
use proptest::prelude::*;

const MINUTE: i64 = 60_000_000;

fn day(number: i32) -> NaiveDate {
    BusinessDate(number).to_naive()
}

/// The lead of a zone's clocks over UTC at noon UTC. Units: seconds.
fn lead_at_noon(zone: Tz, date: NaiveDate) -> i32 {
    let wall = date.and_time(NaiveTime::from_hms_opt(12, 0, 0).unwrap());
    zone.from_utc_datetime(&wall).offset().fix().local_minus_utc()
}

/// The dates of a year on which the clocks of a zone change.
fn changes_of(zone: Tz, year: i32) -> Vec<NaiveDate> {
    let first = NaiveDate::from_ymd_opt(year, 1, 1).unwrap();
    let dates = first.iter_days().take(366);
    dates
        .filter(|date| lead_at_noon(zone, *date) != lead_at_noon(zone, *date + Days::new(1)))
        .collect()
}

/// A date in a zone, from 2012 (before, some clocks were turned back across midnight) to 2037
/// (beyond, zones have no changes on record).
fn zoned_date() -> impl Strategy<Value = (Tz, BusinessDate)> {
    let any_zone = (0..TZ_VARIANTS.len()).prop_map(|at| TZ_VARIANTS[at]);
    (any_zone, 2012..2038_i32, any::<prop::sample::Index>(), 0..4_u8).prop_map(
        |(zone, year, which, bias)| {
            let changes = changes_of(zone, year);
            let date = match bias {
                0 | 1 if !changes.is_empty() => {
                    *which.get(&changes) + Days::new(which.index(2) as u64)
                }
                2 => {
                    NaiveDate::from_ymd_opt(year, 12, 31).unwrap()
                        + Days::new(which.index(2) as u64)
                }
                _ => {
                    NaiveDate::from_ymd_opt(year, 1, 1).unwrap()
                        + Days::new(which.index(366) as u64)
                }
            };
            (zone, BusinessDate::from_naive(date))
        },
    )
}

fn local_date(zone: Tz, at: i64) -> NaiveDate {
    DateTime::from_timestamp_micros(at).unwrap().with_timezone(&zone).date_naive()
}

/// The first minute of a date, found by passing every minute before it; a date that the zone skips
/// begins with the one after it.
fn first_minute_of(zone: Tz, date: NaiveDate) -> i64 {
    let midnight = date.and_time(NaiveTime::MIN).and_utc().timestamp_micros();
    let mut at = midnight - 16 * 60 * MINUTE;
    while local_date(zone, at) < date {
        at += MINUTE;
    }
    at
}

fn begins_period(date: NaiveDate, interval: Interval) -> bool {
    match interval {
        Interval::None => false,
        Interval::Daily => true,
        Interval::Weekly => date.weekday() == Weekday::Mon,
        Interval::Monthly => date.day() == 1,
        Interval::Quarterly => date.day() == 1 && [1, 4, 7, 10].contains(&date.month()),
        Interval::Yearly => date.day() == 1 && date.month() == 1,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn a_day_is_the_minutes_that_carry_its_date((zone, date) in zoned_date()) {
        let starts_at = first_minute_of(zone, date.to_naive());
        prop_assert_eq!(start_of_date(zone, date), Timestamp(starts_at));
        let found = date_at(zone, Timestamp(starts_at));
        let next = first_minute_of(zone, found.to_naive() + Days::new(1));
        for at in [starts_at, i64::midpoint(starts_at, next), next - 1] {
            let window = DayWindow::containing(zone, Timestamp(at));
            prop_assert_eq!(window.date, found);
            prop_assert_eq!((window.starts_at.0, window.ends_at.0), (starts_at, next));
            prop_assert!(window.contains(Timestamp(at)));
            for interval in Interval::ALL {
                prop_assert_eq!(window.period_start(interval), found.period_start(interval));
            }
        }
        prop_assert_eq!(date_at(zone, Timestamp(starts_at - 1)), BusinessDate(found.0 - 1));
    }

    #[test]
    fn a_budget_starts_anew_where_a_day_in_between_begins_a_period(
        from in 15_000..40_000_i32,
        passed in prop_oneof![0..40_i32, 0..1_200],
        interval in prop::sample::select(Interval::ALL.to_vec()),
    ) {
        let mut usage = CardUsage { day: BusinessDate(from), ..CardUsage::default() };
        usage.start_period(BusinessDate(from).period_start(interval));
        usage.take(Minor(500));
        let rolled = usage.rolled(interval, BusinessDate(from + passed));

        let begun = (from + 1..=from + passed).rev().find(|date| begins_period(day(*date), interval));
        prop_assert_eq!(rolled.spent, if begun.is_some() { Minor::ZERO } else { Minor(500) });
        prop_assert_eq!(rolled.period, usage.period + u32::from(begun.is_some()));
        let started = begun.map_or(usage.period_started_on, BusinessDate);
        prop_assert_eq!(rolled.period_started_on, started);
        prop_assert_eq!(rolled.day_spent, if passed > 0 { Minor::ZERO } else { Minor(500) });

        let next = BusinessDate(from).next_period_start(interval);
        let slow = (from + 1..from + 400).find(|date| begins_period(day(*date), interval));
        prop_assert_eq!(next, slow.map(BusinessDate));
    }
}
