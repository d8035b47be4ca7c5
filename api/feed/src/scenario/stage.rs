//! A scenario as it is carried out: its own cards, its own stretch of time, and how the account
//! stood before.
//!
//! A scenario that ends early, too, gives back the money that it took out of the account or put
//! into it. Where it cannot, it tells the transfer that does.
//!
//! Every run starts more than a month after the time it finds, so that no hold of an earlier one
//! expires in it, and no message of it is a repeat of an earlier one's.

use std::collections::BTreeMap;

use super::StepReport;
use super::act::Act;
use super::file::{AccountSetup, ExpectedAnswer, StepFile};
use super::judge::Judge;
use super::money::Money;
use super::script::{Script, Step};
use super::step_request::{Original, StepAnswer, StepRequest, TransactionIds};
use super::switch::{AccountView, CardView, PlayedSwitch, ScenarioTransaction};
use super::switch_api::transfer_body;
use crate::FeedError;
use crate::message::Identity;
use crate::portfolio::Card;

/// Longer than any hold lasts. Units: microseconds.
const APART_US: i64 = 31 * DAY_US;
const DAY_US: i64 = 24 * 60 * 60 * 1_000_000;

/// The time that the clock is turned beyond the told one. While a manual clock stands, commands
/// follow one another by microseconds: without this, a transaction 7 days old by the file is a few
/// short of it.
/// Units: microseconds.
const BEYOND_US: i64 = 1_000;

/// Reference numbers that one run may use. Source: ISO DE37, twelve digits.
const RRNS_A_RUN: u64 = 10_000;
const RUNS: u64 = 100_000_000;

/// The state of a card that may be used.
const ACTIVE: &str = "active";

/// The state of a scenario that is carried out.
pub(super) struct Stage<'a> {
    script: &'a Script,
    switch: &'a mut dyn PlayedSwitch,
    cards: BTreeMap<String, Card>,
    account_id: String,
    /// The zero of the account's balances: its balances before the first step, or zero where the
    /// scenario set them up.
    first: AccountView,
    /// The transfer that takes that back: above zero where money was taken out for it.
    owed: Option<Money>,
    /// The transactions opened so far, by name.
    opened: BTreeMap<String, StepTransaction>,
    /// The messages sent so far, by the place of their step.
    sent: BTreeMap<usize, PastMessage>,
    first_rrn: u64,
    /// Units: microseconds since the Unix epoch.
    now_us: i64,
}

/// Brings the account to where the scenario wants it. Returns its id, the zero of its balances, and
/// the transfer that takes that back.
/// Errors: a company with another line of credit, a transfer that is not made.
fn set_up_account(
    switch: &mut dyn PlayedSwitch,
    wanted: Option<AccountSetup>,
) -> Result<(String, AccountView, Option<Money>), FeedError> {
    let (id, found) = switch.account()?;
    let Some(AccountSetup { available, credit_limit }) = wanted else {
        return Ok((id, found, None));
    };
    let limit = Money::of_account(found.available_credit.minor - found.available.minor);
    if limit != credit_limit {
        let message = format!(
            "the scenario is for a line of credit of {credit_limit}, and the company's is {limit}: \
             see `init --credit-limit` and `company set --credit-limit`"
        );
        return Err(FeedError::Refused(message));
    }
    let missing = Money::of_account(available.minor - found.available.minor);
    let owed = Money::of_account(-missing.minor);
    if missing.minor != 0 {
        demand_transfer(switch, &id, missing)
            .map_err(|error| with_way_back(error, (&id, owed), "if that one was made"))?;
    }
    let zero = Money::of_account(0);
    let first = AccountView {
        ledger: Money::of_account(found.ledger.minor - found.available.minor),
        available: zero,
        available_credit: zero,
        ..found
    };
    Ok((id, first, Some(owed).filter(|owed| owed.minor != 0)))
}

/// Moves money by a transfer that has to be posted.
/// Errors: it is not.
fn demand_transfer(
    switch: &mut dyn PlayedSwitch,
    account_id: &str,
    amount: Money,
) -> Result<(), FeedError> {
    match switch.transfer((account_id, amount), true)? {
        StepAnswer { code: 0, .. } => Ok(()),
        other => Err(FeedError::Http(format!("a transfer of {amount}: {other}"))),
    }
}

/// An error after which the account is not as it was, with the transfer that makes it so again.
fn with_way_back(error: FeedError, transfer: (&str, Money), when: &str) -> FeedError {
    let (body, amount) = (transfer_body(transfer, true), transfer.1);
    let needed = format!("the account needs a transfer of {amount} {when}");
    FeedError::Refused(format!("{error}; {needed}: POST {body} to /network/v1/transfers"))
}

/// A message as it was sent, for the step that sends it again.
struct PastMessage {
    identity: Identity,
    original: Option<Original>,
    /// The first answer to it.
    answered: Option<StepAnswer>,
}

/// A transaction that a step has opened.
struct StepTransaction {
    sent_us: u64,
    known: TransactionIds,
}

impl<'a> Stage<'a> {
    /// Sets the clock, makes the cards, looks at the account.
    /// Errors: a switch on the system's clock, terms that it refuses.
    pub(super) fn set_up(
        script: &'a Script,
        switch: &'a mut dyn PlayedSwitch,
    ) -> Result<Self, FeedError> {
        let earliest_us = switch.clock_us()? + APART_US;
        // An account that is not for scenarios is refused before anything is made.
        switch.account()?;
        let midnight_us = earliest_us + DAY_US - earliest_us.rem_euclid(DAY_US);
        let now_us = switch.set_clock(midnight_us + i64::from(script.start.0) * 1_000_000)?;
        let mut cards = BTreeMap::new();
        for (name, terms) in &script.cards {
            let card = switch.make_card((name, terms), now_us).map_err(|error| {
                FeedError::Refused(format!("the card `{name}` cannot be made: {error}"))
            })?;
            cards.insert(name.clone(), card);
        }
        let (account_id, first, owed) = set_up_account(switch, script.account)?;
        // Runs are a month apart, so the second alone tells them apart.
        let run = u64::try_from(now_us / 1_000_000).unwrap_or(0) % RUNS;
        Ok(Self {
            script,
            switch,
            cards,
            account_id,
            first,
            owed,
            opened: BTreeMap::new(),
            sent: BTreeMap::new(),
            first_rrn: run * RRNS_A_RUN,
            now_us,
        })
    }

    /// Puts back what was taken out of the account, or takes out what was put in, so that the next
    /// scenario finds the account as this one did.
    /// Errors: a broken connection, told with the transfer that is still to be made.
    pub(super) fn clear_away(&mut self) -> Result<(), FeedError> {
        let Some(owed) = self.owed.take() else { return Ok(()) };
        self.pay(owed)
            .map_err(|error| with_way_back(error, (&self.account_id, owed), "unless it was made"))
    }

    /// Moves what is owed; of money that was put in, what the steps have left.
    fn pay(&mut self, owed: Money) -> Result<(), FeedError> {
        let mut minor = owed.minor;
        if minor < 0 {
            let (_, now) = self.switch.account()?;
            minor = minor.max(-now.available.minor.max(0));
        }
        match minor {
            0 => Ok(()),
            _ => demand_transfer(self.switch, &self.account_id, Money::of_account(minor)),
        }
    }

    /// Carries out the step in this place and compares what it expects.
    /// Errors: a broken connection, a change that the switch does not make.
    pub(super) fn carry_out(&mut self, place: usize) -> Result<StepReport, FeedError> {
        let step = &self.script.steps[place];
        let answered = self.act(place, step)?;
        let mismatches = self.judge(step, answered.as_ref())?;
        Ok(StepReport {
            line: step.line,
            step: step.to_string(),
            answer: answered.as_ref().map_or_else(String::new, StepAnswer::to_string),
            mismatches,
        })
    }

    /// Does what the step says and keeps the names of what it opens; the answer where there is one.
    fn act(&mut self, place: usize, step: &Step) -> Result<Option<StepAnswer>, FeedError> {
        let answered = self.act_on_switch(place, step)?;
        let sent_us = u64::try_from(self.now_us).unwrap_or(0);
        if let Some(name) = &step.opens
            && let Some(answered) = &answered
        {
            let known = answered.known.clone();
            self.opened.insert(name.clone(), StepTransaction { sent_us, known });
        }
        Ok(answered)
    }

    fn act_on_switch(
        &mut self,
        place: usize,
        step: &Step,
    ) -> Result<Option<StepAnswer>, FeedError> {
        match step.act {
            Act::Advance(span) => {
                let end_us = span.after_us(self.now_us).saturating_add(BEYOND_US);
                self.now_us = self.switch.set_clock(end_us)?;
                Ok(None)
            }
            Act::Suspend | Act::Activate | Act::Terminate | Act::Change => {
                self.change(step).map(|()| None)
            }
            Act::Look => Ok(None),
            act if act.is_of_bank() => self.move_money(step).map(Some),
            _ => self.ask(place, step),
        }
    }

    fn change(&mut self, step: &Step) -> Result<(), FeedError> {
        let card = &self.cards[&step.card];
        match step.act {
            Act::Suspend => self.switch.set_card_state(card, "suspended"),
            Act::Activate => self.switch.set_card_state(card, "active"),
            Act::Terminate => self.switch.terminate_card(card),
            _ => {
                let terms = step.file.to.clone().unwrap_or_default();
                self.switch.change_allowance(card, &terms, self.now_us)
            }
        }
    }

    fn move_money(&mut self, step: &Step) -> Result<StepAnswer, FeedError> {
        let transfer = step.of.as_deref().and_then(|name| self.opened.get(name));
        let id = transfer.and_then(|opened| opened.known.transaction_id.as_deref());
        let id = id.unwrap_or_default();
        match step.act {
            Act::Transfer(amount) => {
                self.switch.transfer((&self.account_id, amount), step.file.settled == Some(true))
            }
            Act::Settle => self.switch.conclude(id, "settle"),
            _ => self.switch.conclude(id, "return"),
        }
    }

    /// Sends the message of a step, or an earlier one once more as it was then.
    fn ask(&mut self, place: usize, step: &Step) -> Result<Option<StepAnswer>, FeedError> {
        let first = step.again.as_ref().map(|again| again.place);
        let sender = &self.script.steps[first.unwrap_or(place)];
        let (identity, original) = match first.and_then(|first| self.sent.get(&first)) {
            Some(sent) => (sent.identity, sent.original.clone()),
            None => (self.identity(place), step.of.as_deref().and_then(|name| self.original(name))),
        };
        let asked = StepRequest {
            act: sender.act,
            details: &sender.file,
            is_repeat: step.file.repeat == Some(true),
            card: &self.cards[&sender.card],
            merchant: self.script.merchant(sender),
            identity,
            original,
        };
        let answered = self.switch.ask(&asked)?;
        if first.is_none() {
            let sent =
                PastMessage { identity, original: asked.original, answered: answered.clone() };
            self.sent.insert(place, sent);
        }
        Ok(answered)
    }

    /// The identity of a step's message: known before it is sent, but for its time.
    fn identity(&self, place: usize) -> Identity {
        let number = u32::try_from(place + 1).unwrap_or(u32::MAX);
        Identity {
            stan: number,
            rrn: self.first_rrn + u64::from(number),
            sent_us: u64::try_from(self.now_us).unwrap_or(0),
        }
    }

    fn original(&self, name: &str) -> Option<Original> {
        let place = self.script.opener(name)?;
        let opened = self.opened.get(name);
        let identity = self.identity(place);
        let sent_us = opened.map_or(identity.sent_us, |opened| opened.sent_us);
        Some(Original {
            act: self.script.steps[place].act,
            identity: Identity { sent_us, ..identity },
            known: opened.map(|opened| opened.known.clone()),
        })
    }

    fn judge(
        &mut self,
        step: &Step,
        answered: Option<&StepAnswer>,
    ) -> Result<Vec<super::Mismatch>, FeedError> {
        let (mut judge, expected) = (Judge::default(), &step.file);
        if let Some(again) = &step.again {
            let first = self.sent.get(&again.place).and_then(|sent| sent.answered.as_ref());
            judge.first_answer(first, answered);
        }
        let expected_answer = step.expected_answer();
        if step.act.is_answered() {
            if let Some(expected) = &expected_answer {
                judge.answer(expected, answered);
            }
            judge.compare(
                "approved",
                expected.approved,
                answered.and_then(|answered| answered.approved),
            );
        }
        let is_inquired = expected_answer.is_some_and(|answer| answer.code == Some(0));
        if step.act == Act::Inquire && is_inquired {
            let told = answered.and_then(|answered| answered.balance);
            judge.compare("balance", expected.balance, told);
        }
        if expected.expects_card() {
            judge.card(expected, &self.switch.card(&self.cards[&step.card])?);
        }
        if expected.expects_account() {
            let (_, now) = self.switch.account()?;
            judge.account(expected, &self.first, &now);
        }
        if expected.expects_transaction() {
            let found = self.transaction(step)?;
            judge.transaction(expected, found.as_ref());
        }
        Ok(judge.mismatches)
    }

    /// Carries out the step in this place, and makes what is found its expectations. The last step tells of the account,
    /// too.
    /// Errors: a broken connection, a change that the switch does not make.
    pub(super) fn learn(&mut self, place: usize, file: &mut StepFile) -> Result<(), FeedError> {
        let step = &self.script.steps[place];
        let answered = self.act(place, step)?;
        if let Some(answered) = answered.filter(|_| step.act != Act::Again) {
            // The answer to an inquiry over HTTP has no reason.
            let expected = match step.act {
                Act::Inquire => ExpectedAnswer::of_code(answered.code),
                _ => ExpectedAnswer::of(&answered),
            };
            file.expect = (expected != ExpectedAnswer::APPROVED).then_some(expected);
            let is_partial =
                step.file.partial == Some(true) && answered.approved != step.act.amount();
            file.approved = answered.approved.filter(|_| is_partial);
        }
        if let Some(card) = self.cards.get(&step.card).filter(|_| step.act.is_of_card()) {
            let CardView { balance, daily_balance, state } = self.switch.card(card)?;
            (file.balance, file.daily_balance) = (Some(balance), daily_balance);
            file.card_state = (state != ACTIVE).then_some(state);
        }
        if let Some(found) = self.transaction(step)? {
            (file.state, file.held, file.posted) = (Some(found.state), found.held, found.posted);
        }
        if place + 1 == self.script.steps.len() {
            let (_, AccountView { ledger, available, .. }) = self.switch.account()?;
            file.ledger = Some(Money::of_account(ledger.minor - self.first.ledger.minor));
            file.available = Some(Money::of_account(available.minor - self.first.available.minor));
        }
        Ok(())
    }

    /// The transaction that a step is about, as it stands.
    fn transaction(&mut self, step: &Step) -> Result<Option<ScenarioTransaction>, FeedError> {
        let Some(place) = step.subject().and_then(|name| self.script.opener(name)) else {
            return Ok(None);
        };
        let opener = &self.script.steps[place];
        if !opener.act.is_of_bank() {
            let identity = self.identity(place);
            return self.switch.card_transaction(&self.cards[&opener.card], identity);
        }
        let opened = step.subject().and_then(|name| self.opened.get(name));
        match opened.and_then(|opened| opened.known.transaction_id.as_deref()) {
            Some(id) => self.switch.transaction(id).map(Some),
            None => Ok(None),
        }
    }
}
