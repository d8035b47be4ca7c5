//! The file of the places of lanes, which a backup carries (`dispatch`'s `places`). Without it, or where
//! it is damaged, lanes whose places are lost begin two days before the newest event.

use std::fs;
use std::io;
use std::path::Path;

pub use cardswitch_dispatch::places::FILE;
use cardswitch_dispatch::places::LanePlaces;
use cardswitch_secrets::private_file;

/// Reads the file of a data directory; none where there is none, or it cannot be used.
pub fn read(data: &Path) -> Option<LanePlaces> {
    let bytes = match fs::read(data.join(FILE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            tracing::warn!(%error, "`{FILE}` cannot be read");
            return None;
        }
        Ok(bytes) => bytes,
    };
    let places = LanePlaces::parse(&bytes);
    if places.is_none() {
        tracing::warn!("`{FILE}` is damaged, and is made anew");
    }
    places
}

/// Writes the file.
/// Errors: the system refuses.
pub(super) fn write(data: &Path, places: &LanePlaces) -> io::Result<()> {
    let bytes = places.render().map_err(io::Error::other)?;
    private_file::replace(&data.join(FILE), &bytes)
}

/// Copies the file as it stands, if there is one: it is replaced, never changed.
/// Errors: it cannot be read or written.
pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
    match fs::read(from.join(FILE)) {
        Ok(content) => private_file::replace(&to.join(FILE), &content),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Removes the file, if there is one: its places are of the past where another node has delivered since.
/// Errors: the system refuses.
pub fn remove(data: &Path) -> io::Result<()> {
    match fs::remove_file(data.join(FILE)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
