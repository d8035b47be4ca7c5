//! A company's account: the money behind its cards.
//!
//! INVARIANT: `available_balance = ledger_balance - held - debits_in_transit`; the ledger balance
//! is the sum of the account's statement lines.

use serde::{Deserialize, Serialize};

use super::ids::{AccountId, AccountSlot, CompanySlot, Timestamp};
use super::money::{CurrencyCode, Minor};
use super::text::LineText;

/// The source of an account's money. Source: spec "Account", funding_source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FundingSource {
    /// The name of the bank account.
    pub name: LineText,
    /// Whether it was verified.
    pub is_verified: bool,
}

impl FundingSource {
    /// The source `known` under a name and a verification, where they are given; a blank name means
    /// none. Another bank account has not been verified by what was said of the one before.
    pub fn changed(
        known: Option<&Self>,
        name: Option<&LineText>,
        is_verified: Option<bool>,
    ) -> Option<Self> {
        let name = name.or(known.map(|known| &known.name))?;
        let is_same = known.is_some_and(|known| known.name == *name);
        let was_verified = is_same && known.is_some_and(|known| known.is_verified);
        let is_verified = is_verified.unwrap_or(was_verified);
        (!name.trim().is_empty()).then(|| Self { name: name.clone(), is_verified })
    }
}

/// An account without its balances.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// The row's slot.
    pub slot: AccountSlot,
    /// Its public id.
    pub id: AccountId,
    /// The company that owns it.
    pub company: CompanySlot,
    /// Its name.
    pub name: String,
    /// Its number, 12 digits.
    pub number: String,
    /// The currency of its money.
    pub currency: CurrencyCode,
    /// Its line of credit; zero for a prefunded account.
    pub credit_limit: Minor,
    /// The source of its money.
    pub funding_source: Option<FundingSource>,
    /// The time of creation.
    pub created_at: Timestamp,
}

/// An account's balances. Units: minor units of its currency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountBalances {
    /// Money residing in the account.
    pub ledger: Minor,
    /// Money held for open authorizations.
    pub held: Minor,
    /// Withdrawals on their way out.
    pub debits_in_transit: Minor,
    /// Deposits on their way in.
    pub credits_in_transit: Minor,
    /// The number of statement lines, which is also the number of the last one.
    pub line_count: u64,
}

impl AccountBalances {
    /// The money that may be spent without credit. Source: spec "Account", available_balance.
    pub fn available_balance(&self) -> Minor {
        self.ledger - self.held - self.debits_in_transit
    }

    /// The money that may be spent with the line of credit. Source: spec "Account",
    /// available_credit.
    pub fn available_credit(&self, credit_limit: Minor) -> Minor {
        self.available_balance() + credit_limit
    }
}
