//! A scenario as it is carried out: each step one act with its details, every name it uses known.
//! Anything else in a file is refused with its line.

use std::collections::BTreeMap;
use std::fmt;

use cardswitch_iso8583::line_of;
use toml::Spanned;

use super::file::{
    AccountSetup, Credential, Expected, Presentment, ScenarioFile, Span, StepFile, Terms, TimeOfDay,
};
use super::money::Money;
use crate::merchants::{ACCOUNT_CURRENCY, catalogue};

/// A scenario that can be carried out.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) about: String,
    pub(super) start: TimeOfDay,
    pub(super) cards: BTreeMap<String, Terms>,
    pub(super) account: Option<AccountSetup>,
    pub(super) steps: Vec<Step>,
}

/// The act of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Act {
    Authorize(Money),
    Purchase(Money),
    Cash(Money),
    Advise(Money),
    Verify,
    Inquire,
    Increment(Money),
    Present(Money),
    Refund(Money),
    Reverse,
    Transfer(Money),
    Settle,
    Return,
    Suspend,
    Activate,
    Terminate,
    Change,
    Look,
    Advance(Span),
}

/// A step.
#[derive(Debug)]
pub(super) struct Step {
    /// Counted from one.
    pub(super) line: usize,
    pub(super) act: Act,
    pub(super) card: String,
    /// The transaction it opens, by `as` or its number.
    pub(super) opens: Option<String>,
    /// The earlier transaction it is about.
    pub(super) of: Option<String>,
    pub(super) details: Details,
    pub(super) expected: Expectations,
}

/// The details of a message beside its amount.
#[derive(Debug, Clone, Default)]
pub(super) struct Details {
    pub(super) mcc: Option<u16>,
    pub(super) billing: Option<Money>,
    pub(super) number: Option<Presentment>,
    pub(super) keep: Option<Money>,
    pub(super) partial: bool,
    pub(super) advice: bool,
    pub(super) declined: bool,
    pub(super) settled: bool,
    pub(super) wrong: Vec<Credential>,
    pub(super) terms: Terms,
}

/// The expectations after a step.
#[derive(Debug)]
pub(super) struct Expectations {
    pub(super) answer: Expected,
    pub(super) approved: Option<Money>,
    pub(super) card: OfCard,
    pub(super) account: OfAccount,
    pub(super) transaction: OfTransaction,
}

/// Expectations of the card and its allowance.
#[derive(Debug, Default, PartialEq)]
pub(super) struct OfCard {
    pub(super) balance: Option<Money>,
    pub(super) daily_balance: Option<Money>,
    pub(super) card_state: Option<String>,
}

/// Expectations of the account: the change of each balance since the scenario began, or its value
/// if the scenario set it up.
#[derive(Debug, Default, PartialEq)]
pub(super) struct OfAccount {
    pub(super) ledger: Option<Money>,
    pub(super) available: Option<Money>,
    pub(super) available_credit: Option<Money>,
    pub(super) pending_credits: Option<Money>,
}

/// Expectations of the transaction that the step opens or is about.
#[derive(Debug, Default, PartialEq)]
pub(super) struct OfTransaction {
    pub(super) state: Option<String>,
    pub(super) amount: Option<Money>,
    pub(super) held: Option<Money>,
    pub(super) posted: Option<Money>,
}

/// A flaw of a file, and its line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Flaw {
    pub(super) line: usize,
    pub(super) message: String,
}

/// The name of the card where a file makes none, and of the one meant where a step names none.
const CARD: &str = "card";

/// Its budget.
const BUDGET: Money = Money::of_account(100_000);

/// The default start of a scenario: in the morning of the zones of America, far from midnight in
/// any zone that most companies are in.
const START: TimeOfDay = TimeOfDay(17 * 60 * 60);

impl Script {
    /// Reads the text of a scenario.
    /// Errors: text that is no scenario, with the line and the key at fault.
    pub(super) fn parse(text: &str) -> Result<Self, Flaw> {
        let file: ScenarioFile = toml::from_str(text).map_err(|error: toml::de::Error| Flaw {
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
            let step =
                read_step(number, line, step, &cards).map_err(|message| Flaw { line, message })?;
            steps.push(step);
        }
        check_names(&steps)?;
        take_cards_over(&mut steps);
        if steps.is_empty() {
            return Err(Flaw { line: 1, message: "there is no `[[step]]`".to_owned() });
        }
        let account = file.setup.account;
        if account
            .is_some_and(|given| given.available.is_foreign() || given.credit_limit.is_foreign())
        {
            let message = "`[setup.account]` is in the account's currency".to_owned();
            return Err(Flaw { line: 1, message });
        }
        let start = file.setup.start.unwrap_or(START);
        Ok(Self { about: file.about, start, cards, account, steps })
    }
}

fn read_step(
    number: usize,
    line: usize,
    step: Spanned<StepFile>,
    cards: &BTreeMap<String, Terms>,
) -> Result<Step, String> {
    let file = step.into_inner();
    let Spoken { act, card, of } = spoken(&file)?;
    check_options(act, &file)?;
    check_amounts(act, &file)?;
    let of = of.or_else(|| file.of.clone());
    if act.needs_original() && of.is_none() {
        return Err(format!("`{}` needs `of`, the name of a transaction", act.verb()));
    }
    let card = card.or_else(|| file.card.clone());
    let opens = act.opens(of.is_some());
    let opens = opens.then(|| file.name.clone().unwrap_or_else(|| number.to_string()));
    let expected = expectations(&file);
    if expected.transaction != OfTransaction::default() && opens.is_none() && of.is_none() {
        return Err("`state`, `amount`, `held` and `posted` need `of` here".to_owned());
    }
    check_merchant(&file, of.as_deref(), act)?;
    let details = details(file);
    // A step about a transaction is about its card, which `take_cards_over` fills in.
    let card = match (&of, card) {
        (Some(_), None) => String::new(),
        (_, card) => card_named(card, cards)?,
    };
    Ok(Step { line, act, card, opens, of, details, expected })
}

/// The only act of a step, and the card or transaction that its verb names.
struct Spoken {
    act: Act,
    card: Option<String>,
    of: Option<String>,
}

/// Finds the one verb of a step.
/// Errors: none, or more than one.
fn spoken(file: &StepFile) -> Result<Spoken, String> {
    type OfAmount = fn(Money) -> Act;
    let amounts: [(Option<Money>, OfAmount); 8] = [
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
    ];
    let plain = |act| Spoken { act, card: None, of: None };
    let with_amount = amounts.into_iter().filter_map(|(amount, act)| amount.map(act)).map(plain);
    let with_card = of_cards.into_iter().filter_map(|(name, act)| {
        name.as_ref().map(|name| Spoken { act, card: Some(name.clone()), of: None })
    });
    let with_transaction = of_transactions.into_iter().filter_map(|(name, act)| {
        name.as_ref().map(|name| Spoken { act, card: None, of: Some(name.clone()) })
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
        ("partial", file.partial.is_some()),
        ("advice", file.advice.is_some()),
        ("declined", file.declined.is_some()),
        ("settled", file.settled.is_some()),
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
    if let Some(amount) = act.amount() {
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
        ("keep", file.keep),
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

fn details(file: StepFile) -> Details {
    Details {
        mcc: file.mcc,
        billing: file.billing,
        number: file.number,
        keep: file.keep,
        partial: file.partial.unwrap_or(false),
        advice: file.advice.unwrap_or(false),
        declined: file.declined.unwrap_or(false),
        settled: file.settled.unwrap_or(false),
        wrong: file.wrong.unwrap_or_default(),
        terms: file.to.unwrap_or_default(),
    }
}

fn expectations(file: &StepFile) -> Expectations {
    Expectations {
        answer: file.expect.clone().unwrap_or(Expected::APPROVED),
        approved: file.approved,
        card: OfCard {
            balance: file.balance,
            daily_balance: file.daily_balance,
            card_state: file.card_state.clone(),
        },
        account: OfAccount {
            ledger: file.ledger,
            available: file.available,
            available_credit: file.available_credit,
            pending_credits: file.pending_credits,
        },
        transaction: OfTransaction {
            state: file.state.clone(),
            amount: file.amount,
            held: file.held,
            posted: file.posted,
        },
    }
}

/// Each name is given once, and is used after it is given: but a reversal may overtake.
fn check_names(steps: &[Step]) -> Result<(), Flaw> {
    let mut opened = BTreeMap::new();
    for (at, step) in steps.iter().enumerate() {
        if let Some(name) = &step.opens
            && opened.insert(name.as_str(), at).is_some()
        {
            let message = format!("`as`: there are two transactions `{name}`");
            return Err(Flaw { line: step.line, message });
        }
    }
    for (at, step) in steps.iter().enumerate() {
        let Some(name) = &step.of else { continue };
        let message = match opened.get(name.as_str()) {
            Some(opened_at) if *opened_at < at || step.act == Act::Reverse => {
                let Err(message) = check_original(step, name, steps[*opened_at].act) else {
                    continue;
                };
                message
            }
            Some(_) => format!("`{name}` comes later, and only `reverse` may be ahead of it"),
            None => format!("there is no transaction `{name}`"),
        };
        return Err(Flaw { line: step.line, message });
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
    let is_foreign = original.amount().is_some_and(Money::is_foreign);
    if is_foreign && step.details.keep.is_some() {
        return Err("`keep` is for purchases in the account's currency".to_owned());
    }
    Ok(())
}

/// Gives steps that name no card the one of the transaction they name.
fn take_cards_over(steps: &mut [Step]) {
    let mut cards = BTreeMap::new();
    for step in &*steps {
        if let Some(name) = &step.opens {
            cards.insert(name.clone(), step.card.clone());
        }
    }
    // In the order of the file, as a refund may be of a purchase and be reversed itself.
    for step in steps {
        if step.card.is_empty()
            && let Some(card) = step.of.as_ref().and_then(|name| cards.get(name))
        {
            step.card.clone_from(card);
        }
        if let Some(name) = &step.opens {
            cards.insert(name.clone(), step.card.clone());
        }
    }
}

impl Act {
    /// The key that asks for it.
    pub(super) const fn verb(self) -> &'static str {
        match self {
            Self::Authorize(_) => "authorize",
            Self::Purchase(_) => "purchase",
            Self::Cash(_) => "cash",
            Self::Advise(_) => "advise",
            Self::Verify => "verify",
            Self::Inquire => "inquire",
            Self::Increment(_) => "increment",
            Self::Present(_) => "present",
            Self::Refund(_) => "refund",
            Self::Reverse => "reverse",
            Self::Transfer(_) => "transfer",
            Self::Settle => "settle",
            Self::Return => "return",
            Self::Suspend => "suspend",
            Self::Activate => "activate",
            Self::Terminate => "terminate",
            Self::Change => "change",
            Self::Look => "look",
            Self::Advance(_) => "advance",
        }
    }

    /// The options that mean something beside it.
    const fn options(self) -> &'static [&'static str] {
        match self {
            Self::Authorize(_) | Self::Purchase(_) => {
                &["as", "card", "mcc", "billing", "partial", "wrong", "approved"]
            }
            Self::Cash(_) => &["as", "card", "mcc", "wrong"],
            Self::Advise(_) => &["as", "of", "card", "mcc", "billing", "declined"],
            Self::Verify => &["as", "mcc", "wrong"],
            Self::Inquire => &["of", "wrong"],
            Self::Increment(_) => &["of"],
            Self::Present(_) => &["as", "of", "card", "mcc", "billing", "number"],
            Self::Refund(_) => &["as", "of", "card", "mcc", "billing"],
            Self::Reverse => &["keep", "advice"],
            Self::Transfer(_) => &["as", "settled"],
            Self::Settle | Self::Return => &[],
            Self::Look => &["card"],
            Self::Suspend | Self::Activate | Self::Terminate => &["of"],
            Self::Change => &["of", "to"],
            Self::Advance(_) => &["of", "card"],
        }
    }

    /// The amount of its message.
    pub(super) const fn amount(self) -> Option<Money> {
        match self {
            Self::Authorize(amount)
            | Self::Purchase(amount)
            | Self::Cash(amount)
            | Self::Advise(amount)
            | Self::Increment(amount)
            | Self::Present(amount)
            | Self::Refund(amount)
            | Self::Transfer(amount) => Some(amount),
            _ => None,
        }
    }

    /// Whether it makes a transaction: an act that names an earlier one does not, refunds apart.
    const fn opens(self, names_earlier: bool) -> bool {
        match self {
            Self::Authorize(_)
            | Self::Purchase(_)
            | Self::Cash(_)
            | Self::Verify
            | Self::Refund(_)
            | Self::Transfer(_) => true,
            Self::Advise(_) | Self::Present(_) => !names_earlier,
            _ => false,
        }
    }

    const fn needs_original(self) -> bool {
        matches!(self, Self::Increment(_))
    }

    /// Whether the cardholder is there, with the credentials of the card.
    pub(super) const fn is_card_use(self) -> bool {
        matches!(
            self,
            Self::Authorize(_) | Self::Purchase(_) | Self::Cash(_) | Self::Verify | Self::Inquire
        )
    }

    /// Whether it is about the company's bank and not about a card.
    pub(super) const fn is_of_bank(self) -> bool {
        matches!(self, Self::Transfer(_) | Self::Settle | Self::Return)
    }

    /// Whether the switch answers it with a code.
    pub(super) const fn is_answered(self) -> bool {
        !matches!(
            self,
            Self::Suspend
                | Self::Activate
                | Self::Terminate
                | Self::Change
                | Self::Look
                | Self::Advance(_)
        )
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
        catalogue().find(first.details.mcc, currency).unwrap_or(0)
    }
}

impl Step {
    /// The transaction whose state it may expect.
    pub(super) fn subject(&self) -> Option<&str> {
        self.opens.as_deref().or(self.of.as_deref())
    }
}

/// The step in a line of words, as the table shows it.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let details = &self.details;
        f.write_str(self.act.verb())?;
        match (self.act, self.act.amount()) {
            (_, Some(amount)) => write!(f, " {amount}")?,
            (Act::Advance(span), _) => write!(f, " {span}")?,
            (Act::Reverse | Act::Settle | Act::Return | Act::Look, _) => {
                write!(f, " {}", self.of.as_deref().unwrap_or_default())?;
            }
            _ => write!(f, " {}", self.card)?,
        }
        if let (Some(_), Some(of)) = (self.act.amount(), &self.of) {
            write!(f, " of {of}")?;
        }
        if let Some(name) = &self.opens
            && name.parse::<usize>().is_err()
        {
            write!(f, " as {name}")?;
        }
        if let Some(number) = details.number {
            write!(f, ", {} of {}", number.number, number.count)?;
        }
        if let Some(keep) = details.keep {
            write!(f, ", keep {keep}")?;
        }
        if let Some(billing) = details.billing {
            write!(f, ", billed {billing}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "script_tests.rs"]
mod tests;
