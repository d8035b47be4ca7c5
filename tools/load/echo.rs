//! Counterparts that do no work: the cost of a client and the kernel without a switch behind them.
//!
//! Over ISO 8583 every byte goes back as it came; over HTTP every request has the same answer. One
//! thread a connection, so use few connections.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use cardswitch_load::echo;
use memchr::memmem;

use crate::arguments::Door;

/// Bytes asked of a connection at a time.
const READ_BYTES: usize = 256 * 1_024;
/// Every request's answer, as long as the switch's.
const HTTP_ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\
x-request-id: 00000000-0000-0000-0000-000000000000\r\ncontent-length: 222\r\n\
date: Sat, 21 Nov 2026 12:00:00 GMT\r\n\r\n\
{\"transaction_id\":\"00000000-0000-0000-0000-000000000000\",\"response_code\":0,\
\"sub_reason\":null,\"approved\":true,\"approved_amount\":1.00,\"authorization_id\":\"000000\",\
\"failed_rules\":[],\"allowance_balance\":249999.00}              ";

/// Serves on a free port of the loopback until the process ends. Returns the port's address.
/// Errors: there is no free port.
pub(crate) fn start(door: Door) -> io::Result<SocketAddr> {
    match door {
        Door::Iso => echo::start(echo::send_back),
        Door::Http => echo::start(answer_requests),
    }
}

/// The requests are the client's own: each is one header and one body that ends in two braces.
fn answer_requests(mut stream: TcpStream) -> io::Result<()> {
    let end_of_request = memmem::Finder::new(b"\"}}");
    let (mut bytes, mut kept, mut answers) = (vec![0; READ_BYTES], 0, Vec::new());
    loop {
        let came = stream.read(&mut bytes[kept..])?;
        if came == 0 {
            return Ok(());
        }
        let mut at = 0;
        while let Some(end) = end_of_request.find(&bytes[at..kept + came]) {
            at += end + end_of_request.needle().len();
            answers.extend_from_slice(HTTP_ANSWER);
        }
        bytes.copy_within(at..kept + came, 0);
        kept = kept + came - at;
        stream.write_all(&answers)?;
        answers.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_has_the_length_that_it_announces() {
        let text = std::str::from_utf8(HTTP_ANSWER).unwrap();
        let (header, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(header.contains(&format!("content-length: {}\r\n", body.len())), "{}", body.len());
        serde_json::from_str::<serde_json::Value>(body).unwrap();
    }
}
