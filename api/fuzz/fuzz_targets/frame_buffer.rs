//! A connection's bytes, cut anywhere. What is checked: `cardswitch_api::fuzzing::check_frame_buffer`.

#![no_main]

use cardswitch_api::fuzzing::check_frame_buffer;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| check_frame_buffer(input));
