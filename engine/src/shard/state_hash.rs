//! A hash of the logical state: equal for a live shard and one rebuilt from tables and journal.
//!
//! It covers what the effects say, in a fixed order, and nothing else: no caches, no batch bounds,
//! no nonces. Two runs from the same seed give the same hash.

use std::fmt;

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::duplicates::{KeptAnswer, sorted_answers};
use super::open_transaction::OpenTransaction;
use super::state::ShardState;
use crate::codec;
use crate::directory::each_resource;
use crate::domain::ids::{CardSlot, Slot as _};

/// SHA-256 over the logical state.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct StateHash(pub [u8; 32]);

impl fmt::Display for StateHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Debug for StateHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "StateHash({self})")
    }
}

impl StateHash {
    /// The hash of the whole, from all that `part_hashes` gives.
    pub fn of_parts(parts: &[PartHash]) -> Self {
        let mut sha = Sha256::new();
        for part in parts {
            sha.update(part.name.as_bytes());
            sha.update(part.hash.0);
        }
        Self(sha.finalize().into())
    }
}

/// One part of the state, by name and hash, to show where two states differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartHash {
    /// The name of the part.
    pub name: &'static str,
    /// The number of its entries.
    pub entries: usize,
    /// Their hash.
    pub hash: StateHash,
}

struct PartHasher {
    name: &'static str,
    entries: usize,
    sha: Sha256,
    buffer: Vec<u8>,
}

impl PartHasher {
    fn new(name: &'static str) -> Self {
        Self { name, entries: 0, sha: Sha256::new(), buffer: Vec::new() }
    }

    fn add(&mut self, entry: &impl Serialize) {
        self.buffer.clear();
        // INVARIANT: every entry was itself read from, or written to, a record within the limit.
        #[expect(clippy::expect_used, reason = "entries of the state are bounded like records")]
        codec::encode_into(entry, &mut self.buffer).expect("entries of the state are encodable");
        self.sha.update(&self.buffer);
        self.entries += 1;
    }

    fn finish(self) -> PartHash {
        PartHash {
            name: self.name,
            entries: self.entries,
            hash: StateHash(self.sha.finalize().into()),
        }
    }
}

fn part<T: Serialize>(name: &'static str, entries: impl IntoIterator<Item = T>) -> PartHash {
    let mut hasher = PartHasher::new(name);
    for entry in entries {
        hasher.add(&entry);
    }
    hasher.finish()
}

impl ShardState {
    /// The hash of every part of the logical state. Cost: O(state).
    pub fn part_hashes(&self) -> Vec<PartHash> {
        let mut open: Vec<_> =
            self.transactions.iter().filter(|found| !found.1.is_declined()).collect();
        open.sort_by_key(|(seq, _)| *seq);
        let with_transactions =
            self.transactions.iter().map(|(seq, open)| KeptAnswer::Transaction(seq, open));
        let answers = with_transactions.chain(self.messages.iter().map(KeptAnswer::Listed));
        let answers = sorted_answers(answers, self.last_at);
        let profiles = (0..self.cards.len()).filter_map(CardSlot::next_after);
        let mut parts = vec![
            part(
                "counters",
                [(self.last_seq, self.last_at, self.last_transaction, self.last_line)],
            ),
            part("companies", self.companies.iter().map(|entry| &entry.company)),
            part("accounts", self.accounts.iter().map(|entry| (&entry.account, &entry.balances))),
            part("network key", [self.network_key]),
            part("generations of card number keys", [self.pan_generations]),
            part("cards", self.cards.records()),
            part("card profiles", profiles.map(|slot| self.cards.profile(slot))),
            part("attempts", &self.attempts),
            part("credential failures", &self.failures),
            part(
                "open transactions",
                open.iter().map(|(seq, open)| {
                    let OpenTransaction { card, member, account, kind, authorized_at, .. } = open;
                    let asked = (open.requested, open.foreign);
                    (seq, (card, member), account, kind, authorized_at, asked, &open.progress)
                }),
            ),
            part("remembered answers", answers.iter().filter_map(KeptAnswer::remembered)),
            part("early reversals", self.early_reversals.sorted()),
            part("single sign-on", &self.single_sign_on),
            part("idempotency keys", self.keyed_answers.sorted()),
        ];
        self.add_directory(&mut parts);
        parts
    }

    fn add_directory(&self, parts: &mut Vec<PartHash>) {
        macro_rules! add {
            (
                $($rows:ident: $file:ident::$row:ident($($_:ident),*) $(of $id:ident)?,)*;
                $($secrets:ident: $secret_file:ident::$secret:ident($__:ident),)*
            ) => {
                $(parts.push(part(stringify!($rows), self.directory.$rows.iter()));)*
                $(parts.push(part(stringify!($secrets), self.directory.$secrets.iter()));)*
            };
        }
        each_resource!(add);
    }

    /// The hash of the whole logical state. Cost: O(state).
    pub fn state_hash(&self) -> StateHash {
        StateHash::of_parts(&self.part_hashes())
    }
}
