//! Passwords: hashed with Argon2id, verified, and new ones judged.
//!
//! Hashing is made to be slow, so it happens off the async threads, few at a time, and a bounded
//! number waits. A part of the places is kept for known devices.
//!
//! INVARIANT: the time of an answer does not tell whether an account exists: without a hash, a hash of
//! nobody's password is verified in its place.

use std::sync::atomic::{AtomicU64, Ordering};

use argon2::Argon2;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use cardswitch_engine::domain::email::email_key;
use tokio::sync::{Semaphore, SemaphorePermit};
use zeroize::Zeroizing;

use cardswitch_edge::error::ApiError;

use super::throttle::Source;

/// The shortest new password. Units: characters.
pub const PASSWORD_CHARS_MIN: usize = 12;
/// The longest new password. Units: characters.
pub const PASSWORD_CHARS_MAX: usize = 128;
/// The fewest different characters of a new password.
const DIFFERENT_CHARS_MIN: usize = 5;
/// How many passwords are hashed at the same time; each takes 19 MiB.
const HASHED_AT_ONCE: usize = 2;
/// How many may wait for that.
const WAITING_MAX: usize = 256;
/// How many of those places only users of a known device take: strangers do not shut them out.
const KEPT_FOR_KNOWN: usize = 64;
const SALT_BYTES: usize = 16;

/// Verified where there is no hash: of the same cost as every other, and no password fits.
const NOBODYS_HASH: &str = "$argon2id$v=19$m=19456,t=2,p=1$bm9ib2R5IGhhcyBpdA$\
                            AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// The passwords that people choose where twelve characters are required, in small letters.
const COMMON: &[&str] = &[
    "123456789012",
    "1234567890123",
    "12345678901234",
    "123456789abc",
    "1234567890ab",
    "1q2w3e4r5t6y",
    "abcdefghijkl",
    "abcdefghijklm",
    "administrator",
    "administrator1",
    "changemeplease",
    "correcthorsebatterystaple",
    "iloveyou1234",
    "letmeinplease",
    "password1234",
    "password12345",
    "password123456",
    "passwordpassword",
    "qwertyuiop12",
    "qwertyuiop123",
    "qwertyuiopas",
    "qwertyuiop[]",
    "qwerty123456",
    "unbelievable",
    "welcome12345",
    "zaq12wsxcde3",
];

static SEATS: Semaphore = Semaphore::const_new(HASHED_AT_ONCE);
static PLACES: Semaphore = Semaphore::const_new(HASHED_AT_ONCE + WAITING_MAX);
static PLACES_OF_STRANGERS: Semaphore =
    Semaphore::const_new(HASHED_AT_ONCE + WAITING_MAX - KEPT_FOR_KNOWN);

/// The party that waits for a password to be hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applicant {
    /// The user of a device that signed in to the account before.
    Known,
    /// Anybody else.
    Stranger,
}

impl From<Source> for Applicant {
    fn from(source: Source) -> Self {
        match source {
            Source::Device(_) => Self::Known,
            Source::Address(_) | Source::App(_) => Self::Stranger,
        }
    }
}

/// Why a password was neither hashed nor verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PasswordError {
    /// Too many others wait.
    #[error("too many passwords wait to be verified")]
    Busy,
    /// The system gave no random bytes, or no memory.
    #[error("a password could not be hashed")]
    Failed,
}

impl From<PasswordError> for ApiError {
    fn from(error: PasswordError) -> Self {
        match error {
            PasswordError::Busy => Self::overloaded(),
            PasswordError::Failed => Self::internal(&error),
        }
    }
}

/// A fault of a new password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PasswordFault {
    /// Fewer than `PASSWORD_CHARS_MIN` characters.
    #[error("A password has at least {PASSWORD_CHARS_MIN} characters.")]
    TooShort,
    /// More than `PASSWORD_CHARS_MAX` characters.
    #[error("A password has at most {PASSWORD_CHARS_MAX} characters.")]
    TooLong,
    /// The password is the e-mail address.
    #[error("The password must not be your e-mail address.")]
    IsEmail,
    /// The password is among those guessed first.
    #[error("This password is among those guessed first.")]
    Common,
}

/// Hashes a password, or another secret that a person remembers, for keeping.
/// Errors: too many wait, or the system gave no random bytes.
/// Cost: 19 MiB and some ten milliseconds of one core.
pub async fn hash(text: &str) -> Result<String, PasswordError> {
    let text = Zeroizing::new(text.to_owned());
    seated(Applicant::Stranger, move || {
        let mut salt = [0; SALT_BYTES];
        getrandom::fill(&mut salt).map_err(|_| PasswordError::Failed)?;
        let hashed = Argon2::default().hash_password_with_salt(text.as_bytes(), &salt);
        hashed.map(|hash| hash.to_string()).map_err(|_| PasswordError::Failed)
    })
    .await?
}

/// The check of passwords against their hashes.
#[derive(Debug, Default)]
pub struct PasswordCheck {
    begun: AtomicU64,
}

impl PasswordCheck {
    /// Whether a password is the one that was hashed. Without a hash the answer is no, after the
    /// same time.
    /// Errors: too many wait.
    /// Cost: as `hash`.
    pub async fn verify(
        &self,
        applicant: impl Into<Applicant>,
        hash: Option<String>,
        text: &str,
    ) -> Result<bool, PasswordError> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        let text = Zeroizing::new(text.to_owned());
        seated(applicant.into(), move || {
            let known = hash.as_deref().unwrap_or(NOBODYS_HASH);
            let fits = Argon2::default().verify_password(text.as_bytes(), known).is_ok();
            fits && hash.is_some()
        })
        .await
    }

    /// The number of passwords that were verified or are being verified. It shows in the time of an
    /// answer.
    pub fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }
}

/// Carries out slow work off the async threads, when it is its turn.
async fn seated<T: Send + 'static>(
    applicant: Applicant,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, PasswordError> {
    let _places = take_places(applicant, (&PLACES, &PLACES_OF_STRANGERS))?;
    // INVARIANT: neither semaphore is ever closed. The seat is given back when the work is done,
    // not when the caller hangs up.
    let seat = SEATS.acquire().await.map_err(|_| PasswordError::Busy)?;
    let worked = tokio::task::spawn_blocking(move || {
        let _seat = seat;
        work()
    });
    worked.await.map_err(|_| PasswordError::Failed)
}

/// Takes the places that an applicant needs: of all, and of strangers.
/// Errors: too many wait.
fn take_places<'a>(
    applicant: Applicant,
    (of_all, of_strangers): (&'a Semaphore, &'a Semaphore),
) -> Result<(Option<SemaphorePermit<'a>>, SemaphorePermit<'a>), PasswordError> {
    let take = |places: &'a Semaphore| places.try_acquire().map_err(|_| PasswordError::Busy);
    let of_strangers = Some(of_strangers).filter(|_| applicant == Applicant::Stranger);
    Ok((of_strangers.map(take).transpose()?, take(of_all)?))
}

/// Judges a new password of the account `email`.
/// Errors: the fault of the password.
pub fn check_new(password: &str, email: &str) -> Result<(), PasswordFault> {
    let chars = password.chars().count();
    if chars < PASSWORD_CHARS_MIN {
        return Err(PasswordFault::TooShort);
    }
    if chars > PASSWORD_CHARS_MAX {
        return Err(PasswordFault::TooLong);
    }
    let folded = email_key(password.trim());
    if folded == email_key(email) {
        return Err(PasswordFault::IsEmail);
    }
    let mut different: Vec<char> = folded.chars().collect();
    different.sort_unstable();
    different.dedup();
    if different.len() < DIFFERENT_CHARS_MIN || COMMON.contains(&folded.as_str()) {
        return Err(PasswordFault::Common);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use argon2::PasswordHash;

    use super::*;

    #[tokio::test]
    async fn what_was_hashed_is_verified_and_nothing_else() {
        let hashed = hash("correct horse").await.unwrap();
        assert!(hashed.starts_with("$argon2id$v=19$"), "{hashed}");
        assert_ne!(hashed, hash("correct horse").await.unwrap(), "a salt came twice");
        let check = PasswordCheck::default();
        let rows = [
            (Some(hashed.clone()), "correct horse", true),
            (Some(hashed.clone()), "correct horsf", false),
            (Some(hashed.clone()), "Correct horse", false),
            (Some(hashed), "", false),
            (Some("no hash".to_owned()), "correct horse", false),
            (Some(String::new()), "", false),
            (None, "correct horse", false),
            (None, "", false),
        ];
        for (hash, text, fits) in rows {
            assert_eq!(
                check.verify(Applicant::Stranger, hash.clone(), text).await,
                Ok(fits),
                "{hash:?} {text}"
            );
        }
    }

    /// Apps and addresses of one sender took all places: owners on their own devices were refused.
    #[test]
    fn strangers_leave_places_for_known_devices() {
        let (of_all, of_strangers) = (Semaphore::new(3), Semaphore::new(2));
        let take = |applicant| take_places(applicant, (&of_all, &of_strangers));
        let held = [take(Applicant::Stranger).unwrap(), take(Applicant::Stranger).unwrap()];
        assert_eq!(take(Applicant::Stranger).err(), Some(PasswordError::Busy));
        let known = take(Applicant::from(Source::Device([1; 16]))).unwrap();
        assert_eq!(take(Applicant::Known).err(), Some(PasswordError::Busy), "all are taken");
        drop(held);
        let address = Source::Address([192, 0, 2, 1].into());
        let both = [take(address.into()).is_ok(), take(Applicant::Known).is_ok()];
        assert_eq!(both, [true, true]);
        drop(known);
    }

    #[tokio::test]
    async fn nobodys_hash_costs_what_every_other_does() {
        let hashed = hash("correct horse").await.unwrap();
        let cost = |text: &str| {
            let hash = PasswordHash::new(text).unwrap();
            let output = hash.hash.unwrap().as_bytes().len();
            (hash.algorithm.to_string(), hash.version, hash.params.to_string(), output)
        };
        assert_eq!(cost(NOBODYS_HASH), cost(&hashed));
    }

    #[test]
    fn new_passwords_are_long_and_not_the_obvious() {
        let longest = "aB3$xY".repeat(22)[..128].to_owned();
        let rows = [
            ("correct horse battery", Ok(())),
            ("twelve chars", Ok(())),
            ("zwölf zeiche", Ok(())),
            (longest.as_str(), Ok(())),
            ("eleven char", Err(PasswordFault::TooShort)),
            ("", Err(PasswordFault::TooShort)),
            ("ada@example.com", Err(PasswordFault::IsEmail)),
            ("ADA@Example.com ", Err(PasswordFault::IsEmail)),
            ("password1234", Err(PasswordFault::Common)),
            ("PassWord1234", Err(PasswordFault::Common)),
            ("aaaaaaaaaaaa", Err(PasswordFault::Common)),
            ("abababababab", Err(PasswordFault::Common)),
        ];
        for (password, judged) in rows {
            assert_eq!(check_new(password, "ada@example.com"), judged, "{password}");
        }
        assert_eq!(check_new(&format!("{longest}x"), "a@b.c"), Err(PasswordFault::TooLong));
    }

    #[test]
    fn the_list_has_only_what_would_be_taken_otherwise() {
        for common in COMMON {
            assert!(common.chars().count() >= PASSWORD_CHARS_MIN, "{common}");
            assert_eq!(*common, email_key(common), "small letters");
        }
    }
}
