//! A mail server that takes every letter, and keeps it.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// A running mail server.
#[derive(Debug)]
pub struct MailServer(Arc<Mutex<Vec<String>>>);

impl MailServer {
    /// Starts one at an address.
    #[track_caller]
    pub fn start(address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).expect("the address is free");
        let letters = Arc::<Mutex<Vec<String>>>::default();
        let own = Arc::clone(&letters);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let own = Arc::clone(&own);
                // A client that breaks off is its own business.
                thread::spawn(move || converse(&stream, &own).ok());
            }
        });
        Self(letters)
    }

    /// The letters that it has taken.
    pub fn letters(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Speaks SMTP (RFC 5321) as far as one client needs it.
fn converse(mut stream: &TcpStream, letters: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream).lines();
    stream.write_all(b"220 mail\r\n")?;
    while let Some(line) = lines.next().transpose()? {
        let answer: &[u8] = match line.get(..4) {
            Some("DATA") => b"354 go on\r\n",
            Some("QUIT") => b"221 bye\r\n",
            _ => b"250 ok\r\n",
        };
        stream.write_all(answer)?;
        if line == "DATA" {
            let letter: Result<Vec<_>, _> = lines
                .by_ref()
                .take_while(|line| line.as_ref().is_ok_and(|line| line != "."))
                .collect();
            letters.lock().unwrap_or_else(PoisonError::into_inner).push(letter?.join("\n"));
            stream.write_all(b"250 taken\r\n")?;
        }
    }
    Ok(())
}
