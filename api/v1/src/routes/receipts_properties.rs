//! Properties of uploads of any bytes. The fuzz target `multipart` and the test below run them.

use bytes::Bytes;
use futures_util::FutureExt;

use super::read_form;

const BOUNDARY: &str = "0123456789boundary";

/// Any bytes are a form or none; a form made around a file gives the file back, byte for byte.
pub fn check(input: &[u8]) {
    let _ = read(input.to_vec());
    let delimiter = format!("--{BOUNDARY}");
    if input.windows(delimiter.len()).any(|window| window == delimiter.as_bytes()) {
        return;
    }
    let other = "content-disposition: form-data; name=\"note\"\r\n\r\nlunch";
    let head = "content-disposition: form-data; name=\"file\"; filename=\"a.png\"\r\n\
                content-type: image/png\r\n\r\n";
    let mut form = format!("{delimiter}\r\n{other}\r\n{delimiter}\r\n{head}").into_bytes();
    form.extend_from_slice(input);
    form.extend_from_slice(format!("\r\n{delimiter}--\r\n").as_bytes());
    let file = read(form);
    assert_eq!(file, Some((Some("a.png".to_owned()), input.to_vec())));
}

/// The file of a form with its name; none where it is no form, or has no file.
fn read(form: Vec<u8>) -> Option<(Option<String>, Vec<u8>)> {
    let read = read_form(Bytes::from(form), BOUNDARY.to_owned()).now_or_never();
    let upload = read.expect("a body that is all there is never waited for").ok()?;
    Some((upload.filename, upload.content.to_vec()))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    const PIECES: [&str; 12] = [
        "--0123456789boundary",
        "--",
        "\r\n",
        "\r\n\r\n",
        "\n",
        "content-disposition: form-data",
        "; name=\"file\"",
        "; filename=\"",
        "\"",
        ":",
        "content-type: image/png",
        "x",
    ];

    proptest! {
        #[test]
        fn any_bytes_come_out_of_a_form_as_they_went_in(input in vec(any::<u8>(), 0..400)) {
            super::check(&input);
        }

        #[test]
        fn any_order_of_pieces_is_a_form_or_none(
            pieces in vec(proptest::sample::select(&PIECES[..]), 0..30),
        ) {
            super::check(pieces.concat().as_bytes());
        }
    }
}
