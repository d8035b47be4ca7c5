//! The `cardswitch` command.

fn main() {}
