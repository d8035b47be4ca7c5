//! The switch's clock: read always, turned only where it is a manual one.

use axum::extract::State;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::json::Json;
use cardswitch_engine::command::reply::Reply;
use cardswitch_engine::command::{Command, TimedCommand};
use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_wire::bodies;
use cardswitch_wire::body::{Parts, instant, rule};
use cardswitch_wire::fault::Flaw;
use cardswitch_wire::fields::{self, Fields};
use cardswitch_wire::time::render_time;
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::access::{NetworkAccess, NetworkBody};
use super::state::DoorState;

/// Longer advances are mistakes. Units: seconds.
const ADVANCE_MAX_S: i64 = 100 * 366 * 24 * 60 * 60;

/// The clock as it stands.
#[derive(Serialize, ToSchema)]
pub(super) struct ClockBody {
    now: String,
    manual: bool,
}

fn clock_body(state: &DoorState) -> Json<ClockBody> {
    let clock = &state.switch.engine.clock;
    Json(ClockBody { now: render_time(clock.now()), manual: clock.is_manual() })
}

/// Retrieve the switch's clock.
#[utoipa::path(get, path = "/network/v1/clock", responses((status = 200, body = ClockBody)))]
pub(super) async fn get_clock(State(state): State<DoorState>, _: NetworkAccess) -> Json<ClockBody> {
    clock_body(&state)
}

/// Set a manual clock to `now` or move it on by `advance`, and run what became due. A clock never
/// goes back.
#[utoipa::path(
    post, path = "/network/v1/clock",
    request_body(content = ClockRequest, example = json!({"advance": "36h"})),
    responses((status = 200, body = ClockBody)),
)]
pub(super) async fn set_clock(
    State(state): State<DoorState>,
    _: NetworkAccess,
    body: NetworkBody,
) -> Result<Json<ClockBody>, ApiError> {
    let clock = &state.switch.engine.clock;
    if !clock.is_manual() {
        return Err(ApiError::clock_not_manual());
    }
    let now = clock.now();
    let mut fields = Fields::parse(body.bytes()).ok_or_else(ApiError::malformed_body)?;
    let (set_to, advance_s) = read_turn(&mut fields);
    let target = match (set_to, advance_s) {
        (Some(_), Some(_)) => {
            let message = "must not be given together with `now`";
            fields.fault("advance", Flaw::new("conflicting", message));
            now
        }
        (Some(at), None) if at < now => {
            fields.fault("now", Flaw::new("in_the_past", "must not be before the clock's time"));
            now
        }
        (Some(at), None) => at,
        (None, Some(seconds)) => now.plus(seconds * Timestamp::SECOND),
        (None, None) => {
            if !fields.has("now") && !fields.has("advance") {
                fields.fault("now", Flaw::new("required", "is required, or `advance` instead"));
            }
            now
        }
    };
    if target > Timestamp::CALENDAR_MAX {
        let name = if set_to.is_some() { "now" } else { "advance" };
        fields.fault(name, Flaw::new("out_of_range", "must not lead beyond the year 9999"));
    }
    fields.refuse_unread();
    fields.finish()?;
    let command = TimedCommand { command: Command::Tick, supplied_at: Some(target) };
    match state.switch.ask(command).await? {
        Reply::OutcomeUnknown => Err(ApiError::outcome_unknown()),
        _ => Ok(clock_body(&state)),
    }
}

bodies! {
    /// Turns a manual clock: to `now`, or on by `advance`.
    ClockRequest "ClockRequest" |fields| _ = read_turn(fields);
}

/// Reads the time that a clock is to show, and by how many seconds it is to go on.
fn read_turn(fields: &mut Fields<'_>) -> (Option<Timestamp>, Option<i64>) {
    let about = "Seconds, or text such as `90s`, `15m`, `36h`, `7d`.";
    let span = |_: &mut Parts| json!({"type": ["string", "integer"], "pattern": "^[0-9]+[smhd]?$", "minimum": 0});
    let now = fields.may("now", "The time it is to show.", instant());
    (now, fields.may("advance", about, rule(span, advance_seconds)))
}

/// Reads a span of time: a number of seconds, or text such as `90s`, `15m`, `36h`, `7d`.
fn advance_seconds(value: &RawValue) -> Result<i64, Flaw> {
    let flaw = || Flaw::new("not_a_duration", "must be seconds, or text such as `36h` or `7d`");
    let text = match value.get().strip_prefix('"') {
        Some(_) => fields::text(value)?,
        None => value.get().to_owned(),
    };
    parse_span(&text).filter(|seconds| (0..=ADVANCE_MAX_S).contains(seconds)).ok_or_else(flaw)
}

/// Units: seconds.
fn parse_span(text: &str) -> Option<i64> {
    let (digits, unit_s) = match text.char_indices().next_back()? {
        (at, 's') => (&text[..at], 1),
        (at, 'm') => (&text[..at], 60),
        (at, 'h') => (&text[..at], 60 * 60),
        (at, 'd') => (&text[..at], 24 * 60 * 60),
        _ => (text, 1),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse::<i64>().ok()?.checked_mul(unit_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_seconds_or_have_a_unit() {
        let rows = [
            ("0", Some(0)),
            ("90", Some(90)),
            ("90s", Some(90)),
            ("15m", Some(900)),
            ("36h", Some(129_600)),
            ("7d", Some(604_800)),
            ("", None),
            ("d", None),
            ("-1", None),
            ("1.5", None),
            ("7w", None),
            ("7 d", None),
            ("99999999999999999999d", None),
            ("9223372036854775807d", None),
        ];
        for (text, expected) in rows {
            assert_eq!(parse_span(text), expected, "{text}");
        }
    }
}
