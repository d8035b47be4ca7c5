//! Messages that name a purchase: what follows it, or takes it back.

use super::*;

/// A kind of message that names a purchase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LaterKind {
    /// 0100 with DE38: more on a purchase that holds something.
    Increment,
    /// 0120: the amount the pump gave, instead of the amount held for it.
    Completion,
    /// 0220.
    Presentment,
    /// 0220 with processing code 20 that names the purchase: money back for it.
    Refund,
    /// 0400 that names the refund.
    RefundReversal,
    /// 0400.
    Reversal,
    /// 0400 with DE95.
    PartialReversal,
    /// 0420: the acquirer saw no answer.
    TimeOutReversal,
}

/// A message that names a purchase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LaterMessage {
    pub(crate) kind: LaterKind,
    pub(crate) identity: Identity,
    /// The identity of the message that is named: the opening one, or the refund.
    pub(crate) original: Identity,
    pub(crate) reference: PurchaseReference,
    pub(crate) authorization_id: Option<[u8; 6]>,
    /// Units: minor units of the transaction's currency.
    pub(crate) amount_minor: u64,
    /// Units: minor units of the account's currency.
    pub(crate) held_minor: u64,
    /// The number of a presentment among several. Source: ISO DE48 tag 11.
    pub(crate) number: Option<PresentmentSequence>,
    /// The amounts that stay after a partial reversal, in both currencies.
    pub(crate) keep_amount_minor: u64,
    pub(crate) keep_held_minor: u64,
}

impl LaterKind {
    /// Tells whether nothing stays of the purchase.
    pub(crate) fn is_full_reversal(self) -> bool {
        matches!(self, Self::Reversal | Self::TimeOutReversal)
    }

    const fn mti(self) -> Mti {
        match self {
            Self::Increment => Mti::AUTHORIZATION_REQUEST,
            Self::Completion => Mti::AUTHORIZATION_ADVICE,
            Self::Presentment | Self::Refund => Mti::FINANCIAL_ADVICE,
            Self::Reversal | Self::PartialReversal | Self::RefundReversal => Mti::REVERSAL_REQUEST,
            Self::TimeOutReversal => Mti::REVERSAL_ADVICE,
        }
    }
}

impl LaterMessage {
    /// Its request of the switch, for the books.
    pub(crate) fn event(&self) -> Event {
        match self.kind {
            LaterKind::Increment => Event::Increment { amount_minor: self.held_minor },
            LaterKind::Completion => Event::Complete { held_minor: self.held_minor },
            LaterKind::Presentment if self.is_final() => {
                Event::Present { amount_minor: self.held_minor }
            }
            LaterKind::Presentment => Event::PresentPart { amount_minor: self.held_minor },
            LaterKind::Refund => Event::Refund { amount_minor: self.held_minor },
            LaterKind::Reversal | LaterKind::TimeOutReversal | LaterKind::RefundReversal => {
                Event::ReverseAll
            }
            LaterKind::PartialReversal => Event::ReverseTo { held_minor: self.keep_held_minor },
        }
    }

    /// The message; repeated, it says that it was sent before.
    pub(crate) fn encode(
        &self,
        (plan, pan): (&Plan, &str),
        virtual_us: Option<u64>,
        repeated: bool,
    ) -> Vec<u8> {
        let mti = if repeated { repeat_of(self.kind.mti()) } else { self.kind.mti() };
        let amounts = Amounts { amount_minor: self.amount_minor, billing_minor: self.held_minor };
        let builder = with_identity(MessageBuilder::new(mti), self.identity)
            .set_text(2, pan)
            .set(3, self.processing_code(plan));
        let builder = with_amounts(builder, plan, amounts);
        let builder = with_merchant(builder, catalogue().merchant(plan.merchant), plan.merchant);
        let builder = match (self.reference, self.authorization_id) {
            (PurchaseReference::AuthorizationId, Some(authorization_id)) => {
                builder.set(38, &authorization_id)
            }
            (PurchaseReference::Rrn, _) => builder.set_number(37, self.identity.rrn),
            _ => builder.set_optional(90, self.original_data(plan).as_ref().map(|d| d.as_slice())),
        };
        // A refund is a transaction of its own, with a reference number of its own.
        let builder = match self.kind {
            LaterKind::Refund => builder.set_number(37, self.identity.rrn),
            _ => builder,
        };
        let replacement = (self.kind == LaterKind::PartialReversal)
            .then(|| replacement_amounts(self.keep_amount_minor))
            .flatten();
        let builder =
            builder.set_optional(95, replacement.as_ref().map(|amounts| amounts.as_slice()));
        let writer = PrivateUseWriter::new();
        let writer = match self.number {
            Some(number) => writer.presentment(number),
            None => writer,
        };
        finish(builder, with_virtual_time(writer, virtual_us))
    }

    fn processing_code(&self, plan: &Plan) -> &'static [u8] {
        match (self.kind, plan.cash) {
            (LaterKind::Refund, _) => b"200000",
            (_, true) => b"010000",
            (_, false) => b"000000",
        }
    }

    /// Whether no presentment is to follow.
    pub(crate) fn is_final(&self) -> bool {
        self.number.is_none_or(|number| number.number == number.count)
    }

    /// The key of its answer: it has a reference number only where the message names its purchase
    /// by it.
    pub(crate) fn key(&self) -> AnswerKey {
        let has_rrn = self.reference == PurchaseReference::Rrn || self.kind == LaterKind::Refund;
        let rrn = has_rrn.then_some(self.identity.rrn);
        AnswerKey { class: self.kind.mti().class(), stan: self.identity.stan.into(), rrn }
    }

    fn original_data(&self, plan: &Plan) -> Option<[u8; 42]> {
        let mti = match self.kind {
            LaterKind::RefundReversal => Mti::FINANCIAL_ADVICE,
            _ => opening_mti(plan.opening),
        };
        OriginalData {
            mti,
            stan: self.original.stan,
            transmitted: transmission_time(self.original.sent_us),
            acquirer: acquirer(plan.merchant),
            forwarder: 0,
        }
        .to_content()
    }
}
