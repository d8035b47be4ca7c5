//! The answer to an authorization, as far as the row of its transaction does not say it.

use crate::command::effect::RememberedAnswer;
use crate::command::reply::{AuthorizationReply, NetworkReply};
use crate::domain::authorization_id::authorization_id_of;
use crate::domain::money::{CurrencyCode, Minor};
use crate::domain::network_key::Fingerprint;
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
        let NetworkReply::Authorization(reply) = &answer.reply else { return None };
        let kept = Self {
            fingerprint: answer.fingerprint,
            allowance_balance: reply.allowance_balance,
            currency: reply.currency,
        };
        (kept.answer(record) == *answer).then_some(kept)
    }

    /// The answer as it was given. A change to the lifetimes of `DuplicateWindow` changes the end
    /// of answers already kept, so it needs a new version of the row.
    #[must_use]
    pub fn answer(&self, record: &TransactionRecord) -> RememberedAnswer {
        RememberedAnswer {
            fingerprint: self.fingerprint,
            expires_at: record.authorized_at.plus(self.fingerprint.window.lifetime()),
            reply: NetworkReply::Authorization(self.reply(record)),
        }
    }

    fn reply(&self, record: &TransactionRecord) -> AuthorizationReply {
        let is_approved = record.response_code.is_approved();
        AuthorizationReply {
            transaction: Some(record.id),
            response_code: record.response_code,
            sub_reason: record.sub_reason,
            failed_rules: record.failed_rules,
            approved: if is_approved { record.requested } else { Minor::ZERO },
            authorization_id: is_approved.then(|| authorization_id_of(record.seq)),
            allowance_balance: self.allowance_balance,
            currency: self.currency,
        }
    }
}
