//! Draws transfers between companies and their banks.

use cardswitch_engine::command::network::{
    ConcludeTransfer, Transfer, TransferConclusion, TransferTiming,
};
use cardswitch_engine::domain::ids::{Timestamp, TransactionSeq};
use cardswitch_engine::domain::money::Minor;
use cardswitch_engine::domain::transaction::{BankAccount, TransferDirection};

use super::Workload;
use crate::model::Model;
use crate::samples::account_id;

impl Workload {
    /// Money from or to the bank; withdrawals are often close to the available balance.
    pub(crate) fn draw_transfer(&mut self, model: &Model) -> Transfer {
        let company = self.rng.below(model.companies.len() as u64 + 1);
        let direction = self.rng.pick(&[TransferDirection::Deposit, TransferDirection::Withdrawal]);
        let available = model
            .companies
            .get(company as usize)
            .map_or(0, |_| model.available(company as usize).clamp(1, 1 << 40));
        let amount = match self.rng.below(10) {
            0 => available + self.rng.between(0, 1),
            1 => -self.rng.between(0, 5),
            2 => Minor::AMOUNT_MAX.0 + 1,
            _ => self.rng.between(1, 50_000),
        };
        let settled = self.rng.chance(30);
        Transfer {
            account: account_id(company),
            direction,
            amount: Minor(amount),
            bank_account: BankAccount {
                description: "Operating account".parse().unwrap(),
                name: "First Bank".parse().unwrap(),
                number: "1234".parse().unwrap(),
            },
            timing: if settled { TransferTiming::AtOnce } else { TransferTiming::InTransit },
        }
    }

    /// A transfer of the last few, or something that is none.
    pub(crate) fn draw_conclusion(&mut self, model: &Model) -> ConcludeTransfer {
        let count = model.transfers.len() as u64;
        let transaction = if count > 0 && self.rng.chance(90) {
            let back = self.rng.below(count.min(6));
            model.transfer_id((count - 1 - back) as usize)
        } else {
            let at = self.rng.below(model.purchases.len().max(1) as u64) as usize;
            model.purchases.get(at).map_or_else(
                || model.ids.transaction_id(Timestamp(self.at), TransactionSeq(1 << 30)),
                |_| model.id_of(at),
            )
        };
        let conclusion = self.rng.pick(&[TransferConclusion::Settle, TransferConclusion::Return]);
        ConcludeTransfer { transaction, conclusion }
    }
}
