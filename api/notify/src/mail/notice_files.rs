//! Letters about declines among the files of `outbox`. Anybody who tries a card causes one, and nobody need
//! ever look there: only the newest stay. Letters with links and invitations are none of these.
//!
//! INVARIANT: a file is removed only by its name, which no other letter has.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::Path;

use cardswitch_engine::disk::Disk;
use uuid::Uuid;

/// How the names of these files end.
const ENDING: &str = ".notice.eml";

/// The name of the file of a letter about a decline.
pub(super) fn notice_name(id: Uuid) -> String {
    format!("{id}{ENDING}")
}

/// The files that are there, the oldest first.
#[derive(Debug)]
pub(super) struct NoticeFiles {
    names: VecDeque<String>,
    kept_max: usize,
}

impl NoticeFiles {
    /// The files in a directory, of which `kept_max` stay.
    /// Errors: it cannot be read.
    pub(super) fn open(directory: &Path, kept_max: usize) -> io::Result<Self> {
        let mut files = Vec::new();
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let name = entry.file_name().into_string();
            if let Ok(name) = name
                && !name.starts_with('.')
                && name.ends_with(ENDING)
            {
                files.push((entry.metadata()?.modified()?, name));
            }
        }
        files.sort();
        Ok(Self { names: files.into_iter().map(|(_, name)| name).collect(), kept_max })
    }

    /// Notes a file that was written, and removes the oldest beyond those that stay.
    pub(super) fn add(&mut self, disk: &dyn Disk, name: String) {
        // After a crash a letter is written once more.
        if self.names.contains(&name) {
            return;
        }
        self.names.push_back(name);
        while self.names.len() > self.kept_max {
            let Some(oldest) = self.names.pop_front() else { break };
            // A reader of the letters may have removed it already.
            match disk.remove(&oldest) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!(%error, "an old email about a decline stays");
                }
                _ => {}
            }
        }
    }
}
