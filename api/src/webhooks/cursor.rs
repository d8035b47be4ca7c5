//! A place in the event log as clients hold it: sealed, since numbers would tell each company how
//! much happens at all others, and a place of one company's is none of another's.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cardswitch_engine::domain::event::EventNumber;
use cardswitch_engine::domain::ids::CompanyId;

use crate::secrets::{SealError, Secrets};

/// The longest text that is looked at. Units: bytes.
const TEXT_BYTES_MAX: usize = 100;

/// The text of the place behind an event.
/// Errors: the cipher refuses.
pub fn render_cursor(
    secrets: &Secrets,
    company: CompanyId,
    after: EventNumber,
) -> Result<String, SealError> {
    let sealed = secrets.seal_event_place(&after.0.to_be_bytes(), company)?;
    Ok(URL_SAFE_NO_PAD.encode(sealed))
}

/// The place of a text; none where it was not made here for this company.
#[must_use]
pub fn parse_cursor(secrets: &Secrets, company: CompanyId, text: &str) -> Option<EventNumber> {
    if text.len() > TEXT_BYTES_MAX {
        return None;
    }
    let sealed = URL_SAFE_NO_PAD.decode(text).ok()?;
    let bytes = secrets.open_event_place(&sealed, company)?;
    bytes.as_slice().try_into().ok().map(|bytes| EventNumber(u64::from_be_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn places_are_read_by_whom_they_were_made_for() {
        let secrets = Secrets::from_master([3; 32]);
        let [own, other] = [1, 2].map(|id| CompanyId(Uuid::from_u128(id)));
        let text = render_cursor(&secrets, own, EventNumber(77)).unwrap();
        assert_eq!(parse_cursor(&secrets, own, &text), Some(EventNumber(77)));
        assert_eq!(render_cursor(&secrets, own, EventNumber(77)).unwrap(), text);
        assert_ne!(render_cursor(&secrets, own, EventNumber(78)).unwrap(), text);
        assert_eq!(parse_cursor(&secrets, other, &text), None);
        let other_switch = Secrets::from_master([4; 32]);
        assert_eq!(parse_cursor(&other_switch, own, &text), None);
        for text in ["", "77", "AA", &"A".repeat(60), &"A".repeat(10_000), "\u{1f4a9}"] {
            assert_eq!(parse_cursor(&secrets, own, text), None, "{text}");
        }
    }
}
