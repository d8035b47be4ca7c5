//! One-time codes of authenticator apps. Source: RFC 6238 with SHA-1, 30 seconds and 6 digits: all
//! that those apps have in common.
//!
//! A seed is kept sealed, for its user only. The engine sees to it that a step counts once.

use cardswitch_engine::domain::ids::{Timestamp, UserId};
use totp_rs::{Builder, Totp};
use zeroize::Zeroizing;

use cardswitch_secrets::issuing::{IssueError, RandomSource};
use cardswitch_secrets::{SealError, SealedSecret, Secrets};

/// The name of the switch in authenticator apps.
const ISSUER: &str = "cardswitch";
/// Units: bytes. Source: RFC 4226, 4, R6.
const SEED_BYTES: usize = 20;
/// How many steps either side of now are taken.
const STEPS_BESIDE: u16 = 1;

/// The seed of a user's one-time codes.
pub struct Seed(Zeroizing<[u8; SEED_BYTES]>);

cardswitch_engine::opaque!(Seed);

impl Seed {
    /// A seed that nobody can guess.
    /// Errors: no randomness.
    pub fn draw(random: &mut dyn RandomSource) -> Result<Self, IssueError> {
        let mut seed = Zeroizing::new([0; SEED_BYTES]);
        random.fill(seed.as_mut_slice())?;
        Ok(Self(seed))
    }

    /// Seals the seed for keeping.
    /// Errors: no randomness.
    pub fn seal(&self, secrets: &Secrets, user: UserId) -> Result<Vec<u8>, SealError> {
        secrets.seal(SealedSecret::Totp(user), self.0.as_slice())
    }

    /// Opens a sealed seed; none where it was not sealed here for this user.
    pub fn open(secrets: &Secrets, user: UserId, sealed: &[u8]) -> Option<Self> {
        let opened = secrets.open(SealedSecret::Totp(user), sealed)?;
        let seed: &[u8; SEED_BYTES] = opened.as_slice().try_into().ok()?;
        Some(Self(Zeroizing::new(*seed)))
    }

    /// The step of the code, where it is that of now, of the step before or of the one after.
    pub fn matching_step(&self, code: &str, now: Timestamp) -> Option<u64> {
        self.totp("").check(code, seconds_of(now))
    }

    /// The code of the instant `now`.
    pub fn code(&self, now: Timestamp) -> String {
        self.totp("").generate(seconds_of(now)).to_string()
    }

    /// The seed as a person types it into an app.
    pub fn base32(&self) -> String {
        self.totp("").secret().to_base32()
    }

    /// The address that an authenticator app reads from a picture. Source: the format of `otpauth`
    /// addresses.
    pub fn provisioning_uri(&self, email: &str) -> String {
        // A colon would end the name; no e-mail address that is taken has one.
        let name = email.replace(':', "");
        // INVARIANT: refused are an empty name and one with a colon, and no address is empty.
        self.totp(&name).to_url().unwrap_or_default()
    }

    fn totp(&self, name: &str) -> Totp {
        Builder::new()
            .with_secret(self.0.to_vec())
            .with_skew(STEPS_BESIDE)
            .with_account_name(name)
            .with_issuer(Some(ISSUER))
            .build_noncompliant()
    }
}

/// Whole seconds since 1970; before there are none.
fn seconds_of(now: Timestamp) -> u64 {
    u64::try_from(now.0.div_euclid(Timestamp::SECOND)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use cardswitch_secrets::issuing::SystemRandom;
    use uuid::Uuid;

    use super::*;

    const ADA: UserId = UserId(Uuid::from_bytes([5; 16]));
    const BOB: UserId = UserId(Uuid::from_bytes([6; 16]));

    fn seconds(seconds: i64) -> Timestamp {
        Timestamp(seconds * Timestamp::SECOND)
    }

    /// The last six digits of the codes in RFC 6238, appendix B.
    #[test]
    fn codes_are_those_of_the_rfc() {
        let seed = Seed(Zeroizing::new(*b"12345678901234567890"));
        let rows = [
            (59, "287082"),
            (1_111_111_109, "081804"),
            (1_111_111_111, "050471"),
            (1_234_567_890, "005924"),
            (2_000_000_000, "279037"),
        ];
        for (at, code) in rows {
            assert_eq!(seed.code(seconds(at)), code);
            let step = u64::try_from(at).unwrap() / 30;
            assert_eq!(seed.matching_step(code, seconds(at)), Some(step));
        }
        assert_eq!(seed.base32(), "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ");
    }

    #[test]
    fn a_code_is_taken_one_step_either_side() {
        let seed = Seed(Zeroizing::new(*b"12345678901234567890"));
        let at = 1_234_567_890;
        let code = seed.code(seconds(at));
        let rows = [(-60, false), (-30, true), (0, true), (29, true), (30, true), (60, false)];
        for (later, is_taken) in rows {
            let step = seed.matching_step(&code, seconds(at + later));
            assert_eq!(step.is_some(), is_taken, "{later}");
            assert!(step.is_none_or(|step| step == 41_152_263), "always the code's own step");
        }
        for wrong in
            ["005925", "05924", "0005924", " 05924", "+05924", "00592a", "", "００５９２４"]
        {
            assert_eq!(seed.matching_step(wrong, seconds(at)), None, "{wrong}");
        }
    }

    #[test]
    fn a_seed_is_sealed_for_its_user() {
        let secrets = Secrets::from_root([3; 32]);
        let seed = Seed::draw(&mut SystemRandom).unwrap();
        assert_ne!(seed.base32(), Seed::draw(&mut SystemRandom).unwrap().base32());
        let sealed = seed.seal(&secrets, ADA).unwrap();
        assert_eq!(Seed::open(&secrets, ADA, &sealed).unwrap().base32(), seed.base32());
        assert!(Seed::open(&secrets, BOB, &sealed).is_none());
        assert!(Seed::open(&Secrets::from_root([4; 32]), ADA, &sealed).is_none());
        assert!(Seed::open(&secrets, ADA, &sealed[1..]).is_none());
        assert_eq!(format!("{seed:?}"), "Seed(..)");
    }

    #[test]
    fn apps_read_the_seed_from_an_address() {
        let seed = Seed(Zeroizing::new(*b"12345678901234567890"));
        assert_eq!(
            seed.provisioning_uri("ada+cards@example.com"),
            "otpauth://totp/cardswitch:ada%2Bcards%40example.com\
             ?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&issuer=cardswitch"
        );
    }
}
