//! Postings and statement lines: movements of money by double entry, and the account holder's view
//! of them.
//!
//! INVARIANT: a posting takes from one book exactly what it puts into another, so the books of an
//! account always sum to zero; `Funds + Holds + TransitOut` is the ledger balance.

use serde::{Deserialize, Serialize};

use super::business_date::BusinessDate;
use super::enumeration::enumeration;
use super::ids::{
    AccountSlot, CardSlot, LineSeq, MemberSlot, StatementLineId, Timestamp, TransactionSeq,
};
use super::merchant::Merchant;
use super::money::Minor;

enumeration! {
    /// A book of an account in the double-entry ledger.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    pub enum Book {
        /// Money free to spend.
        Funds,
        /// Money held for open authorizations.
        Holds,
        /// Money that went to, or came from, the card network.
        NetworkSettlement,
        /// Money that came from, or went to, the company's bank.
        Bank,
        /// Withdrawals on their way out.
        TransitOut,
        /// Deposits on their way in.
        TransitIn,
    }
}

/// Money that moved from one book of an account to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Posting {
    /// The account of the books.
    pub account: AccountSlot,
    /// The transaction behind it.
    pub transaction: TransactionSeq,
    /// The book it left.
    pub from: Book,
    /// The book it entered.
    pub to: Book,
    /// The amount; above zero.
    pub amount: Minor,
}

/// An immutable record of a posted settlement. Source: spec "Statement line".
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatementLine {
    /// Its place among all lines.
    pub seq: LineSeq,
    /// Its public id.
    pub id: StatementLineId,
    /// The account of the line.
    pub account: AccountSlot,
    /// Its number within the account, without gaps, from 1.
    pub number: u64,
    /// Its contribution to the ledger balance; negative for purchases.
    pub amount: Minor,
    /// The transaction behind it.
    pub transaction: TransactionSeq,
    /// The card behind it.
    pub card: Option<CardSlot>,
    /// The member behind it.
    pub member: Option<MemberSlot>,
    /// A text that names merchant, card and member, or the bank account.
    pub description: String,
    /// The merchant of a presentment that named another one than its authorization.
    pub merchant: Option<Box<Merchant>>,
    /// The posting date in the company's zone.
    pub posted_on: BusinessDate,
    /// The time of posting.
    pub posted_at: Timestamp,
}

impl StatementLine {
    /// The merchant that it shows: its own, else that of its transaction.
    pub fn merchant_or<'a>(&'a self, of_transaction: Option<&'a Merchant>) -> Option<&'a Merchant> {
        self.merchant.as_deref().or(of_transaction)
    }
}
