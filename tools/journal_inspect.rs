//! Prints a journal, batch by batch.

fn main() {}
