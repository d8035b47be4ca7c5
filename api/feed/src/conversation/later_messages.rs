//! Messages after the opening: increments, completions, reversals, presentments, repeats, and the
//! consequences of silence.

use super::due_action::Action;
use super::live_purchase::{
    FirstAnswer, LivePurchase, SentMessage, Verdict, is_approval, is_final,
};
use super::{Conversation, MessagePlace, RRN_LIMIT, TRIES_MAX, UnframedMessage};
use crate::books::{Difference, Outcome};
use crate::message::AnswerFields;
use crate::message::later_message::{LaterKind, LaterMessage};
use crate::plan::{Fate, Opening, Return};

impl Conversation<'_> {
    pub(super) fn send_later(
        &mut self,
        purchase: u64,
        kind: LaterKind,
        due_us: u64,
    ) -> Option<UnframedMessage> {
        // Money back for what may have been posted or not: nobody could tell what is right then.
        if kind == LaterKind::Refund && !self.live.get(&purchase)?.is_certain() {
            self.release(purchase);
            return None;
        }
        let rrn = self.live.get(&purchase)?.identity.rrn;
        let rrn = if kind == LaterKind::Refund { (rrn + 1) % RRN_LIMIT } else { rrn };
        let identity = self.new_identity(rrn, due_us);
        if kind == LaterKind::Refund {
            self.books.open_refund(purchase, rrn, due_us);
        }
        let live = self.live.get_mut(&purchase)?;
        let message = live.later_message(kind, identity);
        let (event, later) = (message.event(), live.later.len());
        let entry = match kind {
            LaterKind::Refund | LaterKind::RefundReversal => {
                self.books.sent_of_refund(purchase, event)
            }
            _ => self.books.sent(purchase, event),
        };
        live.take_effect(&message);
        live.later.push(SentMessage {
            message,
            entry,
            first_answer: None,
            verdict: None,
            tries: 1,
        });
        let outgoing = self.later_outgoing(purchase, later, due_us, false);
        self.schedule_after_later(purchase, later, kind, due_us);
        self.release(purchase);
        outgoing
    }

    fn later_outgoing(
        &mut self,
        purchase: u64,
        later: usize,
        due_us: u64,
        repeated: bool,
    ) -> Option<UnframedMessage> {
        let virtual_us = self.virtual_us(due_us);
        let live = self.live.get(&purchase)?;
        let message = &live.later.get(later)?.message;
        let bytes = message.encode((&live.plan, &live.pan), virtual_us, repeated);
        let (key, part) = (message.key(), MessagePlace { later: Some(later), is_repeat: repeated });
        Some(self.send((purchase, part), (bytes, key), due_us))
    }

    /// Plans the repeat that was drawn for it, and the presentment after a partial reversal, an
    /// increment, a completion, or another presentment.
    fn schedule_after_later(&mut self, purchase: u64, later: usize, kind: LaterKind, due_us: u64) {
        let Some(live) = self.live.get(&purchase) else { return };
        let repeat_after_us = match live.plan.fate {
            Fate::TimesOut { repeat_after_us, .. } => repeat_after_us,
            _ => live.plan.repeat_after_us.filter(|_| later == 0),
        };
        let settles_us = match (kind, live.plan.fate) {
            (LaterKind::PartialReversal, Fate::PartlyReversed { settles_after_us, .. })
            | (LaterKind::Increment, Fate::Incremented { settles_after_us, .. })
            | (LaterKind::Completion, Fate::Completed { settles_after_us, .. }) => {
                Some((live.plan.due_us + settles_after_us).max(due_us))
            }
            (LaterKind::Presentment, _) if live.has_parcels_left() => {
                Some(due_us + self.settings.pace.parcel_us())
            }
            _ => None,
        };
        if let Some(after_us) = repeat_after_us {
            self.schedule(purchase, due_us + after_us, Action::Repeat { purchase, later });
        }
        if let Some(settles_us) = settles_us {
            let kind = LaterKind::Presentment;
            self.schedule(purchase, settles_us, Action::Later { purchase, kind });
        }
    }

    /// Sends a message again, unless nobody knows whether it arrived and others have followed it: behind those
    /// it would mean something else, a completion of what is presented a purchase of its own.
    pub(super) fn repeat(
        &mut self,
        purchase: u64,
        later: usize,
        due_us: u64,
    ) -> Option<UnframedMessage> {
        let sent = &self.live.get(&purchase)?.later;
        let is_answered =
            |sent: &SentMessage| sent.first_answer.is_some_and(|a| is_final(a.response));
        if later + 1 < sent.len() && !sent.get(later).is_some_and(is_answered) {
            self.release(purchase);
            return None;
        }
        self.tally.counts.duplicates += 1;
        let outgoing = self.later_outgoing(purchase, later, due_us, true);
        self.release(purchase);
        outgoing
    }

    pub(super) fn later_answered(
        &mut self,
        purchase: u64,
        later: usize,
        answer: &AnswerFields,
        now_us: u64,
    ) {
        let Some(live) = self.live.get_mut(&purchase) else { return };
        let was_approved = live.first_answer.is_some_and(|first| is_approval(first.response));
        let Some(sent) = live.later.get_mut(later) else { return };
        let given =
            FirstAnswer { response: answer.response, authorization_id: answer.authorization_id };
        if let Some(first) = sent.first_answer.filter(|first| is_final(first.response)) {
            return self.compare_with_first(purchase, first, given);
        }
        sent.first_answer = Some(given);
        let (message, outcome) = (sent.message, later_outcome(answer, &sent.message));
        sent.verdict = Verdict::of(answer, outcome);
        if let Some(entry) = sent.entry {
            self.books.answered(entry, outcome);
        }
        let counts = &mut self.tally.counts;
        match outcome {
            Outcome::Accepted { .. } if message.kind == LaterKind::Increment => {
                counts.increments += 1;
                live.add(&message);
            }
            Outcome::Accepted { .. } if message.kind == LaterKind::Completion => {
                counts.completions += 1;
            }
            Outcome::Accepted { .. } if message.kind == LaterKind::Presentment => {
                counts.presentments += 1;
                live.post(&message);
                if message.is_final() {
                    self.plan_refund(purchase, now_us);
                }
            }
            Outcome::Accepted { .. } if message.kind == LaterKind::Refund => {
                counts.refunds += 1;
                let reversed = live.plan.refund.and_then(|refund| refund.reversed_after_us);
                if let Some(after_us) = reversed {
                    let kind = LaterKind::RefundReversal;
                    self.schedule(purchase, now_us + after_us, Action::Later { purchase, kind });
                }
            }
            Outcome::Accepted { .. } => counts.reversed += u64::from(was_approved),
            Outcome::Unknown => {
                self.outcome_unknown(purchase, Some(later), now_us);
            }
            _ => *counts.refused.entry(answer.response_text()).or_default() += 1,
        }
    }

    /// Plans the refund that was drawn for a purchase, now that it has settled.
    pub(super) fn plan_refund(&mut self, purchase: u64, now_us: u64) {
        let refund = self.live.get(&purchase).and_then(|live| live.plan.refund);
        if let Some(Return { after_us, .. }) = refund {
            let kind = LaterKind::Refund;
            self.schedule(purchase, now_us + after_us, Action::Later { purchase, kind });
        }
    }

    /// Acts as an acquirer that does not know an outcome: it reverses an authorization, repeats an
    /// advice and any later message.
    pub(super) fn outcome_unknown(&mut self, purchase: u64, later: Option<usize>, now_us: u64) {
        let due_us = now_us + self.settings.pace.retry_us();
        let Some(live) = self.live.get_mut(&purchase) else { return };
        let sent = match later {
            Some(later) => {
                live.later.get_mut(later).map(|sent| (sent.first_answer, &mut sent.tries))
            }
            None => Some((live.first_answer, &mut live.tries)),
        };
        let Some((first_answer, tries)) = sent else { return };
        // A duplicate that stays without its answer leaves nothing unknown.
        let is_known = first_answer.is_some_and(|first| is_final(first.response));
        if is_known || *tries >= TRIES_MAX {
            return;
        }
        *tries += 1;
        let opening = live.plan.opening;
        let is_reversed = live.later.iter().any(|sent| sent.message.kind.is_full_reversal())
            || matches!(live.plan.fate, Fate::TimesOut { .. });
        match (later, opening) {
            (Some(later), _) => self.schedule(purchase, due_us, Action::Repeat { purchase, later }),
            (None, opening) if opening.is_advice() => {
                self.schedule(purchase, due_us, Action::OpenAgain { purchase, marked: true });
            }
            (None, Opening::Authorization | Opening::Financial) if !is_reversed => {
                live.tries = TRIES_MAX;
                let kind = LaterKind::TimeOutReversal;
                self.schedule(purchase, due_us, Action::Later { purchase, kind });
            }
            _ => {}
        }
    }

    /// The answer to a duplicate must be the first answer again.
    pub(super) fn compare_with_first(
        &mut self,
        purchase: u64,
        first: FirstAnswer,
        given: FirstAnswer,
    ) {
        let says_nothing = !is_final(given.response) || first == given;
        let Some(live) = self.live.get(&purchase).filter(|_| !says_nothing) else { return };
        let difference = self.difference(
            live,
            format!("the first answer again, {first}"),
            format!("to a duplicate, {given}"),
        );
        self.differences.push(difference);
    }

    /// A difference between an answer and what it should have been.
    pub(super) fn difference(
        &self,
        live: &LivePurchase,
        expected: String,
        found: String,
    ) -> Difference {
        let card_id = self.payer(&live.plan).0.map(|card| card.card_id.clone());
        let rrn = Some(format!("{:012}", live.identity.rrn));
        Difference { card_id: card_id.unwrap_or_default(), rrn, expected, found }
    }
}

/// The outcome of an increment, a reversal, a presentment or a refund, by its answer.
fn later_outcome(answer: &AnswerFields, message: &LaterMessage) -> Outcome {
    match &answer.response {
        b"00" => Outcome::Accepted { amount_minor: message.held_minor },
        _ if !is_final(answer.response) => Outcome::Unknown,
        _ => Outcome::Refused,
    }
}
