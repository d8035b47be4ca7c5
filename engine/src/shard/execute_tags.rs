//! What is set by hand on a transaction.

use super::execute_admin::find_company;
use crate::command::effect::Effect;
use crate::command::reply::Rejection;
use crate::directory::dimension::check_dimensions;
use crate::domain::ids::{CompanyId, TransactionId};
use crate::domain::transaction_tags::TagChanges;
use crate::shard::AdminChange;

/// Tags a transaction; what the change does not speak of stays.
pub(super) fn tag_transaction(
    change: &mut AdminChange<'_>,
    (company, id): (CompanyId, TransactionId),
    changes: &TagChanges,
) -> Result<(), Rejection> {
    let company = find_company(change.state, company)?;
    let seq = change
        .moment
        .ids
        .open_transaction_id(id)
        .filter(|seq| *seq <= change.state.last_transaction);
    let seq = seq.ok_or(Rejection::TransactionNotFound)?;
    check_dimensions(change.state, company, &changes.dimensions.map(Option::flatten))?;
    if *changes != TagChanges::default() {
        change.effects.push(Effect::TransactionTags(seq, Box::new(changes.clone())));
    }
    Ok(())
}
