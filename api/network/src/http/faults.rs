//! Answers that the fault plan makes late, false or lost, for clients under test.
//!
//! Only answers of the engine to purchases meet a fault, so the decision is durable, whatever the faulty
//! answer says. A request over HTTP has one answer: none comes twice, and nothing comes before it.

use std::sync::Arc;

use axum::response::Response;
use cardswitch_acquiring::fault_plan::{AnswerFault, FaultPlan};
use cardswitch_edge::error::ApiError;
use cardswitch_edge::http_connection::Cut;
use cardswitch_engine::command::Command;
use cardswitch_engine::command::network::NetworkCommand;
use cardswitch_engine::command::reply::{NetworkReply, Reply};
use cardswitch_engine::domain::ids::TransactionId;
use cardswitch_engine::domain::money::Minor;
use tokio::sync::broadcast;
use tokio::time::{sleep, timeout};

use super::requests::PlannedCommand;
use crate::limits;

/// The faults of all answers of the door.
#[derive(Debug)]
pub struct HttpFaults {
    plan: Arc<FaultPlan>,
    /// Purchases whose reversal is decided.
    reversed: broadcast::Sender<TransactionId>,
}

/// A request whose answer may meet a fault.
pub(super) struct FaultyRequest<'a> {
    faults: &'a HttpFaults,
    last_four: Option<[u8; 4]>,
    amount: Option<Minor>,
    /// Heard from before the request goes to the engine: its reversal may be quick.
    reversed: broadcast::Receiver<TransactionId>,
}

impl HttpFaults {
    /// The faults of a plan.
    pub fn new(plan: Arc<FaultPlan>) -> Self {
        Self { plan, reversed: broadcast::Sender::new(limits::REVERSALS_UNHEARD_MAX) }
    }

    pub(super) fn of(&self, planned: &PlannedCommand) -> FaultyRequest<'_> {
        let amount = match &planned.command.command {
            Command::Network(request) => amount_of(&request.command),
            _ => None,
        };
        let (last_four, reversed) = (planned.last_four, self.reversed.subscribe());
        FaultyRequest { faults: self, last_four, amount, reversed }
    }
}

impl FaultyRequest<'_> {
    /// Holds the answer as its fault has it. Returns the answer that the client gets in its place,
    /// if any.
    pub(super) async fn meet(mut self, reply: &Reply) -> Option<Result<Response, ApiError>> {
        let transaction = match reply {
            Reply::Network(NetworkReply::Authorization(reply)) => reply.transaction,
            Reply::Network(NetworkReply::Posting(reply)) => reply.transaction,
            Reply::Network(NetworkReply::Balance(_)) => None,
            Reply::Network(NetworkReply::Reversal(reply)) => {
                // Mostly no answer waits for it.
                drop(self.faults.reversed.send(reply.transaction?));
                return None;
            }
            _ => return None,
        };
        let amount = self.amount.and_then(|amount| u64::try_from(amount.0).ok());
        let digits = self.last_four.as_ref().map_or(&[][..], |digits| digits);
        let drawn = self.faults.plan.draw_answer(digits, amount)?;
        tracing::info!(
            fault = %drawn.fault,
            transaction = transaction.map(|id| tracing::field::display(id.0)),
            "an answer meets a fault of the plan"
        );
        match drawn.fault {
            AnswerFault::Late => sleep(drawn.delay).await,
            AnswerFault::AfterReversal => {
                drop(timeout(drawn.delay, self.reversal_of(transaction?)).await);
            }
            AnswerFault::Disconnect => return Some(Ok(Cut::response())),
            AnswerFault::NotTaken => return Some(Err(ApiError::overloaded())),
            AnswerFault::OutcomeUnknown => return Some(Err(ApiError::outcome_unknown())),
            AnswerFault::Twice | AnswerFault::SignOff => {}
        }
        None
    }

    /// Waits until the purchase is reversed, for ever where its notice was lost among very many.
    async fn reversal_of(&mut self, transaction: TransactionId) {
        while self.reversed.recv().await != Ok(transaction) {}
    }
}

/// The amount of a purchase, in minor units of the message's currency.
fn amount_of(command: &NetworkCommand) -> Option<Minor> {
    let amounts = match command {
        NetworkCommand::Authorize(authorize) => authorize.facts.amounts,
        NetworkCommand::Advise(advise) => advise.facts.amounts,
        NetworkCommand::Refund(refund) => refund.facts.amounts,
        NetworkCommand::Increment(increment) => increment.amounts,
        NetworkCommand::Present(present) => present.amounts?,
        _ => return None,
    };
    Some(amounts.amount)
}
