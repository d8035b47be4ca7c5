//! The rules of the house that no compiler holds.

mod defects;
mod documents;
mod tidy;
