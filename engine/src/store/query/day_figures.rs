//! Figures of the decisions in a stretch of time.

use std::collections::BTreeMap;

use crate::domain::ids::{CompanySlot, Timestamp};
use crate::domain::money::Minor;
use crate::domain::response_code::ResponseCode;
use crate::packed::response_code_of;
use crate::store::error::StoreError;
use crate::store::figures::{QUARTER, figures_of, quarter_of};
use crate::store::query::Snapshot;
use crate::store::tables::COMPANY_ACCOUNTS;

/// The decisions of a quarter of an hour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuarterFigures {
    /// Its first instant.
    pub from: Timestamp,
    /// The first instant after it.
    pub to: Timestamp,
    /// The number of decisions by response code, and the sum of the approved amounts, or of the
    /// requested ones where they were declined.
    pub outcomes: Vec<(ResponseCode, u64, Minor)>,
}

impl Snapshot {
    /// The decisions for a company in the quarter hours, of UTC, that begin at `from` or later and
    /// before `to`; quarter hours without a decision are left out.
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
