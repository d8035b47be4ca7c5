//! A backup on its way from one machine to another: every file as `file LENGTH NAME`, a line end and its
//! bytes; `end` and a line end behind the last.
//!
//! No file of it is trusted on arrival: the restore proves each by the manifest, which is one of them. Names
//! that lead out of the directory are refused.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use cardswitch_engine::engine::Engine;
use cardswitch_secrets::Secrets;
use cardswitch_secrets::private_file::create_private;
use futures_util::Stream;
use futures_util::stream::unfold;
use tokio::sync::mpsc;

use crate::backup::back_up;

/// The folder in the data directory in which a node makes a backup that it hands out.
const FOLDER: &str = "handed-out";
/// Bytes read of a file at a time, and pieces that wait to be sent.
const PIECE_BYTES: usize = 64 * 1024;
const PIECES_MAX: usize = 16;
/// The longest line before a file. Units: bytes.
const LINE_BYTES_MAX: usize = 4_096;
const END: &str = "end";

type Piece = io::Result<Bytes>;

/// Makes a backup and returns it in pieces; it breaks off where that fails. The copy goes with it.
pub fn hand_out(
    engine: Arc<Engine>,
    secrets: Secrets,
) -> impl Stream<Item = Piece> + Send + 'static {
    let (pieces, waiting) = mpsc::channel(PIECES_MAX);
    tokio::task::spawn_blocking(move || {
        let folder = engine.directory().path().join(FOLDER);
        let sent = send(&engine, &secrets, &folder, &pieces);
        if let Err(error) = sent {
            tracing::warn!(%error, "a backup for another node broke off");
            // A receiver that is gone needs no word of it.
            drop(pieces.blocking_send(Err(error)));
        }
        drop(fs::remove_dir_all(&folder));
    });
    unfold(waiting, |mut waiting| async move { waiting.recv().await.map(|piece| (piece, waiting)) })
}

fn send(
    engine: &Engine,
    secrets: &Secrets,
    folder: &Path,
    pieces: &mpsc::Sender<Piece>,
) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    back_up(engine, secrets, folder).map_err(io::Error::other)?;
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).map_err(io::Error::other)?;
                send_file(&path, &name.display().to_string(), pieces)?;
            }
        }
    }
    put(pieces, format!("{END}\n").into())
}

fn send_file(path: &Path, name: &str, pieces: &mpsc::Sender<Piece>) -> io::Result<()> {
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    put(pieces, format!("file {length} {name}\n").into())?;
    let mut file = file.take(length);
    loop {
        let mut piece = Vec::with_capacity(PIECE_BYTES);
        if (&mut file).take(PIECE_BYTES as u64).read_to_end(&mut piece)? == 0 {
            return Ok(());
        }
        put(pieces, piece.into())?;
    }
}

fn put(pieces: &mpsc::Sender<Piece>, piece: Bytes) -> io::Result<()> {
    pieces.blocking_send(Ok(piece)).map_err(|_| io::ErrorKind::BrokenPipe.into())
}

/// Takes in a backup, piece by piece.
#[derive(Debug)]
pub struct BackupIntake {
    folder: PathBuf,
    line: Vec<u8>,
    file: Option<(File, u64)>,
    is_whole: bool,
}

impl BackupIntake {
    /// Takes it in at `folder`, which is made.
    /// Errors: something is there, or the system refuses.
    pub fn new(folder: &Path) -> io::Result<Self> {
        DirBuilder::new().mode(0o700).create(folder)?;
        let folder = folder.to_path_buf();
        Ok(Self { folder, line: Vec::new(), file: None, is_whole: false })
    }

    /// Whether the last piece has come.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Takes a piece. Errors: it is no backup, or a file cannot be written.
    pub fn take(&mut self, mut piece: &[u8]) -> io::Result<()> {
        while !piece.is_empty() {
            if let Some((file, left)) = &mut self.file {
                let now = usize::try_from(*left).unwrap_or(usize::MAX).min(piece.len());
                let (bytes, rest) = piece.split_at(now);
                file.write_all(bytes)?;
                *left -= now as u64;
                if *left == 0 {
                    self.file = None;
                }
                piece = rest;
                continue;
            }
            let (byte, rest) = piece.split_at(1);
            piece = rest;
            if byte == b"\n" {
                let line = std::mem::take(&mut self.line);
                self.begin(&String::from_utf8_lossy(&line))?;
            } else if self.line.len() < LINE_BYTES_MAX {
                self.line.extend(byte);
            } else {
                return Err(no_backup());
            }
        }
        Ok(())
    }

    fn begin(&mut self, line: &str) -> io::Result<()> {
        if line == END {
            self.is_whole = true;
            return Ok(());
        }
        let named = line.strip_prefix("file ").and_then(|rest| rest.split_once(' '));
        let (length, name) = named.ok_or_else(no_backup)?;
        let length: u64 = length.parse().map_err(|_| no_backup())?;
        let is_inside = |part: Component<'_>| matches!(part, Component::Normal(_));
        if name.is_empty() || !Path::new(name).components().all(is_inside) {
            return Err(no_backup());
        }
        let path = self.folder.join(name);
        let above = path.parent().unwrap_or(&self.folder);
        DirBuilder::new().recursive(true).mode(0o700).create(above)?;
        let file = create_private(&path)?;
        self.file = (length > 0).then_some((file, length));
        Ok(())
    }
}

fn no_backup() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "what the node sends is no backup")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_is_taken_in_by_any_pieces_and_leads_nowhere_else() {
        let home = tempfile::tempdir().unwrap();
        let sent = b"file 3 manifest\nabcfile 0 journal/head\nfile 1 journal/x\n\nend\n";
        for size in 1..sent.len() {
            let folder = home.path().join(size.to_string());
            let mut intake = BackupIntake::new(&folder).unwrap();
            for piece in sent.chunks(size) {
                assert!(!intake.is_whole());
                intake.take(piece).unwrap();
            }
            assert!(intake.is_whole());
            assert_eq!(fs::read(folder.join("manifest")).unwrap(), b"abc");
            assert_eq!(fs::read(folder.join("journal/head")).unwrap(), b"");
            assert_eq!(fs::read(folder.join("journal/x")).unwrap(), b"\n");
        }
        let hostile =
            ["file 1 ../x\n", "file 1 /etc/x\n", "file 1 \n", "file x y\n", "HTTP/1.1 200 OK\n"];
        for (place, line) in hostile.iter().enumerate() {
            let mut intake = BackupIntake::new(&home.path().join(format!("h{place}"))).unwrap();
            assert!(intake.take(line.as_bytes()).is_err(), "{line}");
        }
    }
}
