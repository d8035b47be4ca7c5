//! What is on the disk before it is said. A kill does not show it, since the system keeps what a killed
//! process wrote: here the calls of the process are read, as `strace` tells them.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;

use cardswitch_harness::{
    HttpRequest, Installation, Purchase, Switch, SystemCall, Trace, cardswitch_after,
};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01";
/// Names after a question mark are not there on every processor.
const CALLS: &str = "?open,openat,pwritev2,pwrite64,fsync,fdatasync,?rename,renameat,renameat2,\
                     ?recv,recvfrom,read,readv,write,writev,sendto,sendmsg";

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are UTF-8")
}

fn trace_in(installation: &Installation) -> Trace {
    Trace::at(installation.home().join("trace"))
}

/// Stops a switch and returns what it called since it began.
#[track_caller]
fn calls_to_the_end(switch: Switch, trace: &Trace) -> Vec<SystemCall> {
    let pid = switch.pid();
    switch.stop();
    trace.calls(pid)
}

/// Runs a command to its end and returns what it called.
#[track_caller]
fn calls_of_command(trace: &Trace, arguments: &[&str]) -> Vec<SystemCall> {
    let mut command = cardswitch_after(&trace.prelude(CALLS), arguments);
    let mut child = command.stdout(Stdio::null()).spawn().expect("sh is there");
    let pid = child.id();
    assert!(child.wait().expect("it ends").success());
    trace.calls(pid)
}

#[track_caller]
fn the<'a>(
    calls: &'a [SystemCall],
    what: &str,
    is_it: impl Fn(&SystemCall) -> bool,
) -> &'a SystemCall {
    let found = calls.iter().find(|call| is_it(call));
    let told = || calls.iter().map(|call| call.text.as_str()).collect::<Vec<_>>().join("\n");
    found.unwrap_or_else(|| unreachable!("there is no {what}:\n{}", told()))
}

/// Whether it is one of these calls on a file or a connection that `place` begins the name of.
fn is_on(call: &SystemCall, names: &[&str], place: &str) -> bool {
    names.iter().any(|name| call.text.starts_with(&format!("{name}(")))
        && call.text.split_once('<').is_some_and(|(_, of)| of.starts_with(place))
}

fn writes_to_door(call: &SystemCall, door: SocketAddr) -> bool {
    let connection = format!("TCP:[{door}->");
    is_on(call, &["write", "writev", "sendto", "sendmsg"], &connection)
}

fn reads_from_door(call: &SystemCall, door: SocketAddr) -> bool {
    let has_bytes = !call.text.ends_with("= 0") && !call.text.contains("= -1 ");
    let connection = format!("TCP:[{door}->");
    has_bytes && is_on(call, &["read", "readv", "recvfrom", "recv"], &connection)
}

/// The path of every segment of the journal begins so.
fn segments(data: &Path) -> String {
    text(&data.join("journal").join("0")).to_owned()
}

#[test]
fn an_approval_is_sent_once_its_record_is_durable_and_the_tables_are_at_the_end() {
    let installation = Installation::init(60, 991);
    let (trace, data) = (trace_in(&installation), installation.data());
    let switch = installation.serve_after(&trace.prelude(CALLS));
    let door = switch.iso8583;
    let request = Purchase::of(installation.cards.ordinary(), 100).request();
    switch.acquirer().ask(&request).expect_approved();
    let calls = calls_to_the_end(switch, &trace);

    let asked = the(&calls, "request", |call| reads_from_door(call, door));
    let answered = the(&calls, "answer", |call| writes_to_door(call, door));
    let segments = segments(&data);
    the(&calls, "durable write between request and answer", |call| {
        is_on(call, &["pwritev2"], &segments)
            && call.text.contains(", RWF_DSYNC)")
            && asked.is_before(call)
            && call.is_before(answered)
    });

    let tables = data.join("store.redb");
    let of_tables = |call: &&SystemCall| is_on(call, &["pwrite64"], text(&tables));
    let written = calls.iter().rfind(of_tables).expect("a checkpoint writes pages");
    the(&calls, "sync of the tables behind their last page", |call| {
        written.is_before(call) && call.syncs(&tables)
    });
}

/// Otherwise a power failure takes the segment away with all that was durable in it.
#[test]
fn a_segment_is_durable_by_name_and_length_before_anything_is_written_to_it() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let (trace, data) = (Trace::at(home.path().join("trace")), home.path().join("data"));
    let calls = calls_of_command(&trace, &["init", "--data", text(&data)]);
    // A directory is made apart, and moved to its place when it is whole.
    let journal = data.join("staging/journal");
    let segment = journal.join("0000000000000001.segment");
    let made = the(&calls, "new segment", |call| {
        call.text.contains("O_CREAT") && call.text.contains(&format!("\"{}\"", text(&segment)))
    });
    let written = the(&calls, "write", |call| is_on(call, &["pwritev2"], text(&segment)));
    for path in [&segment, &journal] {
        the(&calls, "sync before the first write", |call| {
            call.syncs(path) && made.is_before(call) && call.is_before(written)
        });
    }
}

#[test]
fn a_receipt_is_durable_before_it_is_answered_and_a_backup_of_it_before_its_success() {
    let installation = Installation::init(60, 992);
    let (trace, data) = (trace_in(&installation), installation.data());
    let switch = installation.serve_after(&trace.prelude(CALLS));
    let (door, api) = (switch.http, switch.api());
    let request = Purchase::of(installation.cards.ordinary(), 100).request();
    switch.acquirer().ask(&request).expect_approved();
    let page = api.get("/v1/transactions?limit=1").expect(200);
    let id = page["results"][0]["id"].as_str().expect("a transaction");
    let path = format!("/v1/transactions/{id}/receipt");
    let headers = [("content-type", "image/png")];
    api.send(&HttpRequest { method: "POST", path: &path, headers: &headers, body: PNG })
        .expect(201);
    let calls = calls_to_the_end(switch, &trace);

    let receipts = data.join("receipts");
    let part = the(&calls, "rename of the part", |call| {
        call.text.starts_with("rename") && call.text.contains(text(&receipts))
    });
    the(&calls, "sync of the part", |call| {
        is_on(call, &["fsync"], text(&receipts.join("")))
            && call.text.contains(".part>")
            && call.is_before(part)
    });
    let answered = calls.iter().rfind(|call| writes_to_door(call, door)).expect("the last answer");
    the(&calls, "sync of its name", |call| {
        call.syncs(&receipts) && part.is_before(call) && call.is_before(answered)
    });

    let backup = installation.home().join("backup");
    let trace = Trace::at(installation.home().join("trace-of-backup"));
    let calls = calls_of_command(&trace, &["backup", "--data", text(&data), "--to", text(&backup)]);
    let unfinished = installation.home().join("backup.unfinished");
    let placed = the(&calls, "rename of the backup", |call| {
        call.text.starts_with("rename")
            && call.text.ends_with("= 0")
            && call.text.contains(&format!("\"{}\"", text(&unfinished)))
    });
    let copies = unfinished.join("receipts");
    for path in [&unfinished, &copies] {
        the(&calls, "sync of names before the backup is placed", |call| {
            call.syncs(path) && call.is_before(placed)
        });
    }
    the(&calls, "sync of the copied receipt", |call| {
        is_on(call, &["fsync"], text(&copies.join(""))) && call.is_before(placed)
    });
    let told = the(&calls, "word of success", |call| {
        call.text.starts_with("write(1<") && placed.is_before(call)
    });
    the(&calls, "sync of the backup's name", |call| {
        call.syncs(installation.home()) && placed.is_before(call) && call.is_before(told)
    });
}
