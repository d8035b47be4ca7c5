//! The sender against receivers that misbehave in every way known.

use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use tokio::sync::Notify;

use super::*;
use crate::webhooks::addresses::tests::{LOCAL, NEVER, PUBLIC};

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

/// A receiver for one request, and the bytes that it got.
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
                // The stream is read until the other side hangs up.
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
    let broken = AttemptResult::Unanswered(AttemptFailure::Broken);
    let rows = [
        (says("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"), AttemptResult::Answered(200)),
        (says("HTTP/1.1 500 Oh\r\ncontent-length: 0\r\n\r\n"), AttemptResult::Answered(500)),
        (says("HTTP/1.1 410 Gone\r\n\r\n"), AttemptResult::Answered(410)),
        // No redirect is followed.
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
    let (result, _) = sender.send_within(Duration::from_secs(1), delivery(address), Ok).await;
    assert_eq!(result, AttemptResult::Answered(200));
    receiver.join().unwrap();
}

#[tokio::test]
async fn what_cannot_be_reached_is_told_apart() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = listener.local_addr().unwrap().port();
    drop(listener);
    let rows = [
        (Reach::Local, format!("http://127.0.0.1:{closed}/"), AttemptFailure::NotReachable),
        (Reach::Public, format!("http://127.0.0.1:{closed}/"), AttemptFailure::NotPublic),
        (Reach::Public, format!("https://localhost:{closed}/"), AttemptFailure::NotPublic),
        (Reach::Public, "https://[::ffff:10.0.0.1]/".to_owned(), AttemptFailure::NotPublic),
        (Reach::Public, "nothing".to_owned(), AttemptFailure::NotSent),
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
    assert_eq!(result, AttemptResult::Unanswered(AttemptFailure::Tls));
    let heard = heard.join().unwrap();
    assert!(!heard.windows(4).any(|part| part == b"POST"), "the request went in clear");
}

/// Names that lead to these addresses, and the number of look-ups.
fn names(addresses: Vec<SocketAddr>) -> (Names, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let names = move |_| -> AddressLookup {
        counted.fetch_add(1, Ordering::SeqCst);
        let addresses = addresses.clone();
        Box::pin(async { Ok(addresses) })
    };
    (Arc::new(names), asked)
}

/// The addresses that a name leads to, at a port where no process listens.
fn at_port_9(texts: &[&str]) -> Vec<SocketAddr> {
    texts.iter().map(|text| (text.parse::<IpAddr>().unwrap(), 9).into()).collect()
}

#[tokio::test]
async fn a_name_is_as_public_as_the_worst_of_its_addresses() {
    let never = NEVER.iter().flat_map(|text| [(Reach::Public, *text), (Reach::Local, *text)]);
    let local = LOCAL.iter().map(|text| (Reach::Public, *text));
    for (reach, text) in never.chain(local) {
        for addresses in [vec![text], vec![PUBLIC[0], text], vec![text, PUBLIC[0]]] {
            let (names, asked) = names(at_port_9(&addresses));
            let sender = Sender::with_names(reach, SendBounds::default(), names);
            let result = sender.send(&delivery("https://receiver.example/".to_owned())).await;
            let refused = AttemptResult::Unanswered(AttemptFailure::NotPublic);
            assert_eq!(result, refused, "{reach:?} {addresses:?}");
            assert_eq!(asked.load(Ordering::SeqCst), 1, "{addresses:?}");
        }
    }
}

#[tokio::test]
async fn a_name_is_looked_up_once_and_what_was_judged_is_connected_to() {
    let answer = b"HTTP/1.1 204 No Content\r\n\r\n".to_vec();
    let (port, gets) = receiver(Manner::Says(answer));
    let (other, others) = receiver(Manner::Closes);
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    // A second look-up leads elsewhere.
    let names = move |_| -> AddressLookup {
        let port = if counted.fetch_add(1, Ordering::SeqCst) == 0 { port } else { other };
        Box::pin(async move { Ok(vec![([127, 0, 0, 1], port).into()]) })
    };
    let sender = Sender::with_names(Reach::Local, SendBounds::default(), Arc::new(names));
    let result = sender.send(&delivery("http://localhost:1/hook".to_owned())).await;
    assert_eq!(result, AttemptResult::Answered(204));
    assert!(gets.recv().unwrap().contains("host: localhost:1\r\n"));
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    assert!(others.try_recv().is_err());
}

#[tokio::test]
async fn a_name_without_addresses_is_no_host() {
    let (names, _) = names(Vec::new());
    let sender = Sender::with_names(Reach::Public, SendBounds::default(), names);
    let result = sender.send(&delivery("https://receiver.example/".to_owned())).await;
    assert_eq!(result, AttemptResult::Unanswered(AttemptFailure::NoSuchHost));
}

#[tokio::test]
async fn names_that_nobody_answers_for_are_looked_up_so_many_at_a_time() {
    // Each gives up after so long, which changes nothing for the system that was asked.
    const PATIENCE: Duration = Duration::from_millis(100);
    let (asked, answer) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let (counted, waiting) = (Arc::clone(&asked), Arc::clone(&answer));
    let names = move |_| -> AddressLookup {
        counted.fetch_add(1, Ordering::SeqCst);
        let waiting = Arc::clone(&waiting);
        Box::pin(async move {
            waiting.notified().await;
            Ok(Vec::new())
        })
    };
    let sender = Sender::with_names(Reach::Public, SendBounds::default(), Arc::new(names));
    let send = |tries| {
        let (sender, delivery) = (sender.clone(), delivery("https://receiver.example/".to_owned()));
        let delivery = Delivery { tries, ..delivery };
        tokio::spawn(async move { sender.send_within(PATIENCE, delivery, Ok).await })
    };
    let first: Vec<_> = (0..1_000).map(|_| send(1)).collect();
    let later: Vec<_> = (0..1_000).map(|_| send(2)).collect();
    for sent in first.into_iter().chain(later) {
        assert_eq!(sent.await.unwrap().0, AttemptResult::Unanswered(AttemptFailure::TooSlow));
    }
    let SendBounds { lookups, later_lookups, .. } = SendBounds::default();
    assert_eq!(asked.load(Ordering::SeqCst), lookups + later_lookups);
    assert_eq!(
        (sender.lookups.available_permits(), sender.later_lookups.available_permits()),
        (0, 0)
    );
    answer.notify_waiters();
    let last = delivery("https://receiver.example/".to_owned());
    let last = tokio::spawn({
        let sender = sender.clone();
        async move { sender.send(&last).await }
    });
    while asked.load(Ordering::SeqCst) == lookups + later_lookups {
        tokio::task::yield_now().await;
    }
    answer.notify_one();
    assert_eq!(last.await.unwrap(), AttemptResult::Unanswered(AttemptFailure::NoSuchHost));
}

#[tokio::test]
async fn what_is_sent_is_asked_for_once_the_connection_stands() {
    let connected = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/", connected.local_addr().unwrap());
    let sender = Sender::new(Reach::Local);
    let (ended, _) =
        sender.send_checked(delivery(address), |_| Err(AttemptFailure::NothingToTell)).await;
    assert_eq!(ended, AttemptResult::Unanswered(AttemptFailure::NothingToTell));
    let mut heard = Vec::new();
    connected.accept().unwrap().0.read_to_end(&mut heard).unwrap();
    assert_eq!(heard, [0; 0], "the receiver was connected to and told nothing");
}
