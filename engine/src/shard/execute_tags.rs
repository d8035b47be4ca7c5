//! What is set by hand on a transaction.

use super::execute::Moment;
use super::execute_admin::find_company;
use super::state::ShardState;
use crate::command::effect::Effect;
use crate::command::reply::Rejection;
use crate::directory::dimension::check_dimensions;
use crate::domain::ids::{CompanyId, TransactionId};
use crate::domain::transaction_tags::TagChanges;

/// Tags a transaction; what the change does not speak of stays.
pub(super) fn tag_transaction(
    state: &ShardState,
    moment: &Moment<'_>,
    (company, id): (CompanyId, TransactionId),
    changes: &TagChanges,
    effects: &mut Vec<Effect>,
) -> Result<(), Rejection> {
    let company = find_company(state, company)?;
    let seq = moment.ids.open_transaction_id(id).filter(|seq| *seq <= state.last_transaction);
    let seq = seq.ok_or(Rejection::TransactionNotFound)?;
    check_dimensions(state, company, &changes.dimensions.map(Option::flatten))?;
    if *changes != TagChanges::default() {
        effects.push(Effect::TransactionTags(seq, Box::new(changes.clone())));
    }
    Ok(())
}
