//! The names of transactions and their amounts, in lists and on their pages.

use cardswitch_engine::domain::merchant::Merchant;
use cardswitch_engine::domain::money::CurrencyCode;
use cardswitch_engine::domain::transaction::{
    TransactionFlags, TransactionKind, TransactionRecord, TransactionState,
};
use cardswitch_engine::store::query::TransactionRow;

use super::money::money;

/// The kind that a transaction is shown as: a verification that was presented moved money after all.
pub(crate) const fn shown_kind(row: &TransactionRow) -> TransactionKind {
    match row.record.kind {
        TransactionKind::Verification if row.progress.posted_at.is_some() => {
            TransactionKind::Purchase
        }
        kind => kind,
    }
}

/// The name of a kind of movement.
pub(crate) const fn kind_words(kind: TransactionKind) -> &'static str {
    match kind {
        TransactionKind::Purchase => "Purchase",
        TransactionKind::SingleMessagePurchase => "Purchase (single message)",
        TransactionKind::Verification => "Card verification",
        TransactionKind::Cash => "Cash withdrawal",
        TransactionKind::Refund => "Refund",
        TransactionKind::BankTransfer => "Deposit",
        TransactionKind::BankWithdrawal => "Withdrawal",
    }
}

/// How a canceled transaction ended.
pub(crate) const fn ending_words(row: &TransactionRow) -> &'static str {
    if row.record.kind.transfer_direction().is_some() {
        "returned by the bank"
    } else if row.progress.flags.contains(TransactionFlags::HOLD_EXPIRED) {
        "hold expired"
    } else {
        "fully reversed"
    }
}

/// The name of a transaction: the merchant's or the bank account's, where there is one, else its
/// kind's.
pub(crate) fn title(record: &TransactionRecord) -> String {
    let merchant = record.merchant.as_ref().map(|merchant| merchant.name.trim());
    let bank = record.bank_account.as_ref().map(|bank| bank.name.trim());
    let name = merchant.into_iter().chain(bank).find(|name| !name.is_empty());
    name.unwrap_or_else(|| kind_words(record.kind)).to_owned()
}

/// The place of a merchant: city, state and country.
pub(crate) fn place(merchant: &Merchant) -> String {
    let parts = [merchant.city.trim(), merchant.state.trim(), merchant.country.trim()];
    let named: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    named.join(", ")
}

/// Its amount as the account sees it: purchases below zero. A declined one moved nothing: its amount
/// has no sign, and templates mark it.
/// Source: spec "Transaction", amount.
pub(crate) fn amount_words(row: &TransactionRow, currency: CurrencyCode) -> String {
    let TransactionRow { record, progress, .. } = row;
    match progress.state {
        TransactionState::Declined => money(record.requested, currency),
        _ => money(-progress.amount(record.kind, record.requested), currency),
    }
}
