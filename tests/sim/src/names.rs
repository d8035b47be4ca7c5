//! The names of transactions after earlier steps were taken out of a program.

use std::collections::{BTreeMap, HashMap};

use cardswitch_engine::command::Command;
use cardswitch_engine::command::network::NetworkCommand;
use cardswitch_engine::domain::authorization_id::authorization_id_of;
use cardswitch_engine::domain::ids::{Timestamp, TransactionId, TransactionSeq};
use cardswitch_engine::domain::network_key::AuthorizationId;
use cardswitch_engine::domain::public_id::IdMint;

use crate::driver::id_mint;

/// The name in a shortened program of each transaction of the whole one.
pub struct Names {
    ids: IdMint,
    transactions: BTreeMap<TransactionSeq, TransactionId>,
    authorizations: HashMap<AuthorizationId, AuthorizationId>,
}

impl Default for Names {
    fn default() -> Self {
        let (transactions, authorizations) = (BTreeMap::new(), HashMap::new());
        Self { ids: id_mint(), transactions, authorizations }
    }
}

impl Names {
    /// Both steps made the same transaction, as their programs count.
    pub fn learn(&mut self, at: Timestamp, before: TransactionSeq, now: TransactionSeq) {
        self.transactions.insert(before, self.ids.transaction_id(at, now));
        self.authorizations.insert(authorization_id_of(before), authorization_id_of(now));
    }

    /// The command with today's names.
    pub fn applied_to(&self, command: &Command) -> Command {
        let mut command = command.clone();
        let Command::Network(request) = &mut command else { return command };
        let original = match &mut request.command {
            NetworkCommand::Increment(increment) => &mut increment.original,
            NetworkCommand::Advise(advise) => &mut advise.original,
            NetworkCommand::Reverse(reverse) => &mut reverse.original,
            NetworkCommand::Present(present) => &mut present.original,
            NetworkCommand::Refund(refund) => &mut refund.original,
            NetworkCommand::ConcludeTransfer(conclude) => {
                conclude.transaction = self.transaction(conclude.transaction);
                return command;
            }
            NetworkCommand::Authorize(_)
            | NetworkCommand::InquireBalance(_)
            | NetworkCommand::Transfer(_) => return command,
        };
        original.transaction = original.transaction.map(|id| self.transaction(id));
        original.authorization_id =
            original.authorization_id.map(|id| *self.authorizations.get(&id).unwrap_or(&id));
        command
    }

    fn transaction(&self, id: TransactionId) -> TransactionId {
        let before = self.ids.open_transaction_id(id);
        before.and_then(|seq| self.transactions.get(&seq)).copied().unwrap_or(id)
    }
}
