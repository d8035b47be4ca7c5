//! The rules of the house that no compiler holds.

mod documents;
mod tidy;
