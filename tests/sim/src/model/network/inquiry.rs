//! Inquiries in the model: the amount left on a card, where the card may be used.

use cardswitch_engine::command::network::InquireBalance;
use cardswitch_engine::command::reply::{BalanceReply, NetworkReply};
use cardswitch_engine::decision::{Rule, RuleSet};
use cardswitch_engine::domain::money::{CurrencyCode, Minor};
use cardswitch_engine::domain::response_code::{ResponseCode, SubReason};

use super::rules::{Attempt, set_of};
use crate::model::Model;

impl Model {
    pub(crate) fn inquire(&mut self, at: i64, command: &InquireBalance) -> NetworkReply {
        let Some(card) = self.find_card(command.card) else {
            return NetworkReply::Balance(BalanceReply {
                response_code: ResponseCode::Declined,
                sub_reason: SubReason::UnknownCard,
                failed_rules: RuleSet::EMPTY,
                allowance_balance: Minor::ZERO,
                currency: CurrencyCode::default(),
            });
        };
        self.turn_pages(card, at);
        let tried = Attempt {
            added_to: 0,
            mcc: None,
            is_cash: false,
            credentials: &command.credentials,
            is_reversed_before: false,
            over_minute: false,
            over_hour: false,
        };
        let asked = [
            Rule::CardTerminated,
            Rule::CompanyClosed,
            Rule::CardUnactivated,
            Rule::CardSuspended,
            Rule::CardExpired,
            Rule::CredentialsLocked,
            Rule::ExpirationDiffers,
            Rule::PinWrong,
            Rule::CvvWrong,
            Rule::ZipDiffers,
        ];
        let mut failed = self.failed_rules(at, card, 0, &tried);
        failed.retain(|rule| asked.contains(rule));
        self.count_credentials(at, card, &command.credentials, &failed);
        let first = failed.first();
        NetworkReply::Balance(BalanceReply {
            response_code: first.map_or(ResponseCode::Approved, |rule| rule.response_code()),
            sub_reason: first.map_or(SubReason::None, |rule| rule.sub_reason()),
            failed_rules: set_of(&failed),
            allowance_balance: Minor(self.allowance_balance(card)),
            currency: self.currency(card),
        })
    }
}
