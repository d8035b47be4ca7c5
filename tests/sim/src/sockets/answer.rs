//! The answers to acquirers, and what they have to be by the model.

use cardswitch_engine::command::reply::{NetworkReply, PostingOutcome, Reply, ReversalOutcome};
use cardswitch_engine::domain::money::{CurrencyCode, Minor};
use cardswitch_engine::domain::network_key::AuthorizationId;
use cardswitch_engine::domain::response_code::{ResponseCode, SubReason};

use super::acquirer::AcquirerMessage;
use super::spelling::{Content, Spelling};
use crate::samples::DOLLAR;

/// The fields of either version that an answer repeats as they came, the amount apart.
const REPEATED: [u8; 24] =
    [2, 3, 6, 7, 11, 12, 13, 18, 22, 23, 24, 26, 30, 32, 37, 41, 42, 43, 49, 51, 56, 70, 90, 95];
/// The fields that an answer has of its own.
const OWN: [u8; 6] = [4, 38, 39, 44, 54, 55];

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AnswerContent {
    spelling: Spelling,
    /// DE11.
    pub(super) number: u64,
    /// DE39, as ISO 8583:1987 has it.
    pub(super) code: [u8; 2],
    /// DE44.
    detail: String,
    fields: Content,
}

/// The parts of an answer that follow from a reply.
struct ExpectedAnswer {
    code: [u8; 2],
    /// The approved part of the amount.
    part: Option<u64>,
    /// An authorization id of the reply's own.
    id: Option<AuthorizationId>,
    /// The balance of the allowance, if the card is known.
    balance: Option<(i64, u16)>,
}

impl AnswerContent {
    /// Reads an answer; none where it names no message, or has a code that is none.
    pub(super) fn of(spelling: Spelling, fields: Content) -> Option<Self> {
        Some(Self {
            spelling,
            number: fields.number(11)?,
            code: spelling.answer_code(&fields)?,
            detail: fields.text(44).unwrap_or_default().to_owned(),
            fields,
        })
    }

    /// The fault of security for which its message was refused.
    pub(super) fn fault(&self) -> Option<&str> {
        self.detail.strip_prefix("1000 ").filter(|_| self.code == *b"63")
    }

    /// Whether it is a decision, which a repeat of its message has to get again.
    pub(super) fn is_decision(&self) -> bool {
        let is_open = matches!(self.fault(), Some("mac_wrong" | "mac_missing"));
        ![*b"91", *b"96"].contains(&self.code) && !is_open
    }

    /// Whether it has this code, or one that its version does not tell from this.
    pub(super) fn has_code(&self, code: [u8; 2]) -> bool {
        self.code == self.spelling.code_heard(code)
    }

    /// DE38.
    pub(super) fn authorization_id(&self) -> Option<&str> {
        self.fields.text(38)
    }

    /// It is of this message, and has nothing that no answer has.
    pub(super) fn prove_echo(&self, message: &AcquirerMessage, context: &str) {
        let sent = self.spelling.fields_of(&message.content);
        let mut response = sent.mti;
        response[2] += 1;
        assert_eq!(self.fields.mti, response, "{context}: {self:?}");
        for field in REPEATED {
            let [sent, echo] = [&sent, &self.fields].map(|fields| fields.elements.get(&field));
            assert_eq!(sent, echo, "{context}: field {field} of {self:?}");
        }
        let is_known = |field: &u8| REPEATED.contains(field) || OWN.contains(field);
        let strange = self.fields.elements.keys().find(|field| !is_known(field));
        assert_eq!(strange, None, "{context}: {self:?}");
    }

    /// DE55 is the answer that the chip of its card awaits, if any does.
    pub(super) fn prove_chip(&self, message: &AcquirerMessage, context: &str) {
        let answered = self.fields.elements.get(&55);
        let Some(owed) = message.owed_to_chip() else {
            assert_eq!(answered, None, "{context}: to no chip: {self:?}");
            return;
        };
        // A version may have one code for several, and the chip is told which.
        let codes = [self.code, *b"80"].into_iter().filter(|code| self.has_code(*code));
        let is_owed = codes.map(|code| owed.content(code)).any(|owed| answered == Some(&owed));
        assert!(is_owed, "{context}: the chip of {} gets {answered:x?}", message.number);
    }

    /// The same in another answer, except for the balance: that of a repeat is the one of its time.
    pub(super) fn is_same_decision(&self, other: &Self) -> bool {
        let of = |answer: &Self| [4, 38].map(|field| answer.fields.elements.get(&field).cloned());
        self.code == other.code && of(self) == of(other) && self.detail == other.detail
    }

    /// Compares it with the model's reply to its message.
    pub(super) fn prove(&self, message: &AcquirerMessage, reply: &Reply, context: &str) {
        let context = format!("{context}: {self:?} for {reply:?}");
        let Reply::Network(reply) = reply else {
            assert!(self.has_code(*b"96"), "{context}");
            return;
        };
        if let NetworkReply::Authorization(reply) = reply {
            let number = reply.response_code.number().to_string();
            assert_eq!(self.detail.split(' ').next(), Some(number.as_str()), "{context}");
        }
        let expected = ExpectedAnswer::of(message, reply);
        assert!(self.has_code(expected.code), "{context}");
        let groups = self.fields.text(54).unwrap_or_default();
        assert_eq!(amount_of(groups, "02"), expected.balance, "{context}");
        // A part is beside what was asked.
        let asked = expected.part.and(message.content.number(4));
        let requested = asked.map(|asked| (asked as i64, DOLLAR.0));
        assert_eq!(amount_of(groups, "57"), requested, "{context}");
        let sent = self.spelling.fields_of(&message.content);
        let amount = expected.part.or(sent.number(4));
        assert_eq!(self.fields.number(4), amount, "{context}");
        let names_earlier = message.is_advice() || message.content.mti[1] == b'4';
        let echoed = message.content.elements.get(&38).filter(|_| names_earlier).cloned();
        let id = expected.id.map(|id| id.0.to_vec()).or(echoed);
        assert_eq!(self.fields.elements.get(&38), id.as_ref(), "{context}");
    }
}

impl ExpectedAnswer {
    fn of(message: &AcquirerMessage, reply: &NetworkReply) -> Self {
        let is_advice = message.is_advice();
        let plain = |code| Self { code, part: None, id: None, balance: None };
        let with_balance = |code, is_known: bool, amount, currency| Self {
            balance: is_known.then(|| balance(amount, currency)),
            ..plain(code)
        };
        match reply {
            NetworkReply::Authorization(reply) => {
                let code = code_of(reply.response_code, reply.sub_reason);
                let asked = message.content.number(4).unwrap();
                let is_own = message.content.number(49).is_none_or(|code| code == 840);
                let part = reply.approved.0 as u64;
                let is_part = code == *b"00" && !is_advice && is_own && 0 < part && part < asked;
                let code = if is_advice { *b"00" } else { code };
                let code = if is_part { *b"10" } else { code };
                let (part, id) = (is_part.then_some(part), reply.authorization_id);
                let is_known = reply.transaction.is_some();
                let answer = with_balance(code, is_known, reply.allowance_balance, reply.currency);
                Self { part, id, ..answer }
            }
            NetworkReply::Reversal(reply) => {
                let code = match reply.outcome {
                    _ if is_advice => *b"00",
                    ReversalOutcome::Reversed => *b"00",
                    ReversalOutcome::NotFound => *b"25",
                    ReversalOutcome::NothingHeld => *b"21",
                    ReversalOutcome::AmountOutOfRange => *b"30",
                };
                let is_known = reply.transaction.is_some();
                with_balance(code, is_known, reply.allowance_balance, reply.currency)
            }
            NetworkReply::Posting(reply) => {
                let code = match reply.outcome {
                    PostingOutcome::Posted | PostingOutcome::AlreadyPosted => *b"00",
                    PostingOutcome::UnknownCard => *b"14",
                    PostingOutcome::NotFound => *b"25",
                    PostingOutcome::OutOfBounds => *b"30",
                };
                let is_known = reply.transaction.is_some();
                with_balance(code, is_known, reply.allowance_balance, reply.currency)
            }
            NetworkReply::Balance(reply) => {
                let code = code_of(reply.response_code, reply.sub_reason);
                let is_known = code == *b"00";
                with_balance(code, is_known, reply.allowance_balance, reply.currency)
            }
            NetworkReply::Conflict => plain(*b"94"),
            NetworkReply::FormatError(_) => plain(*b"30"),
            NetworkReply::Transfer(_) => panic!("{reply:?} to a message"),
        }
    }
}

/// DE39 of a decision. Source: api/iso8583/README.md, "Response codes".
fn code_of(code: ResponseCode, reason: SubReason) -> [u8; 2] {
    *match code.number() {
        0 => b"00",
        1000 if reason == SubReason::UnknownCard => b"14",
        1000 => b"05",
        1101 => b"51",
        1201 => b"78",
        1202 => b"62",
        1203 => b"54",
        1301 => b"80",
        1302 => b"55",
        1303 => b"82",
        1304 => b"59",
        1501 | 1702 => b"57",
        1502 | 1503 => b"61",
        1701 => b"63",
        other => panic!("{other} has no code"),
    }
}

fn balance(amount: Minor, currency: CurrencyCode) -> (i64, u16) {
    (amount.0, currency.0)
}

/// The amount of a type in the groups of DE54, with its currency.
fn amount_of(groups: &str, of_type: &str) -> Option<(i64, u16)> {
    let groups = (0..groups.len() / 20).map(|at| &groups[20 * at..20 * at + 20]);
    let group = groups.into_iter().find(|group| &group[2..4] == of_type)?;
    let amount: i64 = group[8..].parse().ok()?;
    Some((if &group[7..8] == "D" { -amount } else { amount }, group[4..7].parse().ok()?))
}
