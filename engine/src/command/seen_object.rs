//! The condition of a change that an object is still as its maker has seen it.
//!
//! CHOICE: forms and `If-Match` compare values with a view of the tables, in words for people and programs.
//! The shard only tells whether the object has changed after that view (`shard/recent_changes.rs`), for it has
//! neither those words nor the tags of transactions, and what ends with a member is in no row. A view is
//! milliseconds old, so the newest changes suffice. They are no part of the state: no replay executes commands.

use uuid::Uuid;

use crate::domain::ids::{CardSlot, MemberSlot, RecordSeq, TransactionSeq};

/// An object whose changes are told apart from those of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchedObject {
    /// The row of a resource, by its id.
    Row(Uuid),
    /// A card and its allowance, without usage.
    Card(CardSlot),
    /// The tags and the receipt of a transaction.
    Transaction(TransactionSeq),
    /// A member with all that ends when they leave: cards, requisitions, tokens, links sent to them.
    Leaving(MemberSlot),
}

/// An object as it was read, on condition that it has not changed since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenObject {
    /// The object.
    pub object: WatchedObject,
    /// The newest record that the view showed for certain.
    pub since: RecordSeq,
}
