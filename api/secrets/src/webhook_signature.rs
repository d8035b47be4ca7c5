//! How receivers know that a webhook is genuine: a signature as Standard Webhooks define it, under a
//! secret that only the switch and the owner of the endpoint know.
//!
//! `v1,` and the base64 of HMAC-SHA-256 over `id.timestamp.body`. While a secret is being replaced the
//! header carries two signatures, with a space between them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cardswitch_engine::domain::ids::Timestamp;
use hmac::{Hmac, KeyInit as _, Mac};
use sha2::Sha256;
use uuid::Uuid;
use zeroize::Zeroizing;

use crate::issuing::{IssueError, RandomSource};

/// How long a secret is. Units: bytes. Source: Standard Webhooks, 24 to 64.
const SECRET_BYTES: usize = 32;
/// The prefix of its text. Source: Standard Webhooks.
const SECRET_PREFIX: &str = "whsec_";
/// The time for which the secret before the present one signs too. Units: microseconds.
pub const SECRET_OVERLAP_US: i64 = 24 * 3_600 * 1_000_000;

/// The secret that signs the webhooks of one endpoint.
#[derive(Clone)]
pub struct WebhookSecret(Zeroizing<Vec<u8>>);

cardswitch_engine::opaque!(WebhookSecret);

impl WebhookSecret {
    /// A new one.
    /// Errors: no randomness.
    pub fn draw(random: &mut dyn RandomSource) -> Result<Self, IssueError> {
        let mut bytes = Zeroizing::new(vec![0; SECRET_BYTES]);
        random.fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// The secret of these bytes, as they were sealed.
    pub const fn from_bytes(bytes: Zeroizing<Vec<u8>>) -> Self {
        Self(bytes)
    }

    /// Its bytes, to be sealed.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text that the owner is shown.
    pub fn text(&self) -> String {
        format!("{SECRET_PREFIX}{}", STANDARD.encode(&*self.0))
    }

    /// The signature of a message.
    pub fn sign(&self, message: &SignedMessage<'_>) -> String {
        // INVARIANT: HMAC takes keys of every length.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else { return String::new() };
        mac.update(message.id.as_bytes());
        mac.update(b".");
        mac.update(message.timestamp_s.to_string().as_bytes());
        mac.update(b".");
        mac.update(message.body);
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}

/// The content of a signature.
#[derive(Clone, Copy, Debug)]
pub struct SignedMessage<'a> {
    /// `webhook-id`.
    pub id: &'a str,
    /// `webhook-timestamp`. Units: seconds since 1970.
    pub timestamp_s: i64,
    /// The body, to the byte.
    pub body: &'a [u8],
}

/// The header `webhook-signature` under all secrets that sign now.
pub fn signature_header(secrets: &[WebhookSecret], message: &SignedMessage<'_>) -> String {
    let signatures: Vec<_> = secrets.iter().map(|secret| secret.sign(message)).collect();
    signatures.join(" ")
}

/// The text of a message's id in headers.
pub fn message_text(id: Uuid) -> String {
    format!("msg_{}", id.simple())
}

/// Until when a secret that is replaced at `now` signs too.
pub const fn overlap_until(now: Timestamp) -> Timestamp {
    Timestamp(now.0.saturating_add(SECRET_OVERLAP_US))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::issuing::SystemRandom;

    #[test]
    fn signatures_are_those_of_the_standard() {
        // The example of the Standard Webhooks libraries.
        let bytes = STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let secret = WebhookSecret::from_bytes(Zeroizing::new(bytes));
        assert_eq!(secret.text(), "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        let message = SignedMessage {
            id: "msg_p5jXN8AQM9LWM0D4loKWxJek",
            timestamp_s: 1_614_265_330,
            body: br#"{"test": 2432232314}"#,
        };
        assert_eq!(secret.sign(&message), "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        let other = WebhookSecret::draw(&mut SystemRandom).unwrap();
        let both = signature_header(&[other.clone(), secret.clone()], &message);
        assert_eq!(both, format!("{} {}", other.sign(&message), secret.sign(&message)));
        assert_ne!(other.sign(&message), secret.sign(&message));
    }

    #[test]
    fn secrets_differ_and_are_not_shown() {
        let first = WebhookSecret::draw(&mut SystemRandom).unwrap();
        let second = WebhookSecret::draw(&mut SystemRandom).unwrap();
        assert_ne!(first.text(), second.text());
        assert_eq!(format!("{first:?}"), "WebhookSecret(..)");
    }
}
