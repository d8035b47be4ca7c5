//! What the benches share: a card program to decide for, and the meters that compare.
//!
//! A bench file asks one question and measures its yardstick in the same run; what both need to
//! agree on (the cards, the order in which they are met, how a median is taken) lives here.

pub mod caller;
pub mod meter;
pub mod program;
