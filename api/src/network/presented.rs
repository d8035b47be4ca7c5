//! The card a message names and what its holder proved, turned into what the engine compares.
//!
//! Nothing of the card number, CVV or PIN in clear leaves this file: the number becomes its hash,
//! the CVV is compared here, the PIN becomes its keyed value.

use cardswitch_engine::command::network::CardRef;
use cardswitch_engine::domain::card::PanHash;
use cardswitch_engine::domain::credential::{
    CvvCheck, ExpiryMonth, PackedZip, PinVerifier, PresentedCredentials,
};
use cardswitch_iso8583::{Message, Track2, decode_pin_block, private_use};

use super::mapping::{Refusal, card_ref, private_use};
use crate::pan::Pan;
use crate::secrets::{Secrets, codes_equal};

/// A card as a message presents it.
#[derive(Clone, Copy, Debug)]
pub(super) struct PresentedCard {
    pub(super) card: CardRef,
    pub(super) hash: PanHash,
    pub(super) credentials: PresentedCredentials,
}

/// Reads card and credentials. Source: ISO DE2, DE14, DE35, DE48 tags 80 and 92, DE52.
/// Errors: no card number, or one that cannot be.
pub(super) fn presented_card(
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
    let expiry = message.get_array(14).or(track.map(|track| track.expiry));
    let private = private_use(message);
    let cvv = private.and_then(|private| private.find(private_use::CVV));
    let zip = private.and_then(|private| private.zip()).map(PackedZip::pack);
    let hash = secrets.pan_hash(&pan);
    let credentials = PresentedCredentials {
        expiry: expiry.and_then(expiry_month),
        cvv: cvv.map(|cvv| check_cvv(secrets, &pan, cvv)),
        pin: message.get_binary(52).map(|block| pin_of_block(secrets, &pan, block)),
        zip: zip.filter(|zip| !zip.is_absent()),
    };
    Ok(PresentedCard { card: card_ref(hash, &pan), hash, credentials })
}

/// Compares a CVV with the card's.
pub(super) fn check_cvv(secrets: &Secrets, pan: &Pan, cvv: &[u8]) -> CvvCheck {
    if codes_equal(&secrets.cvv(pan), cvv) { CvvCheck::Match } else { CvvCheck::Mismatch }
}

/// The expiry as year and month. Source: ISO DE14.
fn expiry_month(digits: [u8; 4]) -> Option<ExpiryMonth> {
    let number = digits.iter().try_fold(0_u16, |number, digit| {
        digit.is_ascii_digit().then(|| number * 10 + u16::from(digit - b'0'))
    })?;
    Some(ExpiryMonth(number))
}

/// The keyed value of the PIN in a block. A block that holds no PIN for this card is a wrong PIN,
/// not a malformed message: its keyed value is no card's.
fn pin_of_block(secrets: &Secrets, pan: &Pan, block: [u8; 8]) -> PinVerifier {
    match decode_pin_block(block, pan.digits()) {
        Some(pin) => secrets.pin_verifier(pan, pin.digits()),
        None => secrets.pin_verifier(pan, &[b"not a PIN".as_slice(), &block].concat()),
    }
}
