//! The happenings of a world as the steps of a scenario, without expectations: messages, changes of cards and
//! allowances, and time.
//!
//! The happenings are told to the model once more, in their order. So it is known which card, purchase or transfer
//! each command is about, and which changes the switch refuses. All companies become one; commands that have no
//! verb are counted, with the reason. `changes` has what administrators do.

use std::collections::{BTreeMap, BTreeSet};

use cardswitch_engine::command::Command;
use cardswitch_engine::command::network::{
    AdviceOutcome, Advise, AuthorizationKind, Authorize, CardRef, ConcludeTransfer, Increment,
    MessageAmounts, NetworkCommand, NetworkRequest, OriginalRef, PartialApproval, Present,
    PurchaseFacts, Refund, ReversalAmount, ReversalKind, Reverse, Transfer, TransferConclusion,
    TransferTiming,
};
use cardswitch_engine::command::reply::{NetworkReply, Reply};
use cardswitch_engine::decision::{Rule, RuleSet};
use cardswitch_engine::domain::card::CardState;
use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_engine::domain::network_key::{DuplicateKey, OriginalKey};
use cardswitch_engine::domain::transaction::{
    TransactionKind, TransactionState, TransferDirection,
};
use cardswitch_feed::has_merchant_of;
use cardswitch_feed::scenario::{
    AccountSetup, Credential, Money, Naming, Presentment, Span, StepFile, Terms, TimeOfDay,
};
use cardswitch_sim::driver::id_mint;
use cardswitch_sim::happening::Happening;
use cardswitch_sim::model::{DAY, HOUR, MINUTE, Model};
use cardswitch_sim::workload::Workload;
use chrono::{DateTime, Timelike};

use crate::changes::setup_terms;
use crate::inside::CREDIT_LIMIT;

/// The largest amount that a message carries. Source: ISO DE4, twelve digits.
const AMOUNT_MAX: i64 = 999_999_999_999;
const SECOND: i64 = 1_000_000;

/// The steps of a story.
#[derive(Default)]
pub(crate) struct Tale {
    pub(crate) start: Option<TimeOfDay>,
    pub(crate) cards: BTreeMap<String, Terms>,
    /// The money of the company whose card comes first.
    pub(crate) account: Option<AccountSetup>,
    pub(crate) steps: Vec<StepFile>,
    /// The happenings that are left out, each with its reason and how often.
    untold: BTreeMap<(&'static str, &'static str), u64>,
}

impl Tale {
    pub(crate) fn leave_out(&mut self, (what, why): (&'static str, &'static str)) {
        *self.untold.entry((what, why)).or_default() += 1;
    }

    /// The happenings that are left out, in words.
    pub(crate) fn untold(&self) -> Vec<String> {
        let note = |((what, why), count): (&(&str, &str), &u64)| format!("{what} ({count}): {why}");
        self.untold.iter().map(note).collect()
    }
}

/// Something that cannot be told, and why.
pub(crate) type Omission = (&'static str, &'static str);

/// Tells the happenings of a seed's world.
pub(crate) fn tell(seed: u64, happenings: &[Happening]) -> Tale {
    let mut teller = Teller::new(seed);
    happenings.iter().for_each(|happening| teller.happen(happening));
    let Teller { mut told, early, .. } = teller;
    let lone: BTreeSet<usize> = early.into_values().flatten().collect();
    lone.iter().for_each(|_| told.leave_out(("reversals", "there is no purchase that they name")));
    let names: BTreeSet<_> =
        lone.iter().filter_map(|place| told.steps[*place].name.clone()).collect();
    let is_of_one = |step: &StepFile| step.again.as_ref().is_some_and(|name| names.contains(name));
    let steps = std::mem::take(&mut told.steps).into_iter().enumerate();
    let kept = steps.filter(|(place, step)| !lone.contains(place) && !is_of_one(step));
    told.steps = kept.map(|(_, step)| step).collect();
    told
}

/// The teller of one world.
pub(crate) struct Teller {
    pub(crate) model: Model,
    pub(crate) told: Tale,
    /// The instant of the happening, and of the last step. Units: microseconds.
    pub(crate) at: i64,
    told_at: i64,
    /// The instant of the first step.
    started_at: i64,
    /// The names of cards, by their place in the model.
    pub(crate) cards: BTreeMap<usize, String>,
    /// The names of purchases and transfers, by their places in the model.
    purchases: BTreeMap<usize, String>,
    transfers: BTreeMap<usize, String>,
    /// The steps of messages, by key.
    sent: BTreeMap<DuplicateKey, String>,
    /// Reversals that came before their purchase: the places of their steps, by its mark.
    early: BTreeMap<OriginalKey, Vec<usize>>,
    names: u64,
}

impl Teller {
    fn new(seed: u64) -> Self {
        let (mut model, mut workload) = (Model::new(id_mint()), Workload::new(seed));
        for command in workload.opening() {
            let Timestamp(at) = workload.pass_time();
            model.expect(at, &command);
        }
        Self {
            model,
            told: Tale::default(),
            at: workload.at,
            told_at: 0,
            started_at: 0,
            cards: BTreeMap::new(),
            purchases: BTreeMap::new(),
            transfers: BTreeMap::new(),
            sent: BTreeMap::new(),
            early: BTreeMap::new(),
            names: 0,
        }
    }

    fn happen(&mut self, happening: &Happening) {
        let untold = match happening {
            Happening::Send { at, commands } => {
                self.at = self.at.max(*at);
                return commands.iter().for_each(|command| self.execute(command));
            }
            Happening::Step(_) | Happening::Audit => return,
            Happening::ClockBack(_) | Happening::ClockLeap(_) => {
                ("turns of the machine's clock", "a scenario's clock only goes on")
            }
            Happening::Restart => ("restarts", "a scenario has one running switch"),
            Happening::Crash { .. } => ("crashes", "a scenario has one running switch"),
            Happening::BreakDisk(_) => ("faults of a disk", "a scenario has no disks"),
            Happening::FailOver(_) => ("changes of the leader", "a scenario has one switch"),
        };
        self.told.leave_out(untold);
    }

    fn execute(&mut self, command: &Command) {
        let told = match command {
            Command::Network(request) => self.network(request),
            Command::Admin(change) => self.change(command, Some(change)),
            Command::Noted(noted) => self.change(command, Some(&noted.change)),
            Command::Keyed(keyed) => self.change(command, keyed.change.as_ref()),
            Command::Tick => {
                self.model.expect(self.at, command);
                Ok(())
            }
        };
        if let Err(untold) = told {
            self.told.leave_out(untold);
        }
    }

    fn network(&mut self, request: &NetworkRequest) -> Result<(), Omission> {
        let command = Command::Network(Box::new(request.clone()));
        self.model.pass_time(self.at);
        let print = request.fingerprint;
        let key = print.map(|print| print.key);
        if let Some(first) = print.and_then(|print| self.model.said_before(&print)) {
            self.model.expect(self.at, &command);
            return self.again(&first, key);
        }
        let step = self.message(&request.command);
        let (purchases, transfers) = (self.model.purchases.len(), self.model.transfers.len());
        let reply = self.model.expect(self.at, &command);
        let mut step = step?;
        if let Some(wrong) = wrong_credentials(&reply)? {
            step.wrong = Some(wrong).filter(|wrong| !wrong.is_empty() && takes_credentials(&step));
        }
        let name = self.named(&mut step);
        if self.model.purchases.len() > purchases {
            self.purchases.insert(purchases, name.clone());
        }
        if self.model.transfers.len() > transfers {
            self.transfers.insert(transfers, name.clone());
        }
        if step.of.is_none() || step.refund.is_some() {
            self.name_early(&request.command, &name);
        }
        self.sent.extend(key.map(|key| (key, name)));
        self.push(step);
        Ok(())
    }

    fn again(&mut self, first: &NetworkReply, key: Option<DuplicateKey>) -> Result<(), Omission> {
        if *first == NetworkReply::Conflict {
            return Err(("messages under the key of another", "a scenario gives each its own"));
        }
        let Some(name) = key.and_then(|key| self.sent.get(&key).cloned()) else {
            return Err(("repeats", "the first message was left out"));
        };
        self.push(StepFile { again: Some(name), repeat: Some(true), ..StepFile::default() });
        Ok(())
    }

    /// A purchase that was reversed before it came gives its name to that reversal.
    fn name_early(&mut self, command: &NetworkCommand, name: &str) {
        let trace = match command {
            NetworkCommand::Authorize(Authorize { facts, .. })
            | NetworkCommand::Advise(Advise { facts, .. })
            | NetworkCommand::Refund(Refund { facts, .. })
            | NetworkCommand::Present(Present { facts: Some(facts), .. }) => &facts.trace,
            _ => return,
        };
        let places = trace.original_key.and_then(|key| self.early.remove(&key));
        for place in places.into_iter().flatten() {
            self.told.steps[place].reverse = Some(name.to_owned());
        }
    }

    /// Gives a step a name of its own.
    fn named(&mut self, step: &mut StepFile) -> String {
        self.names += 1;
        let kind = match step {
            StepFile { advise: Some(_), .. } => "advice",
            StepFile { increment: Some(_), .. } => "increment",
            StepFile { inquire: Some(_), .. } => "inquiry",
            StepFile { present: Some(_), .. } => "presentment",
            StepFile { refund: Some(_), .. } => "refund",
            StepFile { reverse: Some(_), .. } => "reversal",
            StepFile { transfer: Some(_), .. } => "transfer",
            _ => "purchase",
        };
        let name = format!("{kind} {}", self.names);
        step.name =
            Some(name.clone()).filter(|_| step.settle.is_none() && step.take_back.is_none());
        name
    }

    /// Adds a step, after the time since the one before.
    pub(crate) fn push(&mut self, step: StepFile) {
        self.begin(None);
        let seconds = (self.at - self.told_at) / SECOND;
        if seconds > 0 {
            let advance = u64::try_from(seconds).ok().map(Span);
            self.told.steps.push(StepFile { advance, ..StepFile::default() });
            self.told_at += seconds * SECOND;
        }
        self.told.steps.push(step);
    }

    fn message(&mut self, command: &NetworkCommand) -> Result<StepFile, Omission> {
        match command {
            NetworkCommand::Authorize(authorize) => self.authorize(authorize),
            NetworkCommand::Increment(increment) => self.increment(increment),
            NetworkCommand::Advise(advise) => self.advise(advise),
            NetworkCommand::Reverse(reverse) => self.reverse(reverse),
            NetworkCommand::Present(present) => self.present(present),
            NetworkCommand::Refund(refund) => self.refund(refund),
            NetworkCommand::InquireBalance(inquiry) => {
                let inquire = Some(self.card(inquiry.card)?);
                Ok(StepFile { inquire, ..StepFile::default() })
            }
            NetworkCommand::Transfer(transfer) => self.transfer(transfer),
            NetworkCommand::ConcludeTransfer(conclude) => self.conclude(conclude),
        }
    }

    fn authorize(&mut self, authorize: &Authorize) -> Result<StepFile, Omission> {
        let facts = &authorize.facts;
        let is_cash = authorize.kind == AuthorizationKind::Cash;
        let is_nothing = facts.amounts.amount.is_zero() && !is_cash;
        if authorize.kind == AuthorizationKind::Verification || is_nothing {
            let verify = Some(self.card(facts.card)?);
            return Ok(StepFile { verify, ..with_category(StepFile::default(), facts)? });
        }
        let (amount, billing) = money(&facts.amounts)?;
        let at = self.model.find_card(facts.card);
        let allows_partial = at.is_some_and(|at| self.model.allows_partial(at));
        let takes_partial = authorize.partial == PartialApproval::Taken && allows_partial;
        let card = Some(self.card(facts.card)?);
        let step = with_category(StepFile { card, billing, ..StepFile::default() }, facts)?;
        let partial = (takes_partial && billing.is_none()).then_some(true);
        Ok(match authorize.kind {
            AuthorizationKind::Cash => StepFile { cash: Some(amount), ..step },
            AuthorizationKind::SingleMessage => {
                StepFile { purchase: Some(amount), partial, ..step }
            }
            _ => StepFile { authorize: Some(amount), partial, ..step },
        })
    }

    fn increment(&mut self, increment: &Increment) -> Result<StepFile, Omission> {
        let card = increment.card.map(|card| self.model.find_card(card));
        let found = match card {
            Some(None) => None,
            Some(card) => self.model.find_original(card, &increment.original),
            None => self.model.find_original(None, &increment.original),
        };
        match (found.filter(|found| self.is_pending(*found)), &increment.otherwise) {
            (Some(found), _) => {
                let (amount, billing) = money(&increment.amounts)?;
                let of = Some(self.purchase(found)?);
                Ok(StepFile { increment: Some(amount), of, billing, ..StepFile::default() })
            }
            (None, Some(authorize)) => self.authorize(authorize),
            (None, None) => Err(("increments", "the purchase is not pending")),
        }
    }

    fn advise(&mut self, advise: &Advise) -> Result<StepFile, Omission> {
        let facts = &advise.facts;
        let declined = (advise.outcome == AdviceOutcome::Declined).then_some(true);
        let (amount, billing) = money(&facts.amounts)?;
        let step = StepFile { advise: Some(amount), billing, declined, ..StepFile::default() };
        let card = self.model.find_card(facts.card);
        let found = card.and_then(|card| self.model.find_original(Some(card), &advise.original));
        match found.filter(|found| self.is_pending(*found)) {
            Some(found) => self.naming(step, found, &advise.original),
            None => self.opening(step, facts),
        }
    }

    fn reverse(&mut self, reverse: &Reverse) -> Result<StepFile, Omission> {
        let card = reverse.card.map(|card| self.model.find_card(card));
        let found = match card {
            Some(None) => None,
            Some(card) => self.model.find_original(card, &reverse.original),
            None => self.model.find_original(None, &reverse.original),
        };
        let advice = (reverse.kind == ReversalKind::Advice).then_some(true);
        let step = StepFile { advice, ..StepFile::default() };
        let Some(found) = found else { return self.reverse_early(step, &reverse.original) };
        let purchase = &self.model.purchases[found];
        let is_refund = purchase.kind == TransactionKind::Refund;
        let open = if is_refund { -purchase.posted } else { purchase.held().max(purchase.posted) };
        let kept = match reverse.amount {
            ReversalAmount::Full => None,
            ReversalAmount::GiveBack(back) => Some(open - back.0),
            ReversalAmount::Remaining(kept) | ReversalAmount::RemainingOriginal(kept) => {
                Some(kept.0)
            }
        };
        if kept.is_some() && purchase.foreign.is_some() {
            return Err((
                "partial reversals",
                "the rate of a purchase in another currency is not told",
            ));
        }
        let keep = match kept {
            Some(0) => Some(Money::of_account(0)),
            kept => kept.map(Money::of_account).map(carried).transpose()?,
        };
        let reverse_of = Some(self.purchase(found)?);
        let by = by_of(&reverse.original, false);
        Ok(StepFile { reverse: reverse_of, keep, by, ..step })
    }

    /// A reversal of a purchase that has not come. Its name is filled in when it comes.
    fn reverse_early(
        &mut self,
        step: StepFile,
        original: &OriginalRef,
    ) -> Result<StepFile, Omission> {
        let Some(key) = original.original_key else {
            return Err(("reversals", "there is no purchase that they name"));
        };
        self.begin(None);
        // Behind the step of the time that passes before it.
        let gap = usize::from((self.at - self.told_at) / SECOND > 0);
        self.early.entry(key).or_default().push(self.told.steps.len() + gap);
        Ok(StepFile { reverse: Some(String::new()), ..step })
    }

    fn present(&mut self, present: &Present) -> Result<StepFile, Omission> {
        let card = present.facts.as_ref().map(|facts| self.model.find_card(facts.card));
        let found = match card {
            Some(None) => return Err(("messages", "their card does not exist")),
            card => self.model.find_original(card.flatten(), &present.original),
        };
        let purchases = &self.model.purchases;
        let found = found.filter(|at| purchases[*at].kind != TransactionKind::Refund);
        let held = found.map_or(0, |at| purchases[at].held());
        let of_facts = present.facts.as_ref().map(|facts| facts.amounts);
        let amounts = present.amounts.or(of_facts.filter(|_| found.is_none()));
        let (amount, billing) = match &amounts {
            Some(amounts) => money(amounts)?,
            None => (carried(Money::of_account(held))?, None),
        };
        let number = present.number;
        if number.number > number.count {
            return Err(("presentments", "their number is beyond their count"));
        }
        let number = (number.count > 1)
            .then_some(Presentment { number: number.number, count: number.count });
        let step = StepFile { present: Some(amount), billing, number, ..StepFile::default() };
        match (found, &present.facts) {
            (Some(found), _) => self.naming(step, found, &present.original),
            (None, Some(facts)) => self.opening(step, facts),
            (None, None) => Err(("presentments", "there is no purchase that they name")),
        }
    }

    fn refund(&mut self, refund: &Refund) -> Result<StepFile, Omission> {
        let facts = &refund.facts;
        let (amount, billing) = money(&facts.amounts)?;
        let step = StepFile { refund: Some(amount), billing, ..StepFile::default() };
        let card = self.model.find_card(facts.card);
        let found = card.and_then(|card| self.model.find_original(Some(card), &refund.original));
        match found {
            Some(found) => {
                let by = by_of(&refund.original, true);
                let of = Some(self.purchase(found)?);
                Ok(StepFile { of, by, ..step })
            }
            None => self.opening(step, facts),
        }
    }

    fn transfer(&mut self, transfer: &Transfer) -> Result<StepFile, Omission> {
        let Money { minor, .. } = carried(Money::of_account(transfer.amount.0))?;
        let is_deposit = transfer.direction == TransferDirection::Deposit;
        let amount = Money::of_account(if is_deposit { minor } else { -minor });
        let is_settled = transfer.timing == TransferTiming::AtOnce;
        if !self.model.has_account(transfer.account) {
            return Err(("transfers", "there is no such account"));
        }
        self.begin(None);
        let settled = is_settled.then_some(true);
        Ok(StepFile { transfer: Some(amount), settled, ..StepFile::default() })
    }

    fn conclude(&mut self, conclude: &ConcludeTransfer) -> Result<StepFile, Omission> {
        let count = self.model.transfers.len();
        let found = (0..count).find(|at| self.model.transfer_id(*at) == conclude.transaction);
        let name = found.and_then(|found| self.transfers.get(&found).cloned());
        let name = name.ok_or(("ends of transfers", "there is no such transfer"))?;
        Ok(match conclude.conclusion {
            TransferConclusion::Settle => StepFile { settle: Some(name), ..StepFile::default() },
            TransferConclusion::Return => StepFile { take_back: Some(name), ..StepFile::default() },
        })
    }

    /// A message that is about an earlier purchase.
    fn naming(
        &self,
        step: StepFile,
        found: usize,
        original: &OriginalRef,
    ) -> Result<StepFile, Omission> {
        Ok(StepFile { of: Some(self.purchase(found)?), by: by_of(original, false), ..step })
    }

    /// A message that opens a transaction by itself.
    fn opening(&mut self, step: StepFile, facts: &PurchaseFacts) -> Result<StepFile, Omission> {
        let card = Some(self.card(facts.card)?);
        with_category(StepFile { card, ..step }, facts)
    }

    fn is_pending(&self, purchase: usize) -> bool {
        self.model.purchases[purchase].state == TransactionState::Pending
    }

    fn purchase(&self, at: usize) -> Result<String, Omission> {
        let name = self.purchases.get(&at).cloned();
        name.ok_or(("messages", "the purchase that they name was left out"))
    }

    /// The name of a card; a new one is set up with its terms of this moment.
    fn card(&mut self, named: CardRef) -> Result<String, Omission> {
        let at = self.model.find_card(named).ok_or(("messages", "their card does not exist"))?;
        if let Some(name) = self.cards.get(&at) {
            return Ok(name.clone());
        }
        self.begin(Some(at));
        // Steps about no card are about the one of this name.
        let name = match self.cards.len() {
            0 => "card".to_owned(),
            others => format!("card {}", others + 1),
        };
        let (terms, untold) = setup_terms(&self.model.cards[at].terms, self.at, self.started_at);
        untold.into_iter().for_each(|untold| self.told.leave_out(untold));
        self.told.cards.insert(name.clone(), terms);
        self.cards.insert(at, name.clone());
        match self.model.cards[at].state {
            CardState::Active => {}
            CardState::Unactivated => {
                self.told.leave_out(("cards", "a scenario's cards are active from the first"));
            }
            CardState::Suspended => {
                self.push(StepFile { suspend: Some(name.clone()), ..StepFile::default() });
            }
            CardState::Terminated => {
                self.push(StepFile { terminate: Some(name.clone()), ..StepFile::default() });
            }
        }
        Ok(name)
    }

    /// Begins at the time of day of the first card's company, and with its money.
    fn begin(&mut self, card: Option<usize>) {
        if self.told.start.is_some() {
            return;
        }
        (self.told_at, self.started_at) = (self.at, self.at);
        let company = card.map_or(0, |card| self.model.cards[card].company);
        let company = (company, &self.model.companies[company]);
        let local =
            DateTime::from_timestamp_micros(self.at).map(|at| at.with_timezone(&company.1.zone));
        let second = local.map_or(0, |local| i64::from(local.num_seconds_from_midnight()));
        let minute = (second * SECOND + STANDARD_OFFSET) % DAY / MINUTE;
        self.told.start = u32::try_from(minute * 60).ok().map(TimeOfDay);
        let available = self.model.available(company.0) + company.1.credit_limit - CREDIT_LIMIT;
        // Nobody withdraws more than there is.
        let available = available.max(0);
        let credit_limit = Money::of_account(CREDIT_LIMIT);
        self.told.account =
            Some(AccountSetup { available: Money::of_account(available), credit_limit });
    }
}

/// The company's clocks are so far behind UTC in winter.
const STANDARD_OFFSET: i64 = 8 * HOUR;

/// Whether a step may show wrong credentials.
const fn takes_credentials(step: &StepFile) -> bool {
    step.authorize.is_some()
        || step.purchase.is_some()
        || step.cash.is_some()
        || step.verify.is_some()
        || step.inquire.is_some()
}

/// The credentials that a message showed wrong, by the rules that failed.
/// Errors: one that cards of scenarios have not.
fn wrong_credentials(reply: &Reply) -> Result<Option<Vec<Credential>>, Omission> {
    let failed = match reply {
        Reply::Network(NetworkReply::Authorization(reply)) => reply.failed_rules,
        Reply::Network(NetworkReply::Balance(reply)) => reply.failed_rules,
        _ => return Ok(None),
    };
    let has = |rule| failed.intersection(RuleSet::of(rule)) != RuleSet::EMPTY;
    if has(Rule::ZipDiffers) {
        return Err(("messages with a wrong ZIP code", "cards of scenarios have none"));
    }
    let all = [
        (Credential::Expiry, Rule::ExpirationDiffers),
        (Credential::Pin, Rule::PinWrong),
        (Credential::Cvv, Rule::CvvWrong),
    ];
    Ok(Some(all.into_iter().filter(|(_, rule)| has(*rule)).map(|(shown, _)| shown).collect()))
}

/// The way in which a message names its purchase. A refund's own reference number names none.
fn by_of(original: &OriginalRef, is_refund: bool) -> Option<Naming> {
    if original.transaction.is_some() {
        return None;
    }
    if original.authorization_id.is_some() {
        return Some(Naming::AuthorizationId);
    }
    let by_reference = original.original_key.is_none() && !is_refund;
    Some(if by_reference { Naming::Rrn } else { Naming::OriginalData })
}

fn with_category(step: StepFile, facts: &PurchaseFacts) -> Result<StepFile, Omission> {
    let mcc = facts.merchant.mcc.map(|mcc| mcc.0);
    let mcc = mcc.ok_or(("messages without a category", "a scenario's merchants have one"))?;
    if has_merchant_of(mcc) {
        return Ok(StepFile { mcc: Some(mcc), ..step });
    }
    // Holds of stays last longer.
    let mcc = if (3351..=3999).contains(&mcc) { 7011 } else { 4111 };
    Ok(StepFile { mcc: Some(mcc), ..step })
}

/// The amount of a message, and the billed one where the currencies differ.
fn money(amounts: &MessageAmounts) -> Result<(Money, Option<Money>), Omission> {
    let own = Money::of_account(amounts.amount.0);
    let Some(currency) = amounts.currency.filter(|currency| currency.0 != own.numeric()) else {
        return Ok((carried(own)?, None));
    };
    let no_billing = ("messages without a billed amount", "a scenario's always have one");
    let billing = amounts.billing.filter(|billing| billing.currency.0 == own.numeric());
    let billing = Money::of_account(billing.ok_or(no_billing)?.amount.0);
    let amount = Money::of_currency(amounts.amount.0, currency.0).ok_or(no_billing)?;
    Ok((carried(amount)?, Some(carried(billing)?)))
}

/// Errors: an amount that a door refuses.
fn carried(money: Money) -> Result<Money, Omission> {
    let is_carried = (1..=AMOUNT_MAX).contains(&money.minor);
    is_carried.then_some(money).ok_or(("messages", "not every door takes their amount"))
}
