//! Changes of cards and allowances as steps of a scenario.

use cardswitch_engine::command::Command;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::reply::Reply;
use cardswitch_engine::directory::allowance::{AllowanceChanges, AllowanceCommand};
use cardswitch_engine::directory::card::{CardCommand, SettableCardState};
use cardswitch_engine::domain::allowance::{AllowanceTerms, Scope};
use cardswitch_engine::domain::business_date::Interval;
use cardswitch_engine::domain::ids::{CardId, Timestamp};
use cardswitch_engine::domain::money::Minor;
use cardswitch_feed::scenario::{Money, StepFile, Terms, TimeSpan};

use crate::inside::INTERVALS;
use crate::teller::{Omission, Teller};

const NO_VERB: &str = "a scenario has no verb for them";

impl Teller {
    /// A change by an administrator, if the switch makes it. Of cards that no message has used yet, nothing is told:
    /// they are set up as they are then.
    pub(crate) fn change(
        &mut self,
        command: &Command,
        change: Option<&AdminCommand>,
    ) -> Result<(), Omission> {
        let before: Vec<_> = self.model.cards.iter().map(|card| card.terms).collect();
        let is_made = matches!(self.model.expect(self.at, command), Reply::Done(_));
        let Some(mut change) = change.filter(|_| is_made) else { return Ok(()) };
        // Whoever tells of it knows by now whether it was made.
        while let AdminCommand::IfUnchanged(_, unconditional) = change {
            change = unconditional;
        }
        match change {
            AdminCommand::Allowance(AllowanceCommand::Update(_, id, changes)) => {
                let at = self.model.cards.iter().position(|card| card.allowance_id == *id);
                let Some((at, name)) = at.and_then(|at| Some((at, self.cards.get(&at)?.clone())))
                else {
                    return Ok(());
                };
                let (to, untold) = changed_terms(changes, &before[at], self.at);
                untold.into_iter().for_each(|untold| self.told.leave_out(untold));
                if to != Terms::default() {
                    self.push(StepFile { change: Some(name), to: Some(to), ..StepFile::default() });
                }
                Ok(())
            }
            AdminCommand::Card(CardCommand::Update(_, id, changes)) => {
                let Some(name) = self.used_card(*id) else { return Ok(()) };
                match changes.state {
                    Some(SettableCardState::Active) => {
                        self.push(StepFile { activate: Some(name), ..StepFile::default() });
                    }
                    Some(SettableCardState::Suspended) => {
                        self.push(StepFile { suspend: Some(name), ..StepFile::default() });
                    }
                    None => return Err(("changes of a card's holder or address", NO_VERB)),
                }
                Ok(())
            }
            AdminCommand::Card(CardCommand::Terminate(_, id)) => {
                let Some(name) = self.used_card(*id) else { return Ok(()) };
                self.push(StepFile { terminate: Some(name), ..StepFile::default() });
                Ok(())
            }
            AdminCommand::Card(CardCommand::Issue(_) | CardCommand::IssueTogether(_)) => Ok(()),
            AdminCommand::Company(_) => Err(("changes of a company", NO_VERB)),
            _ => Err(("changes of people, requisitions and keys", NO_VERB)),
        }
    }

    fn used_card(&self, id: CardId) -> Option<String> {
        let at = self.model.cards.iter().position(|card| card.id == id)?;
        self.cards.get(&at).cloned()
    }
}

fn limit(limit: Minor) -> Option<Money> {
    (limit != Minor::UNLIMITED).then(|| Money::of_account(limit.0))
}

/// The one period that begins at the same step on every day; the others need a date.
fn word_of(interval: Interval) -> Option<String> {
    let known = INTERVALS.iter().find(|(known, _)| *known == interval);
    known.filter(|_| interval == Interval::Daily).map(|(_, word)| (*word).to_owned())
}

const LONG_PERIODS: Omission =
    ("periods of more than a day", "a scenario has no date, so their ends are unknown");

fn is_long(interval: Interval) -> bool {
    !matches!(interval, Interval::None | Interval::Daily)
}

fn span(from: i64, to: Timestamp) -> Option<TimeSpan> {
    let seconds = to.0.checked_sub(from)? / 1_000_000;
    u64::try_from(seconds).ok().filter(|seconds| u32::try_from(*seconds).is_ok()).map(TimeSpan)
}

/// The terms of a card that is first used at `at`, in a scenario that began at `start`, and what is left out of them.
pub(crate) fn setup_terms(terms: &AllowanceTerms, at: i64, start: i64) -> (Terms, Vec<Omission>) {
    let has_begun = terms.starts_at.0 <= at;
    let ends_in = (terms.ends_at != Timestamp::MAX).then(|| span(start, terms.ends_at));
    let told = Terms {
        amount: Some(Money::of_account(terms.amount.0)),
        interval: word_of(terms.interval),
        daily_limit: limit(terms.daily_limit),
        transaction_limit: limit(terms.transaction_limit),
        single_use: terms.single_use.then_some(true),
        scope: (terms.scope != Scope::default()).then(|| terms.scope.codes().to_vec()),
        starts_in: if has_begun { None } else { span(start, terms.starts_at) },
        ends_in: ends_in.flatten(),
    };
    let all = [
        (ends_in == Some(None), ("ends of allowances", "they lie before the scenario")),
        (is_long(terms.interval), LONG_PERIODS),
    ];
    (told, all.into_iter().filter(|(is_so, _)| *is_so).map(|(_, untold)| untold).collect())
}

/// The terms of a change, and what is left out of it.
fn changed_terms(
    changes: &AllowanceChanges,
    before: &AllowanceTerms,
    at: i64,
) -> (Terms, Vec<Omission>) {
    let given = |limit: Option<Minor>| limit.filter(|limit| *limit != Minor::UNLIMITED);
    let money = |amount: Minor| Money::of_account(amount.0);
    let told = Terms {
        amount: changes.amount.map(money),
        interval: changes.interval.and_then(word_of),
        daily_limit: given(changes.daily_limit).map(money),
        transaction_limit: given(changes.transaction_limit).map(money),
        single_use: changes.single_use,
        scope: changes.scope.map(|scope| scope.codes().to_vec()),
        starts_in: changes.starts_at.filter(|start| start.0 > at).and_then(|start| span(at, start)),
        ends_in: changes.ends_at.filter(|end| *end != Timestamp::MAX).and_then(|end| span(at, end)),
    };
    let takes_away =
        |new: Option<Minor>, old: Minor| new == Some(Minor::UNLIMITED) && old != Minor::UNLIMITED;
    let is_lifted = takes_away(changes.daily_limit, before.daily_limit)
        || takes_away(changes.transaction_limit, before.transaction_limit)
        || (changes.interval == Some(Interval::None) && before.interval != Interval::None)
        || (changes.starts_at.is_some() && told.starts_in.is_none() && before.starts_at.0 > at)
        || (changes.ends_at.is_some() && told.ends_in.is_none());
    let all = [
        (changes.reset, ("resets of an allowance", NO_VERB)),
        (is_lifted, ("terms that were taken away", "a change of a scenario only sets terms")),
        (changes.interval.is_some_and(is_long), LONG_PERIODS),
    ];
    (told, all.into_iter().filter(|(is_so, _)| *is_so).map(|(_, untold)| untold).collect())
}
