//! The answer to an authorization, as far as the row of its transaction does not say it.

use crate::command::effect::RememberedAnswer;
use crate::command::reply::{AuthorizationReply, NetworkReply};
use crate::decision::RuleSet;
use crate::domain::authorization_id::authorization_id_of;
use crate::domain::ids::{Timestamp, TransactionId, TransactionSeq};
use crate::domain::money::{CurrencyCode, Minor};
use crate::domain::network_key::Fingerprint;
use crate::domain::response_code::{ResponseCode, SubReason};
use crate::domain::transaction::TransactionRecord;

/// What, together with a transaction's record, gives the answer its message got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowAnswer {
    /// What identifies the message.
    pub fingerprint: Fingerprint,
    /// What was left of the allowance.
    pub allowance_balance: Minor,
    /// The account's currency.
    pub currency: CurrencyCode,
}

impl RowAnswer {
    /// What is to be kept of `answer` beside `record`; none where the answer is not the one that
    /// follows from it.
    #[must_use]
    pub fn of(record: &TransactionRecord, answer: &RememberedAnswer) -> Option<Self> {
        Self::read(answer).filter(|kept| kept.answer(record) == *answer)
    }

    /// What is to be kept of an answer that is known to follow from its row; none of one that is no
    /// authorization's.
    #[must_use]
    pub fn read(answer: &RememberedAnswer) -> Option<Self> {
        let NetworkReply::Authorization(reply) = &answer.reply else { return None };
        Some(Self {
            fingerprint: answer.fingerprint,
            allowance_balance: reply.allowance_balance,
            currency: reply.currency,
        })
    }

    /// The answer as it was given. A change to the lifetimes of `DuplicateWindow` changes the end
    /// of answers already kept, so it needs a new version of the row.
    #[must_use]
    pub fn answer(&self, made: impl Into<AnsweredTransaction>) -> RememberedAnswer {
        let made = made.into();
        let is_approved = made.response_code.is_approved();
        let reply = AuthorizationReply {
            transaction: Some(made.id),
            response_code: made.response_code,
            sub_reason: made.sub_reason,
            failed_rules: made.failed_rules,
            approved: if is_approved { made.requested } else { Minor::ZERO },
            authorization_id: is_approved.then(|| authorization_id_of(made.seq)),
            allowance_balance: self.allowance_balance,
            currency: self.currency,
        };
        RememberedAnswer {
            fingerprint: self.fingerprint,
            expires_at: made.authorized_at.plus(self.fingerprint.window.lifetime()),
            reply: NetworkReply::Authorization(reply),
        }
    }
}

/// What the answer to a message says of the transaction that it made.
#[derive(Clone, Copy, Debug)]
pub struct AnsweredTransaction {
    /// Its place among all transactions.
    pub seq: TransactionSeq,
    /// Its public id.
    pub id: TransactionId,
    /// When it was accepted.
    pub authorized_at: Timestamp,
    /// What was asked for, in the account's currency.
    pub requested: Minor,
    /// Approved, or why not.
    pub response_code: ResponseCode,
    /// Why exactly.
    pub sub_reason: SubReason,
    /// Every rule that failed.
    pub failed_rules: RuleSet,
}

impl From<&TransactionRecord> for AnsweredTransaction {
    fn from(record: &TransactionRecord) -> Self {
        Self {
            seq: record.seq,
            id: record.id,
            authorized_at: record.authorized_at,
            requested: record.requested,
            response_code: record.response_code,
            sub_reason: record.sub_reason,
            failed_rules: record.failed_rules,
        }
    }
}
