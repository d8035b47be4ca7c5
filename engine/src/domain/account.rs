//! A company's account: the money behind its cards.
//!
//! INVARIANT: `available_balance = ledger_balance - held - debits_in_transit`; the ledger balance
//! is the sum of the account's statement lines.

use serde::{Deserialize, Serialize};

use super::ids::{AccountId, AccountSlot, CompanySlot, Timestamp};
use super::money::{CurrencyCode, Minor};
use super::text::LineText;

/// Where an account's money comes from. Source: spec "Account", funding_source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FundingSource {
    /// The name of the bank account.
    pub name: LineText,
    /// Whether it was verified.
    pub is_verified: bool,
}

/// An account without its balances.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Where it stands.
    pub slot: AccountSlot,
    /// Its public id.
    pub id: AccountId,
    /// Whose it is.
    pub company: CompanySlot,
    /// Its name.
    pub name: String,
    /// Its number, 12 digits.
    pub number: String,
    /// The currency of its money.
    pub currency: CurrencyCode,
    /// Its line of credit; zero where it is prefunded.
    pub credit_limit: Minor,
    /// Where its money comes from.
    pub funding_source: Option<FundingSource>,
    /// When it was made.
    pub created_at: Timestamp,
}

/// An account's balances. Units: minor units of its currency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountBalances {
    /// Money residing in the account.
    pub ledger: Minor,
    /// Held for open authorizations.
    pub held: Minor,
    /// Withdrawals on their way out.
    pub debits_in_transit: Minor,
    /// Deposits on their way in.
    pub credits_in_transit: Minor,
    /// How many statement lines there are; the number of the last one.
    pub line_count: u64,
}

impl AccountBalances {
    /// What may be spent without credit. Source: spec "Account", available_balance.
    #[must_use]
    pub fn available_balance(&self) -> Minor {
        self.ledger - self.held - self.debits_in_transit
    }

    /// What may be spent with the line of credit. Source: spec "Account", available_credit.
    #[must_use]
    pub fn available_credit(&self, credit_limit: Minor) -> Minor {
        self.available_balance() + credit_limit
    }
}
