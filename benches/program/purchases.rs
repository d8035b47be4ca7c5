//! An endless stream of authorizations, made cheaply: the caller shares two cores with what it
//! measures.

use cardswitch_engine::command::Command;
use cardswitch_engine::command::network::{
    AuthorizationKind, Authorize, CardRef, MessageAmounts, NetworkCommand, NetworkRequest,
    PartialApproval, PurchaseFacts,
};
use cardswitch_engine::domain::card::MaskedPan;
use cardswitch_engine::domain::merchant::{Mcc, Merchant};
use cardswitch_engine::domain::money::Minor;
use cardswitch_engine::domain::network_key::{
    DuplicateKey, DuplicateWindow, Fingerprint, NetworkTrace, OriginalKey, RetrievalKey, TraceKey,
};
use cardswitch_engine::domain::text::LineText;

use super::{CardDraw, MERCHANT_CATEGORIES, Random, US_DOLLAR, credentials, mix, pan_hash};

/// An endless stream of authorizations on random cards of the program.
#[derive(Clone, Debug)]
pub struct Purchases {
    random: Random,
    draw: CardDraw,
    count: u64,
    pattern: Authorize,
}

impl Purchases {
    /// A stream over so many cards. Streams of different seeds repeat nothing of each other.
    #[must_use]
    pub fn new(cards: u64, seed: u64) -> Self {
        Self::over(CardDraw::uniform(cards), seed)
    }

    /// A stream over the cards of a draw.
    #[must_use]
    pub fn over(draw: CardDraw, seed: u64) -> Self {
        Self { random: Random::new(seed), draw, count: 0, pattern: pattern() }
    }

    /// The next purchase, with everything that a network message carries.
    pub fn next_command(&mut self) -> Command {
        let (authorize, fingerprint) = self.next_authorization();
        command_of(authorize, fingerprint)
    }

    /// The next purchase, and what names it afterwards.
    pub fn next_with_original(&mut self) -> (Command, Authorize) {
        let (authorize, fingerprint) = self.next_authorization();
        (command_of(authorize.clone(), fingerprint), authorize)
    }

    fn next_authorization(&mut self) -> (Authorize, Fingerprint) {
        self.count += 1;
        let card = self.draw.next_card(&mut self.random);
        let mark = self.random.next();
        let mut authorize = self.pattern.clone();
        let PurchaseFacts { card: card_ref, amounts, merchant, trace } = &mut authorize.facts;
        *card_ref = CardRef::Pan(pan_hash(card), MaskedPan::default());
        amounts.amount = Minor(i64::try_from(100 + mark % 20_000).unwrap_or(100));
        merchant.mcc = Some(Mcc(MERCHANT_CATEGORIES[usize::from(mark.to_le_bytes()[0]) % 6]));
        trace.stan = LineText::spaced(text(&digits::<6>(self.count)));
        trace.rrn = LineText::spaced(text(&digits::<12>(self.count)));
        trace.original_key = Some(OriginalKey(mark));
        trace.retrieval_key = Some(RetrievalKey(mix(mark)));
        let fingerprint = Fingerprint {
            key: DuplicateKey(u128::from(mark) << 64 | u128::from(self.count)),
            trace: Some(TraceKey(u128::from(mark))),
            content: mix(card ^ mark),
            window: DuplicateWindow::Day,
        };
        (authorize, fingerprint)
    }
}

fn command_of(authorize: Authorize, fingerprint: Fingerprint) -> Command {
    let command = NetworkCommand::Authorize(authorize);
    Command::Network(Box::new(NetworkRequest { command, fingerprint: Some(fingerprint) }))
}

/// The part that all purchases share.
fn pattern() -> Authorize {
    Authorize {
        facts: PurchaseFacts {
            card: CardRef::Pan(pan_hash(0), MaskedPan::default()),
            amounts: MessageAmounts {
                amount: Minor(100),
                currency: Some(US_DOLLAR),
                billing: None,
            },
            merchant: Merchant {
                mid: 445_566,
                mcc: None,
                card_acceptor_id: LineText::spaced("000000000445566"),
                name: LineText::spaced("Blue Bottle Coffee"),
                city: LineText::spaced("San Francisco"),
                state: LineText::spaced("CA"),
                country: LineText::spaced("US"),
                zip: LineText::spaced("94103"),
            },
            trace: NetworkTrace {
                stan: LineText::spaced("000000"),
                rrn: LineText::spaced("000000000000"),
                acquirer: LineText::spaced("123456"),
                terminal: LineText::spaced("TERM0001"),
                transmission_time: LineText::spaced("1121120000"),
                original_key: None,
                retrieval_key: None,
            },
        },
        kind: AuthorizationKind::Purchase,
        credentials: credentials(),
        partial: PartialApproval::NotTaken,
    }
}

/// The last `N` decimal digits of a number.
#[must_use]
pub fn digits<const N: usize>(mut number: u64) -> [u8; N] {
    let mut digits = [b'0'; N];
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
    digits
}

fn text(digits: &[u8]) -> &str {
    std::str::from_utf8(digits).unwrap_or_default()
}
