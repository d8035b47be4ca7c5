//! The mapping from a decoded ISO 8583 message to a command for the engine: pure, one message at a
//! time.
//!
//! | MTI | processing code | asked |
//! |---|---|---|
//! | 0100, 0200 | 00 | authorization; a verification where the amount is zero |
//! | 0100, 0200 | 01, 09 | authorization of cash |
//! | 0100, 0200 | 30 | balance inquiry |
//! | 0120 | 00, 01, 09 | advice |
//! | 0200, 0220 | 20 | refund |
//! | 0220 | 00, 01, 09 | presentment |
//! | 0400, 0420 | any | reversal |
//! | 0800 | | sign-on, sign-off, echo: answered here; a key of the zone: see `zone` |
//!
//! Repeats (last digit odd) are the same message. Required elements are checked here, everything
//! about cards and money by the shard.

use cardswitch_engine::command::network::{
    AdviceOutcome, Advise, AuthorizationKind, Authorize, CardRef, Increment, InquireBalance,
    MessageAmounts, NetworkCommand, NetworkRequest, OriginalRef, PartialApproval, Present,
    PresentmentNumber, PurchaseFacts, Refund, ReversalAmount, ReversalKind, Reverse,
};
use cardswitch_engine::command::{Command, TimedCommand};
use cardswitch_engine::domain::card::PanHash;
use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_engine::domain::merchant::{Mcc, Merchant};
use cardswitch_engine::domain::money::{CurrencyAmount, CurrencyCode, Minor};
use cardswitch_engine::domain::network_key::MessageClass;
use cardswitch_engine::domain::text::LineText;
use cardswitch_iso8583::replacement_amounts::parse_replacement_amount;
use cardswitch_iso8583::{MerchantLocation, Message, Mti, OriginalData, PrivateUse, private_use};
use cardswitch_secrets::Secrets;
use cardswitch_zone::chip::ChipFault;
use iso_currency::Currency;

use super::de39::De39;
use super::fingerprint::{fingerprint_of, request_fingerprint_of};
use super::marks::{Marks, merchant_number, parse_authorization_id};
use super::presented_card::{PresentedCard, presented_card};
use super::replaced_key::BroughtKey;
use super::zone::SecurityFault;

/// The treatment of a message.
#[derive(Debug)]
pub enum MessageAction {
    /// The engine decides.
    Ask(TimedCommand),
    /// The engine is to keep a key of the zone.
    Exchange(Box<BroughtKey>),
    /// It is answered without the engine.
    Answer(De39),
    /// It cannot be carried out as it is.
    Refuse(Refusal),
    /// It is itself an answer, or of a kind that is never answered.
    Ignore,
}

/// The reason why a message cannot be carried out as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// This element is missing.
    Missing(u8),
    /// The content of this element makes no sense.
    Invalid(u8),
    /// Half of what the account is asked for, and not what the message is about.
    BillingConflict,
    /// Nothing of this kind is offered.
    UnknownTransaction,
    /// No message of this type is known.
    UnknownMessage,
    /// The chip's data make no sense.
    Chip(ChipFault),
    /// Its security does not allow it.
    Security(SecurityFault),
    /// The exchanged key cannot be saved.
    Unsaved,
    /// The message could not be decoded; the fault is at this element, if at one.
    Undecodable(Option<u8>),
}

impl Refusal {
    /// The same with the numbers that another dialect has for elements.
    #[must_use]
    pub fn with_numbers(self, number_of: impl Fn(u8) -> u8) -> Self {
        match self {
            Self::Missing(element) => Self::Missing(number_of(element)),
            Self::Invalid(element) => Self::Invalid(number_of(element)),
            other => other,
        }
    }

    /// The answer to it.
    pub const fn de39(self) -> De39 {
        match self {
            Self::UnknownTransaction => De39::INVALID_TRANSACTION,
            Self::Security(_) => De39::SECURITY_VIOLATION,
            Self::Unsaved => De39::NOT_TAKEN,
            _ => De39::FORMAT_ERROR,
        }
    }
}

const PURCHASE: &[u8] = b"00";
const CASH: [&[u8]; 2] = [b"01", b"09"];
pub(crate) const REFUND: &[u8] = b"20";
const BALANCE_INQUIRY: &[u8] = b"30";
/// Sign-on, sign-off, echo. Source: ISO DE70.
const NETWORK_FUNCTIONS: [&[u8]; 3] = [b"001", b"002", b"301"];

/// Says what is to be done with a message.
pub fn map_message(message: &Message<'_>, secrets: &Secrets) -> MessageAction {
    let mti = message.mti();
    if mti.response().is_none() {
        return MessageAction::Ignore;
    }
    let asked = match (mti.version(), mti.class(), mti.function()) {
        // Only acquirers speak here, and only once or again.
        _ if mti.origin() > 1 => Err(Refusal::UnknownMessage),
        (0, 1 | 2, 0 | 2) => map_money(message, secrets),
        (0, 4, 0 | 2) => map_reversal(message, secrets),
        (0, 8, 0) => return map_network_management(message),
        _ => Err(Refusal::UnknownMessage),
    };
    match asked {
        Ok((command, card)) => ask(message, secrets, command, card),
        Err(refusal) => MessageAction::Refuse(refusal),
    }
}

fn ask(
    message: &Message<'_>,
    secrets: &Secrets,
    command: NetworkCommand,
    card: PanHash,
) -> MessageAction {
    let fingerprint = Some(fingerprint_of(message, secrets, card));
    let request = NetworkRequest { command, fingerprint };
    let supplied_at = private_use(message)
        .and_then(|private| private.virtual_micros())
        .and_then(|micros| i64::try_from(micros).ok())
        .map(Timestamp);
    let command = Command::Network(Box::new(request));
    MessageAction::Ask(TimedCommand { command, supplied_at })
}

fn map_network_management(message: &Message<'_>) -> MessageAction {
    if !message.has(11) {
        return MessageAction::Refuse(Refusal::Missing(11));
    }
    match message.get(70) {
        None => MessageAction::Refuse(Refusal::Missing(70)),
        Some(function) if NETWORK_FUNCTIONS.contains(&function) => {
            MessageAction::Answer(De39::APPROVED)
        }
        Some(_) => MessageAction::Refuse(Refusal::Invalid(70)),
    }
}

/// Authorizations, advices, financial messages: everything of classes 1 and 2.
fn map_money(
    message: &Message<'_>,
    secrets: &Secrets,
) -> Result<(NetworkCommand, PanHash), Refusal> {
    let code = message.get(3).and_then(|code| code.get(..2)).ok_or(Refusal::Missing(3))?;
    if !message.has(4) && code != BALANCE_INQUIRY {
        return Err(Refusal::Missing(4));
    }
    if !message.has(11) {
        return Err(Refusal::Missing(11));
    }
    let presented = presented_card(message, secrets)?;
    let is_unknown = |de: &u8| currency_of(message, *de).is_some_and(|code| !is_currency(code));
    if let Some(de) = [49, 51].into_iter().find(is_unknown) {
        return Err(Refusal::Invalid(de));
    }
    if message.has(4) && contradicts_itself(message) {
        return Err(Refusal::BillingConflict);
    }
    let is_purchase = code == PURCHASE;
    let is_cash = CASH.contains(&code);
    let mti = message.mti();
    // Posting nothing would use the presentment's number up. HTTP refuses it, too.
    let posts = mti.class() == 2 && (code == REFUND || mti.function() == 2);
    if posts && message.get_number(4) == Some(0) {
        return Err(Refusal::Invalid(4));
    }
    let command = match (mti.class(), mti.function()) {
        (_, 0) if code == BALANCE_INQUIRY => NetworkCommand::InquireBalance(InquireBalance {
            card: presented.card,
            credentials: presented.credentials(message, secrets),
        }),
        (_, 0) if is_purchase || is_cash => {
            map_authorization(message, secrets, &presented, is_cash)
        }
        (2, _) if code == REFUND => NetworkCommand::Refund(Refund {
            facts: facts_of(message, secrets, &presented),
            original: original_of(message, secrets, &presented)?,
        }),
        (1, 2) if is_purchase || is_cash => map_advice(message, secrets, &presented, is_cash)?,
        (2, 2) if is_purchase || is_cash => map_presentment(message, secrets, &presented)?,
        _ => return Err(Refusal::UnknownTransaction),
    };
    Ok((command, presented.hash))
}

/// An authorization; one that carries an authorization id may ask for more on a known purchase.
fn map_authorization(
    message: &Message<'_>,
    secrets: &Secrets,
    presented: &PresentedCard,
    is_cash: bool,
) -> NetworkCommand {
    let facts = facts_of(message, secrets, presented);
    let kind = match message.mti().class() {
        _ if is_cash => AuthorizationKind::Cash,
        _ if facts.amounts.amount.is_zero() => AuthorizationKind::Verification,
        2 => AuthorizationKind::SingleMessage,
        _ => AuthorizationKind::Purchase,
    };
    let takes_partial = private_use(message).is_some_and(|private| private.is_partial_capable());
    let partial = if takes_partial { PartialApproval::Taken } else { PartialApproval::NotTaken };
    let credentials = presented.credentials(message, secrets);
    let authorize = Authorize { facts, kind, credentials, partial };
    if kind != AuthorizationKind::Purchase || !message.has(38) {
        return NetworkCommand::Authorize(authorize);
    }
    // The other marks are the message's own; only DE38 makes an increment.
    let authorization_id = message.get_trimmed(38).and_then(parse_authorization_id);
    NetworkCommand::Increment(Increment {
        card: Some(presented.card),
        amounts: authorize.facts.amounts,
        mcc: authorize.facts.merchant.mcc,
        credentials,
        original: OriginalRef { authorization_id, ..OriginalRef::default() },
        own_key: authorize.facts.trace.original_key,
        otherwise: Some(Box::new(authorize)),
    })
}

fn map_advice(
    message: &Message<'_>,
    secrets: &Secrets,
    presented: &PresentedCard,
    is_cash: bool,
) -> Result<NetworkCommand, Refusal> {
    let outcome = message.get_trimmed(39).filter(|code| !code.is_empty());
    let is_declined = outcome.is_some_and(|code| !De39::is_approval(code.as_bytes()));
    Ok(NetworkCommand::Advise(Advise {
        facts: facts_of(message, secrets, presented),
        is_cash,
        outcome: if is_declined { AdviceOutcome::Declined } else { AdviceOutcome::Approved },
        original: original_of(message, secrets, presented)?,
        request: request_fingerprint_of(message, secrets, presented.hash).map(Box::new),
    }))
}

fn map_presentment(
    message: &Message<'_>,
    secrets: &Secrets,
    presented: &PresentedCard,
) -> Result<NetworkCommand, Refusal> {
    let facts = facts_of(message, secrets, presented);
    Ok(NetworkCommand::Present(Present {
        amounts: Some(facts.amounts),
        facts: Some(facts),
        original: original_of(message, secrets, presented)?,
        number: presentment_number(message)?,
    }))
}

fn map_reversal(
    message: &Message<'_>,
    secrets: &Secrets,
) -> Result<(NetworkCommand, PanHash), Refusal> {
    if !message.has(11) {
        return Err(Refusal::Missing(11));
    }
    let presented = presented_card(message, secrets)?;
    if ![38, 90, 37].into_iter().any(|de| message.has(de)) {
        return Err(Refusal::Missing(90));
    }
    let amount = match message.get(95) {
        None => ReversalAmount::Full,
        Some(content) => {
            let kept = parse_replacement_amount(content).ok_or(Refusal::Invalid(95))?;
            ReversalAmount::RemainingOriginal(minor(kept))
        }
    };
    let is_advice = message.mti().is_advice();
    let command = NetworkCommand::Reverse(Reverse {
        card: Some(presented.card),
        original: original_of(message, secrets, &presented)?,
        amount,
        kind: if is_advice { ReversalKind::Advice } else { ReversalKind::Request },
    });
    Ok((command, presented.hash))
}

pub(crate) fn marks_of<'a>(message: &Message<'a>) -> Marks<'a> {
    Marks {
        stan: message.get_text(11),
        transmission_time: message.get_text(7),
        rrn: message.get_text(37),
        acquirer: message.get_text(32),
        terminal: message.get_text(41),
    }
}

fn facts_of(message: &Message<'_>, secrets: &Secrets, presented: &PresentedCard) -> PurchaseFacts {
    PurchaseFacts {
        card: presented.card,
        amounts: amounts_of(message),
        merchant: merchant_of(message),
        trace: marks_of(message).trace(Some((secrets, presented.hash))),
    }
}

/// Whether an amount or a currency of the account stands alone and is another than the merchant's.
fn contradicts_itself(message: &Message<'_>) -> bool {
    match (message.get_number(6), message.get_number(51)) {
        (Some(billed), None) => message.get_number(4) != Some(billed),
        (None, Some(billed)) => message.get_number(49).is_some_and(|asked| asked != billed),
        _ => false,
    }
}

fn amounts_of(message: &Message<'_>) -> MessageAmounts {
    // A currency of the account is that of the amount where no other is told.
    let is_plain = !message.has(49) && !message.has(6);
    let billed = message.get_number(if is_plain { 4 } else { 6 });
    let billing = billed.zip(currency_of(message, 51));
    MessageAmounts {
        amount: minor(message.get_number(4).unwrap_or(0)),
        currency: currency_of(message, 49),
        billing: billing
            .map(|(amount, currency)| CurrencyAmount { amount: minor(amount), currency }),
    }
}

/// An amount of at most twelve digits, which always fits.
fn minor(amount: u64) -> Minor {
    Minor(i64::try_from(amount).unwrap_or(i64::MAX))
}

fn currency_of(message: &Message<'_>, de: u8) -> Option<CurrencyCode> {
    u16::try_from(message.get_number(de)?).ok().map(CurrencyCode)
}

/// Whether amounts can be in it. Source: ISO 4217.
fn is_currency(code: CurrencyCode) -> bool {
    Currency::from_numeric(code.0).and_then(Currency::exponent).is_some()
}

fn merchant_of(message: &Message<'_>) -> Merchant {
    let text = |text: &str| LineText::spaced(text.trim());
    let acquirer = message.get_text(32).unwrap_or_default();
    let card_acceptor_id = message.get_trimmed(42).unwrap_or_default();
    let mut merchant = Merchant {
        mid: merchant_number(acquirer, card_acceptor_id),
        mcc: message.get_number(18).and_then(|mcc| u16::try_from(mcc).ok()).map(Mcc),
        card_acceptor_id: text(card_acceptor_id),
        ..Merchant::default()
    };
    if let Some(place) = message.get(43).and_then(MerchantLocation::parse) {
        merchant.name = text(place.name);
        merchant.city = text(place.city);
        merchant.state = text(place.state);
        merchant.country = text(place.country);
    }
    merchant
}

/// The earlier message that this one is about. Source: ISO DE38, DE90, DE37.
fn original_of(
    message: &Message<'_>,
    secrets: &Secrets,
    presented: &PresentedCard,
) -> Result<OriginalRef, Refusal> {
    let marks = marks_of(message);
    let original = match message.get(90) {
        Some(content) => Some(OriginalData::parse(content).ok_or(Refusal::Invalid(90))?),
        None => None,
    };
    let original_key = original.and_then(|original| {
        let (stan, acquirer) = (format!("{:06}", original.stan), original.acquirer.to_string());
        let named = Marks {
            stan: Some(&stan),
            transmission_time: std::str::from_utf8(&original.transmitted).ok(),
            acquirer: marks.acquirer.or(Some(&acquirer)),
            ..Marks::default()
        };
        named.original_key(secrets, presented.hash)
    });
    Ok(OriginalRef {
        transaction: None,
        authorization_id: message.get_trimmed(38).and_then(parse_authorization_id),
        original_key,
        class: original_key.and(original).and_then(|original| class_of(original.mti)),
        retrieval_key: marks.retrieval_key(secrets, presented.hash),
    })
}

fn class_of(mti: Mti) -> Option<MessageClass> {
    match mti.bytes()[1] {
        b'1' => Some(MessageClass::Authorization),
        b'2' => Some(MessageClass::Financial),
        _ => None,
    }
}

/// The number of a presentment among several. Source: ISO DE48 tag 11.
fn presentment_number(message: &Message<'_>) -> Result<PresentmentNumber, Refusal> {
    let private = private_use(message);
    if private.is_none_or(|private| private.find(private_use::PRESENTMENT).is_none()) {
        return Ok(PresentmentNumber::ONLY);
    }
    let named = private.and_then(|private| private.presentment()).ok_or(Refusal::Invalid(48))?;
    Ok(PresentmentNumber { number: named.number, count: named.count })
}

/// The sub-elements of DE48, if it has that form.
pub(crate) fn private_use<'a>(message: &Message<'a>) -> Option<PrivateUse<'a>> {
    message.get(48).and_then(PrivateUse::parse)
}

/// The card of a message, in the form the engine knows it by.
pub(crate) fn card_ref(hash: PanHash, pan: &cardswitch_secrets::pan::Pan) -> CardRef {
    CardRef::Pan(hash, pan.masked())
}

#[cfg(test)]
#[path = "mapping_tests.rs"]
mod tests;
