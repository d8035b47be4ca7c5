//! The name of a merchant in an OFX statement.

#![no_main]

use cardswitch_statements::ofx::properties::check;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| check(&String::from_utf8_lossy(input)));
