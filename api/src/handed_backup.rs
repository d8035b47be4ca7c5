//! A backup on its way from one machine to another: every file as `file LENGTH NAME`, a line end and its
//! bytes; `end` and a line end behind the last.
//!
//! No file of it is trusted on arrival: the restore proves each by the manifest, which is one of them. Names
//! that lead out of the directory are refused.
//!
//! INVARIANT: one backup is handed out at a time, and only its task deletes its folder.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use cardswitch_engine::backup::CopyError;
use cardswitch_engine::engine::Engine;
use cardswitch_secrets::Secrets;
use cardswitch_secrets::private_file::{create_private, remove_folder};
use futures_util::Stream;
use futures_util::stream::poll_fn;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::backup::{back_up, receipts_bytes};

/// The folder in the data directory in which a node makes a backup that it hands out.
const FOLDER: &str = "handed-out";
/// The same, while it is made.
const UNFINISHED: &str = "handed-out.unfinished";
/// Bytes read of a file at a time, and pieces that wait to be sent.
const PIECE_BYTES: usize = 64 * 1024;
const PIECES_MAX: usize = 16;
/// The longest line before a file. Units: bytes.
const LINE_BYTES_MAX: usize = 4_096;
const END: &str = "end";

type Piece = io::Result<Bytes>;

/// Why no backup is handed out now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandOutError {
    /// The switch is gone: the node leads no more.
    Gone,
    /// Another backup is under way.
    Busy,
}

/// The place that hands out backups of a running switch, one at a time.
#[derive(Debug)]
pub struct BackupDesk {
    engine: Weak<Engine>,
    secrets: Secrets,
    /// The permit of every backup that the switch makes, see `control`.
    making: Arc<Semaphore>,
    /// The permit for the folder: whoever has it may delete what is there.
    folder: Arc<Semaphore>,
}

impl BackupDesk {
    /// The desk of a switch whose backups have the permit `making`.
    pub fn new(engine: &Arc<Engine>, secrets: Secrets, making: Arc<Semaphore>) -> Self {
        let (engine, folder) = (Arc::downgrade(engine), Arc::new(Semaphore::new(1)));
        Self { engine, secrets, making, folder }
    }

    /// The engine whose backups it hands out, while the switch is there.
    pub fn engine(&self) -> Option<Arc<Engine>> {
        self.engine.upgrade()
    }

    /// Makes a backup and returns it in pieces; it breaks off where that fails. The copy goes with it.
    /// Errors: the switch is gone, or another backup is under way.
    pub fn hand_out(
        &self,
    ) -> Result<impl Stream<Item = Piece> + Send + 'static + use<>, HandOutError> {
        let engine = self.engine.upgrade().ok_or(HandOutError::Gone)?;
        let permit = |of: &Arc<Semaphore>| {
            Arc::clone(of).try_acquire_owned().map_err(|_| HandOutError::Busy)
        };
        let (permit, making) = (permit(&self.folder)?, permit(&self.making)?);
        let folder = OwnFolder { path: engine.directory.path().join(FOLDER), _permit: permit };
        let secrets = self.secrets.clone();
        let (pieces, mut waiting) = mpsc::channel(PIECES_MAX);
        tokio::task::spawn_blocking(move || {
            let made = make(&engine, &secrets, &folder.path);
            // Others may make theirs while this one is sent, which takes as long as the network does.
            drop((engine, making));
            if let Err(error) = made.and_then(|()| send(&folder.path, &pieces)) {
                tracing::warn!(%error, "a backup for another node broke off");
                // A receiver that is gone needs no word of it.
                drop(pieces.blocking_send(Err(error)));
            }
            drop(folder);
        });
        Ok(poll_fn(move |context| waiting.poll_recv(context)))
    }
}

/// The size of the backup that a node would hand out, about. Units: bytes.
/// Errors: there is no room to make it.
pub fn size_of_backup(engine: &Engine) -> Result<u64, CopyError> {
    let data = engine.directory.path();
    engine.check_room_for_backup(&data.join(FOLDER), receipts_bytes(data)?)
}

/// The folder of the backup that is handed out: nobody else uses it, and it goes with this value.
struct OwnFolder {
    path: PathBuf,
    _permit: OwnedSemaphorePermit,
}

impl Drop for OwnFolder {
    fn drop(&mut self) {
        // The next one deletes what is left.
        drop(fs::remove_dir_all(&self.path));
    }
}

/// Removes what a killed process left of a backup that it handed out.
/// Errors: the system refuses.
pub(crate) fn remove_leftover(data: &Path) -> io::Result<()> {
    [FOLDER, UNFINISHED].iter().try_for_each(|name| remove_folder(&data.join(name)))
}

fn make(engine: &Engine, secrets: &Secrets, folder: &Path) -> io::Result<()> {
    remove_folder(folder)?;
    back_up(engine, secrets, folder).map(drop).map_err(io::Error::other)
}

fn send(folder: &Path, pieces: &mpsc::Sender<Piece>) -> io::Result<()> {
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
    /// Whether the last piece has come.
    pub is_whole: bool,
}

impl BackupIntake {
    /// Takes it in at `folder`, which is made.
    /// Errors: something is there, or the system refuses.
    pub fn new(folder: &Path) -> io::Result<Self> {
        DirBuilder::new().mode(0o700).create(folder)?;
        let folder = folder.to_path_buf();
        Ok(Self { folder, line: Vec::new(), file: None, is_whole: false })
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
    use cardswitch_engine::clock::Clock;
    use futures_util::StreamExt;

    use super::*;
    use crate::config::ClockSetting;
    use crate::opening::open_at_rest;
    use crate::test_world::{TestSwitch, make_keyed_directory};

    /// Once, every node that asked for a backup deleted the one that was on its way to another node.
    #[tokio::test]
    async fn a_backup_that_is_under_way_is_left_alone_by_those_who_ask_meanwhile() {
        let switch = TestSwitch::start(Clock::System, Vec::new()).await;
        let (engine, making) = (&switch.state.switch.engine, Arc::new(Semaphore::new(1)));
        let secrets = switch.state.secrets.as_ref().clone();
        let desk = BackupDesk::new(engine, secrets, Arc::clone(&making));
        let folder = engine.directory.path().join(FOLDER);
        fs::create_dir(&folder).unwrap();
        for held in [&making, &desk.folder] {
            let permit = held.try_acquire().unwrap();
            assert_eq!(desk.hand_out().err(), Some(HandOutError::Busy));
            assert!(folder.exists(), "it is another one's");
            drop(permit);
        }
        // The directory of this switch lacks its keys: the backup breaks off, and its folder goes.
        let mut pieces = Box::pin(desk.hand_out().unwrap());
        assert!(pieces.next().await.unwrap().is_err());
        assert!(pieces.next().await.is_none());
        assert!(!folder.exists());
        assert!(desk.hand_out().is_ok(), "the permits are back");
    }

    /// Once, such a copy stayed until the node led and handed out another one.
    #[test]
    fn a_start_removes_what_a_crash_left_of_a_backup() {
        let home = tempfile::tempdir().unwrap();
        let data = home.path().join("data");
        make_keyed_directory(&data);
        for folder in [FOLDER, UNFINISHED].map(|name| data.join(name)) {
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("store.redb"), "").unwrap();
        }
        open_at_rest(data.as_path(), ClockSetting::System).unwrap();
        assert!(![FOLDER, UNFINISHED].iter().any(|name| data.join(name).exists()));
    }

    #[test]
    fn a_backup_is_taken_in_by_any_pieces_and_leads_nowhere_else() {
        let home = tempfile::tempdir().unwrap();
        let sent = b"file 3 manifest\nabcfile 0 journal/head\nfile 1 journal/x\n\nend\n";
        for size in 1..sent.len() {
            let folder = home.path().join(size.to_string());
            let mut intake = BackupIntake::new(&folder).unwrap();
            for piece in sent.chunks(size) {
                assert!(!intake.is_whole);
                intake.take(piece).unwrap();
            }
            assert!(intake.is_whole);
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
