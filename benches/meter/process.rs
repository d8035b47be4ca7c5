//! A fresh process of the same bench file: for what must not find this one's memory and caches, and
//! for what is to be killed.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

const TASK: &str = "CARDSWITCH_BENCH_TASK";
const SEPARATOR: char = '\n';

/// The task of this process, if it was started by `Process::start`.
pub fn task() -> Option<Vec<String>> {
    let task = std::env::var(TASK).ok()?;
    Some(task.split(SEPARATOR).map(str::to_owned).collect())
}

/// A process that does one task and prints what it found, a line at a time.
/// It is killed when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Process {
    /// Starts it.
    pub fn start(task: &[&str]) -> Self {
        let program = std::env::current_exe().expect("find this bench's file");
        let mut child = Command::new(program)
            .env(TASK, task.join(&SEPARATOR.to_string()))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("start a process");
        let lines = BufReader::new(child.stdout.take().expect("read what it prints"));
        Self { child, lines }
    }

    /// Waits for the next line, which must be numbers, so many of them.
    pub fn read_numbers<const N: usize>(&mut self) -> [u64; N] {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("read what it prints");
        let numbers: Vec<u64> = line.split_whitespace().flat_map(str::parse).collect();
        let found: Option<[u64; N]> = numbers.try_into().ok();
        found.expect("understand what the process prints")
    }

    /// Ends it at once, as a power switch would: it is told nothing.
    pub fn kill(mut self) {
        self.child.kill().expect("kill a process");
        self.child.wait().expect("see a process end");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A process that has ended already needs no kill.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
