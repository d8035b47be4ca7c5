//! The name of a merchant in an OFX statement. What is checked: `cardswitch_api::fuzzing::check_ofx_name`.

#![no_main]

use cardswitch_api::fuzzing::check_ofx_name;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| check_ofx_name(input));
