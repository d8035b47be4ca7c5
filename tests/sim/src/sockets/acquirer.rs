//! The messages of simulated acquirers, made by the real codec, and the answers that the model has for them.

use cardswitch_acquiring::mapping::{MessageAction, map_message};
use cardswitch_engine::command::Command;
use cardswitch_engine::command::reply::{NetworkReply, PostingOutcome, Reply, ReversalOutcome};
use cardswitch_engine::domain::money::{CurrencyCode, Minor};
use cardswitch_engine::domain::network_key::DuplicateKey;
use cardswitch_iso8583::additional_amounts::{AVAILABLE, Sign};
use cardswitch_iso8583::{
    AdditionalAmount, Framing, Message, MessageBuilder, Mti, OriginalData, PrivateUseWriter,
    decode, write_frame,
};
use cardswitch_secrets::Secrets;
use chrono::DateTime;

use crate::rng::Rng;

/// The treatment that a message has to get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Treatment {
    /// The engine is asked, in these words.
    Decided(DuplicateKey, String),
    /// It is answered by the door, with this code.
    Answered([u8; 2]),
    /// It is never answered.
    Ignored,
}

/// A message of an acquirer.
pub(super) struct AcquirerMessage {
    /// Its number among all, which is its STAN.
    pub(super) number: u64,
    pub(super) acquirer: usize,
    pub(super) treatment: Treatment,
    builder: MessageBuilder,
    transmitted: [u8; 10],
    /// The answer that was heard first, if it was a decision.
    pub(super) heard: Option<AnswerContent>,
}

/// The parts of an answer that say what was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AnswerContent {
    pub(super) mti: Mti,
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
}

impl AcquirerMessage {
    /// Draws the next message of an acquirer at an instant. Units: microseconds.
    pub(super) fn draw(
        rng: &mut Rng,
        (acquirer, at): (usize, i64),
        earlier: &[Self],
        (pans, secrets): (&[String], &Secrets),
    ) -> Self {
        let number = earlier.len() as u64 + 1;
        let moment = DateTime::from_timestamp_micros(at).unwrap().format("%m%d%H%M%S").to_string();
        let transmitted = moment.as_bytes().try_into().unwrap();
        let own = |message: &&Self| {
            message.acquirer == acquirer && matches!(message.treatment, Treatment::Decided(..))
        };
        let own: Vec<&Self> = earlier.iter().filter(own).collect();
        let original = (!own.is_empty()).then(|| own[rng.below(own.len() as u64) as usize]);
        let mut builder = draw_kind(rng, original, pans)
            .set_number(11, number)
            .set_text(7, &moment)
            .set_number(32, 1_000 + acquirer as u64);
        if builder.mti().class() != 8 {
            builder = builder.set_text(37, &format!("{number:012}")).set_text(41, "TERM0001");
        }
        let treatment = treatment_of(&builder, secrets);
        Self { number, acquirer, treatment, builder, transmitted, heard: None }
    }

    pub(super) fn mti(&self) -> Mti {
        self.builder.mti()
    }

    /// Its bytes on the wire; a repeat has another type.
    pub(super) fn frame(&self, is_repeat: bool) -> Vec<u8> {
        let mut mti = self.mti().bytes();
        if is_repeat {
            mti[3] = b'1';
        }
        let builder = self.builder.clone().with_mti(Mti::parse(&mti).unwrap());
        let mut frame = Vec::new();
        write_frame(&mut frame, &Framing::default(), None, |out| builder.encode(out)).unwrap();
        frame
    }

    /// DE90 of a message about it.
    fn original_data(&self) -> [u8; 42] {
        let (mti, stan, transmitted) = (self.mti(), self.number as u32, self.transmitted);
        let acquirer = 1_000 + self.acquirer as u64;
        OriginalData { mti, stan, transmitted, acquirer, forwarder: 0 }.to_content().unwrap()
    }
}

/// The elements that make the kind of a message.
fn draw_kind(rng: &mut Rng, original: Option<&AcquirerMessage>, pans: &[String]) -> MessageBuilder {
    let pan = match original.filter(|_| rng.chance(90)) {
        // A message about another names its card.
        Some(original) if rng.chance(30) => original.pan(),
        _ if rng.chance(5) => "4999990000000002".to_owned(),
        _ => pans[rng.below(pans.len() as u64) as usize].clone(),
    };
    let amount = if rng.chance(90) { rng.below(40_000) } else { rng.below(100_000_000) };
    let made = |mti: Mti, processing: &str, pan: &str| {
        let made = MessageBuilder::new(mti).set_text(2, pan).set_text(3, processing);
        made.set_number(4, amount)
    };
    match (rng.below(100), original) {
        (0..6, _) => {
            let function = rng.pick(&["001", "002", "301"]);
            MessageBuilder::new(Mti::NETWORK_REQUEST).set_text(70, function)
        }
        (6..8, _) => made(Mti::AUTHORIZATION_REQUEST, "000000", &pan).without(4),
        (8..10, _) => made(Mti::AUTHORIZATION_RESPONSE, "000000", &pan),
        (10..14, _) => made(Mti::AUTHORIZATION_REQUEST, "300000", &pan),
        (14..24, _) => made(Mti::FINANCIAL_REQUEST, "000000", &pan),
        (24..30, _) => made(Mti::AUTHORIZATION_ADVICE, "000000", &pan),
        (30..45, Some(original)) => {
            let presentment = made(Mti::FINANCIAL_ADVICE, "000000", &original.pan());
            presentment.set(90, &original.original_data())
        }
        (45..60, Some(original)) => {
            let mti = rng.pick(&[Mti::REVERSAL_REQUEST, Mti::REVERSAL_ADVICE]);
            made(mti, "000000", &original.pan()).set(90, &original.original_data())
        }
        _ => {
            let purchase = made(Mti::AUTHORIZATION_REQUEST, "000000", &pan);
            match rng.chance(30) {
                true => {
                    let private = PrivateUseWriter::new().partial_capable();
                    purchase.set(48, private.as_bytes())
                }
                false => purchase,
            }
        }
    }
}

impl AcquirerMessage {
    fn pan(&self) -> String {
        self.with_body(|message| message.get_text(2).unwrap_or_default().to_owned())
    }

    fn with_body<T>(&self, read: impl FnOnce(&Message<'_>) -> T) -> T {
        with_body(&self.builder, read)
    }
}

fn with_body<T>(builder: &MessageBuilder, read: impl FnOnce(&Message<'_>) -> T) -> T {
    let mut body = Vec::new();
    builder.encode(&mut body).unwrap();
    read(&decode(&body).unwrap())
}

fn treatment_of(builder: &MessageBuilder, secrets: &Secrets) -> Treatment {
    match with_body(builder, |message| map_message(message, secrets)) {
        MessageAction::Ask(asked) => {
            Treatment::Decided(key_of(&asked.command), format!("{:?}", asked.command))
        }
        MessageAction::Answer(code) => Treatment::Answered(code.0),
        MessageAction::Refuse(refusal) => Treatment::Answered(refusal.de39().0),
        MessageAction::Ignore => Treatment::Ignored,
        MessageAction::Exchange(_) => panic!("nobody sends keys"),
    }
}

/// The key by which the message of a command is found again.
pub(super) fn key_of(command: &Command) -> DuplicateKey {
    let Command::Network(request) = command else { panic!("{command:?} is of no message") };
    request.fingerprint.unwrap().key
}

impl AnswerContent {
    /// Reads an answer's body.
    pub(super) fn read(body: &[u8]) -> Self {
        let message = decode(body).unwrap();
        let balance = message.get(54).and_then(|all| AdditionalAmount::find(all, AVAILABLE));
        Self {
            mti: message.mti(),
            number: message.get_number(11).unwrap(),
            code: message.get_array(39).unwrap(),
            amount: message.get_number(4),
            authorization_id: message.get(38).map(<[u8]>::to_vec),
            detail: message.get_text(44).unwrap_or_default().to_owned(),
            balance: balance.map(|group| {
                let amount = group.amount_minor as i64;
                let currency = std::str::from_utf8(&group.currency).unwrap().parse().unwrap();
                (if group.sign == Sign::Debit { -amount } else { amount }, currency)
            }),
        }
    }

    /// Whether it is a decision, which a repeat of its message has to get again.
    pub(super) fn is_decision(&self) -> bool {
        ![*b"91", *b"96"].contains(&self.code)
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
        let is_advice = message.mti().is_advice();
        let asked = message.with_body(|message| message.get_number(4));
        let names_id = |message: &Message<'_>| message.get(38).map(<[u8]>::to_vec);
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
                expected_id = message.with_body(names_id);
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
