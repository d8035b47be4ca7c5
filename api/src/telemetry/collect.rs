//! The figures of a switch. `tools/observability` shows and watches them by these names; a test
//! holds both together.
//!
//! Every family is there from the first answer on, also while nothing has been counted in it, so
//! that an alert can tell "none" from "not known".

use std::path::Path;
use std::{fs, io};

use cardswitch_acquiring::counters::Counters;
use cardswitch_engine::engine::Engine;
use cardswitch_engine::meters::{HistogramSnapshot, Meters};
use cardswitch_engine::recovery_progress::RecoveryProgress;

use super::exposition::{Exposition, Kind, seconds};
use super::health::Health;
use super::listener::MonitoredProcess;
use super::{Telemetry, log, process};

/// The stages of an authorization over ISO 8583; each is counted once for a command.
const STAGE: &str = "cardswitch_stage_seconds";

/// All figures of a switch.
pub(super) fn exposition_of(telemetry: &Telemetry) -> String {
    let mut text = Exposition::default();
    let words =
        ["recovering", "following", "ready", "overloaded", "unreachable", "stopping", "failed"];
    state(&mut text, &telemetry.health(), &words);
    recovery(&mut text, &telemetry.recovery);
    if let Some(engine) = telemetry.engine() {
        let door = telemetry.iso8583();
        stages(&mut text, &engine.meters, door);
        answers(&mut text, &engine.meters);
        queues(&mut text, &engine);
        projection(&mut text, &engine);
        files(&mut text, &engine);
        door.into_iter().for_each(|door| iso8583(&mut text, door));
    }
    http(&mut text, telemetry);
    telemetry.gauges.expose(&mut text);
    log::expose(&mut text);
    process::expose(&mut text);
    text.finish()
}

/// The version, and the state among those that there may be.
pub(super) fn state(text: &mut Exposition, health: &Health, words: &[&str]) {
    let (name, version) = ("cardswitch_build_info", env!("CARGO_PKG_VERSION"));
    text.family(name, Kind::Gauge, "The version that runs; always 1.");
    text.figure(name, &[("version", version)], 1);
    let help = "Whether the switch decides purchases now, as /readyz says.";
    text.single("cardswitch_ready", Kind::Gauge, help, u8::from(health.is_ready()));
    let name = "cardswitch_state";
    text.family(name, Kind::Gauge, "The state of the switch: 1 for the one it is in.");
    for word in words {
        text.figure(name, &[("state", word)], u8::from(health.word() == *word));
    }
}

fn recovery(text: &mut Exposition, progress: &RecoveryProgress) {
    let now = progress.now();
    let help = "Records replayed by this start.";
    text.single("cardswitch_recovery_replayed_records", Kind::Gauge, help, now.replayed);
    let help = "Records that this start has, or had, to replay.";
    text.single("cardswitch_recovery_records", Kind::Gauge, help, now.to_replay);
}

fn stages(text: &mut Exposition, meters: &Meters, door: Option<&Counters>) {
    text.histogram_family(
        STAGE,
        "How long a command took in each stage: decode (bytes to command, over ISO 8583), queue \
         (waiting for the shard), decide (in the shard's batch), journal (until durable), reply \
         (until the answer was with the network's socket).",
    );
    let engine =
        [("queue", &meters.queue), ("decide", &meters.decide), ("journal", &meters.journal)];
    let edges = door.map(|door| [("decode", &door.decode), ("reply", &door.reply)]);
    for (stage, histogram) in engine.into_iter().chain(edges.into_iter().flatten()) {
        text.histogram(STAGE, &[("stage", stage)], &histogram.now());
    }
    let name = "cardswitch_iso8583_answer_seconds";
    let help = "From a message's bytes to its answer's bytes, over ISO 8583.";
    let answered = door.map(|door| door.answered.now());
    one_histogram(text, name, help, answered.as_ref());
    let name = "cardswitch_journal_commit_seconds";
    one_histogram(text, name, "One durable commit of the journal.", Some(&meters.commit.now()));
}

fn one_histogram(text: &mut Exposition, name: &str, help: &str, now: Option<&HistogramSnapshot>) {
    text.histogram_family(name, help);
    now.into_iter().for_each(|now| text.histogram(name, &[], now));
}

fn answers(text: &mut Exposition, meters: &Meters) {
    let name = "cardswitch_authorizations_total";
    let help = "Answers to authorizations and advices by response code, repeats included.";
    text.family(name, Kind::Counter, help);
    for (code, count) in meters.answers.decisions() {
        text.figure(name, &[("code", &code.number().to_string())], count);
    }
    let name = "cardswitch_answers_total";
    text.family(name, Kind::Counter, "Every other answer of the engine, by kind and outcome.");
    for (kind, outcome, count) in meters.answers.others() {
        text.figure(name, &[("kind", kind), ("outcome", outcome)], count);
    }
}

fn queues(text: &mut Exposition, engine: &Engine) {
    let help = "Commands that wait for the shard.";
    text.single("cardswitch_queued_commands", Kind::Gauge, help, engine.queued());
    let help = "Commands that may wait; further ones are refused.";
    let max = cardswitch_engine::limits::QUEUED_COMMANDS_MAX;
    text.single("cardswitch_queued_commands_max", Kind::Gauge, help, max);
    let overloaded = engine.meters.overloaded.now();
    let help = "Commands refused because too many were waiting.";
    text.single("cardswitch_overloaded_commands_total", Kind::Counter, help, overloaded);
}

fn projection(text: &mut Exposition, engine: &Engine) {
    let lag = engine.projection_lag();
    let help = "Records that are durable and that reads do not show yet.";
    text.single("cardswitch_projection_lag_records", Kind::Gauge, help, lag.records);
    let age_ns = u64::try_from(lag.age.as_nanos()).unwrap_or(u64::MAX);
    let help = "Age of the oldest such record.";
    text.single("cardswitch_projection_lag_seconds", Kind::Gauge, help, seconds(age_ns));
    let name = "cardswitch_projection_delay_seconds";
    let help = "Wait of the oldest record, each time that reads caught up.";
    one_histogram(text, name, help, Some(&engine.projection_lags()));
    let is_still = u8::from(engine.projection_failure().is_some());
    let help = "Whether reads are old until the switch is restarted.";
    text.single("cardswitch_projection_failed", Kind::Gauge, help, is_still);
    let help = "The newest durable record.";
    let durable = engine.durable_seq().0;
    text.single("cardswitch_durable_records_total", Kind::Counter, help, durable);
}

fn files(text: &mut Exposition, engine: &Engine) {
    let directory = &engine.directory;
    let name = "cardswitch_file_bytes";
    text.family(name, Kind::Gauge, "Length of the files of the data directory.");
    let store = fs::metadata(directory.store_path()).map(|found| found.len());
    let journal = bytes_in(&directory.journal_path());
    for (file, bytes) in [("journal", journal), ("store", store)] {
        if let Ok(bytes) = bytes {
            text.figure(name, &[("file", file)], bytes);
        }
    }
}

/// The length of all files in a directory. A segment may go while they are counted.
fn bytes_in(directory: &Path) -> io::Result<u64> {
    let bytes = |entry: io::Result<fs::DirEntry>| entry?.metadata().map(|found| found.len());
    Ok(fs::read_dir(directory)?.filter_map(|entry| bytes(entry).ok()).sum())
}

fn iso8583(text: &mut Exposition, door: &Counters) {
    let connections = door.connections.now();
    let help = "Open connections of the ISO 8583 door.";
    let open = connections.saturating_sub(door.connections_closed.now());
    text.single("cardswitch_iso8583_connections", Kind::Gauge, help, open);
    let counters = [
        ("connections_total", "Connections accepted.", connections),
        (
            "connections_refused_total",
            "Connections closed at once: of a peer not allowed, or one too many.",
            door.connections_refused.now(),
        ),
        (
            "connections_cut_total",
            "Connections closed for what their peers did: sent what is no frame, took too few answers.",
            door.connections_cut(),
        ),
        ("messages_total", "Messages handed to the engine.", door.messages.now()),
        ("bad_messages_total", "Messages that could not be carried out.", door.bad_messages.now()),
        (
            "insecure_messages_total",
            "Messages whose authentication code, or whose new key, is wrong or missing.",
            door.insecure.now(),
        ),
        ("not_taken_total", "Messages the engine did not take: answered 91.", door.not_taken.now()),
        (
            "outcome_unknown_total",
            "Messages whose outcome is unknown: answered 96.",
            door.outcome_unknown.now(),
        ),
    ];
    for (name, help, value) in counters {
        text.single(&format!("cardswitch_iso8583_{name}"), Kind::Counter, help, value);
    }
    let name = "cardswitch_iso8583_foreign_total";
    let help = "Unreadable input of a door, by the dialect and the length that would read it.";
    text.family(name, Kind::Counter, help);
    for (foreign, count) in door.foreign() {
        let tpdu = if foreign.tpdu { "true" } else { "false" };
        let labels = [("dialect", foreign.dialect), ("length", &*foreign.length), ("tpdu", tpdu)];
        text.figure(name, &labels, count);
    }
}

fn http(text: &mut Exposition, telemetry: &Telemetry) {
    let help = "Open connections of the HTTP side.";
    text.single("cardswitch_http_connections", Kind::Gauge, help, telemetry.http_connections.now());
    let name = "cardswitch_http_refused_total";
    text.family(name, Kind::Counter, "Requests refused over HTTP to keep the switch answering.");
    let refused = [
        ("address", &telemetry.http_refused),
        ("tls", &telemetry.tls_refused),
        ("token", &telemetry.token_refused),
        ("busy", &telemetry.busy_refused),
    ];
    for (why, count) in refused {
        text.figure(name, &[("why", why)], count.now());
    }
    let routes = telemetry.api.now();
    let name = "cardswitch_http_requests_total";
    text.family(name, Kind::Counter, "Requests answered, by method, route and status.");
    for route in &routes {
        for (status, count) in &route.statuses {
            let status = status.to_string();
            let labels = [("method", route.method), ("route", &*route.route), ("status", &*status)];
            text.figure(name, &labels, count);
        }
    }
    let name = "cardswitch_http_request_seconds";
    text.histogram_family(name, "From the head of a request to that of its answer.");
    for route in &routes {
        let labels = [("method", route.method), ("route", route.route.as_str())];
        text.histogram(name, &labels, &route.took);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Once, a node that followed was in no state.
    #[test]
    fn each_state_of_a_switch_has_its_figure() {
        let telemetry = Telemetry::default();
        let present = |telemetry: &Telemetry| {
            let text = exposition_of(telemetry);
            let states = text.lines().filter(|line| line.starts_with("cardswitch_state{"));
            states.filter_map(|line| line.strip_suffix(" 1").map(str::to_owned)).collect::<Vec<_>>()
        };
        assert_eq!(present(&telemetry), ["cardswitch_state{state=\"recovering\"}"]);
        telemetry.set_following();
        assert_eq!(present(&telemetry), ["cardswitch_state{state=\"following\"}"]);
        telemetry.set_stopping();
        assert_eq!(present(&telemetry), ["cardswitch_state{state=\"stopping\"}"]);
    }
}
