//! Issuing cards: draws a card number, derives what is kept of it, and completes the command.
//!
//! Randomness comes in as a value: the system's for cards that clients order, a seeded stream for
//! portfolios that are to be the same again. Drawing is not checking: the shard refuses a number
//! that is in use, and the caller draws again.

use cardswitch_engine::directory::card::{CardOrder, NewCard};
use cardswitch_engine::domain::business_date::{BusinessDate, date_at};
use cardswitch_engine::domain::card::CardState;
use cardswitch_engine::domain::cell::Cell;
use cardswitch_engine::domain::credential::PinVerifier;
use cardswitch_engine::domain::ids::{AllowanceId, CardId, Timestamp};
use chrono::{Datelike, Days, Months};
use chrono_tz::Tz;
use uuid::Uuid;

use crate::hex::to_hex;
use crate::pan::Pan;
use crate::{SealError, Secrets};

/// How many digits the numbers of new cards have.
const PAN_LEN: usize = 16;
/// How long a card is valid. Units: months.
const VALIDITY_MONTHS: u32 = 36;
/// How often a number is drawn before issuing gives up.
pub const DRAWS_MAX: usize = 16;

/// Why no card was drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IssueError {
    /// The system gave no random bytes.
    #[error("the system gave no random bytes")]
    NoRandomness,
    /// The card number could not be sealed.
    #[error(transparent)]
    Seal(SealError),
}

/// The source of random bytes.
pub trait RandomSource {
    /// Fills `bytes`.
    /// Errors: the source is exhausted or unavailable.
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), IssueError>;

    /// The cell that ids, tokens and card numbers drawn here name.
    fn cell(&self) -> Option<Cell> {
        None
    }

    /// A new id: a version 7 UUID of the instant `at`.
    fn id(&mut self, at: Timestamp) -> Result<Uuid, IssueError> {
        let mut random = [0; 10];
        self.fill(&mut random)?;
        let id = uuid::Builder::from_unix_timestamp_millis(at.unix_ms(), &random).into_uuid();
        Ok(self.cell().map_or(id, |cell| cell.mark_id(id)))
    }

    /// A new secret: 256 random bits, as 64 hexadecimal digits. In a cell the first two are its own.
    fn token(&mut self) -> Result<String, IssueError> {
        let mut bytes = [0; 32];
        self.fill(&mut bytes)?;
        let token = to_hex(&bytes);
        Ok(self.cell().map_or_else(|| token.clone(), |cell| cell.mark_token(&token)))
    }
}

/// A source whose ids, tokens and card numbers name a cell, if there is one.
#[derive(Clone, Copy, Debug, Default)]
pub struct CellRandom<R> {
    source: R,
    cell: Option<Cell>,
}

impl<R: RandomSource> CellRandom<R> {
    /// The same randomness for a switch of `cell`.
    pub const fn new(source: R, cell: Option<Cell>) -> Self {
        Self { source, cell }
    }
}

impl<R: RandomSource> RandomSource for CellRandom<R> {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), IssueError> {
        self.source.fill(bytes)
    }

    fn cell(&self) -> Option<Cell> {
        self.cell
    }
}

/// The operating system's randomness.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemRandom;

impl RandomSource for SystemRandom {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), IssueError> {
        getrandom::fill(bytes).map_err(|_| IssueError::NoRandomness)
    }
}

/// A seeded stream is a closure that fills bytes.
impl<F: FnMut(&mut [u8])> RandomSource for F {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), IssueError> {
        self(bytes);
        Ok(())
    }
}

/// Draws card numbers that begin with an issuer's own digits. Source: ISO/IEC 7812.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CardNumbers {
    bin: Vec<u8>,
}

impl CardNumbers {
    /// Numbers that begin with `bin`, 6 to 8 digits; none where it is not that.
    pub fn new(bin: &str) -> Option<Self> {
        let is_bin = (6..=8).contains(&bin.len()) && bin.bytes().all(|byte| byte.is_ascii_digit());
        is_bin.then(|| Self { bin: bin.as_bytes().to_vec() })
    }

    /// A number of 16 digits with a right check digit. In a cell its two digits follow the first ones.
    /// Errors: no randomness.
    pub fn draw(&self, random: &mut dyn RandomSource) -> Result<Pan, IssueError> {
        let mut leading = self.bin.clone();
        leading.extend(random.cell().iter().flat_map(|cell| cell.digits()));
        while leading.len() < PAN_LEN - 1 {
            leading.push(b'0' + random_digit(random)?);
        }
        Ok(Pan::with_check_digit(&leading).expect("15 digits and a check digit are a card number"))
    }
}

/// A digit, each as likely as the others.
fn random_digit(random: &mut dyn RandomSource) -> Result<u8, IssueError> {
    loop {
        let mut byte = [0];
        random.fill(&mut byte)?;
        if byte[0] < 250 {
            return Ok(byte[0] % 10);
        }
    }
}

/// A card to issue, but for its number.
#[derive(Clone, Debug)]
pub struct IssuingOrder {
    /// The order for the card.
    pub order: CardOrder,
    /// The zone of the company's days.
    pub zone: Tz,
    /// Its PIN, if one is set from the start.
    pub pin: Option<String>,
}

/// A card with its number, ready to be made.
#[derive(Debug)]
pub struct DrawnCard {
    /// The card as the shard gets it.
    pub card: NewCard,
    /// Its number.
    pub pan: Pan,
}

/// The parts of the switch that issuing needs.
#[derive(Clone, Copy, Debug)]
pub struct Issuer<'a> {
    /// The source of card numbers.
    pub numbers: &'a CardNumbers,
    /// The secrets that seal and hash them.
    pub secrets: &'a Secrets,
}

impl Issuer<'_> {
    /// Draws ids and a number for a card that is ordered at the instant `at`.
    /// Errors: no randomness, or the number cannot be sealed.
    pub fn draw_card(
        &self,
        asked: &IssuingOrder,
        at: Timestamp,
        random: &mut dyn RandomSource,
    ) -> Result<DrawnCard, IssueError> {
        let id = CardId(random.id(at)?);
        let allowance_id = AllowanceId(random.id(at)?);
        let pan = self.numbers.draw(random)?;
        let pin = asked
            .pin
            .as_deref()
            .map_or(PinVerifier::default(), |pin| self.secrets.pin_verifier(&pan, pin.as_bytes()));
        let card = NewCard {
            id,
            allowance_id,
            pan_hash: self.secrets.pan_hash(&pan),
            sealed_pan: self.secrets.seal_pan(&pan, id).map_err(IssueError::Seal)?,
            last_four: pan.last_four(),
            pin,
            expires_on: expiry_of(date_at(asked.zone, at)),
            state: first_state(asked.order.is_virtual),
            order: asked.order.clone(),
        };
        Ok(DrawnCard { card, pan })
    }
}

const fn first_state(is_virtual: bool) -> CardState {
    if is_virtual { CardState::Active } else { CardState::Unactivated }
}

/// The last day of the month in which a card ordered on the local date `today` ends.
fn expiry_of(today: BusinessDate) -> BusinessDate {
    let first_of_month = today.to_naive().with_day(1).unwrap_or(today.to_naive());
    let after = first_of_month + Months::new(VALIDITY_MONTHS + 1);
    BusinessDate::from_naive(after - Days::new(1))
}

#[cfg(test)]
mod tests {
    use cardswitch_engine::domain::allowance::AllowanceTerms;
    use cardswitch_engine::domain::ids::CompanyId;
    use cardswitch_wire::time::parse_time;
    use chrono_tz::America::Los_Angeles;

    use super::*;

    /// A small seeded stream.
    fn stream(seed: u64) -> impl FnMut(&mut [u8]) {
        let mut state = seed;
        move |bytes: &mut [u8]| {
            for byte in bytes {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                *byte = state.to_be_bytes()[0];
            }
        }
    }

    fn order() -> IssuingOrder {
        let terms = AllowanceTerms::budget(cardswitch_engine::domain::money::Minor(100));
        let texts = ["Lunch", "Lunch"].map(|text| text.parse().unwrap());
        IssuingOrder {
            order: CardOrder::plain(CompanyId(Uuid::nil()), terms, texts),
            zone: Los_Angeles,
            pin: Some("1234".into()),
        }
    }

    #[test]
    fn bins_have_six_to_eight_digits() {
        for (bin, is_bin) in [
            ("411111", true),
            ("4111111", true),
            ("41111111", true),
            ("41111", false),
            ("411111111", false),
            ("41111x", false),
            ("", false),
        ] {
            assert_eq!(CardNumbers::new(bin).is_some(), is_bin, "{bin}");
        }
    }

    #[test]
    fn drawn_numbers_are_valid_and_differ() {
        let numbers = CardNumbers::new("41111111").unwrap();
        let mut random = stream(7);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..1_000 {
            let pan = numbers.draw(&mut random).unwrap();
            assert!(pan.is_luhn_valid());
            assert_eq!(pan.digits().len(), 16);
            assert!(pan.digits().starts_with(b"41111111"));
            seen.insert(pan.reveal());
        }
        // 1,000 draws out of 10^7 numbers: a few may meet, not many.
        assert!(seen.len() > 990, "{}", seen.len());
        assert!(numbers.draw(&mut SystemRandom).unwrap().is_luhn_valid());
    }

    #[test]
    fn what_is_drawn_in_a_cell_names_it() {
        let (cell, at) = ("07".parse().unwrap(), parse_time("2026-03-01T07:59:59Z").unwrap());
        let (mut plain, mut random) = (stream(7), CellRandom::new(stream(7), Some(cell)));
        for bin in ["411111", "4111111", "41111111"].repeat(20) {
            let numbers = CardNumbers::new(bin).unwrap();
            let pan = numbers.draw(&mut random).unwrap();
            assert!(pan.is_luhn_valid());
            assert_eq!(pan.digits().len(), 16);
            assert_eq!(Cell::of_card_number(pan.digits(), bin.as_bytes()), Some(cell));
            assert_eq!(Cell::of_id(random.id(at).unwrap()), Some(cell));
            assert_eq!(Cell::of_token(&random.token().unwrap()), Some(cell));
        }
        // A switch without a cell draws the same as ever.
        let mut without = CellRandom::new(stream(7), None);
        assert_eq!(without.id(at).unwrap(), plain.id(at).unwrap());
        assert_eq!(without.token().unwrap(), plain.token().unwrap());
        assert_eq!(plain.token().unwrap().len(), 64);
    }

    #[test]
    fn the_same_stream_draws_the_same_card() {
        let numbers = CardNumbers::new("411111").unwrap();
        let secrets = Secrets::from_root([3; 32]);
        let issuer = Issuer { numbers: &numbers, secrets: &secrets };
        let at = parse_time("2026-03-01T07:59:59Z").unwrap();
        let first = issuer.draw_card(&order(), at, &mut stream(1)).unwrap();
        let again = issuer.draw_card(&order(), at, &mut stream(1)).unwrap();
        let other = issuer.draw_card(&order(), at, &mut stream(2)).unwrap();
        assert_eq!(first.pan.reveal(), again.pan.reveal());
        assert_eq!((first.card.id, first.card.pan_hash), (again.card.id, again.card.pan_hash));
        assert_ne!(first.card.id, other.card.id);
        assert_ne!(first.card.id.0, first.card.allowance_id.0);
        assert_eq!(first.card.id.0.get_version_num(), 7);
        // It is still February in Los Angeles.
        assert_eq!(first.card.expires_on.to_naive().to_string(), "2029-02-28");
        assert_eq!(first.card.pin, secrets.pin_verifier(&first.pan, b"1234"));
        let opened = secrets.open_pan(&first.card.sealed_pan, first.card.id).unwrap();
        assert_eq!(opened.reveal(), first.pan.reveal());
    }

    #[test]
    fn cards_end_with_a_month_three_years_on() {
        for (today, expected) in [
            ("2026-03-31", "2029-03-31"),
            ("2025-02-01", "2028-02-29"),
            ("2026-12-31", "2029-12-31"),
            ("2026-11-30", "2029-11-30"),
        ] {
            let today = BusinessDate::from_naive(today.parse().unwrap());
            assert_eq!(expiry_of(today).to_naive().to_string(), expected);
        }
    }
}
