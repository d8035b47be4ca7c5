//! A form with a receipt in it. What is checked: `cardswitch_api::fuzzing::check_multipart`.

#![no_main]

use cardswitch_api::fuzzing::check_multipart;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| check_multipart(input));
