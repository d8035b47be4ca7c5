//! The figures of the rooms of a working switch: mail, webhooks, keys of card numbers.
//!
//! INVARIANT: nothing here holds the engine: the stop of the switch waits for its last owner.

use std::sync::Arc;

use cardswitch_engine::domain::ids::Timestamp;
use cardswitch_identity::state::AppState;
use cardswitch_notify::webhooks::DeliveryFigures;

use super::Telemetry;
use super::gauges::Kind;
use crate::pan_rotation::PanRotation;

/// Shows them from now on.
pub fn show_rooms(telemetry: &Telemetry, (state, pan_keys): (&AppState, &PanRotation)) {
    let outbox = Arc::clone(&state.outbox);
    let help = "Emails that wait to be sent, or for the change that they report.";
    let waiting = move || outbox.waiting() as u64;
    telemetry.gauges.add("cardswitch_mail_waiting_emails", Kind::Gauge, help, waiting);
    let outbox = Arc::clone(&state.outbox);
    telemetry.health_notes.add(("letters", "lost"), move || outbox.has_lost_letters());
    show_webhooks(telemetry, state);
    show_pan_keys(telemetry, state, pan_keys);
}

fn show_pan_keys(telemetry: &Telemetry, state: &AppState, pan_keys: &PanRotation) {
    let secrets = Arc::clone(&state.secrets);
    let help = "The generation of the key that card numbers are sealed under.";
    let generation = move || u64::from(secrets.pan_generation().0);
    telemetry.gauges.add("cardswitch_pan_key_generation", Kind::Gauge, help, generation);
    let figures = Arc::clone(&pan_keys.progress);
    let help = "Card numbers that are still to be re-sealed under it.";
    let left = move || figures.left();
    telemetry.gauges.add("cardswitch_pan_key_left_cards", Kind::Gauge, help, left);
}

fn show_webhooks(telemetry: &Telemetry, state: &AppState) {
    let count = |name, kind, help, count: fn(&DeliveryFigures) -> u64| {
        let webhooks = Arc::clone(&state.webhooks);
        telemetry.gauges.add(name, kind, help, move || count(&webhooks.figures()));
    };
    let seconds = |name, help, since: fn(&DeliveryFigures) -> Option<Timestamp>| {
        let webhooks = Arc::clone(&state.webhooks);
        let engine = Arc::downgrade(&state.switch.engine);
        telemetry.gauges.add(name, Kind::Gauge, help, move || {
            let now = engine.upgrade().map_or(0, |engine| engine.clock.now().0);
            let passed_us = since(&webhooks.figures()).map_or(0, |since| now - since.0);
            u64::try_from(passed_us / 1_000_000).unwrap_or(0)
        });
    };
    let help = "Events on their way to endpoints: being sent, next in line or waiting for a retry. Those that an endpoint has yet to read from the log are not counted.";
    count("cardswitch_webhook_pending_deliveries", Kind::Gauge, help, |now| now.pending as u64);
    let help = "Wait of the oldest such delivery.";
    seconds("cardswitch_webhook_oldest_pending_seconds", help, |now| now.oldest_at);
    let help = "Endpoints whose last delivery failed.";
    count("cardswitch_webhook_failing_endpoints", Kind::Gauge, help, |now| now.failing as u64);
    let help = "Messages that arrived at endpoints.";
    count("cardswitch_webhook_delivered_total", Kind::Counter, help, |now| now.delivered);
    let help = "Failed tries of deliveries.";
    count("cardswitch_webhook_failed_tries_total", Kind::Counter, help, |now| now.failed);
    let help = "Seconds since positions of deliveries could last be written.";
    seconds("cardswitch_webhook_unsaved_seconds", help, |now| now.unsaved_since);
    let webhooks = Arc::clone(&state.webhooks);
    let is_amiss = move || webhooks.figures().unsaved_since.is_some();
    telemetry.health_notes.add(("deliveries", "not written down"), is_amiss);
}
