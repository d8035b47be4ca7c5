//! The switch that a scenario is played against, as its steps see it. A running one stands behind `doors`; tests
//! play the same files against others.

use super::file::Terms;
use super::money::Money;
use super::step_request::{StepAnswer, StepRequest};
use crate::FeedError;
use crate::message::Identity;
use crate::portfolio::Card;

/// A switch on a manual clock, with one company. Everything fails as its connection does.
pub trait PlayedSwitch {
    /// The switch's time. Units: microseconds since the Unix epoch.
    /// Errors: a clock that nobody may turn.
    fn clock_us(&mut self) -> Result<i64, FeedError>;

    /// Sets the clock, runs what becomes due, and returns the time.
    /// Errors: a time that the clock has passed.
    fn set_clock(&mut self, at_us: i64) -> Result<i64, FeedError>;

    /// Makes a card with an allowance.
    /// Errors: terms that the switch does not take.
    fn make_card(&mut self, named: (&str, &Terms), now_us: i64) -> Result<Card, FeedError>;

    /// Changes an allowance.
    /// Errors: terms that the switch does not take.
    fn change_allowance(
        &mut self,
        card: &Card,
        terms: &Terms,
        now_us: i64,
    ) -> Result<(), FeedError>;

    /// Suspends a card, or takes that back.
    /// Errors: a change that the switch does not make.
    fn set_card_state(&mut self, card: &Card, state: &str) -> Result<(), FeedError>;

    /// Terminates a card.
    /// Errors: a change that the switch does not make.
    fn terminate_card(&mut self, card: &Card) -> Result<(), FeedError>;

    /// The company's account: its id and its balances.
    /// Errors: there is none.
    fn account(&mut self) -> Result<(String, AccountView), FeedError>;

    /// Moves money from the company's bank to an account, or back where the amount is below zero.
    /// Errors: none of its own; a refusal is an answer.
    fn transfer(
        &mut self,
        account: (&str, Money),
        is_settled: bool,
    ) -> Result<StepAnswer, FeedError>;

    /// Ends a transfer: `settle` or `return`.
    /// Errors: none of its own; a refusal is an answer.
    fn conclude(&mut self, id: &str, how: &str) -> Result<StepAnswer, FeedError>;

    /// Takes a message; none where no answer comes in time.
    /// Errors: none of its own; a refusal is an answer.
    fn ask(&mut self, asked: &StepRequest<'_>) -> Result<Option<StepAnswer>, FeedError>;

    /// The state of a card and its allowance.
    /// Errors: none of its own.
    fn card(&mut self, card: &Card) -> Result<CardView, FeedError>;

    /// The state of the transaction that a message made, if it made one.
    /// Errors: none of its own.
    fn card_transaction(
        &mut self,
        card: &Card,
        identity: Identity,
    ) -> Result<Option<ScenarioTransaction>, FeedError>;

    /// The state of any transaction.
    /// Errors: there is none with this id.
    fn transaction(&mut self, id: &str) -> Result<ScenarioTransaction, FeedError>;
}

/// An account's balances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccountView {
    /// Money in the account.
    pub ledger: Money,
    /// Money that may be spent without credit.
    pub available: Money,
    /// Money that may be spent with the line of credit.
    pub available_credit: Money,
    /// Money on its way in.
    pub pending_credits: Money,
}

/// A card and its allowance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CardView {
    /// The rest of the budget.
    pub balance: Money,
    /// The rest of the day's limit, where there is one.
    pub daily_balance: Option<Money>,
    /// The card's state.
    pub state: String,
}

/// A transaction; the held and the posted amount are known of card transactions alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScenarioTransaction {
    /// Its state.
    pub state: String,
    /// Its amount: purchases are below zero.
    pub amount: Money,
    /// The held amount, from the merchant's side.
    pub held: Option<Money>,
    /// The posted amount, from the merchant's side.
    pub posted: Option<Money>,
}
