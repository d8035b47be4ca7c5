//! A place in the event log as clients hold it: sealed, since numbers would tell each company how
//! much happens at all others. A place of one company is no place of another.
//!
//! The sealed bytes are the number (8 bytes, the high one first) and the instant (8 bytes) of the
//! event that the place is behind; the number alone before the first event.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cardswitch_engine::domain::event::{EventNumber, EventPlace};
use cardswitch_engine::domain::ids::{CompanyId, Timestamp};

use cardswitch_secrets::{SealError, SealedSecret, Secrets};

/// The longest text that is read. Units: bytes.
const TEXT_BYTES_MAX: usize = 100;

/// The text of a place.
/// Errors: the cipher refuses.
pub fn render_cursor(
    secrets: &Secrets,
    company: CompanyId,
    place: EventPlace,
) -> Result<String, SealError> {
    let mut bytes = place.number.0.to_be_bytes().to_vec();
    bytes.extend(place.at.iter().flat_map(|at| at.0.to_be_bytes()));
    Ok(URL_SAFE_NO_PAD.encode(secrets.seal_event_place(&bytes, company)?))
}

/// The place of a text; none where it was not made here for this company.
pub fn parse_cursor(secrets: &Secrets, company: CompanyId, text: &str) -> Option<EventPlace> {
    if text.len() > TEXT_BYTES_MAX {
        return None;
    }
    let sealed = URL_SAFE_NO_PAD.decode(text).ok()?;
    let bytes = secrets.open(SealedSecret::EventPlace(company), &sealed)?;
    let (number, at) = bytes.split_first_chunk()?;
    let number = EventNumber(u64::from_be_bytes(*number));
    let at = match at {
        [] => None,
        at => Some(Timestamp(i64::from_be_bytes(at.try_into().ok()?))),
    };
    Some(EventPlace { number, at })
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn places_are_read_by_whom_they_were_made_for() {
        let secrets = Secrets::from_root([3; 32]);
        let [own, other] = [1, 2].map(|id| CompanyId(Uuid::from_u128(id)));
        let place = |number, at: i64| EventPlace {
            number: EventNumber(number),
            at: Some(at).filter(|at| *at != 0).map(Timestamp),
        };
        let text = render_cursor(&secrets, own, place(77, 5)).unwrap();
        for place in [place(77, 5), place(77, 6), place(78, 5), place(0, 0), place(77, 0)] {
            let again = render_cursor(&secrets, own, place).unwrap();
            assert_eq!(parse_cursor(&secrets, own, &again), Some(place));
            assert_eq!(again == text, place == parse_cursor(&secrets, own, &text).unwrap());
        }
        assert_eq!(parse_cursor(&secrets, other, &text), None);
        for bytes in [7, 9, 15, 17] {
            let sealed = secrets.seal_event_place(&vec![1; bytes], own).unwrap();
            assert_eq!(parse_cursor(&secrets, own, &URL_SAFE_NO_PAD.encode(sealed)), None);
        }
        let other_switch = Secrets::from_root([4; 32]);
        assert_eq!(parse_cursor(&other_switch, own, &text), None);
        for text in ["", "77", "AA", &"A".repeat(60), &"A".repeat(10_000), "\u{1f4a9}"] {
            assert_eq!(parse_cursor(&secrets, own, text), None, "{text}");
        }
    }
}
