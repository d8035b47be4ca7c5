//! The card a message names and what its holder proved, turned into what the engine compares.
//!
//! Nothing of the card number or PIN in clear leaves this file: the number becomes its hash, the PIN
//! its keyed value, and beside the CVV stands the card's. Nothing is compared here: whether that is
//! allowed depends on the attempts before, which the shard knows.

use cardswitch_engine::command::network::CardRef;
use cardswitch_engine::domain::card::PanHash;
use cardswitch_engine::domain::credential::{
    Cvv, CvvPair, ExpiryMonth, PackedZip, PinVerifier, PresentedCredentials, PresentedValue,
};
use cardswitch_iso8583::{Message, Pin, Track2, decode_pin_block, private_use};
use cardswitch_secrets::Secrets;
use cardswitch_secrets::pan::Pan;

use super::mapping::{Refusal, card_ref, private_use};

/// A card as a message presents it.
#[derive(Debug)]
pub(crate) struct PresentedCard {
    pub(crate) card: CardRef,
    pub(crate) hash: PanHash,
    pan: Pan,
    track_expiry: Option<[u8; 4]>,
}

/// Reads the card. Source: ISO DE2, DE35.
/// Errors: no card number, or one that cannot be, or two.
pub(crate) fn presented_card(
    message: &Message<'_>,
    secrets: &Secrets,
) -> Result<PresentedCard, Refusal> {
    let track = match message.get(35) {
        Some(content) if !message.has(2) || !message.has(14) => Track2::parse(content),
        _ => None,
    };
    let pan = match (message.get(2), track) {
        (Some(digits), _) => Pan::parse(digits).ok_or(Refusal::Invalid(2))?,
        (None, Some(track)) => Pan::parse(track.pan.as_bytes()).ok_or(Refusal::Invalid(35))?,
        (None, None) if message.has(35) => return Err(Refusal::Invalid(35)),
        (None, None) => return Err(Refusal::Missing(2)),
    };
    if track.is_some_and(|track| track.pan.as_bytes() != pan.digits()) {
        return Err(Refusal::Invalid(35));
    }
    let hash = secrets.pan_hash(&pan);
    let track_expiry = track.map(|track| track.expiry);
    Ok(PresentedCard { card: card_ref(hash, &pan), hash, pan, track_expiry })
}

impl PresentedCard {
    /// The card number's digits.
    pub(crate) fn digits(&self) -> &[u8] {
        self.pan.digits()
    }

    /// The keyed value of a PIN that was read from `block`; without one, that of no card.
    pub(crate) fn pin_verifier(
        &self,
        secrets: &Secrets,
        pin: Option<Pin>,
        block: &[u8],
    ) -> PinVerifier {
        match pin {
            Some(pin) => secrets.pin_verifier(&self.pan, pin.digits()),
            None => secrets.pin_verifier(&self.pan, &[b"not a PIN".as_slice(), block].concat()),
        }
    }

    /// Reads what was proved. Source: ISO DE14, DE35, DE48 tags 80 and 92, DE52.
    pub(crate) fn credentials(
        &self,
        message: &Message<'_>,
        secrets: &Secrets,
    ) -> PresentedCredentials {
        let pan = &self.pan;
        let expiry = message.get_array(14).or(self.track_expiry);
        let private = private_use(message);
        let cvv = private.and_then(|private| private.find(private_use::CVV));
        let zip = private.and_then(|private| private.zip()).map(PackedZip::pack);
        // A block that holds no PIN for this card is a wrong PIN, not a malformed message.
        let pin = message
            .get_array(52)
            .map(|block| self.pin_verifier(secrets, decode_pin_block(block, pan.digits()), &block));
        PresentedCredentials {
            expiry: expiry.and_then(expiry_month).map(PresentedValue::new),
            cvv: cvv.map(|cvv| PresentedValue::new(cvv_pair(secrets, Some(pan), cvv))),
            pin: pin.map(PresentedValue::new),
            zip: zip.filter(|zip| !zip.is_absent()).map(PresentedValue::new),
        }
    }
}

/// A CVV beside the card's, if the card is known.
pub fn cvv_pair(secrets: &Secrets, pan: Option<&Pan>, cvv: &[u8]) -> CvvPair {
    let own = pan.map_or(Cvv::NONE, |pan| Cvv::parse(&secrets.cvv(pan)));
    CvvPair { shown: Cvv::parse(cvv), own }
}

/// The expiry as year and month. Source: ISO DE14.
fn expiry_month(digits: [u8; 4]) -> Option<ExpiryMonth> {
    let number = digits.iter().try_fold(0_u16, |number, digit| {
        digit.is_ascii_digit().then(|| number * 10 + u16::from(digit - b'0'))
    })?;
    Some(ExpiryMonth(number))
}
