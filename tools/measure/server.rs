//! A server of another make: found on this machine, started on a directory and a port of its own,
//! ended with the value that holds it.
//!
//! INVARIANT: nothing that the system runs is touched; only processes started here are ended.

use std::fs::{self, OpenOptions, Permissions};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use cardswitch_tools::{Outcome, fail};
use rustix::process::{Pid, Signal, kill_process};
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

/// A server on a directory on the disk that `TMPDIR` names, and on a port; ended with the value.
#[derive(Debug)]
pub(crate) struct Server {
    user: Option<&'static str>,
    pub(crate) port: u16,
    /// Ends it at once, as a crash does.
    signal: Signal,
    running: Option<(Command, Child)>,
    directory: TempDir,
}

impl Server {
    /// A directory of the user that the server runs as where we are root: some refuse to run as root.
    pub(crate) fn new(prefix: &str, user: &'static str, signal: Signal) -> Outcome<Self> {
        let directory = tempfile::Builder::new().prefix(prefix).tempdir()?;
        fs::set_permissions(directory.path(), Permissions::from_mode(0o700))?;
        let is_root = rustix::process::geteuid().is_root();
        if is_root && !Command::new("chown").arg(user).arg(directory.path()).status()?.success() {
            return fail(format!("there is no user `{user}`"));
        }
        let user = is_root.then_some(user);
        // Nothing listens on it now.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        Ok(Self { user, port, signal, running: None, directory })
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

    /// Starts the server and waits until it listens.
    /// Errors: it ended, or took too long.
    pub(crate) fn start(&mut self, mut command: Command) -> Outcome<()> {
        let mut child = command.spawn()?;
        let deadline = Instant::now() + START_MAX;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_err() {
            if let Some(status) = child.try_wait()? {
                return fail(self.failure(&command, status));
            }
            if Instant::now() > deadline {
                self.running = Some((command, child));
                return fail(format!("the server does not listen after {START_MAX:?}"));
            }
            std::thread::sleep(POLL);
        }
        self.running = Some((command, child));
        Ok(())
    }

    /// Ends the server as a crash would, and starts it again on what the disk has.
    pub(crate) fn crash(&mut self) -> Outcome<()> {
        let command = self.end().ok_or("the server does not run")?;
        self.start(command)
    }

    /// Ends the server, and returns the command that has started it.
    pub(crate) fn end(&mut self) -> Option<Command> {
        let (command, mut child) = self.running.take()?;
        // It may have ended already.
        let _ = kill_process(Pid::from_child(&child), self.signal);
        drop(child.wait());
        Some(command)
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

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
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
        let mut server = Server::new("measure-test-", "root", Signal::KILL).unwrap();
        let mut command = server.command(Path::new("/bin/sh")).unwrap();
        command.args(["-c", "echo it did not work; exit 3"]);
        let error = server.start(command).unwrap_err().to_string();
        assert!(error.contains("it did not work") && error.contains('3'), "{error}");
    }
}
