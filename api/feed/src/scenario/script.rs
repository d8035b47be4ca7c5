//! A scenario as it is carried out: each step one act with its details, every name it uses known.
//! Anything else in a file is refused with its line.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use cardswitch_iso8583::line_of;
use toml::Spanned;

use super::act::Act;
use super::file::{AccountSetup, ExpectedAnswer, Naming, ScenarioFile, StepFile, Terms, TimeOfDay};
use super::money::Money;
use crate::merchants::{ACCOUNT_CURRENCY, catalogue};

/// A scenario that can be carried out.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) about: String,
    /// The line of the first setting before the steps. Units: counted from one.
    pub(super) setup_line: usize,
    pub(super) start: TimeOfDay,
    pub(super) cards: BTreeMap<String, Terms>,
    pub(super) account: Option<AccountSetup>,
    pub(super) steps: Vec<Step>,
}

#[derive(Debug)]
pub(super) struct Step {
    /// Counted from one.
    pub(super) line: usize,
    pub(super) act: Act,
    pub(super) card: String,
    /// The message that it sends again.
    pub(super) again: Option<RepeatedStep>,
    /// The transaction it opens, by `as` or its number.
    pub(super) opens: Option<String>,
    /// The earlier transaction it is about.
    pub(super) of: Option<String>,
    /// Its options and expectations.
    pub(super) file: StepFile,
}

/// A message that is sent again.
#[derive(Debug)]
pub(super) struct RepeatedStep {
    /// The place of the step that sent it first.
    pub(super) place: usize,
    /// That step, as the file names it.
    pub(super) name: String,
}

/// A flaw of a file, and its line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ScriptFlaw {
    pub(super) line: usize,
    pub(super) message: String,
}

/// The name of the card where a file makes none, and of the one meant where a step names none.
const CARD: &str = "card";

const BUDGET: Money = Money::of_account(100_000);

/// The default start of a scenario: in the morning of the zones of America, far from midnight in
/// any zone that most companies are in.
const START: TimeOfDay = TimeOfDay(17 * 60 * 60);

impl Script {
    /// Reads the text of a scenario.
    /// Errors: text that is no scenario, with the line and the key at fault.
    pub(super) fn parse(text: &str) -> Result<Self, ScriptFlaw> {
        let file: ScenarioFile =
            toml::from_str(text).map_err(|error: toml::de::Error| ScriptFlaw {
                line: line_of(text, error.span().map_or(0, |span| span.start)),
                message: error.message().to_owned(),
            })?;
        let mut cards = file.setup.cards;
        if cards.is_empty() {
            cards.insert(CARD.to_owned(), Terms { amount: Some(BUDGET), ..Terms::default() });
        }
        let mut steps = Vec::new();
        for (number, step) in (1_usize..).zip(file.step) {
            let line = line_of(text, step.span().start);
            let step = read_step(number, line, step, &cards)
                .map_err(|message| ScriptFlaw { line, message })?;
            steps.push(step);
        }
        find_repeated(&mut steps)?;
        check_names(&steps)?;
        take_cards_over(&mut steps);
        if steps.is_empty() {
            return Err(ScriptFlaw { line: 1, message: "there is no `[[step]]`".to_owned() });
        }
        let setup_line = line_of_setup(text);
        let account = file.setup.account;
        if account
            .is_some_and(|given| given.available.is_foreign() || given.credit_limit.is_foreign())
        {
            let message = "`[setup.account]` is in the account's currency".to_owned();
            return Err(ScriptFlaw { line: setup_line, message });
        }
        let start = file.setup.start.unwrap_or(START);
        Ok(Self { about: file.about, setup_line, start, cards, account, steps })
    }
}

/// The line in which the setup begins; the first where a file has none.
fn line_of_setup(text: &str) -> usize {
    let is_setup = |line: &str| line.trim_start_matches(['[', ' ']).starts_with("setup");
    text.lines().position(is_setup).map_or(1, |before| before + 1)
}

fn read_step(
    number: usize,
    line: usize,
    step: Spanned<StepFile>,
    cards: &BTreeMap<String, Terms>,
) -> Result<Step, String> {
    let file = step.into_inner();
    let StepVerb { act, card, of } = spoken(&file)?;
    check_options(act, &file)?;
    check_amounts(act, &file)?;
    let of = of.or_else(|| file.of.clone());
    if act.needs_original() && of.is_none() {
        return Err(format!("`{}` needs `of`, the name of a transaction", act.verb()));
    }
    let card = card.or_else(|| file.card.clone());
    let opens = act.opens(of.is_some());
    let opens = opens.then(|| file.name.clone().unwrap_or_else(|| number.to_string()));
    if file.expects_transaction() && opens.is_none() && of.is_none() {
        return Err("`state`, `amount`, `held` and `posted` need `of` here".to_owned());
    }
    check_merchant(&file, of.as_deref(), act)?;
    if file.by.is_some() && of.is_none() {
        return Err("`by` needs `of`, the name of a transaction".to_owned());
    }
    if file.by == Some(Naming::Rrn) && matches!(act, Act::Refund(_)) {
        return Err("`by`: a refund has a reference number of its own".to_owned());
    }
    // A step about a transaction is about its card, which `take_cards_over` fills in.
    let card = match (&of, card) {
        (Some(_), None) => String::new(),
        (_, card) => card_named(card, cards)?,
    };
    Ok(Step { line, act, card, again: None, opens, of, file })
}

/// The only act of a step, and the card or transaction that its verb names.
struct StepVerb {
    act: Act,
    card: Option<String>,
    of: Option<String>,
}

/// Finds the one verb of a step.
/// Errors: none, or more than one.
fn spoken(file: &StepFile) -> Result<StepVerb, String> {
    type AmountAct = fn(Money) -> Act;
    let amounts: [(Option<Money>, AmountAct); 8] = [
        (file.authorize, Act::Authorize),
        (file.purchase, Act::Purchase),
        (file.cash, Act::Cash),
        (file.advise, Act::Advise),
        (file.increment, Act::Increment),
        (file.present, Act::Present),
        (file.refund, Act::Refund),
        (file.transfer, Act::Transfer),
    ];
    let of_cards = [
        (&file.verify, Act::Verify),
        (&file.inquire, Act::Inquire),
        (&file.suspend, Act::Suspend),
        (&file.activate, Act::Activate),
        (&file.terminate, Act::Terminate),
        (&file.change, Act::Change),
    ];
    let of_transactions = [
        (&file.reverse, Act::Reverse),
        (&file.settle, Act::Settle),
        (&file.take_back, Act::Return),
        (&file.look, Act::Look),
        (&file.again, Act::Again),
    ];
    let plain = |act| StepVerb { act, card: None, of: None };
    let with_amount = amounts.into_iter().filter_map(|(amount, act)| amount.map(act)).map(plain);
    let with_card = of_cards.into_iter().filter_map(|(name, act)| {
        name.as_ref().map(|name| StepVerb { act, card: Some(name.clone()), of: None })
    });
    let with_transaction = of_transactions.into_iter().filter_map(|(name, act)| {
        name.as_ref().map(|name| StepVerb { act, card: None, of: Some(name.clone()) })
    });
    let with_time = file.advance.map(Act::Advance).map(plain);
    let mut found = with_amount.chain(with_card).chain(with_transaction).chain(with_time);
    match (found.next(), found.next()) {
        (Some(spoken), None) => Ok(spoken),
        (Some(first), Some(second)) => Err(format!(
            "does two things at once, `{}` and `{}`",
            first.act.verb(),
            second.act.verb()
        )),
        (None, _) => Err("does nothing: it needs a verb such as `authorize`".to_owned()),
    }
}

/// Refuses options that would change nothing.
fn check_options(act: Act, file: &StepFile) -> Result<(), String> {
    let given = [
        ("as", file.name.is_some()),
        ("of", file.of.is_some()),
        ("card", file.card.is_some()),
        ("mcc", file.mcc.is_some()),
        ("billing", file.billing.is_some()),
        ("number", file.number.is_some()),
        ("keep", file.keep.is_some()),
        ("by", file.by.is_some()),
        ("partial", file.partial.is_some()),
        ("advice", file.advice.is_some()),
        ("declined", file.declined.is_some()),
        ("settled", file.settled.is_some()),
        ("repeat", file.repeat.is_some()),
        ("wrong", file.wrong.is_some()),
        ("to", file.to.is_some()),
        ("approved", file.approved.is_some()),
    ];
    let idle = given.into_iter().find(|(key, given)| *given && !act.options().contains(key));
    match idle {
        Some((key, _)) => Err(format!("`{key}` has no meaning for `{}`", act.verb())),
        None if file.expect.is_some() && !act.is_answered() => {
            Err(format!("`expect` has no meaning for `{}`: nothing answers it", act.verb()))
        }
        None => Ok(()),
    }
}

/// Amounts that are sent are not below zero, but for transfers, and have a billing amount just
/// where they are in another currency; balances are in the account's.
fn check_amounts(act: Act, file: &StepFile) -> Result<(), String> {
    if let Some(amount) = act.amount().or(file.keep) {
        if amount.minor < 0 && !matches!(act, Act::Transfer(_)) {
            return Err(format!("`{}` takes no amount below zero", act.verb()));
        }
        if amount.is_foreign() != file.billing.is_some() {
            return Err("`billing` belongs to amounts in another currency, and to all".to_owned());
        }
        if amount.is_foreign() && file.approved.is_some() {
            return Err("`approved` is for amounts in the account's currency".to_owned());
        }
        if amount.is_foreign() && !act.options().contains(&"billing") {
            return Err(format!("`{}` is in the account's currency", act.verb()));
        }
    }
    let in_own_currency = [
        ("billing", file.billing),
        ("approved", file.approved),
        ("balance", file.balance),
        ("daily_balance", file.daily_balance),
        ("ledger", file.ledger),
        ("available", file.available),
        ("available_credit", file.available_credit),
        ("pending_credits", file.pending_credits),
        ("amount", file.amount),
        ("held", file.held),
        ("posted", file.posted),
    ];
    let foreign = in_own_currency
        .into_iter()
        .find(|(_, amount)| amount.is_some_and(|amount| amount.is_foreign()));
    match foreign {
        Some((key, _)) => Err(format!("`{key}` is in the account's currency")),
        None if [file.billing, file.keep].into_iter().flatten().any(|amount| amount.minor < 0) => {
            Err("`billing` and `keep` take no amount below zero".to_owned())
        }
        None => Ok(()),
    }
}

/// A category is told where a purchase begins; later messages come from the same merchant.
fn check_merchant(file: &StepFile, of: Option<&str>, act: Act) -> Result<(), String> {
    let Some(mcc) = file.mcc else { return Ok(()) };
    if of.is_some() {
        return Err("`mcc` is that of the transaction named by `of`".to_owned());
    }
    let currency = act.amount().map_or(ACCOUNT_CURRENCY, |amount| amount.currency);
    match catalogue().find(Some(mcc), currency) {
        Some(_) => Ok(()),
        None => Err(format!("`mcc`: no merchant of the simulated network is a {mcc}")),
    }
}

fn card_named(name: Option<String>, cards: &BTreeMap<String, Terms>) -> Result<String, String> {
    let only = || cards.keys().next().filter(|_| cards.len() == 1).cloned();
    let name = name.or_else(only).unwrap_or_else(|| CARD.to_owned());
    match cards.contains_key(&name) {
        true => Ok(name),
        false => Err(format!("there is no card `{name}` under `[setup.cards]`")),
    }
}

/// Finds the messages that are sent again, each of which is about the transaction of the first one.
fn find_repeated(steps: &mut [Step]) -> Result<(), ScriptFlaw> {
    for at in 0..steps.len() {
        let (before, rest) = steps.split_at_mut(at);
        let step = &mut rest[0];
        if step.act != Act::Again {
            continue;
        }
        let name = step.of.take().unwrap_or_default();
        let is_named = |(place, step): (usize, &Step)| match &step.file.name {
            Some(own) => *own == name,
            None => (place + 1).to_string() == name,
        };
        let place = before.iter().enumerate().position(is_named);
        let Some((place, first)) = place.map(|place| (place, &before[place])) else {
            let message = format!("no step before this one is `{name}`");
            return Err(ScriptFlaw { line: step.line, message });
        };
        if !first.act.is_message() {
            let message = format!("`{name}` is no message of the card network");
            return Err(ScriptFlaw { line: step.line, message });
        }
        step.card.clone_from(&first.card);
        step.of = first.subject().map(str::to_owned);
        step.again = Some(RepeatedStep { place, name });
    }
    Ok(())
}

/// Each name is given once, and is used after it is given: but a reversal may overtake.
fn check_names(steps: &[Step]) -> Result<(), ScriptFlaw> {
    let mut opened = BTreeMap::new();
    let mut named = BTreeSet::new();
    for (at, step) in steps.iter().enumerate() {
        let other = step.opens.as_ref().and_then(|name| opened.insert(name.as_str(), at));
        let is_taken = step.file.name.as_ref().is_some_and(|name| !named.insert(name.as_str()));
        if is_taken || other.is_some() {
            let name = step.opens.as_ref().or(step.file.name.as_ref()).map_or("", String::as_str);
            let message = format!("`as`: there are two steps `{name}`");
            return Err(ScriptFlaw { line: step.line, message });
        }
    }
    for (at, step) in steps.iter().enumerate() {
        let Some(name) = &step.of else { continue };
        let message = match opened.get(name.as_str()) {
            Some(opened_at)
                if *opened_at < at || step.act == Act::Reverse || step.act == Act::Again =>
            {
                let Err(message) = check_original(step, name, steps[*opened_at].act) else {
                    continue;
                };
                message
            }
            Some(_) => format!("`{name}` comes later, and only `reverse` may be ahead of it"),
            None => format!("there is no transaction `{name}`"),
        };
        return Err(ScriptFlaw { line: step.line, message });
    }
    Ok(())
}

/// Transfers have verbs of their own, and what stays of a purchase is told in one currency.
fn check_original(step: &Step, name: &str, original: Act) -> Result<(), String> {
    let is_message = step.act.is_answered();
    if is_message && step.act.is_of_bank() != original.is_of_bank() {
        let what = if original.is_of_bank() { "a" } else { "no" };
        return Err(format!("`{name}` is {what} transfer"));
    }
    let currency = original.amount().map_or(ACCOUNT_CURRENCY, |amount| amount.currency);
    if step.file.keep.is_some_and(|keep| keep.currency != currency) {
        return Err(format!("`keep` is in the currency of `{name}`"));
    }
    Ok(())
}

/// Gives steps that name no card the one of the transaction they name.
fn take_cards_over(steps: &mut [Step]) {
    let mut cards: BTreeMap<String, String> = BTreeMap::new();
    let of_named = |step: &Step, cards: &BTreeMap<String, String>| {
        let named = step.of.as_ref().and_then(|name| cards.get(name));
        named.filter(|_| step.card.is_empty()).unwrap_or(&step.card).clone()
    };
    // In the order of the file, as a refund may be of a purchase.
    for step in &*steps {
        if let Some(name) = &step.opens {
            cards.insert(name.clone(), of_named(step, &cards));
        }
    }
    // A reversal may stand before the refund that it is of.
    for step in steps {
        step.card = of_named(step, &cards);
    }
}

impl Script {
    /// The place of the step that opens a transaction.
    pub(super) fn opener(&self, name: &str) -> Option<usize> {
        self.steps.iter().position(|step| step.opens.as_deref() == Some(name))
    }

    /// The slot of the merchant where the transaction began that a step is about.
    pub(super) fn merchant(&self, step: &Step) -> u16 {
        let mut first = step;
        while let Some(at) = first.of.as_deref().and_then(|name| self.opener(name)) {
            first = &self.steps[at];
        }
        let currency = first.act.amount().map_or(ACCOUNT_CURRENCY, |amount| amount.currency);
        // `check_merchant` has refused the categories that there are no merchants of.
        catalogue().find(first.file.mcc, currency).unwrap_or(0)
    }
}

impl Step {
    /// The answer that is expected; none where the first answer to the message is expected again.
    pub(super) fn expected_answer(&self) -> Option<ExpectedAnswer> {
        let by_default = (self.act != Act::Again).then_some(ExpectedAnswer::APPROVED);
        self.file.expect.clone().or(by_default)
    }

    /// The transaction whose state it may expect.
    pub(super) fn subject(&self) -> Option<&str> {
        self.opens.as_deref().or(self.of.as_deref())
    }
}

/// The step in a line of words, as the table shows it.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StepFile { name, number, keep, billing, repeat, .. } = &self.file;
        f.write_str(self.act.verb())?;
        match (self.act, self.act.amount()) {
            (_, Some(amount)) => write!(f, " {amount}")?,
            (Act::Advance(span), _) => write!(f, " {span}")?,
            (Act::Again, _) => {
                let name = self.again.as_ref().map(|again| again.name.as_str());
                write!(f, " {}", name.unwrap_or_default())?;
            }
            (Act::Reverse | Act::Settle | Act::Return | Act::Look, _) => {
                write!(f, " {}", self.of.as_deref().unwrap_or_default())?;
            }
            _ => write!(f, " {}", self.card)?,
        }
        if let (Some(_), Some(of)) = (self.act.amount(), &self.of) {
            write!(f, " of {of}")?;
        }
        if let Some(name) = name {
            write!(f, " as {name}")?;
        }
        if let Some(number) = number {
            write!(f, ", {} of {}", number.number, number.count)?;
        }
        if let Some(keep) = keep {
            write!(f, ", keep {keep}")?;
        }
        if let Some(billing) = billing {
            write!(f, ", billed {billing}")?;
        }
        f.write_str(if *repeat == Some(true) { ", marked as a repeat" } else { "" })
    }
}

#[cfg(test)]
#[path = "script_tests.rs"]
mod tests;
