//! Months of an account, from the one in which it was made to the present one.

use cardswitch_engine::domain::business_date::{BusinessDate, Interval};

use cardswitch_wire::time::{parse_date, render_date};

/// How many months back are offered: ten years.
const MONTHS_MAX: usize = 120;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Month {
    /// Its first day.
    pub(super) first: BusinessDate,
}

impl Month {
    /// The month that has this day.
    pub(super) fn of(day: BusinessDate) -> Self {
        Self { first: day.period_start(Interval::Monthly) }
    }

    /// Parses `yyyy-mm`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        parse_date(&format!("{text}-01")).map(|first| Self { first })
    }

    /// Its text in addresses, `yyyy-mm`.
    pub(super) fn text(self) -> String {
        render_date(self.first).chars().take("yyyy-mm".len()).collect()
    }

    /// Its name, such as `March 2026`.
    pub(super) fn words(self) -> String {
        self.first.to_naive().format("%B %Y").to_string()
    }

    /// Its last day.
    pub(super) fn last(self) -> BusinessDate {
        let next = self.first.next_period_start(Interval::Monthly);
        next.map_or(self.first, |next| BusinessDate(next.0 - 1))
    }

    pub(super) fn before(self) -> Self {
        Self::of(BusinessDate(self.first.0 - 1))
    }

    pub(super) fn after(self) -> Self {
        Self::of(BusinessDate(self.last().0 + 1))
    }

    /// The months from `newest` back to `oldest`, as many as are offered.
    pub(super) fn between(oldest: Self, newest: Self) -> Vec<Self> {
        let back = std::iter::successors(Some(newest), |month| Some(month.before()));
        back.take_while(|month| month.first.0 >= oldest.first.0).take(MONTHS_MAX).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_begin_and_end_as_calendars_say() {
        let rows = [
            ("2026-03", "March 2026", "2026-03-31", "2026-02", "2026-04"),
            ("2028-02", "February 2028", "2028-02-29", "2028-01", "2028-03"),
            ("2026-12", "December 2026", "2026-12-31", "2026-11", "2027-01"),
        ];
        for (text, words, last, before, after) in rows {
            let month = Month::parse(text).unwrap();
            assert_eq!((month.text().as_str(), month.words().as_str()), (text, words));
            assert_eq!(render_date(month.last()), last);
            assert_eq!(
                (month.before().text(), month.after().text()),
                (before.into(), after.into())
            );
        }
        for wrong in ["", "2026", "2026-13", "2026-3", "26-03", "2026-03-01", "\"><b>"] {
            assert_eq!(Month::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn months_are_offered_from_the_newest_back() {
        let month = |text| Month::parse(text).unwrap();
        let offered = Month::between(month("2025-11"), month("2026-02"));
        let texts: Vec<_> = offered.into_iter().map(Month::text).collect();
        assert_eq!(texts, ["2026-02", "2026-01", "2025-12", "2025-11"]);
        assert!(Month::between(month("2026-02"), month("2026-01")).is_empty());
        assert_eq!(Month::between(month("1990-01"), month("2026-01")).len(), MONTHS_MAX);
    }
}
