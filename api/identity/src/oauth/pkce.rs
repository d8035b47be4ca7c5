//! Proof that a code is exchanged by the client that asked for it. Source: RFC 7636, method S256
//! alone.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use cardswitch_secrets::codes_equal;

/// The length of a challenge: 32 bytes in base64url.
const CHALLENGE_BYTES: usize = 43;

/// Whether a text is the base64url of a SHA-256.
pub(super) fn is_challenge(text: &str) -> bool {
    text.len() == CHALLENGE_BYTES && URL_SAFE_NO_PAD.decode(text).is_ok()
}

/// Whether the client that exchanges a code is the one that asked for it.
// INVARIANT: a verifier for a code without a challenge is refused: somebody took the challenge out of
// the request on its way. Source: RFC 9700, 4.8.2.
pub(super) fn is_proven(challenge: Option<&str>, verifier: Option<&str>) -> bool {
    match (challenge, verifier) {
        (None, None) => true,
        (Some(challenge), Some(verifier)) => {
            let made = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()));
            is_verifier(verifier) && codes_equal(made.as_bytes(), challenge.as_bytes())
        }
        (Some(_), None) | (None, Some(_)) => false,
    }
}

/// Source: RFC 7636, 4.1.
fn is_verifier(text: &str) -> bool {
    let is_unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    (43..=128).contains(&text.len()) && text.bytes().all(is_unreserved)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pair of RFC 7636, appendix B.
    const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
    const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";

    #[test]
    fn a_challenge_is_met_by_its_verifier_alone() {
        let rows = [
            (None, None, true),
            (Some(CHALLENGE), Some(VERIFIER), true),
            (Some(CHALLENGE), None, false),
            (None, Some(VERIFIER), false),
            (Some(CHALLENGE), Some(CHALLENGE), false),
            (Some(VERIFIER), Some(VERIFIER), false),
            (Some(CHALLENGE), Some(""), false),
        ];
        for (challenge, verifier, proven) in rows {
            assert_eq!(is_proven(challenge, verifier), proven, "{challenge:?} {verifier:?}");
        }
    }

    #[test]
    fn verifiers_are_long_and_plain() {
        let of = |verifier: &str| URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()));
        let (short, long) = ("a".repeat(42), "a".repeat(129));
        for verifier in [short.as_str(), long.as_str(), &"ä".repeat(30), &"a b".repeat(20)] {
            assert!(!is_proven(Some(&of(verifier)), Some(verifier)), "{verifier}");
        }
        let longest = "a~._-".repeat(25);
        assert!(is_proven(Some(&of(&longest)), Some(&longest)));
    }

    #[test]
    fn challenges_are_digests() {
        let padded = format!("{CHALLENGE}=");
        let rows = [
            (CHALLENGE, true),
            (padded.as_str(), false),
            (&CHALLENGE[1..], false),
            ("E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw+cM", false),
            ("", false),
        ];
        for (text, expected) in rows {
            assert_eq!(is_challenge(text), expected, "{text}");
        }
    }
}
