//! The reply to an authorization, without the parts that the row of its transaction holds.

use crate::command::effect::RememberedAnswer;
use crate::command::reply::{AuthorizationReply, NetworkReply};
use crate::decision::RuleSet;
use crate::domain::authorization_id::authorization_id_of;
use crate::domain::ids::{Timestamp, TransactionId, TransactionSeq};
use crate::domain::money::{CurrencyCode, Minor};
use crate::domain::network_key::Fingerprint;
use crate::domain::response_code::{ResponseCode, SubReason};
use crate::domain::transaction::TransactionRecord;

/// The data that, together with a transaction's record, give the reply to its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowAnswer {
    /// The identification of the message.
    pub fingerprint: Fingerprint,
    /// Whether another reply under its trace was kept then.
    pub shares_trace: bool,
    /// The rest of the allowance then.
    pub allowance_balance: Minor,
    /// The account's currency.
    pub currency: CurrencyCode,
}

impl RowAnswer {
    /// The part of `answer` to keep beside `record`; none if `answer` does not follow from the
    /// record.
    pub fn of(record: &TransactionRecord, answer: &RememberedAnswer) -> Option<Self> {
        Self::read(answer).filter(|kept| kept.answer(record) == *answer)
    }

    /// The part to keep of a reply that is known to follow from its row; none if it is not an
    /// authorization's.
    pub fn read(answer: &RememberedAnswer) -> Option<Self> {
        let NetworkReply::Authorization(reply) = &answer.reply else { return None };
        Some(Self {
            fingerprint: answer.fingerprint,
            shares_trace: answer.shares_trace,
            allowance_balance: reply.allowance_balance,
            currency: reply.currency,
        })
    }

    /// The end of the reply to a message accepted at this time.
    pub const fn expires_at(&self, authorized_at: Timestamp) -> Timestamp {
        authorized_at.plus(self.fingerprint.window.lifetime())
    }

    /// The original reply. A change to the lifetimes of `DuplicateWindow` changes the end of
    /// replies already kept, so it needs a new version of the row.
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
            shares_trace: self.shares_trace,
            expires_at: self.expires_at(made.authorized_at),
            reply: NetworkReply::Authorization(reply),
        }
    }
}

/// The data of a transaction that the reply to its message shows.
#[derive(Clone, Copy, Debug)]
pub struct AnsweredTransaction {
    /// Its place among all transactions.
    pub seq: TransactionSeq,
    /// Its public id.
    pub id: TransactionId,
    /// The time of acceptance.
    pub authorized_at: Timestamp,
    /// The requested amount, in the account's currency.
    pub requested: Minor,
    /// The approval, or the cause of its absence.
    pub response_code: ResponseCode,
    /// The exact cause.
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
