//! Secrets that the switch makes for others: access tokens, codes, sessions, links, client secrets.
//! Each is shown once and kept by its hash alone.

use cardswitch_edge::switch::Switch;
use cardswitch_secrets::issuing::{IssueError, RandomSource, SystemRandom};
use cardswitch_secrets::token_digest;

/// 256 random bits, as 64 hexadecimal digits.
#[derive(Clone)]
pub struct DrawnSecret {
    /// The text that its holder gets.
    pub text: String,
    /// The hash that is kept.
    pub digest: [u8; 32],
}

cardswitch_engine::opaque!(DrawnSecret);

impl DrawnSecret {
    /// A secret that nobody can guess.
    /// Errors: no randomness.
    pub fn draw() -> Result<Self, IssueError> {
        Self::draw_from(&mut SystemRandom)
    }

    /// An access token, which names the cell of its switch.
    /// Errors: no randomness.
    pub fn draw_token(switch: &Switch) -> Result<Self, IssueError> {
        Self::draw_from(&mut switch.random())
    }

    fn draw_from(random: &mut dyn RandomSource) -> Result<Self, IssueError> {
        let text = random.token()?;
        Ok(Self { digest: token_digest(&text), text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_differ_and_are_not_printed() {
        let (one, other) = (DrawnSecret::draw().unwrap(), DrawnSecret::draw().unwrap());
        assert_eq!((one.text.len(), one.digest), (64, token_digest(&one.text)));
        assert!(one.text != other.text && one.digest != other.digest);
        assert_eq!(format!("{one:?}"), "DrawnSecret(..)");
    }
}
