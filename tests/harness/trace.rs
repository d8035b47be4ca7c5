//! The system calls of a `cardswitch` process, as `strace` tells them: what is durable before what is shown.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::installation::text_of;

const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// A file that has the calls of one process.
#[derive(Debug)]
pub struct Trace(PathBuf);

/// A call of the system, with all that it was given and returned. Descriptors have their paths and addresses.
#[derive(Debug)]
pub struct SystemCall {
    /// As `strace` writes it, with texts left out.
    pub text: String,
    entered: usize,
    returned: usize,
}

impl Trace {
    /// A trace that is not begun.
    pub const fn at(file: PathBuf) -> Self {
        Self(file)
    }

    /// What a shell does before it runs the process that is to be traced, with these calls. The process keeps
    /// the id of the shell, so that it can be waited for and asked to stop as others are.
    pub fn prelude(&self, calls: &str) -> String {
        let file = text_of(&self.0);
        let flags = "-D -f -q -yy -s 0 -e signal=none";
        format!("set -- strace {flags} -o '{file}' -e trace={calls} \"$@\"")
    }

    /// The calls of the process `pid`, which ends, in the order in which they were entered.
    #[track_caller]
    pub fn calls(&self, pid: u32) -> Vec<SystemCall> {
        let pid = pid.to_string();
        // Blanks fill a short id up.
        let is_end = |line: &str| {
            line.strip_prefix(&pid)
                .is_some_and(|rest| rest.trim_start().starts_with("+++ exited with "))
        };
        loop {
            let text = fs::read_to_string(&self.0).expect("strace is there");
            if text.lines().any(is_end) {
                return parse(&text);
            }
            thread::sleep(LOOK_AGAIN);
        }
    }
}

impl SystemCall {
    /// Whether it had returned before the other one was entered.
    pub const fn is_before(&self, other: &Self) -> bool {
        self.returned < other.entered
    }

    /// Whether it makes this file, or the names of this directory, durable.
    pub fn syncs(&self, path: &Path) -> bool {
        let of_path = format!("<{}>) ", text_of(path));
        self.text.contains("sync(") && self.text.contains(&of_path) && self.text.ends_with("= 0")
    }
}

/// A call that another thread's lines interrupt stands on two lines.
fn parse(text: &str) -> Vec<SystemCall> {
    const UNFINISHED: &str = " <unfinished ...>";
    let mut calls: Vec<SystemCall> = Vec::new();
    let mut under_way: Vec<(&str, usize)> = Vec::new();
    for (place, line) in text.lines().enumerate() {
        let (thread, rest) = line.split_once(' ').expect("a line begins with its thread");
        let rest = rest.trim_start();
        if let Some((_, end)) = rest.strip_prefix("<... ").and_then(|rest| rest.split_once('>')) {
            let found = under_way.iter().position(|(of, _)| *of == thread).expect("it was begun");
            let call = &mut calls[under_way.swap_remove(found).1];
            call.text.push_str(end);
            call.returned = place;
        } else if let Some(begin) = rest.strip_suffix(UNFINISHED) {
            under_way.push((thread, calls.len()));
            let never = usize::MAX;
            calls.push(SystemCall { text: begin.to_owned(), entered: place, returned: never });
        } else if !rest.starts_with("+++") {
            calls.push(SystemCall { text: rest.to_owned(), entered: place, returned: place });
        }
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_on_two_lines_returns_on_the_second() {
        let calls = parse(
            "7 fsync(3</a> <unfinished ...>\n8 fsync(4</a/b>)    = 0\n\
             7 <... fsync resumed>)             = 0\n7 +++ exited with 0 +++\n",
        );
        assert_eq!(calls.len(), 2);
        assert!(calls.iter().all(|call| !call.is_before(&calls[0])), "{calls:?}");
        assert!(calls[0].syncs(Path::new("/a")) && calls[1].syncs(Path::new("/a/b")));
        assert!(!calls[1].syncs(Path::new("/a")));
    }
}
