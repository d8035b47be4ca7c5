//! Opening a purchase: its authorization, advice or single message, and what the answer sets off.

use super::due_action::Action;
use super::live_purchase::{FirstAnswer, LivePurchase, Verdict, is_final};
use super::{Conversation, MessagePlace, RRN_LIMIT, RRNS_A_PURCHASE, TRIES_MAX, UnframedMessage};
use crate::books::{EntryId, Event, Outcome};
use crate::merchants::catalogue;
use crate::message::later_message::LaterKind;
use crate::message::{AnswerFields, OpeningMessage};
use crate::plan::{Fate, Opening, Payer, Plan};
use crate::portfolio::Card;
use crate::report::RecentPurchase;

impl Conversation<'_> {
    pub(super) fn open(&mut self, plan: Plan) -> Option<UnframedMessage> {
        if self.frontier == Some(plan.number) {
            self.frontier = None;
        }
        let (number, due_us) = (plan.number, plan.due_us);
        let rrn = (self.first_rrn + RRNS_A_PURCHASE * number) % RRN_LIMIT;
        self.purchases = self.purchases.max(number + 1);
        let identity = self.new_identity(rrn, due_us);
        let virtual_us = self.virtual_us(due_us);
        let (card, pan) = self.payer(&plan);
        let message = OpeningMessage { plan: &plan, card, pan: &pan, identity, virtual_us };
        let (bytes, key) = (message.encode(false), message.key());
        let entry = self.enter_opening(&plan, identity.rrn);
        self.live.insert(number, LivePurchase::new(plan, pan, identity, entry, bytes.clone()));
        let part = MessagePlace { later: None, is_repeat: false };
        let outgoing = self.send((number, part), (bytes, key), due_us);
        self.schedule_from_opening(number);
        Some(outgoing)
    }

    pub(super) fn payer(&self, plan: &Plan) -> (Option<&Card>, String) {
        match plan.payer {
            Payer::Card(slot) => {
                let card = self.portfolio.card(slot);
                (card, card.map(|card| card.pan.clone()).unwrap_or_default())
            }
            Payer::Stranger(draw) => (None, self.portfolio.stranger(draw)),
        }
    }

    /// Opens a page in the books, unless nothing is to be booked.
    fn enter_opening(&mut self, plan: &Plan, rrn: u64) -> Option<EntryId> {
        let event = event_of(plan)?;
        self.tally.counts.authorizations += 1;
        let Payer::Card(card) = plan.payer else { return None };
        self.books.open(plan.number, card, rrn, plan.due_us);
        self.books.sent(plan.number, event)
    }

    /// Plans the actions that do not depend on the answer.
    fn schedule_from_opening(&mut self, purchase: u64) {
        let Some(live) = self.live.get(&purchase) else { return };
        let plan = &live.plan;
        if plan.opening == Opening::BalanceInquiry {
            return;
        }
        let (due_us, fate, is_advice) = (plan.due_us, plan.fate, plan.opening.is_advice());
        let (duplicate, repeat) = (plan.duplicate_after_us, plan.repeat_after_us);
        let moves_money = plan.opening != Opening::Verification;
        if let Some(after_us) = duplicate {
            let action = Action::OpenAgain { purchase, marked: false };
            self.schedule(purchase, due_us + after_us, action);
        }
        if let Some(after_us) = repeat.filter(|_| is_advice) {
            self.schedule(
                purchase,
                due_us + after_us,
                Action::OpenAgain { purchase, marked: true },
            );
        }
        // An advice is reversed once it was taken: until then it is sent again.
        if let Fate::TimesOut { after_us, .. } = fate
            && moves_money
            && !is_advice
        {
            let action = Action::Later { purchase, kind: LaterKind::TimeOutReversal };
            self.schedule(purchase, due_us + after_us, action);
        }
    }

    pub(super) fn open_again(
        &mut self,
        purchase: u64,
        marked: bool,
        due_us: u64,
    ) -> Option<UnframedMessage> {
        let virtual_us = self.virtual_us(due_us);
        let live = self.live.get(&purchase)?;
        let (card, identity) = (self.payer(&live.plan).0, live.identity);
        let message =
            OpeningMessage { plan: &live.plan, card, pan: &live.pan, identity, virtual_us };
        let bytes = if marked { message.encode(true) } else { live.bytes.clone() };
        let key = message.key();
        self.tally.counts.duplicates += 1;
        let part = MessagePlace { later: None, is_repeat: marked };
        let outgoing = self.send((purchase, part), (bytes, key), due_us);
        self.release(purchase);
        Some(outgoing)
    }

    pub(super) fn opening_answered(
        &mut self,
        purchase: u64,
        answer: &AnswerFields,
        now_us: u64,
        latency_us: u64,
    ) {
        let Some(live) = self.live.get_mut(&purchase) else { return };
        let given =
            FirstAnswer { response: answer.response, authorization_id: answer.authorization_id };
        let first = live.first_answer;
        if let Some(first) = first.filter(|first| is_final(first.response)) {
            return self.compare_with_first(purchase, first, given);
        }
        live.first_answer = Some(given);
        match first {
            None => self.tally.record_latency(latency_us),
            Some(_) => self.tally.take_unknown_back(),
        }
        let outcome = opening_outcome(&live.plan, answer);
        live.verdict = Verdict::of(answer, outcome);
        if let Some(entry) = live.entry {
            self.books.answered(entry, outcome);
        }
        if live.plan.opening == Opening::BalanceInquiry {
            self.tally.counts.balance_inquiries += u64::from(answer.response == *b"00");
            return;
        }
        match outcome {
            Outcome::Unknown | Outcome::Awaited => {
                self.tally.counts.unknown += 1;
                self.outcome_unknown(purchase, None, now_us);
            }
            Outcome::Accepted { amount_minor } => {
                self.approved(purchase, amount_minor, answer, now_us)
            }
            _ => self.declined(purchase, answer),
        }
    }

    fn declined(&mut self, purchase: u64, answer: &AnswerFields) {
        let code = answer.exact_code();
        self.books.set_response_code(purchase, code);
        self.record_purchase(purchase, code);
    }

    /// Holds what was approved and plans what becomes of it.
    fn approved(&mut self, purchase: u64, held_minor: u64, answer: &AnswerFields, now_us: u64) {
        self.books.set_response_code(purchase, 0);
        self.record_purchase(purchase, 0);
        let is_part = answer.response == *b"10";
        self.tally.counts.approved_in_part += u64::from(is_part);
        let Some(live) = self.live.get(&purchase) else { return };
        let asked_minor = live.plan.price.billing_minor;
        if is_part && (!live.plan.partial || held_minor > asked_minor) {
            let most = if live.plan.partial { asked_minor } else { 0 };
            let expected = format!("an approval in part of at most {most} minor units");
            let difference = self.difference(live, expected, format!("one of {held_minor}"));
            self.differences.push(difference);
        }
        // No more is presented than was asked for.
        let held_minor = held_minor.min(asked_minor);
        let Some(live) = self.live.get_mut(&purchase) else { return };
        live.authorization_id = answer.authorization_id;
        if held_minor != live.held_minor {
            // Approved in part, which happens in the account's currency only.
            live.amount_minor = held_minor;
        }
        live.held_minor = held_minor;
        // A purchase that the acquirer has already given up is reversed, never presented.
        let is_given_up = live.tries == TRIES_MAX;
        let is_settled = matches!(live.plan.opening, Opening::Financial | Opening::Forced);
        if is_settled && !is_given_up && live.plan.fate == Fate::Abandoned {
            live.posted = (live.amount_minor, live.held_minor);
            return self.plan_refund(purchase, now_us);
        }
        let has_hold = matches!(live.plan.opening, Opening::Authorization | Opening::Advice);
        let (after_us, kind) = match live.plan.fate {
            Fate::TimesOut { after_us, .. } if live.plan.opening.is_advice() => {
                (after_us, LaterKind::TimeOutReversal)
            }
            _ if is_given_up || !has_hold => return,
            Fate::Settles { after_us, .. } => (after_us, LaterKind::Presentment),
            Fate::Reversed { after_us } => (after_us, LaterKind::Reversal),
            Fate::PartlyReversed { after_us, .. } => (after_us, LaterKind::PartialReversal),
            Fate::Incremented { after_us, .. } => (after_us, LaterKind::Increment),
            Fate::Completed { after_us, .. } => (after_us, LaterKind::Completion),
            Fate::TimesOut { .. } | Fate::Abandoned => return,
        };
        let due_us = (live.plan.due_us + after_us).max(now_us);
        self.schedule(purchase, due_us, Action::Later { purchase, kind });
    }

    fn record_purchase(&mut self, purchase: u64, response_code: u16) {
        let Some(live) = self.live.get(&purchase) else { return };
        let merchant = catalogue().merchant(live.plan.merchant);
        self.tally.record_purchase(RecentPurchase {
            merchant: format!("{}, {}", merchant.name, merchant.city),
            billing_minor: live.plan.price.billing_minor,
            response_code,
        });
    }
}

/// The request of an opening, for the books; none where nothing is to be booked.
pub(super) fn event_of(plan: &Plan) -> Option<Event> {
    let amount_minor = plan.price.billing_minor;
    match plan.opening {
        Opening::BalanceInquiry => None,
        Opening::Verification => Some(Event::Verify),
        Opening::Financial | Opening::Forced => Some(Event::Post { amount_minor }),
        Opening::Refund => Some(Event::Refund { amount_minor }),
        Opening::Authorization | Opening::Advice => Some(Event::Hold { amount_minor }),
    }
}

fn opening_outcome(plan: &Plan, answer: &AnswerFields) -> Outcome {
    match &answer.response {
        b"00" => Outcome::Accepted { amount_minor: plan.price.billing_minor },
        b"10" => Outcome::Accepted {
            amount_minor: answer.amount_minor.unwrap_or(plan.price.billing_minor),
        },
        _ if !is_final(answer.response) => Outcome::Unknown,
        b"30" | b"94" | b"14" => Outcome::NotTaken,
        _ if answer.exact_code() == 1000 => Outcome::RefusedPerhapsRecorded,
        _ => Outcome::Refused,
    }
}
