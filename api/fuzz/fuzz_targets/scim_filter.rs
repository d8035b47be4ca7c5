//! A filter of SCIM users. What is checked: `cardswitch_api::fuzzing::check_scim_filter`.

#![no_main]

use cardswitch_api::fuzzing::check_scim_filter;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| check_scim_filter(input));
