//! The parts that several bodies share: card, marks of the message, earlier purchase, foreign money, merchant.
//!
//! They are read as texts: amounts need the currency of the card, which is found by these parts.

use std::borrow::Cow;

use cardswitch_engine::domain::credential::ExpiryMonth;
use cardswitch_engine::domain::ids::{CardId, Timestamp, TransactionId};
use cardswitch_engine::domain::merchant::Merchant;
use cardswitch_engine::domain::money::{CurrencyCode, Minor};
use cardswitch_engine::domain::network_key::AuthorizationId;
use cardswitch_engine::domain::text::LineText;
use cardswitch_secrets::pan::Pan;
use cardswitch_wire::bodies;
use cardswitch_wire::body::{budget, id, instant};
use cardswitch_wire::fault::Flaw;
use cardswitch_wire::fields::Fields;

use super::requests::DoorOperation;
use super::subject::CURRENCY_DEFAULT;
use super::values::{
    Steering, authorization_id, card_number, category_code, currency, digits, expiry_month, line,
    merchant_id, secret, trace_number,
};
use cardswitch_acquiring::marks::{Marks, merchant_number};

pub(super) const TIME_ABOUT: &str = "When it happens; only a switch on a manual clock heeds it.";

bodies! {
    /// Merchant.
    MerchantGiven "MerchantGiven" |fields| _ = read_merchant(fields, "", Steering::Refused);
    /// The card, by number or id, and the credentials shown with it.
    CardGiven "CardGiven" |fields| _ = CardTexts::read(fields, Steering::Refused);
    /// Identity of a message.
    TraceGiven "TraceGiven" |fields| _ = TraceTexts::read(fields, Steering::Refused);
    /// The earlier purchase that a request is about.
    OriginalGiven "OriginalGiven" |fields| _ = OriginalTexts::read(fields);
    /// Money in the merchant's currency.
    ForeignGiven "ForeignGiven" |fields| {
        read_currency(fields);
        read_billing(fields, CURRENCY_DEFAULT);
    };
}

/// The shared parts of a body.
#[derive(Debug)]
pub(super) struct SharedFields<'c> {
    pub(super) card: CardTexts<'c>,
    /// The currency the merchant asks in, if the body says it.
    pub(super) currency: Option<CurrencyCode>,
    pub(super) trace: TraceTexts<'c>,
    pub(super) original: OriginalTexts<'c>,
    pub(super) steering: Steering,
}

impl<'c> SharedFields<'c> {
    pub(super) fn read(operation: DoorOperation, fields: &mut Fields<'c>) -> Self {
        let steering = operation.steering();
        Self {
            card: fields.including::<CardGiven, _>(|fields| CardTexts::read(fields, steering)),
            // The amount of a reversal is in the account's currency.
            currency: match operation {
                DoorOperation::Reversal => None,
                _ => fields.including::<ForeignGiven, _>(read_currency),
            },
            trace: fields.including::<TraceGiven, _>(|fields| TraceTexts::read(fields, steering)),
            // An authorization is about no earlier purchase.
            original: match operation {
                DoorOperation::Authorization => OriginalTexts::default(),
                _ => fields.including::<OriginalGiven, _>(OriginalTexts::read),
            },
            steering,
        }
    }
}

/// The card as a body names it, with the credentials as they stand there.
#[derive(Debug)]
pub(super) struct CardTexts<'c> {
    pub(super) pan: Option<Pan>,
    pub(super) id: Option<CardId>,
    pub(super) expiry: Option<ExpiryMonth>,
    pub(super) cvv: Option<Cow<'c, str>>,
    pub(super) pin: Option<Cow<'c, str>>,
    pub(super) zip: Option<LineText>,
}

impl<'c> CardTexts<'c> {
    fn read(fields: &mut Fields<'c>, steering: Steering) -> Self {
        let about = "The card's number; this or `card_id`.";
        let pan = fields.patch("card_number", about, card_number()).flatten();
        let card_id = fields.patch("card_id", "The card's id.", id()).flatten();
        if pan.is_some() && card_id.is_some() {
            let message = "must not be given together with `card_number`";
            fields.fault("card_id", Flaw::new("conflicting", message));
        }
        let about = "Its expiration, of which year and month count.";
        Self {
            pan,
            id: card_id.map(CardId),
            expiry: fields.may("expiration", about, expiry_month()),
            cvv: fields.may("cvv", "Its CVV.", secret()),
            pin: fields.may("pin", "Its PIN.", secret()),
            zip: fields.may("zip", "The ZIP of its holder.", line(16, steering)),
        }
    }

    /// Whether the credentials are compared by help of the card's number.
    pub(super) const fn needs_number(&self) -> bool {
        self.cvv.is_some() || self.pin.is_some()
    }
}

/// The marks of a message, and its time.
#[derive(Debug)]
pub(super) struct TraceTexts<'c> {
    pub(super) stan: Option<Cow<'c, str>>,
    pub(super) rrn: Option<LineText>,
    pub(super) acquirer: Option<Cow<'c, str>>,
    pub(super) transmission_time: Option<Cow<'c, str>>,
    pub(super) terminal: Option<LineText>,
    pub(super) supplied_at: Option<Timestamp>,
}

impl<'c> TraceTexts<'c> {
    fn read(fields: &mut Fields<'c>, steering: Steering) -> Self {
        let rrn = "The retrieval reference number. Source: ISO DE37.";
        Self {
            stan: fields.may("stan", "The trace number. Source: ISO DE11.", trace_number()),
            rrn: fields.may("rrn", rrn, line(12, steering)),
            acquirer: fields.may("acquirer", "The acquirer. Source: ISO DE32.", digits(1, 11)),
            transmission_time: fields.may(
                "transmission_time",
                "`MMDDhhmmss`. Source: ISO DE7.",
                digits(10, 10),
            ),
            terminal: fields.may("terminal", "The terminal. Source: ISO DE41.", line(8, steering)),
            supplied_at: fields.may("time", TIME_ABOUT, instant()),
        }
    }

    pub(super) fn marks(&self) -> Marks<'_> {
        Marks {
            stan: self.stan.as_deref(),
            transmission_time: self.transmission_time.as_deref(),
            rrn: self.rrn.as_deref(),
            acquirer: self.acquirer.as_deref(),
            terminal: self.terminal.as_deref(),
        }
    }
}

/// The ways in which a body names an earlier purchase.
#[derive(Debug, Default)]
pub(super) struct OriginalTexts<'c> {
    pub(super) transaction: Option<TransactionId>,
    pub(super) authorization_id: Option<AuthorizationId>,
    pub(super) stan: Option<Cow<'c, str>>,
    pub(super) transmission_time: Option<Cow<'c, str>>,
}

impl<'c> OriginalTexts<'c> {
    fn read(fields: &mut Fields<'c>) -> Self {
        let transaction = "Its transaction; this, or one of the others with a card.";
        let authorization = "Its authorization id. Source: ISO DE38.";
        let time = "Its transmission time.";
        Self {
            transaction: fields
                .patch("transaction_id", transaction, id())
                .flatten()
                .map(TransactionId),
            authorization_id: fields.may("authorization_id", authorization, authorization_id()),
            stan: fields.may("original_stan", "Its trace number.", trace_number()),
            transmission_time: fields.may("original_transmission_time", time, digits(10, 10)),
        }
    }
}

fn read_currency(fields: &mut Fields<'_>) -> Option<CurrencyCode> {
    let about = "The currency of `amount`; the account's where there is none.";
    fields.patch("currency", about, currency()).flatten()
}

pub(super) fn read_billing(fields: &mut Fields<'_>, own: CurrencyCode) -> Option<Minor> {
    let about = "The amount in the account's currency, needed where `currency` is another one.";
    fields.patch("billing_amount", about, budget(own)).flatten()
}

pub(super) fn read_merchant(
    fields: &mut Fields<'_>,
    acquirer: &str,
    steering: Steering,
) -> Merchant {
    let about = "The merchant id: a number or text of at most 15 characters. Source: ISO DE42.";
    let number = fields.may("mid", about, merchant_id(steering));
    let mut text = |name: &str, about: &str, chars_max: usize| {
        fields.may(name, about, line(chars_max, steering))
    };
    let about = "The merchant id as a terminal sends it, where it is not `mid`.";
    let sent = text("card_acceptor_id", about, 15).or(number).unwrap_or_default();
    let merchant = Merchant {
        mid: merchant_number(acquirer, &sent),
        card_acceptor_id: sent,
        name: text("name", "Its name.", 64).unwrap_or_default(),
        city: text("city", "Its city.", 64).unwrap_or_default(),
        state: text("state", "Its state.", 16).unwrap_or_default(),
        country: text("country", "Its country.", 3).unwrap_or_default(),
        zip: text("zip", "Its ZIP.", 16).unwrap_or_default(),
        mcc: fields.patch("mcc", "The merchant category code.", category_code()).flatten(),
    };
    fields.refuse_unread();
    merchant
}
