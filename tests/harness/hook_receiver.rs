//! A receiver of webhooks that behaves as a test wants it to, and keeps what it was sent.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// How a receiver behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// It answers with this status.
    Answers(u16),
    /// It sends on to somewhere else.
    Redirects,
    /// It takes the request and says nothing.
    Silent,
    /// It closes the connection without an answer.
    Resets,
    /// It answers with 10 MiB.
    Long,
    /// It answers and never ends.
    Endless,
}

/// A webhook as it came.
#[derive(Clone, Debug)]
pub struct Hook {
    /// Head and body.
    head: String,
    /// The array of events.
    pub events: Vec<Value>,
}

impl Hook {
    /// The value of a header, by its name in lower case; blank where it is missing.
    pub fn header(&self, name: &str) -> &str {
        let mut found = self.head.lines().filter_map(|line| line.split_once(": "));
        found.find(|(key, _)| *key == name).map_or("", |(_, value)| value)
    }
}

#[derive(Debug)]
struct ReceiverState {
    manner: Mutex<Manner>,
    hooks: Mutex<Vec<Hook>>,
    came: Condvar,
    /// Requests that came and were not answered, while the other side waits.
    held: AtomicUsize,
    is_over: AtomicBool,
}

/// A running receiver.
#[derive(Debug)]
pub struct HookReceiver {
    address: SocketAddr,
    shared: Arc<ReceiverState>,
}

impl HookReceiver {
    /// Starts one on a free port of the loopback.
    pub fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(ReceiverState {
            manner: Mutex::new(manner),
            hooks: Mutex::default(),
            came: Condvar::new(),
            held: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
        });
        let own = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if own.is_over.load(Ordering::Relaxed) {
                    break;
                }
                let shared = Arc::clone(&own);
                thread::spawn(move || drop(shared.take(stream)));
            }
        });
        Self { address, shared }
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// From now on it behaves like this.
    pub fn behave(&self, manner: Manner) {
        *lock(&self.shared.manner) = manner;
    }

    /// Everything that came so far.
    pub fn hooks(&self) -> Vec<Hook> {
        lock(&self.shared.hooks).clone()
    }

    /// How many requests a silent one keeps waiting.
    pub fn held(&self) -> usize {
        self.shared.held.load(Ordering::SeqCst)
    }

    /// Waits until `is_enough` of what came, and returns it.
    #[track_caller]
    pub fn wait_until(&self, is_enough: impl Fn(&[Hook]) -> bool) -> Vec<Hook> {
        let until = Instant::now() + Duration::from_secs(60);
        let mut hooks = lock(&self.shared.hooks);
        while !is_enough(&hooks) {
            let left = until.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "{} webhooks came: {hooks:?}", hooks.len());
            hooks = self.shared.came.wait_timeout(hooks, left).expect("no poison").0;
        }
        hooks.clone()
    }

    /// Waits for events of so many transactions and returns the events, in the order they came.
    #[track_caller]
    pub fn wait_for_events(&self, count: usize) -> Vec<Value> {
        let all = |hooks: &[Hook]| hooks.iter().map(|hook| hook.events.len()).sum::<usize>();
        let hooks = self.wait_until(|hooks| all(hooks) >= count);
        hooks.into_iter().flat_map(|hook| hook.events).collect()
    }
}

impl Drop for HookReceiver {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        // This wakes the accepting thread.
        drop(TcpStream::connect(self.address));
    }
}

impl ReceiverState {
    fn take(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let Some((head, body)) = read_request(&mut stream)? else { return Ok(()) };
        let manner = *lock(&self.manner);
        let events = serde_json::from_slice(&body).expect("a webhook is an array");
        lock(&self.hooks).push(Hook { head, events });
        self.came.notify_all();
        match manner {
            Manner::Answers(status) => {
                write!(stream, "HTTP/1.1 {status} Told\r\ncontent-length: 0\r\n\r\n")
            }
            Manner::Redirects => stream.write_all(
                b"HTTP/1.1 307 Elsewhere\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n",
            ),
            Manner::Silent => {
                // Until the other side has had enough.
                self.held.fetch_add(1, Ordering::SeqCst);
                let ended = stream.read(&mut [0; 16]).map(drop);
                self.held.fetch_sub(1, Ordering::SeqCst);
                ended
            }
            Manner::Resets => Ok(()),
            Manner::Long => {
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10485760\r\n\r\n")?;
                stream.write_all(&vec![b'x'; 10 << 20])
            }
            Manner::Endless => {
                stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
                while !self.is_over.load(Ordering::Relaxed) {
                    stream.write_all(&[b'x'; 1024])?;
                    thread::sleep(Duration::from_millis(5));
                }
                Ok(())
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no poison")
}

fn read_request(stream: &mut TcpStream) -> std::io::Result<Option<(String, Vec<u8>)>> {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let read = stream.read(&mut buffer)?;
        if read == 0 {
            return Ok(None);
        }
        bytes.extend_from_slice(&buffer[..read]);
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.and_then(|text| text.parse().ok()).unwrap_or(0);
        if bytes.len() >= end + 4 + length {
            return Ok(Some((head, bytes[end + 4..end + 4 + length].to_vec())));
        }
    }
}
