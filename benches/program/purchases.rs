//! An endless stream of authorizations, made cheaply: the caller shares two cores with what it
//! measures.

use cardswitch_engine::command::Command;
use cardswitch_engine::command::network::{
    AuthorizationKind, Authorize, CardRef, MessageAmounts, NetworkCommand, NetworkRequest,
    PartialApproval, PurchaseFacts,
};
use cardswitch_engine::domain::card::{MaskedPan, PanHash};
use cardswitch_engine::domain::merchant::{Mcc, Merchant};
use cardswitch_engine::domain::money::Minor;
use cardswitch_engine::domain::network_key::{
    DuplicateKey, DuplicateWindow, Fingerprint, NetworkTrace, OriginalKey, RetrievalKey, TraceKey,
};
use cardswitch_engine::domain::text::LineText;

use super::{CardDraw, MERCHANT_CATEGORIES, Random, US_DOLLAR, credentials, mix, pan_hash};

/// The values that differ from one purchase to the next.
#[derive(Clone, Copy, Debug)]
pub struct Draw {
    /// The keyed hash of its card.
    pub pan_hash: PanHash,
    /// Tells a repeat from another purchase.
    pub key: DuplicateKey,
    /// Its amount.
    pub amount: Minor,
    /// Its merchant category.
    pub mcc: Mcc,
    /// Counts the purchases of a stream.
    pub count: u64,
    mark: u64,
}

/// An endless stream of draws on random cards of the program.
#[derive(Clone, Debug)]
pub struct Draws {
    random: Random,
    draw: CardDraw,
    /// The hashes of cards with numbers; the others are simulated.
    hashes: Vec<PanHash>,
    count: u64,
}

impl Draws {
    /// A stream over the cards of a draw. Streams of different seeds repeat nothing of each other.
    pub const fn over(draw: CardDraw, seed: u64) -> Self {
        Self { random: Random::new(seed), draw, hashes: Vec::new(), count: 0 }
    }

    /// The next one.
    pub fn next_draw(&mut self) -> Draw {
        self.count += 1;
        let card = self.draw.next_card(&mut self.random);
        let mark = self.random.next();
        Draw {
            pan_hash: usize::try_from(card)
                .ok()
                .and_then(|place| self.hashes.get(place))
                .map_or_else(|| pan_hash(card), |hash| *hash),
            key: DuplicateKey(u128::from(mark) << 64 | u128::from(self.count)),
            amount: Minor(i64::try_from(100 + mark % 20_000).unwrap_or(100)),
            mcc: Mcc(MERCHANT_CATEGORIES[usize::from(mark.to_le_bytes()[0]) % 6]),
            count: self.count,
            mark,
        }
    }
}

/// An endless stream of authorizations on random cards of the program.
#[derive(Clone, Debug)]
pub struct Purchases {
    draws: Draws,
    pattern: Authorize,
}

impl Purchases {
    /// A stream over so many cards. Streams of different seeds repeat nothing of each other.
    pub fn new(cards: u64, seed: u64) -> Self {
        Self::drawn(CardDraw::uniform(cards), seed)
    }

    /// A stream over the cards of a draw.
    pub fn drawn(draw: CardDraw, seed: u64) -> Self {
        Self { draws: Draws::over(draw, seed), pattern: pattern() }
    }

    /// A stream over cards with these hashes.
    pub fn over(hashes: Vec<PanHash>, seed: u64) -> Self {
        let draws = Draws::over(CardDraw::uniform(hashes.len() as u64), seed);
        Self { draws: Draws { hashes, ..draws }, pattern: pattern() }
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
        let draw = self.draws.next_draw();
        let mut authorize = self.pattern.clone();
        let PurchaseFacts { card: card_ref, amounts, merchant, trace } = &mut authorize.facts;
        *card_ref = CardRef::Pan(draw.pan_hash, MaskedPan::default());
        amounts.amount = draw.amount;
        merchant.mcc = Some(draw.mcc);
        trace.stan = LineText::spaced(text(&digits::<6>(draw.count)));
        trace.rrn = LineText::spaced(text(&digits::<12>(draw.count)));
        trace.original_key = Some(OriginalKey(draw.mark));
        trace.retrieval_key = Some(RetrievalKey(mix(draw.mark)));
        let fingerprint = Fingerprint {
            key: draw.key,
            trace: Some(TraceKey(u128::from(draw.mark))),
            content: mix(draw.pan_hash.0 ^ draw.mark),
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
            merchant: merchant(),
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

/// The merchant of every purchase, without a category.
pub fn merchant() -> Merchant {
    Merchant {
        mid: 445_566,
        mcc: None,
        card_acceptor_id: LineText::spaced("000000000445566"),
        name: LineText::spaced("Blue Bottle Coffee"),
        city: LineText::spaced("San Francisco"),
        state: LineText::spaced("CA"),
        country: LineText::spaced("US"),
        zip: LineText::spaced("94103"),
    }
}

/// The last `N` decimal digits of a number.
fn digits<const N: usize>(mut number: u64) -> [u8; N] {
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
