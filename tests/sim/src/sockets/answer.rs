//! The answers to acquirers, and what they have to be by the model.

use cardswitch_engine::command::reply::{NetworkReply, PostingOutcome, Reply, ReversalOutcome};
use cardswitch_engine::domain::money::{CurrencyCode, Minor};

use super::acquirer::AcquirerMessage;
use super::spelling::Content;

/// The elements that an answer repeats from its message.
const ECHOED: [u8; 8] = [2, 3, 7, 11, 32, 37, 41, 90];

/// The parts of an answer that say what was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AnswerContent {
    mti: [u8; 4],
    /// DE11.
    pub(super) number: u64,
    /// DE39.
    pub(super) code: [u8; 2],
    /// DE4.
    amount: Option<u64>,
    /// DE38.
    authorization_id: Option<Vec<u8>>,
    /// DE44.
    detail: String,
    /// DE54: the balance of the allowance, with its currency.
    balance: Option<(i64, u16)>,
    /// The elements that every answer repeats.
    echo: [Option<Vec<u8>>; ECHOED.len()],
}

impl AnswerContent {
    /// Reads an answer; none where it names no message.
    pub(super) fn of(content: &Content) -> Option<Self> {
        Some(Self {
            mti: content.mti,
            number: content.number(11)?,
            code: content.text(39)?.as_bytes().try_into().ok()?,
            amount: content.number(4),
            authorization_id: content.elements.get(&38).cloned(),
            detail: content.text(44).unwrap_or_default().to_owned(),
            balance: content.text(54).and_then(available),
            echo: ECHOED.map(|element| content.elements.get(&element).cloned()),
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

    /// It is of this message.
    pub(super) fn prove_echo(&self, message: &AcquirerMessage, context: &str) {
        let mut response = message.content.mti;
        response[2] += 1;
        assert_eq!(self.mti, response, "{context}: {self:?}");
        for (element, echo) in ECHOED.iter().zip(&self.echo) {
            let sent = message.content.elements.get(element);
            assert_eq!(sent, echo.as_ref(), "{context}: element {element} of {self:?}");
        }
    }

    /// The same in another answer, except for the balance: that of a repeat is the one of its time.
    pub(super) fn is_same_decision(&self, other: &Self) -> bool {
        let of = |answer: &Self| (answer.code, answer.amount, answer.authorization_id.clone());
        of(self) == of(other) && self.detail == other.detail
    }

    /// Compares it with the model's reply to its message.
    pub(super) fn prove(&self, message: &AcquirerMessage, reply: &Reply, context: &str) {
        let context = format!("{context}: {self:?} for {reply:?}");
        let Reply::Network(reply) = reply else {
            assert_eq!(self.code, *b"96", "{context}");
            return;
        };
        let is_advice = message.is_advice();
        let asked = message.content.number(4);
        let mut expected_amount = asked;
        let mut expected_id = None;
        let (is_good, balance) = match reply {
            NetworkReply::Authorization(reply) => {
                let is_approved = reply.response_code.is_approved();
                let number = reply.response_code.number().to_string();
                assert_eq!(self.detail.split(' ').next(), Some(number.as_str()), "{context}");
                let is_partial = is_approved
                    && !is_advice
                    && reply.approved.0 > 0
                    && reply.approved.0 < asked.unwrap() as i64;
                if is_partial {
                    expected_amount = Some(reply.approved.0 as u64);
                    assert_eq!(self.code, *b"10", "{context}");
                }
                expected_id = reply.authorization_id.map(|id| id.0.to_vec());
                let known =
                    reply.transaction.map(|_| balance(reply.allowance_balance, reply.currency));
                (is_approved || is_advice, known)
            }
            NetworkReply::Reversal(reply) => {
                expected_id = message.content.elements.get(&38).cloned();
                let known =
                    reply.transaction.map(|_| balance(reply.allowance_balance, reply.currency));
                (is_advice || reply.outcome == ReversalOutcome::Reversed, known)
            }
            NetworkReply::Posting(reply) => {
                let known =
                    reply.transaction.map(|_| balance(reply.allowance_balance, reply.currency));
                (reply.outcome == PostingOutcome::Posted, known)
            }
            NetworkReply::Balance(reply) => {
                let is_approved = reply.response_code.is_approved();
                let known = is_approved.then(|| balance(reply.allowance_balance, reply.currency));
                (is_approved, known)
            }
            NetworkReply::Conflict => (false, None),
            NetworkReply::FormatError(_) => (false, None),
            NetworkReply::Transfer(_) => panic!("{context}"),
        };
        assert_eq!([*b"00", *b"10"].contains(&self.code), is_good, "{context}");
        assert_eq!(self.balance, balance, "{context}");
        assert_eq!(self.amount, expected_amount, "{context}");
        assert_eq!(self.authorization_id, expected_id, "{context}");
    }
}

fn balance(amount: Minor, currency: CurrencyCode) -> (i64, u16) {
    (amount.0, currency.0)
}

/// The amount that is left in the groups of DE54, with its currency.
fn available(groups: &str) -> Option<(i64, u16)> {
    let groups = (0..groups.len() / 20).map(|at| &groups[20 * at..20 * at + 20]);
    let group = groups.into_iter().find(|group| &group[2..4] == "02")?;
    let amount: i64 = group[8..].parse().ok()?;
    Some((if &group[7..8] == "D" { -amount } else { amount }, group[4..7].parse().ok()?))
}
