//! Replaces the process of a node that has lost the lead or fallen behind: the new one keeps nothing in memory.
//!
//! INVARIANT: the new image opens what this one has open, so it gets the master key from where that is now.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use cardswitch_secrets::master_key::source::MasterKeySource;

use crate::commands::{Failure, StopSignal};

/// The very program that runs, also where its file was replaced meanwhile.
const PROGRAM: &str = "/proc/self/exe";
/// The flags that name the master key.
const MASTER_KEY_FLAGS: [&str; 2] = ["--master-key", "--master-key-command"];

/// Becomes a new process image with the same arguments, unless the node was told to stop meanwhile: the new image
/// would know nothing of it. The master key comes from its present place.
/// Errors: the system refuses.
pub(crate) async fn begin_again(
    master_key: &MasterKeySource,
    stop: &mut StopSignal,
) -> Result<(), Failure> {
    if stop.has_come().await {
        return Ok(());
    }
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_default();
    let arguments = with_master_key(arguments, master_key);
    let error = Command::new(PROGRAM).arg0(name).args(arguments).exec();
    Err(Failure::new(format!("cannot begin again: {error}")))
}

/// The arguments with the file of the master key, which an operator may have replaced by another file.
fn with_master_key(
    mut arguments: impl Iterator<Item = OsString>,
    master_key: &MasterKeySource,
) -> Vec<OsString> {
    let MasterKeySource::File(path) = master_key else { return arguments.collect() };
    let mut kept = Vec::new();
    while let Some(argument) = arguments.next() {
        let is_flag = |flag: &str| argument == flag;
        let has_value = |flag: &str| {
            let rest = argument.as_encoded_bytes().strip_prefix(flag.as_bytes());
            rest.is_some_and(|rest| rest.starts_with(b"="))
        };
        if MASTER_KEY_FLAGS.into_iter().any(is_flag) {
            drop(arguments.next());
        } else if !MASTER_KEY_FLAGS.into_iter().any(has_value) {
            kept.push(argument);
        }
    }
    kept.extend(["--master-key".into(), path.into()]);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Once, the arguments stayed: a node that had led under another master key opened nothing any more.
    #[test]
    fn a_new_image_finds_the_master_key_where_it_is_now() {
        let file = MasterKeySource::File("/k2".into());
        let command = MasterKeySource::Command("print".to_owned());
        let rows = [
            (&file, "serve --data d", "serve --data d --master-key /k2"),
            (&file, "serve --master-key /k1 --data d", "serve --data d --master-key /k2"),
            (&file, "serve --master-key=/k1 --node a", "serve --node a --master-key /k2"),
            (&file, "serve --master-key-command print", "serve --master-key /k2"),
            (&file, "serve --master-key-command=print -x", "serve -x --master-key /k2"),
            (&command, "serve --master-key-command print", "serve --master-key-command print"),
            (&MasterKeySource::InDirectory, "serve --data d", "serve --data d"),
        ];
        for (source, given, expected) in rows {
            let arguments = with_master_key(given.split(' ').map(OsString::from), source);
            assert_eq!(arguments.join(" ".as_ref()), expected, "{given}");
        }
    }
}
