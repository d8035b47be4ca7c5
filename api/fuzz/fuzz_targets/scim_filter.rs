//! A filter of SCIM users.

#![no_main]

use cardswitch_v1::scim::filter::properties::check;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| check(&String::from_utf8_lossy(input)));
