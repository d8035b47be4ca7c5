//! The doors of the fuzz targets in `api/fuzz`, compiled for them only: what a stranger's bytes
//! reach first, each with what must hold for any of them. The suite runs the same checks over
//! random input.

use cardswitch_network::frame_buffer;
use cardswitch_statements::ofx;
use cardswitch_v1::routes::receipts;
use cardswitch_v1::scim::filter;

/// A connection to the ISO 8583 door. The first byte chooses the framing, the next four where the
/// stream is cut.
pub fn check_frame_buffer(input: &[u8]) {
    let Some((choice, rest)) = input.split_first() else { return };
    let Some((cuts, stream)) = rest.split_at_checked(4) else { return };
    frame_buffer::properties::check(*choice, cuts, stream);
}

/// A filter of SCIM users.
pub fn check_scim_filter(input: &[u8]) {
    filter::properties::check(&String::from_utf8_lossy(input));
}

/// A form with a receipt in it.
pub fn check_multipart(input: &[u8]) {
    receipts::properties::check(input);
}

/// The name of a merchant in a statement for accounting programs.
pub fn check_ofx_name(input: &[u8]) {
    ofx::properties::check(&String::from_utf8_lossy(input));
}
