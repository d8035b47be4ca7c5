//! The holders of recently seen tokens, so that a request need not ask the tables.
//!
//! INVARIANT: the cache is of the newest change of access. Such a change is published before its
//! caller gets an answer, so a caller who got the answer that a token is revoked can rely on it.

use std::collections::HashMap;

use cardswitch_engine::domain::ids::RecordSeq;
use parking_lot::RwLock;

use super::Caller;

/// How many callers are known at most; beyond, all are looked up again.
const CALLERS_MAX: usize = 10_000;

/// Callers by the digests of their tokens.
#[derive(Default)]
pub struct Callers(RwLock<CallerCache>);

cardswitch_engine::opaque!(Callers);

#[derive(Default)]
struct CallerCache {
    as_of: RecordSeq,
    callers: HashMap<[u8; 32], Caller>,
}

impl Callers {
    /// The holder of a token, `read` from the tables where it is not known. `as_of` is the newest
    /// change of access before the call: the row that is read may be newer, never older.
    /// Errors: those of `read`.
    pub(super) fn find<E>(
        &self,
        digest: [u8; 32],
        as_of: RecordSeq,
        read: impl FnOnce() -> Result<Option<Caller>, E>,
    ) -> Result<Option<Caller>, E> {
        {
            let known = self.0.read();
            if known.as_of == as_of
                && let Some(caller) = known.callers.get(&digest)
            {
                return Ok(Some(caller.clone()));
            }
        }
        let Some(caller) = read()? else { return Ok(None) };
        let mut known = self.0.write();
        if known.as_of < as_of || known.callers.len() == CALLERS_MAX {
            known.callers.clear();
            known.as_of = known.as_of.max(as_of);
        }
        if known.as_of == as_of {
            known.callers.insert(digest, caller.clone());
        }
        Ok(Some(caller))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cardswitch_engine::directory::access_token::AccessScope;
    use cardswitch_engine::domain::company::CompanyState;
    use cardswitch_engine::domain::ids::AccessTokenId;
    use uuid::Uuid;

    use super::*;
    use crate::oauth::authorize::tests::company;

    fn caller(token: u128) -> Caller {
        Caller {
            company: Arc::new(company(CompanyState::Active)),
            token: AccessTokenId(Uuid::from_u128(token)),
            scope: AccessScope::default(),
            member: None,
            app: None,
        }
    }

    #[test]
    fn a_caller_is_looked_up_again_after_each_change_of_access() {
        let callers = Callers::default();
        let find = |as_of, token: Option<u128>| {
            let found = callers.find([1; 32], RecordSeq(as_of), || Ok::<_, ()>(token.map(caller)));
            found.unwrap().map(|caller| caller.token.0.as_u128())
        };
        assert_eq!(find(5, None), None, "who is not there is asked for each time");
        assert_eq!((find(5, Some(1)), find(5, None)), (Some(1), Some(1)));
        assert_eq!(find(6, None), None);
        assert_eq!(find(6, Some(2)), Some(2));
        assert_eq!(find(5, Some(3)), Some(3), "who came before a change takes nothing along");
        assert_eq!(find(6, None), Some(2));
        let broken = callers.find([2; 32], RecordSeq(6), || Err("broken"));
        assert_eq!(broken.unwrap_err(), "broken");
    }

    #[test]
    fn callers_are_bounded() {
        let callers = Callers::default();
        for number in 0..2 * CALLERS_MAX as u128 + 5 {
            let mut digest = [0; 32];
            digest[..16].copy_from_slice(&number.to_le_bytes());
            callers.find(digest, RecordSeq(1), || Ok::<_, ()>(Some(caller(number)))).unwrap();
            assert!(callers.0.read().callers.len() <= CALLERS_MAX);
        }
    }
}
