//! What was decided in a stretch of time.

use std::collections::BTreeMap;

use crate::domain::ids::{CompanySlot, Timestamp};
use crate::domain::money::Minor;
use crate::domain::response_code::ResponseCode;
use crate::packed::response_code_of;
use crate::store::error::StoreError;
use crate::store::figures::{QUARTER, figures_of, quarter_of};
use crate::store::query::Snapshot;
use crate::store::tables::COMPANY_ACCOUNTS;

/// What was decided in a quarter of an hour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuarterFigures {
    /// Its first instant.
    pub from: Timestamp,
    /// The first instant after it.
    pub to: Timestamp,
    /// By response code: how many decisions, and over how much: what was approved, or what was asked
    /// for where it was declined.
    pub outcomes: Vec<(ResponseCode, u64, Minor)>,
}

impl Snapshot {
    /// What was decided for a company in the quarter hours, of UTC, that begin at `from` or later and
    /// before `to`; those in which nothing was are left out.
    /// Units: minor units of the account's currency. Cost: O(quarter hours with a decision).
    pub fn day_figures(
        &self,
        company: CompanySlot,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<QuarterFigures>, StoreError> {
        let quarters = quarter_of(from.plus(QUARTER - 1))..quarter_of(to.plus(QUARTER - 1));
        let mut sums: BTreeMap<(u32, u16), (u64, i64)> = BTreeMap::new();
        for entry in self.table(COMPANY_ACCOUNTS)?.range((company.0, 0)..=(company.0, u32::MAX))? {
            let account = entry?.0.value().1;
            for (key, figure) in figures_of(self, account, quarters.clone())? {
                let (count, sum) = sums.entry(key).or_default();
                *count += figure.count;
                *sum = sum.saturating_add(figure.sum);
            }
        }
        let mut figures: Vec<QuarterFigures> = Vec::new();
        for ((quarter, code), (count, sum)) in sums {
            let from = Timestamp(i64::from(quarter) * QUARTER);
            let code = response_code_of(code).ok_or_else(|| StoreError::Inconsistent {
                what: format!("decisions are counted under {code}, which is no response code"),
            })?;
            let outcome = (code, count, Minor(sum));
            match figures.last_mut() {
                Some(last) if last.from == from => last.outcomes.push(outcome),
                _ => {
                    let (to, outcomes) = (from.plus(QUARTER), vec![outcome]);
                    figures.push(QuarterFigures { from, to, outcomes });
                }
            }
        }
        Ok(figures)
    }
}
