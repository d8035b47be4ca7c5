//! The treatment that a message has to get, by the documents alone: `api/iso8583/README.md` says which message is
//! which question, which elements it has to have, and what they mean.
//!
//! Nothing of the product reads the message here. Of its own are the keyed hashes (what goes into which is said here)
//! and the types that the engine takes.

use std::collections::BTreeMap;

use cardswitch_engine::command::network::{
    AdviceOutcome, AuthorizationKind, CardRef, MessageAmounts, OriginalRef, PartialApproval,
    PresentmentNumber, ReversalAmount, ReversalKind,
};
use cardswitch_engine::domain::card::{MaskedPan, PanHash};
use cardswitch_engine::domain::credential::{Cvv, ExpiryMonth, PackedZip};
use cardswitch_engine::domain::merchant::{Mcc, Merchant};
use cardswitch_engine::domain::money::{CurrencyAmount, CurrencyCode, Minor};
use cardswitch_engine::domain::network_key::{
    AuthorizationId, DuplicateKey, DuplicateWindow, Fingerprint, MessageClass, NetworkTrace,
    OriginalKey, RetrievalKey, TraceKey,
};
use cardswitch_engine::domain::text::LineText;
use cardswitch_secrets::pan::Pan;
use cardswitch_secrets::{HashPurpose, Secrets};
use sha2::{Digest as _, Sha256};

use super::acquirer::NO_TIME;
use super::question::{AskedPurchase, Credentials, Question, QuestionKind, ShownCvv};
use super::spelling::{Content, Spelling};
use super::zone_book::KeyUse;

/// The code of a malformed message, or one that lacks an element.
const MALFORMED: [u8; 2] = *b"30";
/// The code of a message that nobody serves.
const NOT_SERVED: [u8; 2] = *b"12";

/// The treatment that a message has to get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Treatment {
    /// The engine is asked this.
    Decided(Box<Question>),
    /// The engine is asked to keep a key.
    Exchanged(KeyUse, usize),
    /// It is answered by the door, with this code.
    Answered([u8; 2]),
    /// It is never answered.
    Ignored,
}

/// Reads messages as their acquirer means them.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    pub(super) secrets: &'a Secrets,
    pub(super) spelling: Spelling,
}

/// A message, with the card that it names.
struct CardMessage<'a> {
    reader: Reader<'a>,
    content: &'a Content,
    pan: Pan,
    hash: PanHash,
    /// Expiry on the track, if the message has one.
    track_expiry: Option<&'a str>,
}

impl<'a> Reader<'a> {
    /// The treatment of a message.
    pub(super) fn treatment_of(self, content: &Content) -> Treatment {
        match (content.mti[1], content.mti[2]) {
            (_, b'1' | b'3') => Treatment::Ignored,
            (b'8', _) => Treatment::Answered(network_answer(content)),
            _ => match self.question_of(content) {
                Ok(question) => Treatment::Decided(Box::new(question)),
                Err(code) => Treatment::Answered(code),
            },
        }
    }

    /// Errors: the code with which it is refused.
    fn question_of(self, content: &Content) -> Result<Question, [u8; 2]> {
        let has_required = match (content.mti[1], content.text(3).unwrap_or_default()) {
            (b'4', _) => content.has(11) && [38, 90, 37].iter().any(|name| content.has(*name)),
            (_, "") => false,
            (_, code) => content.has(11) && (content.has(4) || code.starts_with("30")),
        };
        let named = self.named(content).filter(|_| has_required).ok_or(MALFORMED)?;
        Ok(named.question_of_kind(named.kind()?))
    }

    /// The message with its card: DE2, else the track.
    fn named<'c>(self, content: &'c Content) -> Option<CardMessage<'c>>
    where
        'a: 'c,
    {
        let track = content.text(35).and_then(track_of);
        let digits = content.text(2).or(track.map(|(digits, _)| digits))?;
        let pan = Pan::parse(digits.as_bytes())?;
        let hash = self.secrets.pan_hash(&pan);
        let track_expiry = track.map(|(_, expiry)| expiry);
        Some(CardMessage { reader: self, content, pan, hash, track_expiry })
    }
}

/// Sign-on, sign-off and echo are approved.
fn network_answer(content: &Content) -> [u8; 2] {
    match (content.has(11), content.text(70)) {
        (true, Some("001" | "002" | "301")) => *b"00",
        _ => MALFORMED,
    }
}

impl CardMessage<'_> {
    /// The table of messages.
    /// Errors: the code with which it is refused.
    fn kind(&self) -> Result<QuestionKind, [u8; 2]> {
        let content = self.content;
        if content.mti[1] != b'4' && content.has(4) && self.contradicts_itself() {
            return Err(MALFORMED);
        }
        let processing = content.text(3).map_or("", |code| &code[..2]);
        let partial = match self.tag("61") {
            Some("1") => PartialApproval::Taken,
            _ => PartialApproval::NotTaken,
        };
        let authorization = |kind| Ok(QuestionKind::Authorization(kind, partial));
        let reversal = |kind| Ok(QuestionKind::Reversal(kind, self.kept()));
        match (&content.mti, processing) {
            (b"0400", _) => reversal(ReversalKind::Request),
            (b"0420", _) => reversal(ReversalKind::Advice),
            (b"0100" | b"0200", "30") => Ok(QuestionKind::Inquiry),
            (b"0100" | b"0200", "01" | "09") => authorization(AuthorizationKind::Cash),
            (b"0100" | b"0200", "00") if content.number(4) == Some(0) => {
                authorization(AuthorizationKind::Verification)
            }
            (b"0100", "00") if content.has(38) => Ok(QuestionKind::Increment(partial)),
            (b"0100", "00") => authorization(AuthorizationKind::Purchase),
            (b"0200", "00") => authorization(AuthorizationKind::SingleMessage),
            (b"0120", "00" | "01" | "09") => {
                Ok(QuestionKind::Advice(self.outcome(), processing != "00"))
            }
            (b"0220", "00" | "01" | "09" | "20") | (b"0200", "20")
                if content.number(4) == Some(0) =>
            {
                Err(MALFORMED)
            }
            (b"0200" | b"0220", "20") => Ok(QuestionKind::Refund),
            (b"0220", "00" | "01" | "09") => {
                Ok(QuestionKind::Presentment(self.presentment().ok_or(MALFORMED)?))
            }
            _ => Err(NOT_SERVED),
        }
    }

    fn question_of_kind(&self, kind: QuestionKind) -> Question {
        use QuestionKind as Kind;
        let is_purchase = !matches!(kind, Kind::Reversal(..) | Kind::Inquiry);
        let names_another = !matches!(kind, Kind::Authorization(..) | Kind::Inquiry);
        let is_proven =
            matches!(kind, Kind::Authorization(..) | Kind::Increment(_) | Kind::Inquiry);
        let (first, last) = (&self.pan.digits()[..6], self.pan.digits().last_chunk().unwrap());
        let shown = MaskedPan { first_six: first.try_into().unwrap(), last_four: *last };
        // Only its id makes an increment: the other names are the message's own.
        let original = match kind {
            Kind::Increment(_) => OriginalRef { authorization_id: self.id(), ..Default::default() },
            _ => self.original(),
        };
        Question {
            kind,
            card: CardRef::Pan(self.hash, shown),
            purchase: is_purchase.then(|| self.purchase()),
            original: names_another.then_some(original),
            fingerprint: self.fingerprint(),
            credentials: is_proven.then(|| self.credentials()),
        }
    }

    /// DE95: the amount that stays.
    fn kept(&self) -> ReversalAmount {
        match self.content.text(95) {
            None => ReversalAmount::Full,
            Some(amounts) => {
                ReversalAmount::RemainingOriginal(Minor(amounts[..12].parse().unwrap()))
            }
        }
    }

    /// DE39 of an advice.
    fn outcome(&self) -> AdviceOutcome {
        match self.content.text(39) {
            None | Some("00" | "10") => AdviceOutcome::Approved,
            Some(_) => AdviceOutcome::Declined,
        }
    }

    /// DE48 tag 11; none where that is no number of so many.
    fn presentment(&self) -> Option<PresentmentNumber> {
        let Some(numbers) = self.tag("11") else {
            return Some(PresentmentNumber { number: 1, count: 1 });
        };
        if numbers.len() != 4 || !numbers.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let [number, count] = [&numbers[..2], &numbers[2..]].map(|text| text.parse().unwrap());
        (1..=count).contains(&number).then_some(PresentmentNumber { number, count })
    }

    /// A 6 alone that is not 4, or a 51 alone that is not 49.
    fn contradicts_itself(&self) -> bool {
        let number = |element| self.content.number(element);
        match (number(6), number(51)) {
            (Some(billed), None) => Some(billed) != number(4),
            (None, Some(billed)) => number(49).is_some_and(|asked| asked != billed),
            _ => false,
        }
    }

    fn purchase(&self) -> AskedPurchase {
        AskedPurchase { amounts: self.amounts(), merchant: self.merchant(), trace: self.trace() }
    }

    fn amounts(&self) -> MessageAmounts {
        let content = self.content;
        let currency = |element| content.number(element).map(|code| CurrencyCode(code as u16));
        let amount = |element| content.number(element).map(|amount| Minor(amount as i64));
        let billed = if content.has(49) || content.has(6) { amount(6) } else { amount(4) };
        let billing = billed.zip(currency(51));
        MessageAmounts {
            amount: amount(4).unwrap(),
            currency: currency(49),
            billing: billing.map(|(amount, currency)| CurrencyAmount { amount, currency }),
        }
    }

    fn merchant(&self) -> Merchant {
        let id = self.content.text(42).unwrap_or_default().trim();
        let place = self
            .content
            .text(43)
            .map(|place| [0..22, 22..35, 35..38, 38..40].map(|part| line(place[part].trim())));
        let [name, city, state, country] = place.unwrap_or_default();
        Merchant {
            mid: merchant_number(self.content.text(32).unwrap_or_default(), id),
            mcc: self.content.number(18).map(|code| Mcc(code as u16)),
            card_acceptor_id: line(id),
            name,
            city,
            state,
            country,
            zip: LineText::default(),
        }
    }

    fn trace(&self) -> NetworkTrace {
        let text = |element| line(self.content.text(element).unwrap_or_default());
        NetworkTrace {
            stan: text(11),
            rrn: text(37),
            acquirer: text(32),
            terminal: text(41),
            transmission_time: text(7),
            original_key: self.own_key(),
            retrieval_key: self.retrieval_key(),
        }
    }

    /// The key by which others name this message: with the time that their version names it by.
    fn own_key(&self) -> Option<OriginalKey> {
        let text = |element| self.content.text(element).unwrap_or_default();
        let moment = match self.reader.spelling {
            Spelling::Of1993 => format!("{}{}", text(13), text(12)),
            _ => self.content.text(7).unwrap_or(NO_TIME).to_owned(),
        };
        self.key_named(text(11), &moment)
    }

    /// None of a number that is a filler.
    fn key_named(&self, number: &str, moment: &str) -> Option<OriginalKey> {
        if is_filler(number) {
            return None;
        }
        let mut hasher = self.reader.secrets.message_hasher(HashPurpose::Original);
        for part in [number, moment, self.acquirer()] {
            hasher.part(Some(part.as_bytes()));
        }
        let hash = hasher.number(self.hash.0).finish64();
        let number = number.parse().unwrap();
        Some(OriginalKey::new(number, hash, is_filler(moment), self.acquirer().is_empty()))
    }

    /// DE37 with the acquirer and the card.
    fn retrieval_key(&self) -> Option<RetrievalKey> {
        let reference = self.content.text(37).filter(|it| !is_filler(it))?.trim_end();
        let mut hasher = self.reader.secrets.message_hasher(HashPurpose::Retrieval);
        hasher.part(Some(reference.as_bytes())).part(Some(self.acquirer().as_bytes()));
        Some(RetrievalKey(hasher.number(self.hash.0).finish64()))
    }

    /// DE32 as a number: zeros in front do not count.
    fn acquirer(&self) -> &str {
        self.content.text(32).unwrap_or_default().trim_start_matches('0')
    }

    /// The earlier message that this one is about: by 38, 90, or 37.
    fn original(&self) -> OriginalRef {
        let named = self.content.text(90);
        let original_key = named.and_then(|named| self.key_named(&named[4..10], &named[10..20]));
        OriginalRef {
            transaction: None,
            authorization_id: self.id(),
            original_key,
            class: original_key.and(named).and_then(|named| match named.as_bytes()[1] {
                b'1' => Some(MessageClass::Authorization),
                b'2' => Some(MessageClass::Financial),
                _ => None,
            }),
            retrieval_key: self.retrieval_key(),
        }
    }

    fn id(&self) -> Option<AuthorizationId> {
        let id = self.content.elements.get(&38)?;
        Some(AuthorizationId(id.as_slice().try_into().unwrap()))
    }

    /// Two messages are the same if type (without its last digit), card, and 3, 4, 7, 11, 12, 13, 32, 37, 41 agree.
    fn fingerprint(&self) -> Fingerprint {
        let hasher = |purpose, elements: &[u8]| {
            let mut hasher = self.reader.secrets.message_hasher(purpose);
            if purpose != HashPurpose::Content {
                hasher.part(Some(&self.content.mti[..3]));
            }
            for element in elements {
                hasher.part(self.content.elements.get(element).map(Vec::as_slice));
            }
            hasher
        };
        let of_message = &[3, 4, 7, 11, 12, 13, 32, 37, 41];
        let mut message = hasher(HashPurpose::Duplicate, of_message);
        let mut money = hasher(HashPurpose::Content, &[4, 6, 49, 51, 95]);
        let is_used = |element| self.content.text(element).is_some_and(|text| !is_filler(text));
        let is_traced = is_used(7) || is_used(37);
        let trace = || TraceKey(hasher(HashPurpose::Trace, &[32, 11, 7, 37]).finish128());
        Fingerprint {
            key: DuplicateKey(message.number(self.hash.0).finish128()),
            trace: is_traced.then(trace),
            content: money.number(self.hash.0).finish64(),
            window: match is_traced {
                true => DuplicateWindow::Day,
                false => DuplicateWindow::RepeatsOnly { is_repeat: false },
            },
        }
    }

    /// What is proved, but for PIN and chip. DE14, else the track; DE48 tags 80 and 92.
    fn credentials(&self) -> Credentials {
        let expiry = self.content.text(14).or(self.track_expiry);
        let own = Cvv::parse(&self.reader.secrets.cvv(&self.pan));
        let cvv = self.tag("92").map(|cvv| ShownCvv { shown: Cvv::parse(cvv.as_bytes()), own });
        Credentials {
            expiry: expiry.map(|expiry| ExpiryMonth(expiry.parse().unwrap())),
            cvv,
            zip: self.tag("80").filter(|zip| !zip.trim().is_empty()).map(PackedZip::pack),
            pin: None,
        }
    }

    /// A sub-element of DE48.
    fn tag(&self, tag: &str) -> Option<&str> {
        sub_elements(self.content.text(48)?)?.get(tag).copied()
    }
}

/// The sub-elements of DE48: two digits of tag, two of length, the value. None where it has another form.
pub(super) fn sub_elements(mut text: &str) -> Option<BTreeMap<&str, &str>> {
    let mut found = BTreeMap::new();
    while !text.is_empty() {
        let (tag, rest) = text.split_at_checked(2)?;
        let (len, rest) = rest.split_at_checked(2)?;
        let (value, rest) = rest.split_at_checked(len.parse().ok()?)?;
        tag.parse::<u8>().ok()?;
        found.entry(tag).or_insert(value);
        text = rest;
    }
    Some(found)
}

/// Card number and expiry on a track; none where it lacks one of them.
pub(super) fn track_of(track: &str) -> Option<(&str, &str)> {
    let track = track.strip_prefix(';').unwrap_or(track);
    let (digits, behind) = track.split_once(['=', 'D'])?;
    let expiry = behind.get(..4)?;
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let has_number = (1..=19).contains(&digits.len()) && are_digits(digits);
    (has_number && are_digits(expiry)).then_some((digits, expiry))
}

/// DE42 if it is a number of at most 2^53, else one of 48 bits, of the acquirer and the text.
fn merchant_number(acquirer: &str, id: &str) -> u64 {
    if id.is_empty() {
        return 0;
    }
    let number = id.parse().ok().filter(|number| *number <= 1 << 53);
    number.unwrap_or_else(|| {
        let sum = Sha256::digest([acquirer.as_bytes(), &[0], id.as_bytes()].concat());
        u64::from_be_bytes(sum[..8].try_into().unwrap()) >> 16
    })
}

fn line(text: &str) -> LineText {
    LineText::new(text.trim_end()).unwrap()
}

/// Zeros and blanks stand for what a sender has no use for.
fn is_filler(text: &str) -> bool {
    text.bytes().all(|byte| b"0 ".contains(&byte))
}
