//! The tags that people set on a transaction; the tags themselves stand in
//! `domain/transaction_tags.rs`.

use super::change::StateChange;
use super::company::find_company;
use super::dimension::check_dimensions;
use crate::command::audit_line::AuditLine;
use crate::command::effect::Effect;
use crate::command::reply::Rejection;
use crate::command::resource::commands;
use crate::domain::ids::{CompanyId, TransactionId};
use crate::domain::transaction_tags::TagChanges;

commands! {
    /// The commands on the tags of transactions.
    #[derive(Clone, Debug)]
    pub enum TransactionCommand(change) {
        /// Tags a transaction, which the edge has found among the company's: its row is never
        /// deleted and never changes its company.
        Tag(company: CompanyId, id: TransactionId, changes: TagChanges) =>
            AuditLine::of_company(*company, "transaction.updated", id.0).with(changes.names()),
            tag(change, (*company, *id), changes);
    }
}

/// Tags a transaction; absent fields stay.
/// Errors: no such company, transaction or dimension.
fn tag(
    change: &mut StateChange<'_>,
    (company, id): (CompanyId, TransactionId),
    changes: &TagChanges,
) -> Result<(), Rejection> {
    let company = find_company(change.state, company)?;
    let seq = change.moment.ids.open_transaction_id(id);
    let seq = seq.filter(|seq| *seq <= change.state.last_transaction());
    let seq = seq.ok_or(Rejection::TransactionNotFound)?;
    check_dimensions(change.state, company, &changes.dimensions.map(Option::flatten))?;
    if *changes != TagChanges::default() {
        change.push(Effect::TransactionTags(seq, Box::new(changes.clone())));
    }
    Ok(())
}
