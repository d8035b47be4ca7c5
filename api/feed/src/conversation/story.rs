//! The story behind a difference: the messages of one purchase, in the order in which they left for the
//! switch, as the steps of a scenario.
//!
//! A scenario has a card of its own and a calm wire. Its expectations are the rules of the books, so a
//! right switch fulfils them. A message whose answer nobody heard is expected to be accepted. A message
//! that a scenario cannot tell ends the file, and the story says why.

use std::collections::BTreeMap;

use super::live_purchase::{LivePurchase, Verdict};
use super::opening::event_of;
use super::{Conversation, Departure, MessagePlace, RRN_LIMIT, RRNS_A_PURCHASE};
use crate::books::{ABSENT, Difference, Event, Outcome, PossibleState, State, carry};
use crate::hostile::Mishap;
use crate::merchants::{Merchant, catalogue};
use crate::message::later_message::LaterKind;
use crate::plan::{CredentialChoice, Opening, Plan, PurchaseReference};
use crate::portfolio::Card;
use crate::scenario::{
    Credential, ExpectedAnswer, Money, Naming, Presentment, ScenarioFile, SetupFile, StepFile,
    Story, Terms, TimeSpan,
};

/// Differences whose stories are compared for the shortest one.
const STORIES_MAX: usize = 100;

/// The names of a story's card and transactions.
const CARD: &str = "card";
const PURCHASE: &str = "purchase";
const REFUND: &str = "refund";

/// The categories of counters and machines that give cash, which every card is declined at.
const CASH_CATEGORIES: [u16; 2] = [6010, 6011];

impl Conversation<'_> {
    /// The story of a difference that a scenario tells best: whole before cut short, then the shortest.
    pub(crate) fn story(&self) -> Option<Story> {
        let told = |difference| {
            let (live, departures) = self.purchase_of(difference)?;
            let card = self.payer(&live.plan).0;
            Some(StoryTeller::new(live, card).tell(departures, difference))
        };
        let stories = self.differences.iter().take(STORIES_MAX).filter_map(told);
        stories
            .min_by_key(|story| (story.scenario.is_none(), story.untold.len(), story.steps.len()))
    }

    /// The purchase that a difference is about, where it is about one that was kept.
    fn purchase_of(&self, difference: &Difference) -> Option<(&LivePurchase, &[Departure])> {
        let rrn: u64 = difference.rrn.as_ref()?.parse().ok()?;
        let purchase = (rrn + RRN_LIMIT - self.first_rrn) % RRN_LIMIT / RRNS_A_PURCHASE;
        let live = self.live.get(&purchase).or_else(|| self.past.get(&purchase))?;
        Some((live, self.departures.get(&purchase)?))
    }
}

/// A story as it is told.
struct StoryTeller<'a> {
    live: &'a LivePurchase,
    card: Option<&'a Card>,
    merchant: &'static Merchant,
    terms: Terms,
    steps: Vec<StepFile>,
    untold: Vec<String>,
    /// The places of the steps that send a message first: the opening, or a later one.
    told: BTreeMap<Option<usize>, usize>,
    purchase: PossibleState,
    refund: PossibleState,
    /// All amounts, for an allowance that has room for them. Units: minor units.
    asked_minor: u64,
}

impl<'a> StoryTeller<'a> {
    fn new(live: &'a LivePurchase, card: Option<&'a Card>) -> Self {
        Self {
            live,
            card,
            merchant: catalogue().merchant(live.plan.merchant),
            terms: Terms::default(),
            steps: Vec::new(),
            untold: Vec::new(),
            told: BTreeMap::new(),
            purchase: ABSENT,
            refund: ABSENT,
            asked_minor: 0,
        }
    }

    fn tell(mut self, departures: &[Departure], difference: &Difference) -> Story {
        let opens = |departure: &Departure| departure.part.later.is_none() && departure.is_whole();
        if !departures.iter().any(opens) {
            self.untold.push("the purchase itself never reached the switch".to_owned());
            return self.without_steps();
        }
        for departure in departures {
            self.note_mishap(departure);
            if !departure.is_whole() {
                continue;
            }
            let later = departure.part.later;
            match self.step(departure.part) {
                Ok(step) => {
                    self.told.entry(later).or_insert(self.steps.len());
                    self.steps.push(step);
                }
                Err(why) => {
                    let word = self.word(later);
                    self.untold.push(format!("the {word}, and all behind it: {why}"));
                    break;
                }
            }
        }
        match self.told.is_empty() {
            true => self.without_steps(),
            false => self.finish(difference),
        }
    }

    fn without_steps(self) -> Story {
        Story::without_file(self.untold)
    }

    /// Takes note of a mishap that a calm wire has not.
    fn note_mishap(&mut self, departure: &Departure) {
        let word = self.word(departure.part.later);
        let note = match departure.mishap {
            _ if !departure.is_carried => "there was no connection to carry it",
            Some(Mishap::Cut) => "half of it left, then the connection broke",
            Some(Mishap::Vanished) => "the connection broke before its answer",
            Some(Mishap::Dribbled) => "it came in single bytes",
            Some(Mishap::Noise) => "a frame of noise came before it",
            Some(Mishap::Stranger) => "a stranger sent half a frame beside it",
            Some(Mishap::Lost | Mishap::Late | Mishap::Copied) | None => return,
        };
        self.untold.push(format!("of the {word}: {note}"));
    }

    fn word(&self, later: Option<usize>) -> &'static str {
        let sent = later.and_then(|later| self.live.later.get(later));
        match sent.map(|sent| sent.message.kind) {
            None => PURCHASE,
            Some(LaterKind::Increment) => "increment",
            Some(LaterKind::Completion) => "completion",
            Some(LaterKind::Presentment) => "presentment",
            Some(LaterKind::Refund) => REFUND,
            Some(LaterKind::RefundReversal) => "reversal of the refund",
            Some(LaterKind::PartialReversal) => "partial reversal",
            Some(LaterKind::Reversal | LaterKind::TimeOutReversal) => "reversal",
        }
    }

    /// A message as a step.
    /// Errors: it cannot be told, and why.
    fn step(&mut self, part: MessagePlace) -> Result<StepFile, String> {
        let mut step = match (self.told.get(&part.later).copied(), part.later) {
            (Some(first), later) => self.again(first, later),
            (None, None) => self.opening()?,
            (None, Some(later)) => self.later(later)?,
        };
        step.repeat = part.is_repeat.then_some(true);
        let (world, sign) = match self.is_of_refund(part.later) {
            true => (self.refund, -1),
            false if self.live.plan.opening == Opening::Refund => (self.purchase, -1),
            false => (self.purchase, 1),
        };
        expect(&mut step, world, sign);
        Ok(step)
    }

    fn is_of_refund(&self, later: Option<usize>) -> bool {
        let sent = later.and_then(|later| self.live.later.get(later));
        sent.is_some_and(|sent| {
            matches!(sent.message.kind, LaterKind::Refund | LaterKind::RefundReversal)
        })
    }

    /// A message that was told before: its step gets a name if it has none.
    fn again(&mut self, first: usize, later: Option<usize>) -> StepFile {
        let name = format!("{} {}", self.word(later), first + 1);
        let name = self.steps[first].name.get_or_insert(name).clone();
        StepFile { again: Some(name), ..StepFile::default() }
    }

    fn money(&self, minor: u64) -> Money {
        Money { minor: signed(minor), currency: self.merchant.currency }
    }

    fn billing(&self, minor: u64) -> Option<Money> {
        self.merchant.is_foreign().then(|| Money::of_account(signed(minor)))
    }

    fn opening(&mut self) -> Result<StepFile, String> {
        let plan = &self.live.plan;
        let card = self.card.ok_or("nobody issued its card")?;
        if plan.credentials.zip == CredentialChoice::Wrong && card.zip.is_some() {
            return Err("cards of scenarios have no ZIP code that could be wrong".to_owned());
        }
        let amount = self.money(plan.price.amount_minor);
        let wrong = wrong_credentials(plan, card);
        let mut step = StepFile {
            name: Some(PURCHASE.to_owned()),
            mcc: Some(self.merchant.mcc),
            billing: self.billing(plan.price.billing_minor),
            wrong: Some(wrong).filter(|wrong| !wrong.is_empty()),
            ..StepFile::default()
        };
        match plan.opening {
            Opening::Authorization if plan.cash => step.cash = Some(amount),
            Opening::Authorization => {
                step.authorize = Some(amount);
                step.partial = plan.partial.then_some(true);
            }
            Opening::Financial => step.purchase = Some(amount),
            Opening::Advice => step.advise = Some(amount),
            Opening::Forced => step.present = Some(amount),
            Opening::Refund => step.refund = Some(amount),
            Opening::Verification => {
                (step.verify, step.billing) = (Some(CARD.to_owned()), None);
            }
            Opening::BalanceInquiry => {
                (step.inquire, step.billing) = (Some(CARD.to_owned()), None);
                step.mcc = None;
            }
        }
        let outcome = self.opening_outcome(&mut step)?;
        if let Some(event) = event_of(&self.live.plan) {
            self.purchase = follow(self.purchase, event, outcome);
        }
        self.asked_minor += self.live.plan.price.billing_minor;
        Ok(step)
    }

    /// The right outcome of the opening, and what the card needs for it.
    /// Errors: a decline whose cause the feed does not know.
    fn opening_outcome(&mut self, step: &mut StepFile) -> Result<Outcome, String> {
        let plan = &self.live.plan;
        let billing_minor = plan.price.billing_minor;
        let accepted = Outcome::Accepted { amount_minor: billing_minor };
        if self.is_overtaken() {
            step.expect = Some(ExpectedAnswer::of_code(1000));
            return Ok(Outcome::Refused);
        }
        if let Some(code) = own_refusal(plan, self.merchant, step) {
            step.expect = Some(ExpectedAnswer::of_code(code));
            return Ok(Outcome::Refused);
        }
        let heard = self.live.verdict.map_or((accepted, 0), |heard| (heard.outcome, heard.code));
        match heard {
            (Outcome::Accepted { amount_minor }, _) if amount_minor < billing_minor => {
                let approved = Money::of_account(signed(amount_minor));
                (step.approved, self.terms.amount) = (Some(approved), Some(approved));
            }
            (Outcome::Refused, code) => {
                self.cause(code, plan.partial)?;
                step.expect = Some(ExpectedAnswer::of_code(code));
            }
            (Outcome::NotTaken | Outcome::RefusedPerhapsRecorded, code) => {
                return Err(format!("the switch refused it: {code}"));
            }
            (Outcome::Accepted { .. } | Outcome::Awaited | Outcome::Unknown, _) => {
                return Ok(accepted);
            }
        }
        Ok(heard.0)
    }

    /// Gives the card what makes the switch decline the opening.
    /// Errors: a cause that the feed does not know.
    fn cause(&mut self, code: u16, is_partial: bool) -> Result<(), String> {
        let billing_minor = signed(self.live.plan.price.billing_minor);
        let below = Some(Money::of_account(billing_minor - 1));
        match code {
            1202 => {
                let suspend = Some(CARD.to_owned());
                self.steps.push(StepFile { suspend, ..StepFile::default() });
            }
            1501 => self.terms.starts_in = Some(TimeSpan(24 * 60 * 60)),
            1502 if billing_minor > 0 && !is_partial => self.terms.amount = below,
            1503 if billing_minor > 0 && !is_partial => self.terms.transaction_limit = below,
            _ => {
                return Err(format!(
                    "it was declined {code}, for a cause that the feed does not know"
                ));
            }
        }
        Ok(())
    }

    /// Whether the reversal came first.
    fn is_overtaken(&self) -> bool {
        let sent = |later: &Option<usize>| later.and_then(|later| self.live.later.get(later));
        self.told.keys().filter_map(sent).any(|sent| sent.message.kind.is_full_reversal())
    }

    fn later(&mut self, later: usize) -> Result<StepFile, String> {
        let sent = self.live.later.get(later).ok_or("it was never sent")?;
        let message = sent.message;
        let (amount, billing) =
            (Some(self.money(message.amount_minor)), self.billing(message.held_minor));
        let of_purchase = || Some(PURCHASE.to_owned());
        let by = match (message.reference, message.authorization_id) {
            (PurchaseReference::AuthorizationId, Some(_)) => None,
            (PurchaseReference::Rrn, _) => Some(Naming::Rrn),
            _ => Some(Naming::OriginalData),
        };
        let mut step = StepFile { of: of_purchase(), by, billing, ..StepFile::default() };
        match message.kind {
            LaterKind::Increment => (step.increment, step.by) = (amount, None),
            LaterKind::Completion => step.advise = amount,
            LaterKind::Presentment => {
                step.present = amount;
                step.number = message
                    .number
                    .map(|number| Presentment { number: number.number, count: number.count });
            }
            LaterKind::Refund => {
                (step.refund, step.name) = (amount, Some(REFUND.to_owned()));
            }
            LaterKind::RefundReversal => step = reversal(REFUND, by),
            LaterKind::Reversal => step = reversal(PURCHASE, by),
            LaterKind::PartialReversal => {
                step = StepFile {
                    keep: Some(self.money(message.keep_amount_minor)),
                    billing: self.billing(message.keep_held_minor),
                    ..reversal(PURCHASE, by)
                };
            }
            LaterKind::TimeOutReversal => {
                step = StepFile { advice: Some(true), ..reversal(PURCHASE, by) };
            }
        }
        let outcome = self.later_outcome(later, &mut step)?;
        let world =
            if self.is_of_refund(Some(later)) { &mut self.refund } else { &mut self.purchase };
        *world = follow(*world, message.event(), outcome);
        self.asked_minor += message.held_minor;
        Ok(step)
    }

    /// The right outcome of a later message.
    /// Errors: a refusal whose cause the feed does not know.
    fn later_outcome(&mut self, later: usize, step: &mut StepFile) -> Result<Outcome, String> {
        let sent = &self.live.later[later];
        let (message, heard) = (sent.message, sent.verdict);
        let accepted = Outcome::Accepted { amount_minor: message.held_minor };
        let is_reversal = message.kind.is_full_reversal();
        match (self.purchase.state, heard) {
            // Nothing is there yet, and the switch has to remember that.
            (State::Absent, _) if is_reversal => {
                step.expect = Some(ExpectedAnswer::of_reason("not_found"));
                Ok(accepted)
            }
            (State::Declined, _) if is_reversal => {
                step.expect = Some(ExpectedAnswer::of_code(1000));
                Ok(accepted)
            }
            (_, None | Some(Verdict { outcome: Outcome::Accepted { .. }, code: 0 })) => {
                Ok(accepted)
            }
            (_, Some(Verdict { outcome: Outcome::Refused, code: 1502 }))
                if message.kind == LaterKind::Increment =>
            {
                let held_minor = self.purchase.held_minor + message.held_minor;
                let below = Money::of_account(signed(held_minor) - 1);
                self.terms.amount.get_or_insert(below);
                step.expect = Some(ExpectedAnswer::of_code(1502));
                Ok(Outcome::Refused)
            }
            (_, Some(Verdict { outcome: Outcome::Accepted { .. }, code })) => Err(format!(
                "its answer, {code}, says that the purchase was not approved, which nobody heard"
            )),
            (_, Some(Verdict { code, .. })) => {
                Err(format!("it was refused {code}, for a cause that the feed does not know"))
            }
        }
    }

    fn finish(self, difference: &Difference) -> Story {
        let Self { mut terms, steps, untold, asked_minor, .. } = self;
        // Room for all of it, in whole hundreds.
        let room_minor = (asked_minor / 10_000 + 1) * 10_000;
        terms.amount.get_or_insert(Money::of_account(signed(room_minor)));
        let Difference { expected, found, .. } = difference;
        let about = format!("Books on a hostile wire: expected {expected}, found {found}");
        let setup = SetupFile { cards: [(CARD.to_owned(), terms)].into(), ..SetupFile::default() };
        Story::write(&ScenarioFile::new(about, setup, steps), untold)
    }
}

impl Departure {
    /// Whether all of the message left.
    fn is_whole(&self) -> bool {
        self.is_carried && self.mishap != Some(Mishap::Cut)
    }
}

/// The credentials of an opening that are wrong on a card of a scenario, too.
fn wrong_credentials(plan: &Plan, card: &Card) -> Vec<Credential> {
    let given = plan.credentials;
    let all = [
        (Credential::Expiry, given.expiry == CredentialChoice::Wrong),
        (Credential::Pin, given.pin == CredentialChoice::Wrong && card.pin.is_some()),
        (Credential::Cvv, given.cvv == CredentialChoice::Wrong && card.cvv.is_some()),
    ];
    all.into_iter().filter(|(_, is_wrong)| *is_wrong).map(|(credential, _)| credential).collect()
}

/// The decline that an opening asks for itself, whatever the card.
fn own_refusal(plan: &Plan, merchant: &Merchant, step: &StepFile) -> Option<u16> {
    match step.wrong.as_deref() {
        Some([Credential::Expiry, ..]) => Some(1301),
        Some([Credential::Pin, ..]) => Some(1302),
        Some([Credential::Cvv, ..]) => Some(1303),
        _ if plan.opening.is_advice() || plan.opening == Opening::BalanceInquiry => None,
        _ => (plan.cash || CASH_CATEGORIES.contains(&merchant.mcc)).then_some(1702),
    }
}

fn reversal(name: &str, by: Option<Naming>) -> StepFile {
    StepFile { reverse: Some(name.to_owned()), by, ..StepFile::default() }
}

/// The only state after a message with a certain outcome.
fn follow(world: PossibleState, event: Event, outcome: Outcome) -> PossibleState {
    carry(&[world], event, outcome).first().copied().unwrap_or(world)
}

/// Expects a state of the transaction that a step is about. Refunds are posted below zero.
fn expect(step: &mut StepFile, world: PossibleState, sign: i64) {
    let state = match world.state {
        State::Absent => return,
        State::Declined => "declined",
        State::Pending => "pending",
        State::Completed => "completed",
        State::Canceled => "canceled",
    };
    step.state = Some(state.to_owned());
    step.held = Some(Money::of_account(signed(world.held_minor)));
    step.posted = Some(Money::of_account(sign * signed(world.posted_minor)));
}

fn signed(minor: u64) -> i64 {
    i64::try_from(minor).unwrap_or(i64::MAX)
}
