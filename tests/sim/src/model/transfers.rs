//! The transfers of the model, to and from the company's bank.

use cardswitch_engine::command::network::{
    ConcludeTransfer, Transfer as TransferRequest, TransferConclusion, TransferTiming,
};
use cardswitch_engine::command::reply::{NetworkReply, TransferOutcome, TransferReply};
use cardswitch_engine::domain::money::{CurrencyCode, Minor};
use cardswitch_engine::domain::response_code::ResponseCode;
use cardswitch_engine::domain::transaction::{TransactionState, TransferDirection};

use super::network::AMOUNT_MAX;
use super::{Line, Model, Transfer};

fn refused(outcome: TransferOutcome) -> NetworkReply {
    NetworkReply::Transfer(TransferReply {
        outcome,
        transaction: None,
        response_code: ResponseCode::Declined,
        available_balance: Minor::ZERO,
        currency: CurrencyCode::default(),
    })
}

impl Model {
    pub(crate) fn transfer(&mut self, at: i64, asked: &TransferRequest) -> NetworkReply {
        let is_theirs = |company: &super::Company| company.account_id == asked.account;
        let Some(company) = self.companies.iter().position(is_theirs) else {
            return refused(TransferOutcome::NotFound);
        };
        if asked.amount.0 <= 0 || asked.amount.0 > AMOUNT_MAX {
            return refused(TransferOutcome::OutOfBounds);
        }
        let is_deposit = asked.direction == TransferDirection::Deposit;
        let amount = if is_deposit { asked.amount.0 } else { -asked.amount.0 };
        let is_covered = is_deposit || asked.amount.0 <= self.available(company);
        let (state, outcome) = match (is_covered, asked.timing) {
            (false, _) => (TransactionState::Declined, TransferOutcome::Declined),
            (true, TransferTiming::InTransit) => {
                (TransactionState::Pending, TransferOutcome::InTransit)
            }
            (true, TransferTiming::AtOnce) => {
                (TransactionState::Completed, TransferOutcome::Settled)
            }
        };
        if state == TransactionState::Completed {
            self.companies[company].lines.push(Line { amount, of_card: None });
        }
        self.last_seq += 1;
        self.transfers.push(Transfer { seq: self.last_seq, at, company, amount, state });
        self.said(self.transfers.len() - 1, outcome)
    }

    pub(crate) fn conclude_transfer(&mut self, asked: &ConcludeTransfer) -> NetworkReply {
        let named = (0..self.transfers.len()).find(|at| self.transfer_id(*at) == asked.transaction);
        let Some(named) = named else { return refused(TransferOutcome::NotFound) };
        let Transfer { company, amount, state, .. } = self.transfers[named];
        let (after, line, outcome) = match (state, asked.conclusion) {
            (TransactionState::Pending, TransferConclusion::Settle) => {
                (TransactionState::Completed, Some(amount), TransferOutcome::Settled)
            }
            (TransactionState::Completed, TransferConclusion::Settle) => {
                (state, None, TransferOutcome::Settled)
            }
            (TransactionState::Pending, TransferConclusion::Return) => {
                (TransactionState::Canceled, None, TransferOutcome::Returned)
            }
            (TransactionState::Completed, TransferConclusion::Return) => {
                (TransactionState::Canceled, Some(-amount), TransferOutcome::Returned)
            }
            (TransactionState::Canceled, TransferConclusion::Return) => {
                (state, None, TransferOutcome::Returned)
            }
            _ => (state, None, TransferOutcome::WrongState),
        };
        let line = line.map(|amount| Line { amount, of_card: None });
        self.companies[company].lines.extend(line);
        self.transfers[named].state = after;
        self.said(named, outcome)
    }

    fn said(&self, transfer: usize, outcome: TransferOutcome) -> NetworkReply {
        let Transfer { company, state, .. } = self.transfers[transfer];
        let response_code = if state == TransactionState::Declined {
            ResponseCode::InsufficientFunds
        } else {
            ResponseCode::Approved
        };
        NetworkReply::Transfer(TransferReply {
            outcome,
            transaction: Some(self.transfer_id(transfer)),
            response_code,
            available_balance: Minor(self.available(company)),
            currency: CurrencyCode(self.companies[company].currency),
        })
    }
}
