//! The happenings of a world as the steps of a scenario, without expectations: messages, changes of cards and
//! allowances, and time.
//!
//! The happenings are told to the model once more, in their order. So it is known which card, purchase or transfer
//! each command is about, and which changes the switch refuses. All companies become one; commands that have no
//! verb are counted, with the reason. `message_steps` has the messages, `changes` what administrators do.

mod message_steps;

use std::collections::{BTreeMap, BTreeSet};

use cardswitch_engine::command::Command;
use cardswitch_engine::command::network::{
    Advise, Authorize, CardRef, NetworkCommand, NetworkRequest, Present, Refund,
};
use cardswitch_engine::command::reply::{NetworkReply, Reply};
use cardswitch_engine::decision::{Rule, RuleSet};
use cardswitch_engine::domain::card::CardState;
use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_engine::domain::network_key::{DuplicateKey, OriginalKey};
use cardswitch_engine::domain::transaction::TransactionState;
use cardswitch_feed::scenario::{
    AccountSetup, Credential, Money, StepFile, Terms, TimeOfDay, TimeSpan,
};
use cardswitch_sim::driver::id_mint;
use cardswitch_sim::happening::Happening;
use cardswitch_sim::model::{DAY, HOUR, MINUTE, Model};
use cardswitch_sim::workload::Workload;
use chrono::{DateTime, Timelike};

use crate::changes::setup_terms;
use crate::inside::CREDIT_LIMIT;

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
            Happening::Step(_) | Happening::StepAmidWrite(..) | Happening::Audit => return,
            Happening::ClockBack(_) | Happening::ClockLeap(_) => {
                ("turns of the machine's clock", "a scenario's clock only goes on")
            }
            Happening::Restart => ("restarts", "a scenario has one running switch"),
            Happening::Crash { .. } => ("crashes", "a scenario has one running switch"),
            Happening::BreakDisk(_) | Happening::BreakTables(_) => {
                ("faults of a disk", "a scenario has no disks")
            }
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
            self.name_early(&request.command, &name, step.billing.is_some());
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
    fn name_early(&mut self, command: &NetworkCommand, name: &str, is_foreign: bool) {
        let trace = match command {
            NetworkCommand::Authorize(Authorize { facts, .. })
            | NetworkCommand::Advise(Advise { facts, .. })
            | NetworkCommand::Refund(Refund { facts, .. })
            | NetworkCommand::Present(Present { facts: Some(facts), .. }) => &facts.trace,
            _ => return,
        };
        let Some(key) = trace.original_key else { return };
        let places = self.early.remove(&key).unwrap_or_default();
        // The rate of what would stay is not told.
        let is_told = |place: &usize| !(is_foreign && self.told.steps[*place].keep.is_some());
        let (told, lone): (Vec<usize>, Vec<usize>) = places.into_iter().partition(is_told);
        for place in told {
            self.told.steps[place].reverse = Some(name.to_owned());
        }
        if !lone.is_empty() {
            self.early.insert(key, lone);
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
            let advance = u64::try_from(seconds).ok().map(TimeSpan);
            self.told.steps.push(StepFile { advance, ..StepFile::default() });
            self.told_at += seconds * SECOND;
        }
        self.told.steps.push(step);
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
