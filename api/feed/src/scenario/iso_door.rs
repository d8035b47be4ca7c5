//! The ISO 8583 door: the request of a step as a message, and the answer to it.

use std::time::Duration;

use cardswitch_iso8583::number::parse_number;
use cardswitch_iso8583::private_use::PrivateUseWriter;
use cardswitch_iso8583::replacement_amounts::replacement_amounts;
use cardswitch_iso8583::{
    Message, MessageBuilder, Mti, OriginalData, Pin, PresentmentSequence, decode, encode_pin_block,
};

use super::ScenarioOptions;
use super::act::Act;
use super::file::{Credential, Naming, StepFile};
use super::money::Money;
use super::step_request::{Original, StepAnswer, StepRequest, TransactionIds};
use crate::FeedError;
use crate::client::DoorConnection;
use crate::merchants::{ACCOUNT_CURRENCY, catalogue};
use crate::message::{
    acquirer, available, finish, given, given_expiry, repeat_of, transmission_time, with_identity,
    with_merchant,
};
use crate::plan::CredentialChoice;

/// A PIN that no card of a scenario has: none is set.
pub(super) const WRONG_PIN: &str = "0000";

/// The connection to it.
pub(super) struct IsoDoor {
    connection: DoorConnection,
    answer_timeout: Duration,
}

impl IsoDoor {
    /// Connects.
    /// Errors: nobody there.
    pub(super) fn open(options: &ScenarioOptions) -> Result<Self, FeedError> {
        let connection = DoorConnection::open(&options.line)?;
        Ok(Self { connection, answer_timeout: options.answer_timeout })
    }

    /// Sends what is asked and waits for the answer; `None` when none comes in time.
    /// Errors: a broken connection.
    pub(super) fn ask(&mut self, asked: &StepRequest<'_>) -> Result<Option<StepAnswer>, FeedError> {
        self.connection.send(&encode(asked)).map_err(FeedError::Connection)?;
        let stan = Some(asked.identity.stan.into());
        let answer = self.connection.receive_answer(stan, self.answer_timeout);
        let answer = answer.map_err(FeedError::Connection)?;
        Ok(answer.and_then(|bytes| Some(answered(&decode(&bytes).ok()?, asked))))
    }
}

fn encode(asked: &StepRequest<'_>) -> Vec<u8> {
    let (act, details) = (asked.act, asked.details);
    let mti = mti(act, details);
    let mti = if asked.is_repeat { repeat_of(mti) } else { mti };
    let builder = with_identity(MessageBuilder::new(mti), asked.identity)
        .set_text(2, &asked.card.pan)
        .set(3, processing_code(act));
    let merchant = catalogue().merchant(asked.merchant);
    let builder = with_amounts(with_merchant(builder, merchant, asked.merchant), asked);
    let builder = with_original(with_credentials(builder, asked), asked);
    let stood_in: &[u8] = if details.declined == Some(true) { b"05" } else { b"00" };
    let builder = builder.set_optional(39, matches!(act, Act::Advise(_)).then_some(stood_in));
    finish(builder, private_use(asked))
}

/// The message type of an act, which is that of the transaction it opens too.
fn mti(act: Act, details: &StepFile) -> Mti {
    match act {
        Act::Purchase(_) => Mti::FINANCIAL_REQUEST,
        Act::Advise(_) => Mti::AUTHORIZATION_ADVICE,
        Act::Present(_) | Act::Refund(_) => Mti::FINANCIAL_ADVICE,
        Act::Reverse if details.advice == Some(true) => Mti::REVERSAL_ADVICE,
        Act::Reverse => Mti::REVERSAL_REQUEST,
        _ => Mti::AUTHORIZATION_REQUEST,
    }
}

const fn processing_code(act: Act) -> &'static [u8] {
    match act {
        Act::Cash(_) => b"010000",
        Act::Refund(_) => b"200000",
        Act::Inquire => b"300000",
        _ => b"000000",
    }
}

fn with_amounts(builder: MessageBuilder, asked: &StepRequest<'_>) -> MessageBuilder {
    let numeric = |money: Money| u64::from(money.currency.numeric());
    let Some(amount) = asked.act.amount() else {
        return match asked.act {
            Act::Verify => builder.set_number(4, 0),
            _ => builder,
        };
    };
    let builder =
        builder.set_number(4, amount.minor.unsigned_abs()).set_number(49, numeric(amount));
    let Some(billing) = asked.details.billing else { return builder };
    builder.set_number(6, billing.minor.unsigned_abs()).set_number(51, numeric(billing))
}

/// Adds the cardholder's credentials: expiry and CVV wherever a card is used, the PIN only to be
/// wrong.
fn with_credentials(builder: MessageBuilder, asked: &StepRequest<'_>) -> MessageBuilder {
    if !asked.act.is_card_use() {
        return builder;
    }
    let expiry = given_expiry(asked.card, asked.details.given(Credential::Expiry));
    let is_pin_wrong = asked.details.is_wrong(Credential::Pin);
    let pin = is_pin_wrong.then(|| Pin::parse(WRONG_PIN.as_bytes())).flatten();
    let pin = pin.and_then(|pin| encode_pin_block(&pin, asked.card.pan.as_bytes()));
    builder
        .set_optional(14, expiry.as_deref().map(str::as_bytes))
        .set_optional(52, pin.as_ref().map(<[u8; 8]>::as_slice))
}

/// Names the transaction that the message is about as the step says. By itself a message names it by
/// the authorization id, else by the message that opened it; one that has not come yet by its
/// reference number, which is known before.
fn with_original(builder: MessageBuilder, asked: &StepRequest<'_>) -> MessageBuilder {
    let replacement =
        asked.details.keep.and_then(|keep| replacement_amounts(keep.minor.unsigned_abs()));
    let builder = builder.set_optional(95, replacement.as_ref().map(|amounts| amounts.as_slice()));
    let own_rrn = asked.identity.rrn;
    let Some(original) = &asked.original else { return builder.set_number(37, own_rrn) };
    let authorization_id = original.known.as_ref().and_then(|known| known.authorization_id);
    match (asked.details.by, authorization_id) {
        (Some(Naming::Rrn), _) => builder.set_number(37, original.identity.rrn),
        (None, _) if original.known.is_none() => builder.set_number(37, original.identity.rrn),
        (None | Some(Naming::AuthorizationId), Some(id)) => {
            builder.set_number(37, own_rrn).set(38, &id)
        }
        _ => {
            let data = original_data(original, asked.merchant);
            let data = data.as_ref().map(|data| data.as_slice());
            builder.set_number(37, own_rrn).set_optional(90, data)
        }
    }
}

fn original_data(original: &Original, merchant: u16) -> Option<[u8; 42]> {
    OriginalData {
        mti: mti(original.act, &StepFile::default()),
        stan: original.identity.stan,
        transmitted: transmission_time(original.identity.sent_us),
        acquirer: acquirer(merchant),
        forwarder: 0,
    }
    .to_content()
}

fn private_use(asked: &StepRequest<'_>) -> PrivateUseWriter {
    let mut writer = PrivateUseWriter::new();
    let cvv = given(asked.card.cvv.as_deref(), asked.details.given(Credential::Cvv));
    if let Some(cvv) = cvv.filter(|_| asked.act.is_card_use()) {
        writer = writer.cvv(&cvv);
    }
    if let Some(super::file::Presentment { number, count }) = asked.details.number {
        writer = writer.presentment(PresentmentSequence { number, count });
    }
    if asked.details.partial == Some(true) {
        writer = writer.partial_capable();
    }
    writer
}

fn answered(message: &Message<'_>, asked: &StepRequest<'_>) -> StepAnswer {
    // DE44 has the exact code; a message refused before the engine has none.
    let detail = message.get_text(44).unwrap_or_default();
    let (first, rest) = detail.split_once(' ').unwrap_or((detail, ""));
    let response = message.get(39).and_then(parse_number);
    let (code, reason) = match first.parse() {
        Ok(code) => (code, rest),
        Err(_) => (response.and_then(|code| u16::try_from(code).ok()).unwrap_or(0), detail),
    };
    let currency = asked.act.amount().map_or(ACCOUNT_CURRENCY, |amount| amount.currency);
    let money = |minor: i64, currency| Money { minor, currency };
    let approved = message.get_number(4).and_then(|minor| i64::try_from(minor).ok());
    // The authorization id in an answer to a message that named an earlier transaction is that
    // one's, echoed.
    let authorization_id = message.get_array(38).filter(|_| asked.original.is_none());
    StepAnswer {
        code,
        reason: Some(reason.trim().to_owned()).filter(|reason| !reason.is_empty()),
        approved: approved.filter(|_| code == 0).map(|minor| money(minor, currency)),
        balance: available(message).map(|minor| money(minor, ACCOUNT_CURRENCY)),
        known: TransactionIds { authorization_id, transaction_id: None },
    }
}

impl StepFile {
    /// The way a message gives a credential that a scenario may get wrong.
    pub(super) fn given(&self, credential: Credential) -> CredentialChoice {
        if self.is_wrong(credential) { CredentialChoice::Wrong } else { CredentialChoice::Right }
    }
}
