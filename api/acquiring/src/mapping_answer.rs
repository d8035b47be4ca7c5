//! The elements that an ISO 8583 answer adds to its request, from the engine's reply.
//!
//! | DE | content |
//! |---|---|
//! | 4 | the approved amount of a partial approval; otherwise echoed |
//! | 38 | authorization id; otherwise echoed where it names an earlier authorization |
//! | 39 | the network's code, see `de39` |
//! | 44 | the exact response code, a space, the sub-reason |
//! | 54 | what the allowance still has; for a partial approval also what was asked |

use cardswitch_engine::command::reply::{
    AuthorizationReply, NetworkReply, PostingOutcome, PostingReply, Rejection, Reply,
    ReversalOutcome, ReversalReply,
};
use cardswitch_engine::domain::ids::TransactionId;
use cardswitch_engine::domain::money::{CurrencyCode, Minor};
use cardswitch_engine::domain::response_code::{ResponseCode, SubReason};
use cardswitch_iso8583::additional_amounts::{AVAILABLE, GROUP_LEN, ORIGINALLY_REQUESTED, Sign};
use cardswitch_iso8583::number::zero_padded;
use cardswitch_iso8583::{
    AdditionalAmount, AnswerMessage, Dialect, Echo, EncodeError, RepeatedFields,
};
use compact_str::CompactString;
use smallvec::SmallVec;

use super::de39::De39;
use super::mapping::Refusal;
use super::zone::SecurityFault;

/// A class of messages. Source: ISO 8583 MTI, second digit.
const NETWORK_CLASS: u8 = 8;

/// The groups of a DE54; answers have one or two, which need no memory of their own.
type AmountGroups = SmallVec<[u8; 2 * GROUP_LEN]>;

/// The elements an answer adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerElements {
    /// DE39.
    pub code: De39,
    /// DE44; empty for none.
    pub detail: CompactString,
    /// DE38.
    pub authorization_id: Option<[u8; 6]>,
    /// DE4, if it is not the request's.
    pub approved: Option<Minor>,
    /// DE54; empty for none.
    pub amounts: AmountGroups,
}

impl AnswerElements {
    /// An answer of nothing but a code.
    pub const fn plain(code: De39) -> Self {
        Self {
            code,
            detail: CompactString::const_new(""),
            authorization_id: None,
            approved: None,
            amounts: SmallVec::new_const(),
        }
    }

    fn declined(code: De39, reason: &str) -> Self {
        Self { detail: detail(ResponseCode::Declined, Some(reason)), ..Self::plain(code) }
    }

    /// The answer to a message that the engine never saw because it cannot be carried out.
    pub fn refused(refusal: Refusal) -> Self {
        let reason = match refusal {
            Refusal::Missing(de) => format!("missing_de{de}"),
            Refusal::Invalid(de) | Refusal::Undecodable(Some(de)) => format!("invalid_de{de}"),
            Refusal::BillingConflict => {
                SubReason::BillingConflict.text().unwrap_or_default().to_owned()
            }
            Refusal::Chip(_) => "invalid_de55".to_owned(),
            Refusal::Security(fault) => fault.reason().to_owned(),
            Refusal::Unsaved => "key_unsaved".to_owned(),
            Refusal::UnknownTransaction => "unknown_processing".to_owned(),
            Refusal::UnknownMessage => "unknown_message".to_owned(),
            Refusal::Undecodable(None) => "undecodable".to_owned(),
        };
        Self::declined(refusal.de39(), &reason)
    }

    /// The answer to a message that the engine did not take.
    pub fn not_taken() -> Self {
        Self::declined(De39::NOT_TAKEN, "not_taken")
    }

    fn outcome_unknown() -> Self {
        Self::declined(De39::OUTCOME_UNKNOWN, "outcome_unknown")
    }

    /// The answer that the engine gave to `request`.
    pub fn of_reply(request: &Echo, reply: &Reply) -> Self {
        let reply = match reply {
            Reply::Network(reply) => reply,
            reply if request.mti.class() == NETWORK_CLASS => return of_key_exchange(reply),
            _ => return Self::outcome_unknown(),
        };
        match reply {
            NetworkReply::Authorization(reply) => of_authorization(request, reply),
            NetworkReply::Reversal(reply) => of_reversal(request, reply),
            NetworkReply::Posting(reply) => of_posting(reply),
            NetworkReply::Balance(reply) => Self {
                detail: detail(reply.response_code, reply.sub_reason.text()),
                amounts: if reply.response_code.is_approved() {
                    available(reply.allowance_balance, reply.currency)
                } else {
                    AmountGroups::new()
                },
                ..Self::plain(De39::of_decision(reply.response_code, reply.sub_reason))
            },
            NetworkReply::Conflict => Self::declined(De39::DUPLICATE_CONFLICT, "conflict"),
            NetworkReply::FormatError(reason) => {
                Self::declined(De39::FORMAT_ERROR, reason.text().unwrap_or("format_error"))
            }
            // No message of this door asks for one.
            NetworkReply::Transfer(_) => Self::outcome_unknown(),
        }
    }

    /// Appends the answer to `request`, with further elements, as `dialect` spells it, without length prefix and TPDU.
    /// `repeated` are the fields that reading the request found. Messages that are never answered leave the output as it was.
    /// Errors: the codec's.
    pub fn encode(
        &self,
        request: &Echo,
        further: &[(u8, &[u8])],
        (dialect, repeated): (&Dialect, &RepeatedFields),
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        self.write(request, further, |answer| match &dialect.translation {
            None => answer.encode(out),
            Some(translation) => translation.write_answer(answer, repeated, out),
        })
    }

    /// Has `write` frame the answer; where it is too long for the length before it, without what explains the decision
    /// (44 and 54), then with its code alone.
    /// Errors: the last of `write`.
    pub fn frame(
        &self,
        mut write: impl FnMut(&Self) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        let is_too_long = |written: &Result<_, _>| *written == Err(EncodeError::FrameTooLong);
        let written = write(self);
        if !is_too_long(&written) {
            return written;
        }
        let bare = Self { approved: self.approved, ..Self::plain(self.code) };
        let written = write(&Self { authorization_id: self.authorization_id, ..bare.clone() });
        if is_too_long(&written) { write(&bare) } else { written }
    }

    /// Hands the answer to `request`, with further elements, to its writer. Messages that are never answered have none.
    /// Errors: the writer's.
    pub(crate) fn write(
        &self,
        request: &Echo,
        further: &[(u8, &[u8])],
        write: impl FnOnce(&AnswerMessage<'_>) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        let Some(answer) = AnswerMessage::to(request) else { return Ok(()) };
        // The name of an earlier authorization identifies a message; in a request for a new one, an
        // echo in a decline would look like an approval.
        let names_earlier = request.mti.class() == 4 || request.mti.is_advice();
        let answer = if names_earlier { answer.echo(38) } else { answer };
        let approved = self.approved.and_then(|approved| zero_padded::<12>(magnitude(approved)));
        let answer = further.iter().fold(answer, |answer, (de, content)| answer.set(*de, content));
        let answer = answer
            .set(39, &self.code.0)
            .set_optional(4, approved.as_ref().map(<[u8; 12]>::as_slice))
            .set_optional(38, self.authorization_id.as_ref().map(<[u8; 6]>::as_slice))
            .set_optional(44, Some(self.detail.as_bytes()).filter(|detail| !detail.is_empty()))
            .set_optional(54, Some(&self.amounts[..]).filter(|amounts| !amounts.is_empty()));
        write(&answer)
    }
}

fn of_authorization(request: &Echo, reply: &AuthorizationReply) -> AnswerElements {
    let is_advice = request.mti.is_advice();
    let asked =
        Minor(request.get_number(4).and_then(|asked| i64::try_from(asked).ok()).unwrap_or(0));
    let is_foreign = request.get_number(49).is_some_and(|code| code != u64::from(reply.currency.0));
    let is_partial = reply.response_code.is_approved()
        && !is_advice
        && !is_foreign
        && reply.approved.is_positive()
        && reply.approved < asked;
    let code = match De39::of_decision(reply.response_code, reply.sub_reason) {
        // An advice tells of the past: its decision is now known, whichever it was.
        _ if is_advice => De39::APPROVED,
        _ if is_partial => De39::APPROVED_IN_PART,
        code => code,
    };
    let mut amounts = balance_of(reply.transaction, reply.allowance_balance, reply.currency);
    if is_partial {
        amounts.extend(group(ORIGINALLY_REQUESTED, asked, reply.currency));
    }
    AnswerElements {
        code,
        detail: detail(reply.response_code, reply.sub_reason.text()),
        authorization_id: reply.authorization_id.map(|id| id.0),
        approved: is_partial.then_some(reply.approved),
        amounts,
    }
}

fn of_reversal(request: &Echo, reply: &ReversalReply) -> AnswerElements {
    let code =
        if request.mti.is_advice() { De39::APPROVED } else { De39::of_reversal(reply.outcome) };
    let reason = (reply.outcome != ReversalOutcome::Reversed).then(|| reply.outcome.word());
    AnswerElements {
        detail: detail(reply.outcome.response_code(), reason),
        amounts: balance_of(reply.transaction, reply.allowance_balance, reply.currency),
        ..AnswerElements::plain(code)
    }
}

/// The answer to a new key of the zone, the only change that messages ask for.
fn of_key_exchange(reply: &Reply) -> AnswerElements {
    match reply {
        Reply::Done(_) => AnswerElements::plain(De39::APPROVED),
        Reply::Rejected(Rejection::ZoneKeyRepeated) => {
            AnswerElements::refused(Refusal::Security(SecurityFault::KeyTime))
        }
        Reply::Rejected(_) => AnswerElements::not_taken(),
        _ => AnswerElements::outcome_unknown(),
    }
}

fn of_posting(reply: &PostingReply) -> AnswerElements {
    let reason = (reply.outcome != PostingOutcome::Posted).then(|| reply.outcome.word());
    AnswerElements {
        detail: detail(reply.outcome.response_code(), reason),
        amounts: balance_of(reply.transaction, reply.allowance_balance, reply.currency),
        ..AnswerElements::plain(De39::of_posting(reply.outcome))
    }
}

/// DE44: at most 25 characters, so nearly always without memory of its own.
fn detail(code: ResponseCode, reason: Option<&str>) -> CompactString {
    let mut detail = CompactString::default();
    let digits: [u8; 5] = zero_padded(u64::from(code.number())).unwrap_or(*b"00000");
    let zeros = digits.iter().take_while(|digit| **digit == b'0').count().min(4);
    digits[zeros..].iter().for_each(|digit| detail.push(char::from(*digit)));
    if let Some(reason) = reason {
        detail.push(' ');
        detail.push_str(reason);
    }
    detail
}

/// The balance of the allowance, if the answer is about a known card.
fn balance_of(
    transaction: Option<TransactionId>,
    balance: Minor,
    currency: CurrencyCode,
) -> AmountGroups {
    if transaction.is_some() { available(balance, currency) } else { AmountGroups::new() }
}

fn available(balance: Minor, currency: CurrencyCode) -> AmountGroups {
    group(AVAILABLE, balance, currency)
}

fn group(amount_type: [u8; 2], amount: Minor, currency: CurrencyCode) -> AmountGroups {
    let group = AdditionalAmount {
        account_type: *b"00",
        amount_type,
        currency: zero_padded(u64::from(currency.0)).unwrap_or(*b"000"),
        sign: if amount < Minor::ZERO { Sign::Debit } else { Sign::Credit },
        amount_minor: magnitude(amount),
    };
    // An amount beyond twelve digits cannot be said and is left out.
    group.to_group().map(|group| AmountGroups::from_slice(&group)).unwrap_or_default()
}

const fn magnitude(amount: Minor) -> u64 {
    amount.0.unsigned_abs()
}

#[cfg(test)]
#[path = "mapping_answer_tests.rs"]
mod tests;
