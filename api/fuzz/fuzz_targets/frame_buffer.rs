//! A connection's bytes, cut anywhere. The first byte chooses the framing, the next four where the
//! stream is cut.

#![no_main]

use cardswitch_acquiring::frame_buffer::properties::check;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((choice, rest)) = input.split_first() else { return };
    let Some((cuts, stream)) = rest.split_at_checked(4) else { return };
    check(*choice, cuts, stream);
});
