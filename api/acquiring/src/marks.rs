//! The network's marks on a message, and the keys made of them. Both doors make them here, so that
//! what came through one can be named through the other.
//!
//! | key | made of |
//! |---|---|
//! | `OriginalKey` | STAN, transmission time, acquirer, card |
//! | `RetrievalKey` | retrieval reference, acquirer, card |
//!
//! Acquirers count without leading zeros and references without trailing blanks, because DE90 and
//! fixed-length text pad them. Zeros and blanks fill an element that a sender has no use for: they are no
//! number, no time and no reference.

use cardswitch_engine::domain::card::PanHash;
use cardswitch_engine::domain::network_key::{
    AuthorizationId, NetworkTrace, OriginalKey, RetrievalKey,
};
use cardswitch_engine::domain::text::LineText;
use sha2::{Digest, Sha256};

use cardswitch_secrets::{HashPurpose, Secrets};

/// The spelling in DE90 of a transmission time that the original did not carry.
const NO_TRANSMISSION_TIME: &str = "0000000000";
/// The largest merchant number that JSON readers keep exactly.
const MID_MAX: u64 = 1 << 53;
const DERIVED_MID_BITS: u32 = 48;

/// The marks of one message; absent ones are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks<'a> {
    /// DE11.
    pub stan: Option<&'a str>,
    /// DE7.
    pub transmission_time: Option<&'a str>,
    /// DE37.
    pub rrn: Option<&'a str>,
    /// DE32.
    pub acquirer: Option<&'a str>,
    /// DE41.
    pub terminal: Option<&'a str>,
}

impl Marks<'_> {
    /// The marks as they are kept with a transaction, with the keys by which it may be named where its
    /// card is known.
    pub fn trace(&self, keys: Option<(&Secrets, PanHash)>) -> NetworkTrace {
        let text = |mark: Option<&str>| LineText::spaced(mark.unwrap_or_default().trim_end());
        NetworkTrace {
            stan: text(self.stan),
            rrn: text(self.rrn),
            acquirer: text(self.acquirer),
            terminal: text(self.terminal),
            transmission_time: text(self.transmission_time),
            original_key: keys.and_then(|(secrets, card)| self.original_key(secrets, card)),
            retrieval_key: keys.and_then(|(secrets, card)| self.retrieval_key(secrets, card)),
        }
    }

    /// The key that names a message with these marks; none without a STAN, which is a number.
    pub fn original_key(&self, secrets: &Secrets, card: PanHash) -> Option<OriginalKey> {
        let stan = used(self.stan)?;
        let number = stan.parse().ok()?;
        let (time, acquirer) = (used(self.transmission_time), self.plain_acquirer());
        let mut hasher = secrets.message_hasher(HashPurpose::Original);
        hasher
            .part(Some(stan.as_bytes()))
            .part(Some(time.unwrap_or(NO_TRANSMISSION_TIME).as_bytes()))
            .part(Some(acquirer.as_bytes()))
            .number(card.0);
        Some(OriginalKey::new(number, hasher.finish64(), time.is_none(), acquirer.is_empty()))
    }

    /// The key that names a message with these marks; none without a retrieval reference.
    pub fn retrieval_key(&self, secrets: &Secrets, card: PanHash) -> Option<RetrievalKey> {
        let rrn = used(self.rrn)?;
        let mut hasher = secrets.message_hasher(HashPurpose::Retrieval);
        hasher
            .part(Some(rrn.as_bytes()))
            .part(Some(self.plain_acquirer().as_bytes()))
            .number(card.0);
        Some(RetrievalKey(hasher.finish64()))
    }

    /// Whether other messages may be known by them: without time and reference, numbers of messages return.
    pub(crate) fn have_trace(&self) -> bool {
        used(self.transmission_time).is_some() || used(self.rrn).is_some()
    }

    fn plain_acquirer(&self) -> &str {
        self.acquirer.unwrap_or_default().trim_start_matches('0')
    }
}

/// A mark that is no filler, without trailing blanks.
fn used(mark: Option<&str>) -> Option<&str> {
    mark.map(str::trim_end).filter(|mark| mark.bytes().any(|byte| byte != b'0' && byte != b' '))
}

/// An authorization id of six letters and digits; none of anything else.
pub fn parse_authorization_id(text: &str) -> Option<AuthorizationId> {
    let id: [u8; 6] = text.as_bytes().try_into().ok()?;
    id.iter().all(u8::is_ascii_alphanumeric).then_some(AuthorizationId(id))
}

/// An authorization id as text.
pub fn render_authorization_id(id: AuthorizationId) -> String {
    id.0.iter().copied().map(char::from).collect()
}

/// The merchant's number: its text where that is a number every reader keeps, otherwise a stable
/// 48-bit number from SHA-256 of acquirer and text. Blank text is merchant 0.
pub fn merchant_number(acquirer: &str, card_acceptor_id: &str) -> u64 {
    let text = card_acceptor_id.trim();
    if text.is_empty() {
        return 0;
    }
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse::<u64>() {
        Ok(number) if is_number && number <= MID_MAX => number,
        _ => derived_merchant_number(acquirer, text),
    }
}

fn derived_merchant_number(acquirer: &str, text: &str) -> u64 {
    let digest = Sha256::new()
        .chain_update(acquirer.as_bytes())
        .chain_update([0])
        .chain_update(text.as_bytes())
        .finalize();
    let first = digest.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte));
    first >> (u64::BITS - DERIVED_MID_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CARD: PanHash = PanHash(77);

    fn secrets() -> Secrets {
        Secrets::from_root([3; 32])
    }

    fn marks() -> Marks<'static> {
        Marks {
            stan: Some("000123"),
            transmission_time: Some("0305120000"),
            rrn: Some("606412000123"),
            acquirer: Some("12345"),
            terminal: Some("TERM0001"),
        }
    }

    #[test]
    fn each_mark_and_the_card_tell_originals_apart() {
        let secrets = secrets();
        let key = |marks: Marks<'_>| marks.original_key(&secrets, CARD);
        let base = key(marks());
        assert!(base.is_some());
        assert_eq!(base, key(Marks { acquirer: Some("00000012345"), ..marks() }));
        assert_eq!(base, key(Marks { rrn: None, terminal: None, ..marks() }));
        assert_ne!(base, key(Marks { stan: Some("000124"), ..marks() }));
        assert_ne!(base, key(Marks { transmission_time: Some("0305120001"), ..marks() }));
        assert_ne!(base, key(Marks { acquirer: Some("12346"), ..marks() }));
        assert_ne!(base, marks().original_key(&secrets, PanHash(78)));
        for stan in [None, Some("000000")] {
            assert_eq!(key(Marks { stan, ..marks() }), None);
        }
        assert_eq!(
            key(Marks { transmission_time: None, ..marks() }),
            key(Marks { transmission_time: Some("0000000000"), ..marks() })
        );
    }

    #[test]
    fn references_name_originals_with_acquirer_and_card() {
        let secrets = secrets();
        let key = |marks: Marks<'_>| marks.retrieval_key(&secrets, CARD);
        let base = key(marks());
        assert!(base.is_some());
        assert_eq!(base, key(Marks { stan: None, transmission_time: None, ..marks() }));
        assert_ne!(base, key(Marks { rrn: Some("606412000124"), ..marks() }));
        assert_ne!(base, key(Marks { acquirer: None, ..marks() }));
        assert_ne!(base, marks().retrieval_key(&secrets, PanHash(78)));
        assert_eq!(
            key(Marks { rrn: Some("ABC         "), ..marks() }),
            key(Marks { rrn: Some("ABC"), ..marks() })
        );
        for filler in ["", "            ", "000000000000"] {
            assert_eq!(key(Marks { rrn: Some(filler), ..marks() }), None);
        }
    }

    #[test]
    fn merchant_numbers_are_digits_as_sent_or_stable_and_small() {
        assert_eq!(merchant_number("1", "000000123456789"), 123_456_789);
        assert_eq!(merchant_number("1", "9007199254740992"), 1 << 53);
        assert_eq!(merchant_number("1", "   "), 0);
        let derived = merchant_number("1", "ACME STORE 1");
        assert!(derived > 0 && derived < 1 << 48);
        assert_eq!(derived, merchant_number("1", "ACME STORE 1   "));
        assert_ne!(derived, merchant_number("2", "ACME STORE 1"));
        assert_ne!(derived, merchant_number("1", "ACME STORE 2"));
        assert!(merchant_number("1", "9007199254740993") < 1 << 48);
    }

    #[test]
    fn authorization_ids_are_six_letters_and_digits() {
        let id = parse_authorization_id("A1B2C3").unwrap();
        assert_eq!(render_authorization_id(id), "A1B2C3");
        for text in ["", "A1B2C", "A1B2C3D", "A1B2C ", "A1B2Cé"] {
            assert_eq!(parse_authorization_id(text), None, "{text}");
        }
    }
}
