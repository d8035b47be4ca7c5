//! The sender against receivers that misbehave in every way known.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc;
use std::thread;

use super::*;

/// How a receiver behaves.
#[derive(Clone, Debug)]
enum Manner {
    /// It answers with these bytes.
    Says(Vec<u8>),
    /// It says this and goes on with zeros until nobody reads any more.
    Floods(&'static str),
    /// It says this and keeps the connection open, silent.
    Hangs(&'static str),
    /// It closes the connection without an answer.
    Closes,
}

/// A receiver for one request, and what it got.
fn receiver(manner: Manner) -> (u16, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (got, gets) = mpsc::channel();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut request, mut buffer) = (Vec::new(), [0; 4096]);
        while !request.ends_with(b"[{}]") {
            let read = stream.read(&mut buffer).unwrap();
            assert!(read > 0, "the request ended early");
            request.extend_from_slice(&buffer[..read]);
        }
        drop(got.send(String::from_utf8(request).unwrap()));
        match manner {
            Manner::Says(bytes) => stream.write_all(&bytes).unwrap(),
            Manner::Floods(head) => {
                stream.write_all(head.as_bytes()).unwrap();
                while stream.write_all(&[b'0'; 4096]).is_ok() {}
            }
            Manner::Hangs(head) => {
                stream.write_all(head.as_bytes()).unwrap();
                // Until the other side has had enough.
                drop(stream.read(&mut buffer));
            }
            Manner::Closes => {}
        }
    });
    (port, gets)
}

fn delivery(address: String) -> Delivery {
    Delivery {
        address,
        id: "msg_1".to_owned(),
        timestamp_s: 1_700_000_000,
        signature: "v1,abc".to_owned(),
        sequence: "7".to_owned(),
        tries: 2,
        body: Bytes::from_static(b"[{}]"),
    }
}

async fn sent_to(manner: Manner) -> (AttemptResult, String) {
    let (port, gets) = receiver(manner);
    let sender = Sender::new(Reach::Local);
    let delivery = delivery(format!("http://127.0.0.1:{port}/hook?a=b"));
    let result = sender.send(&delivery).await;
    (result, gets.recv().unwrap_or_default())
}

#[tokio::test]
async fn the_request_is_what_receivers_expect() {
    let answer = b"HTTP/1.1 204 No Content\r\n\r\n".to_vec();
    let (result, request) = sent_to(Manner::Says(answer)).await;
    assert_eq!(result, AttemptResult::Answered(204));
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    assert_eq!(body, "[{}]");
    assert!(head.starts_with("POST /hook?a=b HTTP/1.1\r\n"), "{head}");
    for line in [
        "content-type: application/json",
        "content-length: 4",
        "webhook-id: msg_1",
        "webhook-timestamp: 1700000000",
        "webhook-signature: v1,abc",
        "webhook-sequence: 7",
        "webhook-attempt: 2",
    ] {
        assert!(head.lines().any(|found| found == line), "{line} is missing in {head}");
    }
}

#[tokio::test]
async fn answers_count_by_their_status_however_they_go_on() {
    let says = |text: &str| Manner::Says(text.as_bytes().to_vec());
    let broken = AttemptResult::Unanswered(Failure::Broken);
    let rows = [
        (says("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"), AttemptResult::Answered(200)),
        (says("HTTP/1.1 500 Oh\r\ncontent-length: 0\r\n\r\n"), AttemptResult::Answered(500)),
        (says("HTTP/1.1 410 Gone\r\n\r\n"), AttemptResult::Answered(410)),
        // Nothing is followed.
        (
            says("HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\n\r\n"),
            AttemptResult::Answered(302),
        ),
        // Cut short behind the head: the receiver has taken it all the same.
        (says("HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\nok"), AttemptResult::Answered(200)),
        (
            Manner::Floods("HTTP/1.1 200 OK\r\ncontent-length: 10485760\r\n\r\n"),
            AttemptResult::Answered(200),
        ),
        (Manner::Floods("HTTP/1.1 200 OK\r\n\r\n"), AttemptResult::Answered(200)),
        (
            Manner::Hangs("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n"),
            AttemptResult::Answered(200),
        ),
        (Manner::Floods("HTTP/1.1 200 OK\r\nx: "), broken.clone()),
        (says("SSH-2.0-OpenSSH_9.9\r\n"), broken.clone()),
        (Manner::Closes, broken),
    ];
    for (manner, expected) in rows {
        let told = format!("{manner:?}");
        assert_eq!(sent_to(manner).await.0, expected, "{told}");
    }
}

#[tokio::test]
async fn an_answer_whose_head_came_in_time_counts() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/", listener.local_addr().unwrap());
    let receiver = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n").unwrap();
        thread::sleep(Duration::from_millis(1_500));
        drop(stream.write_all(b"ok"));
    });
    let sender = Sender::new(Reach::Local);
    let result = sender.send_within(Duration::from_secs(1), &delivery(address)).await;
    assert_eq!(result, AttemptResult::Answered(200));
    receiver.join().unwrap();
}

#[tokio::test]
async fn what_cannot_be_reached_is_told_apart() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = listener.local_addr().unwrap().port();
    drop(listener);
    let rows = [
        (Reach::Local, format!("http://127.0.0.1:{closed}/"), Failure::NotReachable),
        (Reach::Public, format!("http://127.0.0.1:{closed}/"), Failure::NotPublic),
        // The name is public; what it leads to is not.
        (Reach::Public, format!("https://localhost:{closed}/"), Failure::NotPublic),
        (Reach::Public, "https://[::ffff:10.0.0.1]/".to_owned(), Failure::NotPublic),
        (Reach::Public, "nothing".to_owned(), Failure::NotSent),
    ];
    for (reach, address, failure) in rows {
        let told = format!("{reach:?} {address}");
        let result = Sender::new(reach).send(&delivery(address)).await;
        assert_eq!(result, AttemptResult::Unanswered(failure), "{told}");
    }
}

#[tokio::test]
async fn a_receiver_without_tls_is_not_spoken_to_in_clear() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let heard = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = [0; 4096];
        let read = stream.read(&mut buffer).unwrap();
        buffer[..read].to_vec()
    });
    let result =
        Sender::new(Reach::Local).send(&delivery(format!("https://127.0.0.1:{port}/"))).await;
    assert_eq!(result, AttemptResult::Unanswered(Failure::Tls));
    let heard = heard.join().unwrap();
    assert!(!heard.windows(4).any(|part| part == b"POST"), "the request went in clear");
}
