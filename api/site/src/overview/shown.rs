//! The figures in words: single ones by name, and rows of tables. The page shows them first; what
//! follows it replaces them where they stand.

use askama::Template;
use cardswitch_engine::domain::business_date::BusinessDate;
use cardswitch_engine::domain::company::Company;
use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_engine::domain::money::Minor;
use cardswitch_wire::amount::write_amount;
use cardswitch_wire::time::render_date;
use serde::Serialize;

use super::figures::{Figures, Tally};
use crate::cards::purchases::Purchase;
use crate::transactions::decision::{AccountFigures, Teller};
use crate::words::{day_words, grouped, moment, money, outcome_words};

/// What a page shows and a stream renews.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct OverviewFigures {
    /// Single figures by the names they have on the page.
    texts: Vec<(&'static str, String)>,
    /// Rows of tables by the names of their tables.
    rows: Vec<(&'static str, String)>,
}

#[derive(Template)]
#[template(path = "overview/causes.html")]
struct Causes {
    causes: Vec<Cause>,
}

struct Cause {
    words: &'static str,
    code: u16,
    count: u64,
    sum: String,
    percent: u64,
}

#[derive(Template)]
#[template(path = "overview/days.html")]
struct DayRows {
    days: Vec<DayRow>,
}

struct DayRow {
    exact: String,
    words: String,
    plain: String,
    spent: String,
    approved: u64,
    declined: u64,
}

#[derive(Template)]
#[template(path = "overview/newest.html")]
struct Newest {
    purchases: Vec<Purchase>,
}

impl OverviewFigures {
    /// The figures of a company, taken `now`.
    /// Errors: a template fails.
    pub(super) fn new(
        figures: &Figures,
        company: &Company,
        now: Timestamp,
    ) -> Result<Self, askama::Error> {
        // Who sees the figures of a company sees those of its account.
        let teller = Teller { company, figures: AccountFigures::Told };
        let newest = figures.newest.iter().map(|row| Purchase::new(row, &teller));
        let rows = vec![
            ("causes", causes(figures, company).render()?),
            ("days", days(figures, company).render()?),
            ("newest", Newest { purchases: newest.collect() }.render()?),
        ];
        let mut texts = texts(figures, company);
        texts.push(("taken-at", moment(now, company.zone).words));
        Ok(Self { texts, rows })
    }

    /// A single figure; blank where there is none of the name.
    pub(super) fn text(&self, name: &str) -> &str {
        find(&self.texts, name)
    }

    /// The rows of a table, which are markup.
    pub(super) fn rows(&self, name: &str) -> &str {
        find(&self.rows, name)
    }
}

fn find<'a>(named: &'a [(&'static str, String)], name: &str) -> &'a str {
    named.iter().find(|(known, _)| *known == name).map_or("", |(_, text)| text)
}

fn texts(figures: &Figures, company: &Company) -> Vec<(&'static str, String)> {
    let shown = |amount| money(amount, company.currency);
    let (approved, declined) =
        (figures.approved_on(figures.today), figures.declined_on(figures.today));
    let month = |of: &dyn Fn(BusinessDate) -> Tally| {
        figures.all_days().map(of).fold(Tally::default(), |sum, day| Tally {
            count: sum.count + day.count,
            sum: Minor(sum.sum.0.saturating_add(day.sum.0)),
        })
    };
    let all_approved = month(&|day| figures.approved_on(day));
    let all_declined = month(&|day| figures.declined_on(day));
    let sum = |of: &dyn Fn(&Figures) -> Minor| shown(of(figures));
    vec![
        ("available", sum(&available)),
        ("held", sum(&|figures| figures.accounts.iter().map(|(_, kept)| kept.held).sum())),
        ("ledger", sum(&|figures| figures.accounts.iter().map(|(_, kept)| kept.ledger).sum())),
        ("approved-today", grouped(approved.count)),
        ("spent-today", shown(approved.sum)),
        ("declined-today", grouped(declined.count)),
        ("declined-share", share(declined.count, approved.count)),
        ("approved-month", grouped(all_approved.count)),
        ("spent-month", shown(all_approved.sum)),
        ("declined-month", grouped(all_declined.count)),
    ]
}

fn available(figures: &Figures) -> Minor {
    let of = figures.accounts.iter();
    of.map(|(account, balances)| balances.available_credit(account.credit_limit)).sum()
}

fn causes(figures: &Figures, company: &Company) -> Causes {
    let causes = figures.causes();
    let all: u64 = causes.iter().map(|(_, tally)| tally.count).sum();
    let cause = |(code, tally): (_, Tally)| Cause {
        words: outcome_words(code),
        code: code.number(),
        count: tally.count,
        sum: money(tally.sum, company.currency),
        percent: tally.count.saturating_mul(100).checked_div(all).unwrap_or(0),
    };
    Causes { causes: causes.into_iter().map(cause).collect() }
}

fn days(figures: &Figures, company: &Company) -> DayRows {
    let day = |day: BusinessDate| {
        let approved = figures.approved_on(day);
        let mut plain = String::new();
        write_amount(&mut plain, approved.sum, company.currency);
        DayRow {
            exact: render_date(day),
            words: day_words(day),
            plain,
            spent: money(approved.sum, company.currency),
            approved: approved.count,
            declined: figures.declined_on(day).count,
        }
    };
    DayRows { days: figures.all_days().rev().map(day).collect() }
}

/// How much of all that was decided was declined, in words; blank where nothing was decided.
fn share(declined: u64, approved: u64) -> String {
    let all = declined.saturating_add(approved);
    let permille = declined.saturating_mul(1_000).checked_div(all);
    permille.map_or_else(String::new, |permille| {
        format!("{}.{}% of today’s attempts", permille / 10, permille % 10)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_read_easily() {
        assert_eq!(share(0, 0), "");
        assert_eq!(share(1, 2), "33.3% of today’s attempts");
        assert_eq!(share(0, 9), "0.0% of today’s attempts");
    }
}
