//! The line between a simulated network and a door that asks for TLS or for codes: the other end of
//! `network::zone` and of a door's TLS.
//!
//! Messages come here in the default spelling where codes are made, since a code is over a message as it stands on
//! the wire; otherwise as bytes that nobody looks at.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;

use cardswitch_edge::tls_client::TlsClient;
use cardswitch_feed::Carrier;
use cardswitch_iso8583::{
    Dialect, EncodeError, Frame, Framing, Message, MessageBuilder, RepeatedFields, decode,
    next_frame, write_frame,
};
use cardswitch_zone::{
    KeyFileError, KeyUsage, MAC_BYTES, MacAlgorithm, MacKey, MacPlace, PinKey, ZoneKeys,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional, split};
use tokio::runtime::Handle;

/// Bytes asked of a socket at a time.
const READ_BYTES: usize = 16 * 1024;

/// A line with TLS, with codes, or with both.
#[derive(Debug)]
pub(super) struct SecuredLine {
    tls: Option<Arc<TlsClient>>,
    codes: Option<Arc<Codes>>,
    runtime: Handle,
}

impl SecuredLine {
    /// Call it on a thread of the runtime that is to carry.
    pub(super) fn new(tls: Option<TlsClient>, codes: Option<Codes>) -> Self {
        let (tls, codes) = (tls.map(Arc::new), codes.map(Arc::new));
        Self { tls, codes, runtime: Handle::current() }
    }

    fn spawn<S>(&self, address: SocketAddr, mut near: tokio::net::UnixStream, mut far: S)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let codes = self.codes.clone();
        self.runtime.spawn(async move {
            let carried = match codes {
                None => copy_bidirectional(&mut near, &mut far).await.map(drop),
                Some(codes) => codes.carry(&mut near, &mut far).await,
            };
            // This comes before the end of the line: a caller that waits for an answer may then end
            // the process.
            if let Err(error) = carried.or_else(ended) {
                eprintln!("line to {address}: {error}");
            }
        });
    }
}

impl Carrier for SecuredLine {
    fn carry(&self, to: TcpStream) -> io::Result<UnixStream> {
        let address = to.peer_addr()?;
        let (own, near) = UnixStream::pair()?;
        near.set_nonblocking(true)?;
        to.set_nonblocking(true)?;
        let _runtime = self.runtime.enter();
        let near = tokio::net::UnixStream::from_std(near)?;
        let to = tokio::net::TcpStream::from_std(to)?;
        match &self.tls {
            None => self.spawn(address, near, to),
            Some(tls) => self.spawn(address, near, self.runtime.block_on(tls.agree(to))?),
        }
        Ok(own)
    }
}

/// A door that closes the connection is no error here: its peer sees it, too.
fn ended(error: io::Error) -> io::Result<()> {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, NotConnected, UnexpectedEof};
    match error.kind() {
        BrokenPipe | ConnectionReset | NotConnected | UnexpectedEof => Ok(()),
        _ => Err(error),
    }
}

/// The keys that secure a line's messages.
#[derive(Debug)]
pub(super) struct Codes {
    mac: Option<MacKey>,
    pin: Option<PinKey>,
    dialect: Dialect,
}

impl Codes {
    /// Reads the keys of a zone whose door speaks this dialect.
    /// Errors: the file, or a key of it that does not serve.
    pub(super) fn read(
        file: &Path,
        algorithm: Option<MacAlgorithm>,
        dialect: Dialect,
    ) -> Result<Self, KeyFileError> {
        let usage = algorithm.map_or(KeyUsage::RetailMac, MacAlgorithm::usage);
        let keys = ZoneKeys::read(file, usage)?;
        let refused = |name: &str, reason: &str| KeyFileError::of_key(file, name, reason);
        let mac = match (algorithm, &keys.mac) {
            (Some(algorithm), Some(key)) => {
                let key = MacKey::new(algorithm, key);
                Some(key.map_err(|fault| KeyFileError::of_key(file, "mac", fault))?)
            }
            (Some(_), None) => return Err(refused("mac", "is missing, and --mac asks for it")),
            (None, Some(_)) => return Err(refused("mac", "is there: name its algorithm by --mac")),
            (None, None) => None,
        };
        let pin = keys.pin.map(PinKey::new);
        if pin.as_ref().is_some_and(|pin| pin.block_bytes() != MAC_BYTES) {
            return Err(refused("pin", "is of AES: PINs are sent under TDES keys here"));
        }
        Ok(Self { mac, pin, dialect })
    }

    /// Passes messages on both ways, until either end closes.
    /// Errors: an answer without a right code, a stream out of step, those of the sockets.
    async fn carry<S>(&self, near: &mut tokio::net::UnixStream, far: &mut S) -> io::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let ((near_in, near_out), (far_in, far_out)) = (near.split(), split(far));
        let plain = Framing::default();
        let there = async {
            let mut far_out = far_out;
            let secure = |message: &[u8], out: &mut Vec<u8>| self.secure(message, out);
            let cut = pass(near_in, &mut far_out, &plain, secure).await?;
            far_out.write_all(&self.half_framed(&cut)?).await?;
            far_out.flush().await
        };
        let back = async {
            let framing = &self.dialect.framing;
            let open = |message: &[u8], out: &mut Vec<u8>| {
                framed_as_it_is(out, &plain, &self.opened(message)?)
            };
            pass(far_in, near_out, framing, open).await.map(drop)
        };
        tokio::select! {
            there = there => there,
            back = back => back,
        }
    }

    /// Appends a message of the default spelling as the door takes it; what is no message goes as it is, since a
    /// hostile feed means it for the door.
    fn secure(&self, plain: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        let framing = &self.dialect.framing;
        let Ok(message) = decode(plain) else { return framed_as_it_is(out, framing, plain) };
        framed(out, framing, |out| self.encode(&message, out))
    }

    /// The begin of a frame, for a message that was cut: no code can be made for it.
    fn half_framed(&self, cut: &[u8]) -> io::Result<Vec<u8>> {
        let mut frame = Vec::new();
        if !cut.is_empty() {
            framed_as_it_is(&mut frame, &self.dialect.framing, cut)?;
            frame.truncate(frame.len().div_ceil(2));
        }
        Ok(frame)
    }

    fn encode(&self, message: &Message<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let mut builder = MessageBuilder::new(message.mti());
        for de in message.present().elements().filter(|de| ![64, 128].contains(de)) {
            let content = message.get(de).unwrap_or_default();
            let sealed = self.pin.as_ref().filter(|_| de == 52).and_then(|key| key.seal(content));
            builder = builder.set(de, sealed.as_ref().map_or(content, |block| block.as_slice()));
        }
        let start = out.len();
        let Some(key) = &self.mac else { return self.spell(&builder, out) };
        let place = if self.has_second_bitmap(message) { 128 } else { 64 };
        self.spell(&builder.set(place, &[0; MAC_BYTES]), out)?;
        let found = MacPlace::of(&out[start..], &[0; MAC_BYTES]);
        // INVARIANT: the code is the last element, so there it stands.
        let found = found.ok_or(EncodeError::UnknownElement(place))?;
        let code = key.code(found.covered(&out[start..]));
        found.put(&mut out[start..], &code);
        Ok(())
    }

    fn spell(&self, builder: &MessageBuilder, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let Some(translation) = &self.dialect.translation else { return builder.encode(out) };
        let mut plain = Vec::new();
        builder.encode(&mut plain)?;
        translation.write(&plain, &RepeatedFields::NONE, out)
    }

    fn has_second_bitmap(&self, message: &Message<'_>) -> bool {
        let translation = self.dialect.translation.as_ref();
        let field = |de| translation.map_or(Some(de), |translation| translation.field_of(de));
        message.present().elements().any(|de| field(de).is_some_and(|field| field > 64))
    }

    /// A message of the door in the default spelling.
    /// Errors: it has no right code.
    fn opened(&self, wire: &[u8]) -> io::Result<Vec<u8>> {
        // A part that cannot be read is missing in the shown message, too.
        let plain = self.dialect.plain(wire).0.into_owned();
        let Some(key) = &self.mac else { return Ok(plain) };
        let refused = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        let message = decode(&plain).map_err(|_| refused("an answer that cannot be read"))?;
        let code = message.get_array(128).or_else(|| message.get_array(64));
        let code: [u8; MAC_BYTES] = code.ok_or_else(|| refused("an answer without a code"))?;
        let place = MacPlace::of(wire, &code);
        let is_right = place.is_some_and(|place| key.is_code_of(place.covered(wire), &code));
        if is_right { Ok(plain) } else { Err(refused("an answer whose code is wrong")) }
    }
}

fn framed(
    out: &mut Vec<u8>,
    framing: &Framing,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), EncodeError>,
) -> io::Result<()> {
    write_frame(out, framing, None, write)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
}

fn framed_as_it_is(out: &mut Vec<u8>, framing: &Framing, bytes: &[u8]) -> io::Result<()> {
    framed(out, framing, |out| {
        out.extend_from_slice(bytes);
        Ok(())
    })
}

/// Passes on every message that comes, changed. Returns the begin of one whose end never came.
async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    framing: &Framing,
    change: impl Fn(&[u8], &mut Vec<u8>) -> io::Result<()>,
) -> io::Result<Vec<u8>> {
    let (mut inbox, mut outbox) = (Vec::new(), Vec::new());
    loop {
        let mut taken = 0;
        loop {
            let consumed = match next_frame(&inbox[taken..], framing) {
                Frame::Complete { body, consumed, .. } => {
                    change(&inbox[taken + body.start..taken + body.end], &mut outbox)?;
                    consumed
                }
                Frame::ZeroLength { consumed } => consumed,
                Frame::Incomplete { .. } => break,
                Frame::Undersized { .. } | Frame::Lost(_) => {
                    return Err(io::Error::other("what came is not a frame"));
                }
            };
            taken += consumed;
        }
        inbox.drain(..taken);
        to.write_all(&outbox).await?;
        to.flush().await?;
        outbox.clear();
        inbox.reserve(READ_BYTES);
        if from.read_buf(&mut inbox).await? == 0 {
            return Ok(inbox);
        }
    }
}

#[cfg(test)]
mod tests {
    use cardswitch_iso8583::Mti;

    use super::*;

    /// Once, noise ended the line before the door saw it, and of a cut message the door saw nothing.
    #[tokio::test]
    async fn noise_and_cut_messages_reach_the_door() {
        let codes = Codes { mac: None, pin: None, dialect: Dialect::default() };
        let (mut feed, mut near) = tokio::net::UnixStream::pair().unwrap();
        let (mut far, mut door) = tokio::io::duplex(1_024);
        let mut sent = Vec::new();
        let echo = MessageBuilder::new(Mti::NETWORK_REQUEST).set(70, b"301");
        framed_as_it_is(&mut sent, &Framing::default(), b"noise").unwrap();
        framed(&mut sent, &Framing::default(), |out| echo.encode(out)).unwrap();
        let whole = sent.len();
        framed_as_it_is(&mut sent, &Framing::default(), b"never ends").unwrap();
        feed.write_all(&sent[..sent.len() - 4]).await.unwrap();
        feed.shutdown().await.unwrap();
        codes.carry(&mut near, &mut far).await.unwrap();
        drop(far);
        let mut seen = Vec::new();
        door.read_to_end(&mut seen).await.unwrap();
        assert_eq!(seen[..whole], sent[..whole]);
        assert!(seen.len() > whole && seen.len() < sent.len(), "{seen:?}");
    }
}
