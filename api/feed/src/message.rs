//! The feed's messages as bytes, and answers as values. Every data element that the feed sets or
//! reads is named here and nowhere else.

pub(super) mod later_message;

use cardswitch_iso8583::number::parse_number;
use cardswitch_iso8583::private_use::PrivateUseWriter;
use cardswitch_iso8583::replacement_amounts::replacement_amounts;
use cardswitch_iso8583::{
    AdditionalAmount, MerchantLocation, Message, MessageBuilder, Mti, OriginalData, Pin,
    PresentmentSequence, additional_amounts, decode, encode_pin_block,
};
use chrono::{DateTime, Utc};

use super::books::Event;
use super::merchants::{ACCOUNT_CURRENCY, Merchant, catalogue};
use super::plan::{CredentialChoice, Opening, Plan, PurchaseReference};
use super::portfolio::Card;

/// The identity of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// ISO DE11.
    pub stan: u32,
    /// ISO DE37, a number of twelve digits.
    pub rrn: u64,
    /// ISO DE7, 12 and 13. Units: microseconds since the Unix epoch.
    pub sent_us: u64,
}

/// The key that matches an answer: the class of its message type, STAN and reference number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct AnswerKey {
    class: u8,
    stan: u64,
    rrn: Option<u64>,
}

/// An answer, as far as the feed reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AnswerFields {
    pub(super) key: AnswerKey,
    /// ISO DE39.
    pub(super) response: [u8; 2],
    /// ISO DE38.
    pub(super) authorization_id: Option<[u8; 6]>,
    /// ISO DE4.
    pub(super) amount_minor: Option<u64>,
    /// ISO DE54 amount type 02: the allowance's balance.
    pub(super) available_minor: Option<i64>,
    /// The number at the start of ISO DE44.
    code: Option<u16>,
}

/// The message that opens a purchase.
pub(super) struct OpeningMessage<'a> {
    pub(super) plan: &'a Plan,
    pub(super) card: Option<&'a Card>,
    pub(super) pan: &'a str,
    pub(super) identity: Identity,
    pub(super) virtual_us: Option<u64>,
}

/// A kind of network management message. Source: ISO DE70.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NetworkManagement {
    SignOn = 1,
    SignOff = 2,
}

/// Acquirers share the merchants out among them; their ids start here.
const FIRST_ACQUIRER: u64 = 400_101;
const ACQUIRERS: u64 = 4;

/// The reason why encoding cannot fail: numbers are bounded where they are drawn, card data where
/// it is read.
const FITS: &str = "the feed's own values fit their elements";

impl OpeningMessage<'_> {
    /// The message; marked, it says that it was sent before.
    pub(super) fn encode(&self, marked: bool) -> Vec<u8> {
        let mti = opening_mti(self.plan.opening);
        let merchant = catalogue().merchant(self.plan.merchant);
        let builder = MessageBuilder::new(if marked { repeat_of(mti) } else { mti });
        let builder = with_identity(builder, self.identity)
            .set(3, self.processing_code())
            .set_number(37, self.identity.rrn)
            .set_number(22, if self.plan.credentials.track2 { 21 } else { 51 })
            .set(25, b"00");
        let builder = with_amounts(builder, self.plan, self.amounts());
        let builder = with_merchant(self.with_credentials(builder), merchant, self.plan.merchant);
        let stands_in = self.plan.opening == Opening::Advice;
        finish(builder.set_optional(39, stands_in.then_some(b"00")), self.private_use())
    }

    pub(super) fn key(&self) -> AnswerKey {
        let class = opening_mti(self.plan.opening).class();
        AnswerKey { class, stan: self.identity.stan.into(), rrn: Some(self.identity.rrn) }
    }

    fn processing_code(&self) -> &'static [u8] {
        match (self.plan.opening, self.plan.cash) {
            (Opening::BalanceInquiry, _) => b"300000",
            (Opening::Refund, _) => b"200000",
            (_, true) => b"010000",
            (_, false) => b"000000",
        }
    }

    fn amounts(&self) -> Amounts {
        if self.plan.opening == Opening::BalanceInquiry {
            return Amounts { amount_minor: 0, billing_minor: 0 };
        }
        let price = self.plan.price;
        Amounts { amount_minor: price.amount_minor, billing_minor: price.billing_minor }
    }

    fn with_credentials(&self, builder: MessageBuilder) -> MessageBuilder {
        let credentials = self.plan.credentials;
        let expiry = self.card.and_then(|card| given_expiry(card, credentials.expiry));
        let pin = self.card.and_then(|card| given(card.pin.as_deref(), credentials.pin));
        let pin_block = pin
            .and_then(|pin| Pin::parse(pin.as_bytes()))
            .and_then(|pin| encode_pin_block(&pin, self.pan.as_bytes()));
        let builder = builder.set_optional(52, pin_block.as_ref().map(<[u8; 8]>::as_slice));
        match expiry {
            Some(expiry) if credentials.track2 => {
                builder.set_text(35, &format!("{}={expiry}201", self.pan))
            }
            Some(expiry) => builder.set_text(2, self.pan).set_text(14, &expiry),
            None => builder.set_text(2, self.pan),
        }
    }

    fn private_use(&self) -> PrivateUseWriter {
        let credentials = self.plan.credentials;
        let mut writer = PrivateUseWriter::new();
        if let Some(card) = self.card {
            if let Some(cvv) = given(card.cvv.as_deref(), credentials.cvv) {
                writer = writer.cvv(&cvv);
            }
            if let Some(zip) = given(card.zip.as_deref(), credentials.zip) {
                writer = writer.zip(&zip);
            }
        }
        if self.plan.partial {
            writer = writer.partial_capable();
        }
        with_virtual_time(writer, self.virtual_us)
    }
}

impl AnswerFields {
    /// Reads an answer; `None` where a message is none.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let message = decode(bytes).ok()?;
        let mti = message.mti();
        mti.is_response().then_some(())?;
        let rrn = message.get(37).and_then(parse_number);
        Some(Self {
            key: AnswerKey { class: mti.class(), stan: message.get_number(11)?, rrn },
            response: message.get_array(39)?,
            authorization_id: message.get_array(38),
            amount_minor: message.get_number(4),
            available_minor: available(&message),
            code: message.get_text(44).and_then(leading_number),
        })
    }

    /// The exact response code, or what stands for it where the answer has none.
    pub(super) fn exact_code(&self) -> u16 {
        let of_response = || parse_number(&self.response).and_then(|code| u16::try_from(code).ok());
        match (self.code, &self.response) {
            (Some(code), _) => code,
            (None, b"14") => 1000,
            (None, _) => of_response().unwrap_or(1000),
        }
    }

    /// ISO DE39 as text.
    pub(super) fn response_text(&self) -> String {
        String::from_utf8_lossy(&self.response).into_owned()
    }
}

/// A balance inquiry: 0100 with processing code 30.
pub(super) fn balance_inquiry(
    card: &Card,
    identity: Identity,
    virtual_us: Option<u64>,
) -> (Vec<u8>, AnswerKey) {
    let builder = with_identity(MessageBuilder::new(Mti::AUTHORIZATION_REQUEST), identity)
        .set_text(2, &card.pan)
        .set(3, b"300000")
        .set_number(4, 0)
        .set_number(32, FIRST_ACQUIRER)
        .set_number(37, identity.rrn);
    let key = AnswerKey { class: 1, stan: identity.stan.into(), rrn: Some(identity.rrn) };
    (finish(builder, with_virtual_time(PrivateUseWriter::new(), virtual_us)), key)
}

/// Sign-on or sign-off.
pub(super) fn control(
    control: NetworkManagement,
    identity: Identity,
    virtual_us: Option<u64>,
) -> (Vec<u8>, AnswerKey) {
    let builder = MessageBuilder::new(Mti::NETWORK_REQUEST)
        .set(7, &transmission_time(identity.sent_us))
        .set_number(11, identity.stan.into())
        .set_number(70, control as u64);
    let key = AnswerKey { class: 8, stan: identity.stan.into(), rrn: None };
    (finish(builder, with_virtual_time(PrivateUseWriter::new(), virtual_us)), key)
}

/// The amounts of a message, in both currencies.
#[derive(Clone, Copy)]
struct Amounts {
    amount_minor: u64,
    billing_minor: u64,
}

fn opening_mti(opening: Opening) -> Mti {
    match opening {
        Opening::Advice => Mti::AUTHORIZATION_ADVICE,
        Opening::Financial => Mti::FINANCIAL_REQUEST,
        Opening::Forced | Opening::Refund => Mti::FINANCIAL_ADVICE,
        Opening::Authorization | Opening::BalanceInquiry | Opening::Verification => {
            Mti::AUTHORIZATION_REQUEST
        }
    }
}

/// The same type with the last digit of a repeat.
pub(super) fn repeat_of(mti: Mti) -> Mti {
    let [version, class, function, _] = mti.bytes();
    Mti::parse(&[version, class, function, b'1']).unwrap_or(mti)
}

/// Sets what tells messages of one sender apart. Source: ISO DE7, 11, 12, 13.
pub(super) fn with_identity(builder: MessageBuilder, identity: Identity) -> MessageBuilder {
    let time = transmission_time(identity.sent_us);
    let (date, time_of_day) = time.split_at(4);
    builder.set(7, &time).set_number(11, identity.stan.into()).set(12, time_of_day).set(13, date)
}

fn with_amounts(builder: MessageBuilder, plan: &Plan, amounts: Amounts) -> MessageBuilder {
    let merchant = catalogue().merchant(plan.merchant);
    let numeric = |currency: iso_currency::Currency| u64::from(currency.numeric());
    let builder =
        builder.set_number(4, amounts.amount_minor).set_number(49, numeric(merchant.currency));
    if !merchant.is_foreign() {
        return builder;
    }
    builder.set_number(6, amounts.billing_minor).set_number(51, numeric(ACCOUNT_CURRENCY))
}

/// Sets where the card was used. Source: ISO DE18, 32, 41, 42, 43.
pub(super) fn with_merchant(
    builder: MessageBuilder,
    merchant: &Merchant,
    slot: u16,
) -> MessageBuilder {
    let location = MerchantLocation {
        name: merchant.name,
        city: merchant.city,
        state: merchant.state,
        country: merchant.country,
    };
    let terminal = merchant.mid.get(7..).unwrap_or_default();
    builder
        .set_number(18, merchant.mcc.into())
        .set_number(32, acquirer(slot))
        .set_text(41, terminal)
        .set_text(42, merchant.mid)
        .set(43, &location.to_content())
}

fn with_virtual_time(writer: PrivateUseWriter, virtual_us: Option<u64>) -> PrivateUseWriter {
    match virtual_us {
        Some(virtual_us) => writer.virtual_micros(virtual_us),
        None => writer,
    }
}

/// The message as bytes.
pub(super) fn finish(builder: MessageBuilder, private_use: PrivateUseWriter) -> Vec<u8> {
    let content = Some(private_use.as_bytes()).filter(|content| !content.is_empty());
    let mut bytes = Vec::with_capacity(256);
    builder.set_optional(48, content).encode(&mut bytes).expect(FITS);
    bytes
}

/// The acquirer of the merchant in this slot. Source: ISO DE32.
pub(super) fn acquirer(merchant: u16) -> u64 {
    FIRST_ACQUIRER + u64::from(merchant) % ACQUIRERS
}

/// MMDDhhmmss, UTC. Source: ISO DE7.
pub(super) fn transmission_time(sent_us: u64) -> [u8; 10] {
    let micros = i64::try_from(sent_us).unwrap_or(i64::MAX);
    let time: DateTime<Utc> = DateTime::from_timestamp_micros(micros).unwrap_or_default();
    let text = time.format("%m%d%H%M%S").to_string();
    text.as_bytes().try_into().unwrap_or(*b"0101000000")
}

/// The expiry as the message gives it, YYMM.
pub(super) fn given_expiry(card: &Card, given: CredentialChoice) -> Option<String> {
    let right = card.expiry_yymm();
    match given {
        CredentialChoice::Absent => None,
        CredentialChoice::Right => Some(right),
        CredentialChoice::Wrong => {
            let year: u32 = right.get(..2)?.parse().ok()?;
            Some(format!("{:02}{}", (year + 1) % 100, right.get(2..)?))
        }
    }
}

/// A credential as the message gives it; nothing where the card has none. The wrong one
/// differs from the right one in every digit.
pub(super) fn given(known: Option<&str>, given: CredentialChoice) -> Option<String> {
    let other = |digit: char| {
        digit.to_digit(10).and_then(|n| char::from_digit((n + 3) % 10, 10)).unwrap_or(digit)
    };
    match given {
        CredentialChoice::Absent => None,
        CredentialChoice::Right => known.map(str::to_owned),
        CredentialChoice::Wrong => known.map(|known| known.chars().map(other).collect()),
    }
}

/// The allowance's balance in an answer. Source: ISO DE54, amount type 02.
pub(super) fn available(message: &Message<'_>) -> Option<i64> {
    let group = AdditionalAmount::find(message.get(54)?, additional_amounts::AVAILABLE)?;
    let amount = i64::try_from(group.amount_minor).ok()?;
    match group.sign {
        additional_amounts::Sign::Credit => Some(amount),
        additional_amounts::Sign::Debit => Some(-amount),
    }
}

fn leading_number(text: &str) -> Option<u16> {
    text.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::portfolio::Portfolio;
    use super::super::traffic::{REAL_PACE, Traffic};
    use super::later_message::{LaterKind, LaterMessage};
    use super::*;

    fn portfolio() -> Portfolio {
        Portfolio::parse(
            r#"{"card_id":"c","pan":"9999990000000003","expiration":"2030-01-31","cvv":"123","pin":"4321","zip":"94107"}"#,
        )
        .unwrap()
    }

    const IDENTITY: Identity = Identity { stan: 7, rrn: 42, sent_us: 1_767_600_000_000_000 };

    #[test]
    fn every_opening_decodes_and_carries_what_was_planned() {
        let portfolio = portfolio();
        let mut traffic = Traffic::new(2, 1000, REAL_PACE, 0);
        for _ in 0..3000 {
            let plan = traffic.next_plan(&portfolio);
            let card = portfolio.card(0);
            let opening = OpeningMessage {
                plan: &plan,
                card,
                pan: "9999990000000003",
                identity: IDENTITY,
                virtual_us: Some(IDENTITY.sent_us),
            };
            let bytes = opening.encode(false);
            let message = decode(&bytes).unwrap();
            assert_eq!(message.get(7), Some(&b"0105080000"[..]));
            assert_eq!(message.get(37), Some(&b"000000000042"[..]));
            assert!(message.has(2) != message.has(35), "{message:?}");
            assert_eq!(message.has(52), plan.credentials.pin != CredentialChoice::Absent);
            let is_foreign = catalogue().merchant(plan.merchant).is_foreign();
            assert_eq!((message.has(6), message.has(51)), (is_foreign, is_foreign));
            let private_use =
                cardswitch_iso8583::PrivateUse::parse(message.get(48).unwrap()).unwrap();
            assert_eq!(private_use.virtual_micros(), Some(IDENTITY.sent_us));
            let cvv = private_use.cvv();
            match plan.credentials.cvv {
                CredentialChoice::Absent => assert_eq!(cvv, None),
                CredentialChoice::Right => assert_eq!(cvv, Some("123")),
                CredentialChoice::Wrong => assert_eq!(cvv, Some("456")),
            }
        }
    }

    #[test]
    fn a_later_message_names_its_purchase_in_one_way() {
        let plan = Traffic::new(2, 1000, REAL_PACE, 0).next_plan(&portfolio());
        for (reference, element) in [
            (PurchaseReference::AuthorizationId, 38),
            (PurchaseReference::OriginalData, 90),
            (PurchaseReference::Rrn, 37),
        ] {
            let message = LaterMessage {
                kind: LaterKind::PartialReversal,
                identity: IDENTITY,
                original: IDENTITY,
                reference,
                authorization_id: Some(*b"A1B2C3"),
                amount_minor: 500,
                held_minor: 500,
                number: None,
                keep_amount_minor: 200,
                keep_held_minor: 200,
            };
            let bytes = message.encode((&plan, "9999990000000003"), None, true);
            let decoded = decode(&bytes).unwrap();
            assert_eq!(decoded.mti().as_str(), "0401");
            let named: Vec<u8> =
                [37, 38, 90].into_iter().filter(|element| decoded.has(*element)).collect();
            assert_eq!(named, [element]);
            assert!(decoded.get_text(95).unwrap().starts_with("000000000200"));
        }
    }

    #[test]
    fn answers_are_read() {
        let balance = AdditionalAmount {
            account_type: *b"00",
            amount_type: *b"02",
            currency: *b"840",
            sign: additional_amounts::Sign::Debit,
            amount_minor: 250,
        };
        let mut bytes = Vec::new();
        MessageBuilder::new(Mti::AUTHORIZATION_RESPONSE)
            .set_number(11, 7)
            .set_number(37, 42)
            .set(39, b"61")
            .set(44, b"1502 daily limit")
            .set(54, &balance.to_group().unwrap())
            .encode(&mut bytes)
            .unwrap();
        let answer = AnswerFields::parse(&bytes).unwrap();
        assert_eq!(answer.exact_code(), 1502);
        assert_eq!(answer.available_minor, Some(-250));
        assert_eq!(answer.key, AnswerKey { class: 1, stan: 7, rrn: Some(42) });
        assert_eq!(
            AnswerFields { code: None, response: *b"14", ..answer.clone() }.exact_code(),
            1000
        );
    }
}
