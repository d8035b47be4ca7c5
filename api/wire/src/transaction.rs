//! Kinds of transactions as text.

use cardswitch_engine::domain::transaction::TransactionKind;

/// The kinds of transactions as text.
pub const TRANSACTION_KINDS: [&str; 5] = [
    render_kind(TransactionKind::Purchase),
    render_kind(TransactionKind::Verification),
    render_kind(TransactionKind::Cash),
    render_kind(TransactionKind::Refund),
    render_kind(TransactionKind::BankTransfer),
];

/// The word for a kind.
pub const fn render_kind(kind: TransactionKind) -> &'static str {
    match kind {
        TransactionKind::Purchase | TransactionKind::SingleMessagePurchase => "purchase",
        TransactionKind::Verification => "verification",
        TransactionKind::Cash => "cash",
        TransactionKind::Refund => "refund",
        TransactionKind::BankTransfer | TransactionKind::BankWithdrawal => "bank_transfer",
    }
}
