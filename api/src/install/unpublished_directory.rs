//! A data directory while it is made: in a folder of its place, where no command takes it for one.
//!
//! INVARIANT: a directory at its place is whole, and somebody was shown its secrets: whatever ends the process
//! before leaves none, and the next `init` begins anew.

use std::fs;
use std::path::{Path, PathBuf};

use cardswitch_engine::backup::CopyError;
use cardswitch_engine::data_directory::DirectoryError;

use crate::staging::Staging;

/// The file that makes a directory a data directory.
const IDENTITY_FILE: &str = "directory";

/// The directory. It goes with this value unless it is published, and so do the files that belong to it.
#[derive(Debug)]
pub struct UnpublishedDirectory {
    place: PathBuf,
    /// None once it is published.
    staging: Option<Staging>,
    is_new_place: bool,
    /// Files elsewhere.
    outside: Vec<PathBuf>,
}

impl UnpublishedDirectory {
    /// Begins one that is to be at `place`. The leftover of a killed process goes.
    /// Errors: a data directory is there already, or another process makes one.
    pub(super) fn begin(place: &Path) -> Result<Self, CopyError> {
        if place.join(IDENTITY_FILE).exists() {
            return Err(DirectoryError::Exists(place.to_path_buf()).into());
        }
        let is_new_place = !place.exists();
        let staging = Some(Staging::within(place)?);
        Ok(Self { place: place.to_path_buf(), staging, is_new_place, outside: Vec::new() })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.staging.as_ref().map_or(&self.place, Staging::folder)
    }

    /// Where a file is made that is to be at `path`, which may be beside the others.
    pub(super) fn path_of(&self, path: &Path) -> PathBuf {
        let absolute = |path: &Path| std::path::absolute(path).ok();
        let is_inside =
            absolute(path).is_some_and(|file| file.parent() == absolute(&self.place).as_deref());
        match path.file_name().filter(|_| is_inside) {
            Some(name) => self.path().join(name),
            None => path.to_path_buf(),
        }
    }

    /// Takes a file that was made now.
    /// Errors: it cannot be noted for the next try.
    pub(super) fn add(&mut self, file: PathBuf) -> Result<(), CopyError> {
        let staging = self.staging.as_ref().filter(|staging| !file.starts_with(staging.folder()));
        let Some(staging) = staging else { return Ok(()) };
        let noted = staging.add_outside(&file);
        self.outside.push(file.clone());
        noted.map_err(|error| CopyError::Io(file, error))
    }

    /// Puts everything at its place. From the last step on it is a data directory.
    /// Errors: something is in the way.
    pub fn publish(mut self) -> Result<(), CopyError> {
        if let Some(staging) = &self.staging {
            staging.publish(IDENTITY_FILE)?;
        }
        self.staging = None;
        Ok(())
    }
}

impl Drop for UnpublishedDirectory {
    fn drop(&mut self) {
        if self.staging.take().is_none() {
            return;
        }
        self.outside.iter().for_each(|file| drop(fs::remove_file(file)));
        if self.is_new_place {
            // One that somebody else has put something into stays.
            drop(fs::remove_dir(&self.place));
        }
    }
}
