//! A server of another make: found on this machine, started on a directory and a port of its own,
//! ended with the value that holds it.
//!
//! INVARIANT: nothing that the system runs is touched; only processes started here are ended.

use std::fs::{self, OpenOptions, Permissions};
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use cardswitch_tools::{Outcome, fail};
use tempfile::TempDir;

/// How long a server may take until it accepts connections, recovery included.
const START_MAX: Duration = Duration::from_secs(300);
const POLL: Duration = Duration::from_millis(20);
/// Lines of a server's log that a failed start shows.
const LOG_LINES: usize = 20;

/// Finds a program in these directories or on the path.
/// Errors: tells which package has it and how it is installed.
pub(crate) fn find_program(name: &str, directories: &[&str], package: &str) -> Outcome<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path);
    let found = directories.iter().map(PathBuf::from).chain(on_path);
    found.map(|directory| directory.join(name)).find(|file| file.is_file()).ok_or_else(|| {
        format!(
            "`{name}` is missing: run tools/peers/install, or apt-get install \
             --no-install-recommends {package}"
        )
        .into()
    })
}

/// A directory of a server, on the disk that `TMPDIR` names; gone with the value.
#[derive(Debug)]
pub(crate) struct Home {
    directory: TempDir,
    user: Option<&'static str>,
}

impl Home {
    /// A directory of the user that its server runs as where we are root: some refuse to run as root.
    pub(crate) fn new(prefix: &str, user: &'static str) -> Outcome<Self> {
        let directory = tempfile::Builder::new().prefix(prefix).tempdir()?;
        fs::set_permissions(directory.path(), Permissions::from_mode(0o700))?;
        if fs::metadata("/proc/self")?.uid() != 0 {
            return Ok(Self { directory, user: None });
        }
        let owned = Command::new("chown").arg(user).arg(directory.path()).status()?;
        if owned.success() {
            return Ok(Self { directory, user: Some(user) });
        }
        fail(format!("there is no user `{user}`"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// A command that runs here as the user, its output appended to the log. It is interrupted when
    /// this process dies before it.
    pub(crate) fn command(&self, program: &Path) -> Outcome<Command> {
        let log = OpenOptions::new().create(true).append(true).open(self.log())?;
        let mut command = Command::new(find_program("setpriv", &["/usr/bin"], "util-linux")?);
        command.current_dir(self.path()).stdin(Stdio::null());
        command.stdout(log.try_clone()?).stderr(log);
        if let Some(user) = self.user {
            command.args(["--reuid", user, "--regid", user, "--clear-groups"]);
        }
        command.args(["--pdeathsig", "INT"]).arg(program);
        Ok(command)
    }

    /// Runs a command to its end.
    /// Errors: it failed; the end of its log is shown.
    pub(crate) fn run(&self, command: &mut Command) -> Outcome<()> {
        let status = command.status()?;
        if status.success() { Ok(()) } else { fail(self.failure(command, status)) }
    }

    /// Starts a server and waits until it listens.
    /// Errors: it ended, or took too long.
    pub(crate) fn start(&self, command: &mut Command, port: u16) -> Outcome<Child> {
        let mut child = command.spawn()?;
        let deadline = Instant::now() + START_MAX;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if let Some(status) = child.try_wait()? {
                return fail(self.failure(command, status));
            }
            if Instant::now() > deadline {
                end(&mut child);
                return fail(format!("{command:?} does not listen after {START_MAX:?}"));
            }
            std::thread::sleep(POLL);
        }
        Ok(child)
    }

    fn log(&self) -> PathBuf {
        self.path().join("log")
    }

    fn failure(&self, command: &Command, status: ExitStatus) -> String {
        let log = fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let last = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n");
        format!("{command:?} ended with {status}:\n{last}")
    }
}

/// Kills a process started here, and waits for it.
pub(crate) fn end(child: &mut Child) {
    // It may have ended already; then there is nothing to do.
    drop(child.kill());
    drop(child.wait());
}

/// A port that nothing listens on.
pub(crate) fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_names_its_package() {
        let missing = find_program("no-such-server", &["/nonexistent"], "some-package");
        assert!(missing.unwrap_err().to_string().contains("some-package"));
        assert_eq!(find_program("sh", &["/bin"], "dash").unwrap(), Path::new("/bin/sh"));
    }

    #[test]
    fn a_server_that_ends_shows_its_log() {
        let home = Home::new("measure-test-", "root").unwrap();
        let mut command = home.command(Path::new("/bin/sh")).unwrap();
        command.args(["-c", "echo it did not work; exit 3"]);
        let error = home.start(&mut command, free_port().unwrap()).unwrap_err().to_string();
        assert!(error.contains("it did not work") && error.contains('3'), "{error}");
    }
}
