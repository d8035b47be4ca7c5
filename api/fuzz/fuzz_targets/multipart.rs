//! A form with a receipt in it.

#![no_main]

use cardswitch_v1::routes::receipts::properties::check;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| check(input));
