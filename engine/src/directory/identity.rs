//! Tickets, and what access tokens were given for. Only admin commands read any of it.
//!
//! Tickets stand by digest, with the lookups that rules need beside them; all of that is derived here,
//! from after-images.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::access_token::AccessToken;
use super::ticket::{Ticket, TicketKind, TicketState};
use crate::domain::ids::{AccessTokenId, AppSlot, CompanySlot, MemberSlot, Timestamp, UserSlot};

/// A token of some owner, in the order in which they were made.
type Live<T> = BTreeSet<(T, Timestamp, [u8; 32])>;

/// See the head of this file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Identity {
    pub(crate) tickets: Tickets,
    /// Access tokens that are not revoked, by the digests of their texts.
    pub(crate) tokens: BTreeMap<[u8; 32], AccessToken>,
    pub(crate) token_by_id: HashMap<AccessTokenId, [u8; 32]>,
    live_of_member: Live<MemberSlot>,
    live_of_app: Live<AppSlot>,
}

impl Identity {
    /// Tokens of a member that are not revoked, the oldest first.
    pub(crate) fn tokens_of_member(&self, slot: MemberSlot) -> impl Iterator<Item = [u8; 32]> {
        tokens_of(&self.live_of_member, slot)
    }

    /// Tokens of an app that are not revoked, the oldest first.
    pub(crate) fn tokens_of_app(&self, slot: AppSlot) -> impl Iterator<Item = [u8; 32]> {
        tokens_of(&self.live_of_app, slot)
    }

    /// Takes in a token; a revoked one is let go of: only the tables keep those.
    pub(crate) fn apply_token(&mut self, token: &AccessToken) {
        if token.is_revoked {
            self.token_by_id.remove(&token.id);
            self.tokens.remove(&token.digest);
        } else {
            self.token_by_id.insert(token.id, token.digest);
            self.tokens.insert(token.digest, token.clone());
        }
        set(&mut self.live_of_member, token.member(), token);
        set(&mut self.live_of_app, token.app(), token);
    }
}

fn tokens_of<T: Copy + Ord>(live: &Live<T>, owner: T) -> impl Iterator<Item = [u8; 32]> {
    let all = (owner, Timestamp::MIN, [0; 32])..=(owner, Timestamp::MAX, [u8::MAX; 32]);
    live.range(all).map(|(_, _, digest)| *digest)
}

fn set<T: Ord>(live: &mut Live<T>, owner: Option<T>, token: &AccessToken) {
    let Some(owner) = owner else { return };
    let key = (owner, token.created_at, token.digest);
    if token.is_revoked {
        live.remove(&key);
    } else {
        live.insert(key);
    }
}

/// The tickets that are not forgotten.
/// INVARIANT: the tables forget by the same rule, so both always remember the same.
#[derive(Clone, Debug)]
pub(crate) struct Tickets {
    by_digest: BTreeMap<[u8; 32], Ticket>,
    ends: BTreeSet<(Timestamp, [u8; 32])>,
    /// The first of the ends: all that a record looks at.
    first_end: Timestamp,
    /// Those that were neither used nor ended, in the order in which they were issued.
    open_of_user: BTreeSet<(UserSlot, TicketKind, Timestamp, [u8; 32])>,
    open_codes_of_member: BTreeSet<(MemberSlot, [u8; 32])>,
    open_codes_of_app: BTreeSet<(AppSlot, CompanySlot, [u8; 32])>,
    used_codes_of_user: BTreeSet<(UserSlot, Timestamp, [u8; 32])>,
}

impl Default for Tickets {
    fn default() -> Self {
        Self {
            by_digest: BTreeMap::new(),
            ends: BTreeSet::new(),
            first_end: Timestamp::MAX,
            open_of_user: BTreeSet::new(),
            open_codes_of_member: BTreeSet::new(),
            open_codes_of_app: BTreeSet::new(),
            used_codes_of_user: BTreeSet::new(),
        }
    }
}

impl Tickets {
    /// The ticket with this digest.
    pub(crate) fn get(&self, digest: &[u8; 32]) -> Option<&Ticket> {
        self.by_digest.get(digest)
    }

    /// The same, as long as it is not to be forgotten: the last record may be older than that.
    pub(crate) fn find(&self, digest: &[u8; 32], at: Timestamp) -> Option<&Ticket> {
        self.get(digest).filter(|ticket| at < ticket.forgotten_at())
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.by_digest.len()
    }

    /// When the first of them is forgotten.
    pub(crate) const fn first_end(&self) -> Timestamp {
        self.first_end
    }

    /// A user's tickets of a kind that open something at `at`, the oldest first.
    pub(crate) fn open_of(
        &self,
        user: UserSlot,
        kind: TicketKind,
        at: Timestamp,
    ) -> impl Iterator<Item = &Ticket> {
        let all =
            (user, kind, Timestamp::MIN, [0; 32])..=(user, kind, Timestamp::MAX, [u8::MAX; 32]);
        let digests = self.open_of_user.range(all).map(|(_, _, _, digest)| digest);
        self.open(digests, at)
    }

    /// Codes that open something at `at`, which a member allowed.
    pub(crate) fn open_codes_of_member(
        &self,
        member: MemberSlot,
        at: Timestamp,
    ) -> impl Iterator<Item = &Ticket> {
        let all = (member, [0; 32])..=(member, [u8::MAX; 32]);
        self.open(self.open_codes_of_member.range(all).map(|(_, digest)| digest), at)
    }

    /// Codes that open something of a company's at `at`, which were given to an app.
    pub(crate) fn open_codes_of_app(
        &self,
        (app, company): (AppSlot, CompanySlot),
        at: Timestamp,
    ) -> impl Iterator<Item = &Ticket> {
        let all = (app, company, [0; 32])..=(app, company, [u8::MAX; 32]);
        self.open(self.open_codes_of_app.range(all).map(|(_, _, digest)| digest), at)
    }

    /// A user's codes that were used, the oldest first.
    pub(crate) fn used_codes_of(&self, user: UserSlot) -> impl Iterator<Item = &Ticket> {
        let all = (user, Timestamp::MIN, [0; 32])..=(user, Timestamp::MAX, [u8::MAX; 32]);
        let digests = self.used_codes_of_user.range(all).map(|(_, _, digest)| digest);
        digests.filter_map(|digest| self.by_digest.get(digest))
    }

    fn open<'a>(
        &'a self,
        digests: impl Iterator<Item = &'a [u8; 32]>,
        at: Timestamp,
    ) -> impl Iterator<Item = &'a Ticket> {
        digests
            .filter_map(|digest| self.by_digest.get(digest))
            .filter(move |found| found.is_open(at))
    }

    pub(crate) fn insert(&mut self, ticket: &Ticket) {
        if let Some(before) = self.by_digest.remove(&ticket.digest) {
            self.ends.remove(&(before.forgotten_at(), before.digest));
            self.unlist(&before);
        }
        if ticket.is_remembered() {
            self.ends.insert((ticket.forgotten_at(), ticket.digest));
            self.list(ticket);
            self.by_digest.insert(ticket.digest, ticket.clone());
        }
        self.first_end = self.next_end();
    }

    /// Lets go of what ended at or before `at`. Cost: O(1) where nothing has.
    #[inline]
    pub(crate) fn forget_expired(&mut self, at: Timestamp) {
        if self.first_end <= at {
            self.forget(at);
        }
    }

    #[cold]
    fn forget(&mut self, at: Timestamp) {
        while let Some((end, digest)) = self.ends.first().copied()
            && end <= at
        {
            self.ends.remove(&(end, digest));
            if let Some(ticket) = self.by_digest.remove(&digest) {
                self.unlist(&ticket);
            }
        }
        self.first_end = self.next_end();
    }

    fn next_end(&self) -> Timestamp {
        self.ends.first().map_or(Timestamp::MAX, |end| end.0)
    }

    fn list(&mut self, ticket: &Ticket) {
        if ticket.state != TicketState::Open {
            self.used_codes_of_user.insert((ticket.user, ticket.made_at, ticket.digest));
            return;
        }
        self.open_of_user.insert((ticket.user, ticket.kind(), ticket.made_at, ticket.digest));
        if let Some(code) = ticket.code() {
            self.open_codes_of_member.insert((code.member, ticket.digest));
            self.open_codes_of_app.insert((code.app, code.company, ticket.digest));
        }
    }

    fn unlist(&mut self, ticket: &Ticket) {
        self.used_codes_of_user.remove(&(ticket.user, ticket.made_at, ticket.digest));
        self.open_of_user.remove(&(ticket.user, ticket.kind(), ticket.made_at, ticket.digest));
        if let Some(code) = ticket.code() {
            self.open_codes_of_member.remove(&(code.member, ticket.digest));
            self.open_codes_of_app.remove(&(code.app, code.company, ticket.digest));
        }
    }

    /// The tickets, by digest.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Ticket> {
        self.by_digest.values()
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::directory::ticket::TicketContent;
    use crate::domain::ids::TicketId;

    fn session(digest: u8, until: i64, state: TicketState) -> Ticket {
        Ticket {
            digest: [digest; 32],
            id: TicketId(Uuid::from_u128(u128::from(digest))),
            user: UserSlot(0),
            made_at: Timestamp(0),
            expires_at: Timestamp(until),
            address: String::new(),
            state,
            content: TicketContent::Session { user_agent: String::new() },
        }
    }

    #[test]
    fn tickets_are_remembered_until_they_expire_and_listed_while_they_open() {
        let mut tickets = Tickets::default();
        for ticket in [
            session(1, 10, TicketState::Open),
            session(2, 20, TicketState::Open),
            session(3, 30, TicketState::Open),
            session(2, 20, TicketState::Ended),
        ] {
            tickets.insert(&ticket);
        }
        let open = |tickets: &Tickets, at| {
            let open = tickets.open_of(UserSlot(0), TicketKind::Session, Timestamp(at));
            open.map(|found| found.digest[0]).collect::<Vec<_>>()
        };
        assert_eq!((open(&tickets, 9), open(&tickets, 10)), (vec![1, 3], vec![3]));
        assert_eq!((tickets.len(), tickets.first_end()), (2, Timestamp(10)), "one was ended");
        tickets.forget_expired(Timestamp(20));
        assert_eq!((tickets.len(), tickets.first_end()), (1, Timestamp(30)));
        assert_eq!(open(&tickets, 20), [3]);
        tickets.forget_expired(Timestamp(30));
        assert_eq!((tickets.len(), tickets.first_end()), (0, Timestamp::MAX));
        assert!(tickets.open_of_user.is_empty() && tickets.ends.is_empty());
    }
}
