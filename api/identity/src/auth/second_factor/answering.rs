//! An answer to the question that waits in a conversation: admitted, counted as a try, verified, noted.

use std::sync::Arc;

use cardswitch_edge::error::ApiError;
use cardswitch_edge::write_error::WriteError;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::reply::Rejection;
use cardswitch_engine::directory::user::{ProvenPassword, User, UserCommand};
use cardswitch_engine::domain::audit::Actor;

use super::super::failures::note_failure;
use super::super::throttle::{AttemptTarget, ExcessPolicy, Source, TooManyTries};
use super::super::totp::Seed;
use super::{AnswerOutcome, AnsweredConversation, Factor, LINE_RETRY_AFTER_S, SignInConversation};
use crate::actor_state::ActorState;

/// Answers the question that waits in a conversation, for which `source` is answerable.
/// Errors: too many tries, the switch cannot tell.
pub async fn answer(
    state: &ActorState,
    digest: &[u8; 32],
    given: &str,
    source: Source,
    excess: ExcessPolicy,
) -> Result<AnswerOutcome, ApiError> {
    let factors = &state.second_factors;
    let Some(known) = factors.find(digest, state.now()) else { return Ok(AnswerOutcome::Ended) };
    let line = known.turns.line.try_acquire();
    let _line = line.map_err(|_| TooManyTries { retry_after_s: LINE_RETRY_AFTER_S })?;
    let turn = Arc::clone(&known.turns.turn).lock_owned().await;
    let Some(now) = factors.find(digest, state.now()) else { return Ok(AnswerOutcome::Ended) };
    // An answer that came twice at the same time, or the last one again, counts once.
    let is_new = now.stage() == known.stage() && !now.is_finishing;
    if is_new {
        match verify(state, digest, &now, given, (source, excess)).await? {
            VerificationResult::Right => {}
            VerificationResult::Wrong => return Ok(factors.wrong(digest)),
            VerificationResult::Ended => return Ok(AnswerOutcome::Ended),
        }
    }
    let making = Arc::clone(&known.turns.making).lock_owned().await;
    let answered = if is_new { factors.right(digest) } else { factors.stands(digest) };
    Ok(match answered {
        AnswerOutcome::Done(finishing) => {
            state.throttle.failures.forget_factors(finishing.proven.user);
            AnswerOutcome::Done(AnsweredConversation {
                _turn: Some(turn),
                _making: Some(making),
                ..finishing
            })
        }
        other => other,
    })
}

/// The result of verifying an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VerificationResult {
    Right,
    Wrong,
    Ended,
}

/// Errors: too many tries, the switch cannot tell.
async fn verify(
    state: &ActorState,
    digest: &[u8; 32],
    known: &SignInConversation,
    given: &str,
    (source, excess): (Source, ExcessPolicy),
) -> Result<VerificationResult, ApiError> {
    let factors = &state.second_factors;
    let account = AttemptTarget::SecondFactor(known.proven.user);
    let attempt = state.throttle.admit_or(excess, Some(account), Some(source)).await?;
    let Some(asked) = factors.take_try(digest, state.now()) else {
        return Ok(VerificationResult::Ended);
    };
    let user = state.switch.read_at_once(|snapshot| snapshot.user_by_id(asked.proven.user))?;
    let user = user.filter(|user| ProvenPassword::of(user) == asked.proven);
    let (Some(user), Some((factor, _))) = (user, asked.questions.first()) else {
        factors.take_where(|known, _| known == digest);
        return Ok(VerificationResult::Ended);
    };
    let state = &state.as_actor(Actor::User { id: user.id, member: None });
    match is_right(state, &user, (*factor, given), source).await {
        Ok(true) => {
            // Half of a proof is none: an attacker who has the code may still be guessing the other
            // answer.
            if asked.questions.len() == 1 {
                attempt.succeeded();
            }
            Ok(VerificationResult::Right)
        }
        Ok(false) => {
            attempt.failed();
            note_failure(state, Some(&user), factor.proof());
            Ok(VerificationResult::Wrong)
        }
        Err(error) => {
            // Nothing says that the answer was wrong.
            factors.give_back_try(digest);
            Err(error)
        }
    }
}

/// Errors: the switch cannot tell.
async fn is_right(
    state: &ActorState,
    user: &User,
    (factor, given): (Factor, &str),
    source: Source,
) -> Result<bool, ApiError> {
    match factor {
        Factor::Totp => uses_step(state, user, given).await,
        Factor::SecurityQuestion => {
            let hash = user.security_question.as_ref().map(|asked| asked.answer_hash.clone());
            Ok(state.passwords.verify(source, hash, &normal_answer(given)).await?)
        }
    }
}

/// Whether a code is a present one that was not used before; uses it up.
/// Errors: the switch cannot tell.
pub async fn uses_step(state: &ActorState, user: &User, given: &str) -> Result<bool, ApiError> {
    let Some(totp) = &user.totp else { return Ok(false) };
    let seed = Seed::open(&state.secrets, user.id, &totp.sealed_seed)
        .ok_or_else(|| ApiError::internal(&"a seed was sealed with another key"))?;
    let Some(step) = seed.matching_step(&without_spaces(given), state.clock_time()) else {
        return Ok(false);
    };
    match state.carry_out(AdminCommand::User(UserCommand::UseTotpStep(user.id, step))).await {
        // The shard knows of it, which is all that counts.
        Ok(()) | Err(WriteError::NotVisibleYet) => Ok(true),
        Err(WriteError::Rejected(Rejection::StepUsed)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Apps show codes with a gap in the middle.
fn without_spaces(code: &str) -> String {
    code.chars().filter(|letter| !letter.is_whitespace()).collect()
}

/// An answer as it is hashed and compared: people remember words, not how they wrote them.
pub fn normal_answer(answer: &str) -> String {
    answer.trim().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_compared_as_people_mean_them() {
        assert_eq!(normal_answer("  Rex \n"), "rex");
        assert_eq!(normal_answer("ÄPFEL"), "äpfel");
        assert_eq!(without_spaces("123 456\n"), "123456");
    }
}
