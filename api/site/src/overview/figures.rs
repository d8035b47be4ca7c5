//! The figures of the overview: decisions of today and of the last thirty days, by their day in the
//! company's zone and by their outcome.
//!
//! The tables count by quarter hours of UTC, of which the days of every zone are made. Days that
//! ended a while ago do not change any more, so a reader that follows the figures keeps them.

use std::collections::BTreeMap;

use cardswitch_engine::domain::account::{Account, AccountBalances};
use cardswitch_engine::domain::business_date::{BusinessDate, date_at, start_of_date};
use cardswitch_engine::domain::card::CardProfile;
use cardswitch_engine::domain::company::Company;
use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_engine::domain::money::Minor;
use cardswitch_engine::domain::response_code::ResponseCode;
use cardswitch_engine::store::query::{Page, QuarterFigures, TransactionFilter, TransactionRow};
use cardswitch_engine::store::{Snapshot, StoreError};
use chrono_tz::Tz;

use super::recent_decisions::{RecentDecisions, Slices};

/// How many days are shown, today among them.
pub(super) const DAYS: i32 = 30;
/// How long after its end a day is still read anew: tables may be behind. Units: microseconds.
const OPEN_AFTER_END: i64 = Timestamp::MINUTE;
/// How many transactions are shown.
const NEWEST: usize = 10;

/// How many decisions, and over how much. Units: minor units of the account's currency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DecisionTally {
    pub(super) count: u64,
    /// The sum of the approved amounts; of the requested ones for declines.
    pub(super) sum: Minor,
}

impl DecisionTally {
    /// Adds another.
    pub(super) fn add(&mut self, other: Self) {
        self.count += other.count;
        self.sum = Minor(self.sum.0.saturating_add(other.sum.0));
    }
}

/// The outcomes of the decisions of a day, by response code.
pub(super) type Outcomes = BTreeMap<ResponseCode, DecisionTally>;
/// Days in which anything was decided.
pub(super) type DailyOutcomes = BTreeMap<BusinessDate, Outcomes>;

/// The figures at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CompanyFigures {
    /// The day it is.
    pub(super) today: BusinessDate,
    /// The days, today among them.
    pub(super) days: DailyOutcomes,
    /// The company's accounts with their balances.
    pub(super) accounts: Vec<(Account, AccountBalances)>,
    pub(super) newest: Vec<(TransactionRow, Option<CardProfile>)>,
    /// The last minutes.
    pub(super) recent: RecentDecisions,
}

/// Figures that were read before and do not change any more.
#[derive(Debug, Default)]
pub(super) struct FigureCache {
    /// The days before the first that may still change.
    days: Option<(BusinessDate, DailyOutcomes)>,
    slices: Slices,
}

impl FigureCache {
    /// The days that are shown at `now`, by reading only those that were not kept.
    fn days(
        &mut self,
        zone: Tz,
        now: Timestamp,
        read: impl Fn(Timestamp, Timestamp) -> Result<Vec<QuarterFigures>, StoreError>,
    ) -> Result<DailyOutcomes, StoreError> {
        let today = date_at(zone, now);
        let first = BusinessDate(today.0 - DAYS + 1);
        let open = date_at(zone, now.plus(-OPEN_AFTER_END));
        let read = |from: BusinessDate, to: BusinessDate| {
            let (from, to) = (start_of_date(zone, from), start_of_date(zone, to));
            Ok::<_, StoreError>(by_day(&read(from, to)?, zone))
        };
        let mut days = match self.days.take() {
            Some((kept_before, days)) if kept_before == open => days,
            _ => read(first, open)?,
        };
        days.retain(|day, _| *day >= first);
        self.days = Some((open, days.clone()));
        days.extend(read(open, BusinessDate(today.0 + 1))?);
        Ok(days)
    }
}

impl CompanyFigures {
    /// The figures at `now`. `past` supplies those that were read before, and keeps the new ones.
    pub(super) fn read(
        snapshot: &Snapshot,
        company: &Company,
        now: Timestamp,
        past: &mut FigureCache,
    ) -> Result<Self, StoreError> {
        let read = |from, to| snapshot.day_figures(company.slot, from, to);
        let days = past.days(company.zone, now, read)?;
        let accounts = snapshot.accounts(company.slot)?;
        let newest = snapshot.list_transactions(
            company.slot,
            &TransactionFilter::default(),
            &Page::first(NEWEST),
        )?;
        let with_card = |row: TransactionRow| {
            let card = row.record.card.map(|slot| snapshot.card(slot)).transpose()?.flatten();
            Ok((row, card.map(|card| card.profile)))
        };
        Ok(Self {
            today: date_at(company.zone, now),
            days,
            accounts: accounts.into_iter().map(|row| (row.account, row.balances)).collect(),
            newest: newest.rows.into_iter().map(with_card).collect::<Result<_, StoreError>>()?,
            recent: RecentDecisions::read(snapshot, company.slot, now, &mut past.slices)?,
        })
    }

    pub(super) fn approved_on(&self, day: BusinessDate) -> DecisionTally {
        let approved = self.days.get(&day).and_then(|day| day.get(&ResponseCode::Approved));
        approved.copied().unwrap_or_default()
    }

    pub(super) fn declined_on(&self, day: BusinessDate) -> DecisionTally {
        let mut all = DecisionTally::default();
        for (code, tally) in self.days.get(&day).into_iter().flatten() {
            if !code.is_approved() {
                all.add(*tally);
            }
        }
        all
    }

    /// The days that are shown, the oldest first.
    pub(super) fn all_days(&self) -> impl DoubleEndedIterator<Item = BusinessDate> + use<> {
        let today = self.today.0;
        (today - DAYS + 1..=today).map(BusinessDate)
    }

    /// Declines of all days by their cause, the most frequent first.
    pub(super) fn causes(&self) -> Vec<(ResponseCode, DecisionTally)> {
        let mut causes = Outcomes::new();
        for (code, tally) in self.days.values().flatten().filter(|(code, _)| !code.is_approved()) {
            causes.entry(*code).or_default().add(*tally);
        }
        let mut causes: Vec<_> = causes.into_iter().collect();
        causes.sort_by_key(|(_, tally)| std::cmp::Reverse(tally.count));
        causes
    }
}

fn by_day(quarters: &[QuarterFigures], zone: Tz) -> DailyOutcomes {
    let mut days = DailyOutcomes::new();
    for quarter in quarters {
        let day = days.entry(date_at(zone, quarter.from)).or_default();
        for (code, count, sum) in &quarter.outcomes {
            day.entry(*code).or_default().add(DecisionTally { count: *count, sum: *sum });
        }
    }
    days
}

#[cfg(test)]
mod tests {
    use cardswitch_wire::time::{parse_date, parse_time};

    use super::*;

    /// The days that are shown at `now`, where the tables have quarters with so many approvals.
    fn days_at(
        past: &mut FigureCache,
        now: Timestamp,
        tables: &[(&str, u64)],
    ) -> Vec<(BusinessDate, u64)> {
        let approved = ResponseCode::Approved;
        let read = |from, to| {
            let quarters = tables.iter().map(|(at, count)| {
                let (at, outcome) = (parse_time(at).unwrap(), (approved, *count, Minor(100)));
                let to = at.plus(15 * Timestamp::MINUTE);
                QuarterFigures { from: at, to, outcomes: vec![outcome] }
            });
            Ok(quarters.filter(|quarter| (from..to).contains(&quarter.from)).collect())
        };
        let days = past.days(Tz::UTC, now, read).unwrap();
        days.iter().map(|(day, outcomes)| (*day, outcomes[&approved].count)).collect()
    }

    #[test]
    fn yesterday_is_read_anew_while_tables_may_be_behind() {
        let midnight = parse_time("2026-03-08T00:00:00Z").unwrap();
        let [oldest, second, yesterday] =
            [-30, -29, -1].map(|days| BusinessDate(date_at(Tz::UTC, midnight).0 + days));
        let old = [("2026-02-06T12:00:00Z", 1), ("2026-02-07T12:00:00Z", 2)];
        let late = ("2026-03-07T23:45:00Z", 3);
        let behind = old.as_slice();
        let caught_up = &[old[0], old[1], late][..];
        let mut past = FigureCache::default();
        let mut at = |after: i64, tables| days_at(&mut past, midnight.plus(after), tables);
        assert_eq!(at(-Timestamp::HOUR, behind), [(oldest, 1), (second, 2)]);
        assert_eq!(at(100, behind), [(second, 2)]);
        assert_eq!(at(Timestamp::SECOND, caught_up), [(second, 2), (yesterday, 3)]);
        assert_eq!(at(Timestamp::MINUTE, caught_up), [(second, 2), (yesterday, 3)]);
        // From then on it is kept.
        assert_eq!(at(Timestamp::HOUR, &[]), [(second, 2), (yesterday, 3)]);
    }

    #[test]
    fn quarters_add_up_to_days_of_the_zone() {
        let quarter = |from: &str, code, count| {
            let from = parse_time(from).unwrap();
            let to = from.plus(15 * Timestamp::MINUTE);
            QuarterFigures { from, to, outcomes: vec![(code, count, Minor(100))] }
        };
        let (approved, risk) = (ResponseCode::Approved, ResponseCode::Risk);
        let quarters = [
            quarter("2026-03-08T07:45:00Z", approved, 1),
            quarter("2026-03-08T08:00:00Z", approved, 2),
            quarter("2026-03-08T08:00:00Z", risk, 5),
            // 23 hours later the day ends, since the clock goes forward in it.
            quarter("2026-03-09T06:45:00Z", approved, 4),
            quarter("2026-03-09T07:00:00Z", approved, 8),
        ];
        let days = by_day(&quarters, Tz::America__Los_Angeles);
        let counts: Vec<_> = days.values().map(|day| day[&approved].count).collect();
        assert_eq!(counts, [1, 6, 8]);
        let eighth = parse_date("2026-03-08").unwrap();
        let figures = CompanyFigures {
            today: eighth,
            days,
            accounts: Vec::new(),
            newest: Vec::new(),
            recent: RecentDecisions::default(),
        };
        assert_eq!(figures.approved_on(eighth), DecisionTally { count: 6, sum: Minor(200) });
        assert_eq!(figures.declined_on(eighth).count, 5);
        assert_eq!(figures.causes(), [(risk, DecisionTally { count: 5, sum: Minor(100) })]);
        let all: Vec<_> = figures.all_days().collect();
        assert_eq!((all.len(), all[29]), (30, eighth));
    }
}
