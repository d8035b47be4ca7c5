//! The questions to a user after the password: a one-time code, then a security question, as far as
//! the user has set them up. The same conversation serves apps (the challenge endpoint) and the
//! sign-in page.
//!
//! A conversation is found by the SHA-256 of the secret that its client holds, and lives five
//! minutes in memory only. It ends with the fifth wrong answer, with a new password, with a second
//! factor that is set up, changed or removed, with the process, or when its token or session has
//! been made: until then its last answer may be given again.
//!
//! INVARIANT: a try is counted before it is verified, so answers that come at the same time are no
//! more than those that come one by one. A one-time code is used up in the engine's record, so it
//! works once whatever conversation it is given in. An attacker who knows the password cannot keep
//! its owner out: answers for one user are judged one after the other (`throttle`), those of a
//! device that the user signed in on before apart from all others, and a new conversation only ever
//! takes the place of one from the same source.

mod answering;

use std::collections::HashMap;
use std::sync::Arc;

use cardswitch_engine::directory::user::{ProvenPassword, SignInProof, User};
use cardswitch_engine::domain::ids::{AppId, CompanyId, MemberId, Timestamp, UserId};
use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard, Semaphore};

pub use self::answering::{answer, normal_answer, uses_step};
use super::throttle::{Source, TooManyTries};

/// How long a conversation lasts. Units: microseconds.
pub const CONVERSATION: i64 = 5 * Timestamp::MINUTE;
/// The wrong answer that ends a conversation.
const WRONG_MAX: u8 = 5;
/// How many conversations one user may have from one source; the oldest gives way.
const PER_SOURCE_MAX: usize = 5;
/// How many conversations one user may have at all.
const PER_USER_MAX: usize = 30;
/// How many answers of one conversation may come at the same time.
const LINE_MAX: usize = 4;
/// The time to come back after when more come. Units: seconds.
const LINE_RETRY_AFTER_S: u32 = 1;
/// How many there may be at all.
const CONVERSATIONS_MAX: usize = 10_000;
/// The time to come back after when there is no room. Units: seconds.
const FULL_RETRY_AFTER_S: u32 = 60;
/// The question for a one-time code.
const CODE_QUESTION: &str = "Which six digits does your authenticator app show?";

/// A proof besides the password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Factor {
    /// A one-time code.
    Totp,
    /// The answer to a question of the user's choice.
    SecurityQuestion,
}

impl Factor {
    /// Its name. Source: spec "OAuth", rule 4, key.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Totp => "totp",
            Self::SecurityQuestion => "security_question",
        }
    }

    const fn proof(self) -> SignInProof {
        match self {
            Self::Totp => SignInProof::Totp,
            Self::SecurityQuestion => SignInProof::SecurityQuestion,
        }
    }
}

/// A question that waits for its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// The question.
    pub factor: Factor,
    /// The question, for people.
    pub question: String,
    /// End of the time for an answer.
    pub expires_at: Timestamp,
}

/// The purpose of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// An access token, whose text its app has already.
    Token(PendingToken),
    /// A session on the site.
    SignIn {
        /// The local path that was requested.
        next: Option<String>,
    },
}

/// An access token that is not one yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingToken {
    /// The app that holds it.
    pub app: AppId,
    /// The company whose data it will open.
    pub company: CompanyId,
    /// The member it will act for.
    pub member: MemberId,
}

/// The outcome of an answer.
#[derive(Debug)]
pub enum AnswerOutcome {
    /// All questions are answered: the token or session can be made.
    Done(AnsweredConversation),
    /// Another question follows.
    Next(Challenge),
    /// The answer was wrong; another may be given.
    Wrong,
    /// There is no such conversation, or none any more.
    Ended,
}

/// A conversation whose questions are all answered. It stays until `finish`, so that the last
/// answer can be given again where something came between.
#[derive(Debug)]
pub struct AnsweredConversation {
    /// The user, by the password that it began with.
    pub proven: ProvenPassword,
    /// The purpose of the conversation.
    pub purpose: Purpose,
    digest: [u8; 32],
    /// The same answer at the same time waits for the outcome of this one.
    _turn: Option<OwnedMutexGuard<()>>,
    /// `end_where` waits until the outcome is known.
    _making: Option<OwnedMutexGuard<()>>,
}

/// The conversations that wait for answers.
#[derive(Debug, Default)]
pub struct SecondFactors {
    conversations: Mutex<HashMap<[u8; 32], SignInConversation>>,
}

#[derive(Clone, Debug)]
struct SignInConversation {
    /// The user, the password and the second factors: a change of any ends the conversation.
    proven: ProvenPassword,
    /// The questions that are left, in this order; never empty.
    questions: Vec<(Factor, String)>,
    /// Whether the last of them is answered, too.
    is_finishing: bool,
    purpose: Purpose,
    /// The source that began it.
    source: Source,
    expires_at: Timestamp,
    wrong: u8,
    turns: AnswerOrder,
}

#[derive(Clone, Debug)]
struct AnswerOrder {
    /// Places for answers that have come.
    line: Arc<Semaphore>,
    /// The turn of the answer that is verified.
    turn: Arc<AsyncMutex<()>>,
    /// The turn of the answer that makes the token or session.
    making: Arc<AsyncMutex<()>>,
}

impl Default for AnswerOrder {
    fn default() -> Self {
        let line = Arc::new(Semaphore::new(LINE_MAX));
        Self { line, turn: Arc::default(), making: Arc::default() }
    }
}

impl SignInConversation {
    fn challenge(&self) -> Option<Challenge> {
        let (factor, question) = self.questions.first()?.clone();
        Some(Challenge { factor, question, expires_at: self.expires_at })
    }

    /// Whether its client is a known device of the user, whose room no other source takes.
    const fn is_of_known_device(&self) -> bool {
        matches!(self.source, Source::Device(_))
    }

    /// How far it has come.
    const fn stage(&self) -> (usize, bool) {
        (self.questions.len(), self.is_finishing)
    }
}

/// The questions of a user, in the order in which they are asked.
fn questions_of(user: &User) -> Vec<(Factor, String)> {
    let code = user.totp.as_ref().map(|_| (Factor::Totp, CODE_QUESTION.to_owned()));
    let question = user.security_question.as_ref();
    let question = question.map(|asked| (Factor::SecurityQuestion, asked.question.to_string()));
    code.into_iter().chain(question).collect()
}

impl SecondFactors {
    /// Begins a conversation with a user whose password was right, under the digest of a secret
    /// that nobody else has. None where the user has set up nothing: then no question is asked.
    /// Errors: no room.
    pub fn begin(
        &self,
        digest: [u8; 32],
        user: &User,
        (purpose, source): (Purpose, Source),
        now: Timestamp,
    ) -> Result<Option<Challenge>, TooManyTries> {
        let mut conversations = self.conversations.lock();
        conversations.retain(|_, known| now < known.expires_at);
        let own = || conversations.iter().filter(|(_, known)| known.proven.user == user.id);
        let conversation = SignInConversation {
            proven: ProvenPassword::of(user),
            questions: questions_of(user),
            is_finishing: false,
            purpose,
            source: source.counted(),
            expires_at: now.plus(CONVERSATION),
            wrong: 0,
            turns: AnswerOrder::default(),
        };
        let Some(challenge) = conversation.challenge() else { return Ok(None) };
        let of_source = own().filter(|(_, known)| known.source == conversation.source);
        let oldest = of_source.clone().min_by_key(|(_, known)| known.expires_at);
        let oldest = oldest.map(|(key, _)| *key);
        if of_source.count() >= PER_SOURCE_MAX {
            oldest.and_then(|key| conversations.remove(&key));
        } else if (own().count() >= PER_USER_MAX && !conversation.is_of_known_device())
            || conversations.len() >= CONVERSATIONS_MAX
        {
            return Err(TooManyTries { retry_after_s: FULL_RETRY_AFTER_S });
        }
        conversations.insert(digest, conversation);
        Ok(Some(challenge))
    }

    /// The question that waits, where there is one.
    pub fn question(&self, digest: &[u8; 32], now: Timestamp) -> Option<Challenge> {
        self.find(digest, now)?.challenge()
    }

    /// The purpose of the conversation, where there is one.
    pub fn purpose(&self, digest: &[u8; 32], now: Timestamp) -> Option<Purpose> {
        self.find(digest, now).map(|conversation| conversation.purpose)
    }

    /// The user of the conversation, where there is one.
    pub fn user(&self, digest: &[u8; 32], now: Timestamp) -> Option<UserId> {
        self.find(digest, now).map(|conversation| conversation.proven.user)
    }

    /// Ends the conversations whose purpose is one of these. When it returns, their tokens and
    /// sessions are made or never will be.
    pub async fn end_where(&self, is_over: impl Fn(&[u8; 32], &Purpose) -> bool) {
        for making in self.take_where(is_over) {
            drop(making.lock().await);
        }
    }

    fn take_where(
        &self,
        is_over: impl Fn(&[u8; 32], &Purpose) -> bool,
    ) -> Vec<Arc<AsyncMutex<()>>> {
        let mut taken = Vec::new();
        self.conversations.lock().retain(|digest, known| {
            let is_over = is_over(digest, &known.purpose);
            if is_over {
                taken.push(Arc::clone(&known.turns.making));
            }
            !is_over
        });
        taken
    }

    /// Removes the conversation: its token or session has been made.
    pub fn finish(&self, finishing: AnsweredConversation) {
        self.conversations.lock().remove(&finishing.digest);
    }

    fn find(&self, digest: &[u8; 32], now: Timestamp) -> Option<SignInConversation> {
        let conversations = self.conversations.lock();
        conversations.get(digest).filter(|known| now < known.expires_at).cloned()
    }

    /// Takes one of the tries that are left.
    fn take_try(&self, digest: &[u8; 32], now: Timestamp) -> Option<SignInConversation> {
        let mut conversations = self.conversations.lock();
        let known = conversations.get_mut(digest)?;
        if known.wrong >= WRONG_MAX || now >= known.expires_at {
            return None;
        }
        known.wrong += 1;
        Some(known.clone())
    }

    fn give_back_try(&self, digest: &[u8; 32]) {
        if let Some(known) = self.conversations.lock().get_mut(digest) {
            known.wrong = known.wrong.saturating_sub(1);
        }
    }

    /// Takes note of a wrong answer, whose try was taken.
    fn wrong(&self, digest: &[u8; 32]) -> AnswerOutcome {
        let mut conversations = self.conversations.lock();
        match conversations.get(digest) {
            Some(known) if known.wrong < WRONG_MAX => AnswerOutcome::Wrong,
            _ => {
                conversations.remove(digest);
                AnswerOutcome::Ended
            }
        }
    }

    /// Takes note of the right answer to the question that waits.
    fn right(&self, digest: &[u8; 32]) -> AnswerOutcome {
        let mut conversations = self.conversations.lock();
        let Some(known) = conversations.get_mut(digest) else { return AnswerOutcome::Ended };
        known.wrong = known.wrong.saturating_sub(1);
        if known.questions.len() > 1 {
            known.questions.remove(0);
        } else {
            known.is_finishing = true;
        }
        drop(conversations);
        self.stands(digest)
    }

    /// The state of the conversation, as the reply to an answer that is not verified.
    fn stands(&self, digest: &[u8; 32]) -> AnswerOutcome {
        let conversations = self.conversations.lock();
        let Some(known) = conversations.get(digest) else { return AnswerOutcome::Ended };
        if !known.is_finishing {
            return known.challenge().map_or(AnswerOutcome::Ended, AnswerOutcome::Next);
        }
        let (proven, purpose, digest) = (known.proven.clone(), known.purpose.clone(), *digest);
        AnswerOutcome::Done(AnsweredConversation {
            proven,
            purpose,
            digest,
            _turn: None,
            _making: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use cardswitch_engine::directory::user::{SecurityQuestion, Totp};
    use cardswitch_engine::domain::ids::UserSlot;
    use uuid::Uuid;

    use super::*;

    const NOW: Timestamp = Timestamp(1_000_000_000);
    const KEY: [u8; 32] = [1; 32];

    fn user(number: u128, has_totp: bool, has_question: bool) -> User {
        User {
            slot: UserSlot(0),
            id: UserId(Uuid::from_u128(number)),
            email: "ada@example.com".into(),
            first_name: "Ada".into(),
            last_name: "Lovelace".into(),
            password_hash: Some("hash".into()),
            totp: has_totp.then(|| Totp { sealed_seed: Vec::new(), last_step: 0 }),
            security_question: has_question.then(|| SecurityQuestion {
                question: "First pet?".parse().unwrap(),
                answer_hash: "hash".into(),
            }),
            developer_of: Vec::new(),
            is_closed: false,
            created_at: NOW,
        }
    }

    fn purpose() -> Purpose {
        Purpose::SignIn { next: None }
    }

    fn from(address: &str) -> Source {
        Source::Address(address.parse().unwrap())
    }

    fn begun(has_totp: bool, has_question: bool) -> SecondFactors {
        let factors = SecondFactors::default();
        let user = user(1, has_totp, has_question);
        factors.begin(KEY, &user, (purpose(), from("203.0.113.7")), NOW).unwrap();
        factors
    }

    #[test]
    fn what_a_user_has_is_asked_one_after_the_other() {
        let rows = [
            (false, false, vec![]),
            (true, false, vec!["totp"]),
            (false, true, vec!["security_question"]),
            (true, true, vec!["totp", "security_question"]),
        ];
        for (has_totp, has_question, expected) in rows {
            let factors = begun(has_totp, has_question);
            let mut asked = Vec::new();
            while let Some(challenge) = factors.question(&KEY, NOW) {
                asked.push(challenge.factor.name());
                factors.take_try(&KEY, NOW).unwrap();
                if let AnswerOutcome::Done(finishing) = factors.right(&KEY) {
                    factors.finish(finishing);
                }
            }
            assert_eq!(asked, expected);
        }
    }

    #[test]
    fn the_last_answer_stays_until_it_has_led_somewhere() {
        let factors = begun(false, true);
        factors.take_try(&KEY, NOW).unwrap();
        // The outcome is lost.
        assert!(matches!(factors.right(&KEY), AnswerOutcome::Done(_)));
        assert!(factors.question(&KEY, NOW).is_some());
        let AnswerOutcome::Done(finishing) = factors.stands(&KEY) else { panic!() };
        factors.finish(finishing);
        assert!(matches!(factors.stands(&KEY), AnswerOutcome::Ended));
        assert_eq!(factors.question(&KEY, NOW), None);
    }

    #[test]
    fn who_has_ended_meanwhile_gets_nothing() {
        let factors = begun(false, true);
        factors.take_try(&KEY, NOW).unwrap();
        assert_eq!(factors.take_where(|known, _| *known == KEY).len(), 1);
        assert!(matches!(factors.right(&KEY), AnswerOutcome::Ended));
    }

    #[test]
    fn the_fifth_wrong_answer_ends_it() {
        let factors = begun(true, false);
        for place in 1..=5 {
            factors.take_try(&KEY, NOW).unwrap();
            let is_wrong = matches!(factors.wrong(&KEY), AnswerOutcome::Wrong);
            assert_eq!(is_wrong, place < 5, "{place}");
        }
        assert!(factors.take_try(&KEY, NOW).is_none());
        assert_eq!(factors.question(&KEY, NOW), None);
    }

    #[test]
    fn answers_at_the_same_time_are_no_more_tries() {
        let factors = begun(true, true);
        let taken: Vec<_> = (0..100).filter_map(|_| factors.take_try(&KEY, NOW)).collect();
        assert_eq!(taken.len(), 5);
    }

    #[test]
    fn right_answers_use_up_no_tries() {
        let factors = begun(true, true);
        for _ in 0..3 {
            factors.take_try(&KEY, NOW).unwrap();
            assert!(matches!(factors.wrong(&KEY), AnswerOutcome::Wrong));
        }
        factors.take_try(&KEY, NOW).unwrap();
        factors.right(&KEY);
        factors.take_try(&KEY, NOW).unwrap();
        let answered = factors.wrong(&KEY);
        assert!(matches!(answered, AnswerOutcome::Wrong), "wrong ones of both questions count");
        factors.take_try(&KEY, NOW).unwrap();
        assert!(matches!(factors.wrong(&KEY), AnswerOutcome::Ended));
    }

    #[test]
    fn after_five_minutes_there_is_nothing() {
        let factors = begun(true, false);
        let last = Timestamp(NOW.0 + CONVERSATION - 1);
        assert_eq!(factors.question(&KEY, last).unwrap().expires_at, NOW.plus(CONVERSATION));
        let over = NOW.plus(CONVERSATION);
        assert_eq!(factors.question(&KEY, over), None);
        assert_eq!(factors.purpose(&KEY, over), None);
        assert!(factors.take_try(&KEY, over).is_none());
        assert_eq!(factors.question(&[2; 32], NOW), None);
    }

    #[test]
    fn only_the_same_source_takes_the_place_of_a_conversation() {
        let factors = SecondFactors::default();
        let (owner, thief) = (from("2001:db8:1:2::1"), from("203.0.113.7"));
        let begin = |number: usize, source| {
            let at = Timestamp(NOW.0 + i64::try_from(number).unwrap());
            factors
                .begin(token_key(number), &user(1, true, false), (purpose(), source), at)
                .unwrap()
        };
        begin(0, owner);
        for number in 1..=100 {
            begin(number, thief);
        }
        assert!(factors.question(&token_key(0), NOW).is_some());
        assert_eq!(factors.conversations.lock().len(), 1 + PER_SOURCE_MAX);
        // Addresses of one network are one source.
        for number in 101..101 + PER_SOURCE_MAX {
            begin(number, from("2001:db8:1:2::2"));
        }
        assert!(factors.question(&token_key(0), NOW).is_none());
    }

    #[test]
    fn memory_is_bounded() {
        let factors = SecondFactors::default();
        let begin = |number: usize, of: u128| {
            let source = Source::App(AppId(Uuid::from_u128(number as u128)));
            factors.begin(token_key(number), &user(of, true, false), (purpose(), source), NOW)
        };
        for number in 0..PER_USER_MAX {
            begin(number, 1).unwrap();
        }
        assert!(begin(PER_USER_MAX, 1).is_err());
        for number in PER_USER_MAX..CONVERSATIONS_MAX {
            begin(number, 2 + number as u128).unwrap();
        }
        let full = begin(CONVERSATIONS_MAX, 0).unwrap_err();
        assert_eq!(full.retry_after_s, FULL_RETRY_AFTER_S);
        assert_eq!(factors.conversations.lock().len(), CONVERSATIONS_MAX);
        let (later, source) = (NOW.plus(2 * CONVERSATION), from("203.0.113.7"));
        let begun = factors.begin(KEY, &user(1, true, false), (purpose(), source), later).unwrap();
        assert!(begun.is_some() && factors.conversations.lock().len() == 1);
    }

    fn token_key(number: usize) -> [u8; 32] {
        cardswitch_secrets::token_digest(&number.to_string())
    }
}
