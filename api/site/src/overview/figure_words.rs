//! The figures in words: single ones by name, and rows of tables. The page shows them first; the
//! stream replaces them in their places.

use askama::Template;
use cardswitch_engine::domain::business_date::BusinessDate;
use cardswitch_engine::domain::card::CardProfile;
use cardswitch_engine::domain::company::Company;
use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_engine::domain::money::Minor;
use cardswitch_engine::domain::response_code::ResponseCode;
use cardswitch_engine::store::query::TransactionRow;
use cardswitch_wire::amount::write_amount;
use cardswitch_wire::time::render_date;
use serde::Serialize;

use super::figures::{CompanyFigures, DecisionTally};
use super::latency::Latency;
use super::live::SwitchFigures;
use super::recent_decisions::{OutcomeCounts, RecentDecisions, SLICE};
use crate::cards::purchases::Purchase;
use crate::transactions::decision::{AccountFigures, Teller};
use crate::words::{
    clock_words, day_words, grouped, last_four, moment_to_second, money, outcome_words,
};

/// How many reasons of declines are named; the rest is added up.
const CAUSES: usize = 5;

/// The figures that a page shows and a stream renews.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct ShownFigures {
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
    code: String,
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
    authorized: String,
    approved: u64,
    declined: u64,
}

#[derive(Template)]
#[template(path = "overview/minutes.html")]
struct MinuteRows {
    slices: Vec<SliceRow>,
}

struct SliceRow {
    seconds: i64,
    words: String,
    approved: u64,
    declined: u64,
}

#[derive(Template)]
#[template(path = "overview/newest.html")]
struct NewestLines {
    lines: Vec<NewestLine>,
}

struct NewestLine {
    purchase: Purchase,
    /// The card: its id, its name and its last digits.
    card: Option<[String; 3]>,
}

impl ShownFigures {
    /// The figures of a company, taken at an instant.
    /// Errors: a template fails.
    pub(super) fn new(
        figures: &CompanyFigures,
        switch: SwitchFigures,
        (company, now): (&Company, Timestamp),
    ) -> Result<Self, askama::Error> {
        // A visitor who sees the figures of a company also sees those of its account.
        let teller = Teller { company, figures: AccountFigures::Told, now };
        let line = |(row, card): &(TransactionRow, Option<CardProfile>)| NewestLine {
            purchase: Purchase::new(row, &teller),
            card: card.as_ref().map(|card| {
                let description = card.texts.description.clone();
                [card.id.0.to_string(), description, last_four(card.last_four)]
            }),
        };
        let rows = vec![
            ("causes", causes(figures, company).render()?),
            ("days", days(figures, company).render()?),
            ("minutes", minutes(&figures.recent, company).render()?),
            ("newest", NewestLines { lines: figures.newest.iter().map(line).collect() }.render()?),
        ];
        let mut texts = texts(figures, company);
        texts.push(("rate", rate(figures.recent.last)));
        texts.push(("latency", switch.latency.map_or_else(|| "idle".to_owned(), latency_words)));
        texts.extend(switch.cluster.map(|line| ("cluster", line)));
        texts.push(("taken-at", moment_to_second(now, company.zone).words));
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

fn texts(figures: &CompanyFigures, company: &Company) -> Vec<(&'static str, String)> {
    let shown = |amount| money(amount, company.currency);
    let (approved, declined) =
        (figures.approved_on(figures.today), figures.declined_on(figures.today));
    let month = |of: &dyn Fn(BusinessDate) -> DecisionTally| {
        let mut all = DecisionTally::default();
        figures.all_days().for_each(|day| all.add(of(day)));
        all
    };
    let all_approved = month(&|day| figures.approved_on(day));
    let all_declined = month(&|day| figures.declined_on(day));
    let sum = |of: &dyn Fn(&CompanyFigures) -> Minor| shown(of(figures));
    vec![
        ("available", sum(&available)),
        ("held", sum(&|figures| figures.accounts.iter().map(|(_, kept)| kept.held).sum())),
        ("ledger", sum(&|figures| figures.accounts.iter().map(|(_, kept)| kept.ledger).sum())),
        ("approved-today", grouped(approved.count)),
        ("authorized-today", shown(approved.sum)),
        ("declined-today", grouped(declined.count)),
        ("declined-share", share(declined.count, approved.count)),
        ("approved-month", grouped(all_approved.count)),
        ("authorized-month", shown(all_approved.sum)),
        ("declined-month", grouped(all_declined.count)),
    ]
}

fn available(figures: &CompanyFigures) -> Minor {
    let of = figures.accounts.iter();
    of.map(|(account, balances)| balances.available_credit(account.credit_limit)).sum()
}

fn causes(figures: &CompanyFigures, company: &Company) -> Causes {
    let causes = figures.causes();
    let all = total(&causes);
    let cause = |words, code, tally: DecisionTally| Cause {
        words,
        code,
        count: tally.count,
        sum: money(tally.sum, company.currency),
        percent: tally.count.saturating_mul(100).checked_div(all.count).unwrap_or(0),
    };
    let (named, others) = causes.split_at(causes.len().min(CAUSES));
    let named = named
        .iter()
        .map(|(code, tally)| cause(outcome_words(*code), code.number().to_string(), *tally));
    let numbers: Vec<_> = others.iter().map(|(code, _)| code.number().to_string()).collect();
    let others =
        (!others.is_empty()).then(|| cause("Other reasons", numbers.join(", "), total(others)));
    Causes { causes: named.chain(others).collect() }
}

fn total(causes: &[(ResponseCode, DecisionTally)]) -> DecisionTally {
    let mut all = DecisionTally::default();
    causes.iter().for_each(|(_, tally)| all.add(*tally));
    all
}

fn minutes(recent: &RecentDecisions, company: &Company) -> MinuteRows {
    let row = |(number, decided): (&i64, &OutcomeCounts)| {
        let from = Timestamp(number * SLICE);
        SliceRow {
            seconds: from.0.div_euclid(Timestamp::SECOND),
            words: clock_words(from, company.zone),
            approved: decided.approved,
            declined: decided.declined,
        }
    };
    MinuteRows { slices: recent.slices.iter().rev().map(row).collect() }
}

/// Decisions a second, over the last slice.
fn rate(last: OutcomeCounts) -> String {
    let tenths =
        (last.approved + last.declined).saturating_mul(10) * 1_000_000 / SLICE.unsigned_abs();
    match tenths {
        0..100 => format!("{}.{}/s", tenths / 10, tenths % 10),
        _ => format!("{}/s", grouped(tenths / 10)),
    }
}

fn latency_words(Latency { mean_ns, durable_p99_ns }: Latency) -> String {
    format!("{} on average, 99% within {}", ms_words(mean_ns), ms_words(durable_p99_ns))
}

fn ms_words(nanoseconds: u64) -> String {
    let hundredths = nanoseconds / 10_000;
    match hundredths {
        0..1_000 => format!("{}.{:02} ms", hundredths / 100, hundredths % 100),
        _ => format!("{} ms", grouped(hundredths / 100)),
    }
}

fn days(figures: &CompanyFigures, company: &Company) -> DayRows {
    let day = |day: BusinessDate| {
        let approved = figures.approved_on(day);
        let mut plain = String::new();
        write_amount(&mut plain, approved.sum, company.currency);
        DayRow {
            exact: render_date(day),
            words: day_words(day),
            plain,
            authorized: money(approved.sum, company.currency),
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
        let rates =
            [(0, "0.0/s"), (1, "0.0/s"), (149, "9.9/s"), (1_500, "100/s"), (90_000, "6,000/s")];
        for (declined, expected) in rates {
            assert_eq!(rate(OutcomeCounts { approved: 0, declined }), expected);
        }
        let times = [(5_000, "0.00 ms"), (940_000, "0.94 ms"), (12_345_678, "12 ms")];
        for (nanoseconds, expected) in times {
            assert_eq!(ms_words(nanoseconds), expected);
        }
    }
}
