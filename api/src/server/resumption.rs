//! The work of earlier runs that a start takes up again: keys of card numbers and doors, files of
//! receipts.

use std::path::Path;
use std::sync::Arc;

use cardswitch_acquiring::zone::Zone;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::reply::Reply;
use cardswitch_engine::command::{Command, NotedCommand};
use cardswitch_engine::domain::audit::{Actor, AuditNote};
use cardswitch_engine::store::StoreError;
use cardswitch_identity::receipts::named_receipts;
use cardswitch_identity::state::AppState;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

use super::StartError;
use crate::node_pan_keys::PanKeyNodes;
use crate::pan_rotation::{PanRotation, PanRotationError, ResealingPace};

/// Goes on with the keys of doors and of card numbers.
/// Errors: those of both, but the engine's own reason where it has failed.
pub(super) async fn resume_keys(
    data: &Path,
    state: &AppState,
    zones: &[Arc<Zone>],
    nodes: Option<PanKeyNodes>,
) -> Result<Arc<PanRotation>, StartError> {
    let resumed = async {
        resume_zones(zones, state).await.map_err(StartError::ZoneKeys)?;
        keep_pan_keys(data, state, nodes).await.map_err(StartError::PanKeys)
    };
    let reason = |error| state.switch.engine.failure().map_or(error, StartError::Engine);
    resumed.await.map_err(reason)
}

/// The keys of card numbers, of which the engine knows now.
async fn keep_pan_keys(
    data: &Path,
    state: &AppState,
    nodes: Option<PanKeyNodes>,
) -> Result<Arc<PanRotation>, PanRotationError> {
    let (switch, secrets) = (state.switch.clone(), Arc::clone(&state.secrets));
    let pan_keys = PanRotation::new(switch, secrets, data, ResealingPace::Gentle, nodes)?;
    pan_keys.resume().await?;
    Ok(Arc::new(pan_keys))
}

/// Lets doors go on with the keys that were exchanged in earlier runs and on other nodes. Those that a file's key
/// replaces are void from here on, also where the file gets its former key again.
/// Errors: the tables cannot be read, or the engine does not take it.
async fn resume_zones(zones: &[Arc<Zone>], state: &AppState) -> Result<(), String> {
    let replaced = state.switch.read_at_once(|tables| {
        let resume = |zone: &Arc<Zone>| zone.resume(tables, &state.secrets);
        zones.iter().map(resume).collect::<Result<Vec<_>, StoreError>>()
    });
    for replaced in replaced.map_err(|error| error.to_string())?.into_iter().flatten() {
        let note = AuditNote { actor: Actor::Switch, address: None };
        let change = AdminCommand::ExchangedKey(replaced);
        let command = Command::Noted(Box::new(NotedCommand { note, change }));
        match state.switch.ask(command.into()).await {
            Ok(Reply::Done(_)) => {}
            Ok(other) => return Err(format!("one could not be made void: {other:?}")),
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(())
}

/// Removes the files of receipts that no record names: those of earlier runs, and again whenever much was
/// written, until the switch stops. A node first fetches those that it lacks.
pub(super) fn keep_receipts(
    state: &AppState,
    backups: &Arc<Semaphore>,
    stopped: &watch::Receiver<bool>,
) -> JoinHandle<()> {
    let (state, backups, mut stopped) = (state.clone(), Arc::clone(backups), stopped.clone());
    let sweeps = async move {
        report(settle(&state).await);
        loop {
            state.receipts.wait_for_sweep().await;
            report(sweep(&state, &backups).await);
        }
    };
    tokio::spawn(async move {
        tokio::select! {
            () = sweeps => {}
            _ = stopped.wait_for(|is_stopped| *is_stopped) => {}
        }
    })
}

/// Removes what earlier runs left.
async fn settle(state: &AppState) -> Result<usize, String> {
    let (switch, receipts) = (state.switch.clone(), Arc::clone(&state.receipts));
    let settled = tokio::task::spawn_blocking(move || {
        let named = switch.read_at_once(named_receipts).map_err(|error| error.to_string())?;
        receipts.fetch_missing(&named);
        receipts.remove_orphans(&named).map_err(|error| error.to_string())
    });
    settled.await.map_err(|error| error.to_string())?
}

/// Removes what nothing names any more.
async fn sweep(state: &AppState, backups: &Semaphore) -> Result<usize, String> {
    let (switch, receipts) = (state.switch.clone(), Arc::clone(&state.receipts));
    receipts.begin_sweep();
    // An upload that has ended is durable by now.
    if !switch.visible(switch.engine.durable_seq()).await {
        return Err("the tables are late".to_owned());
    }
    let named = tokio::task::spawn_blocking(move || switch.read_at_once(named_receipts)).await;
    let named = named.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
    // A backup under way may be of records that still name a replaced content; one that begins now is not.
    let _permit = backups.acquire().await.map_err(|error| error.to_string())?;
    let removed = tokio::task::spawn_blocking(move || receipts.remove_orphans(&named)).await;
    removed.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
}

fn report(removed: Result<usize, String>) {
    match removed {
        Ok(0) => {}
        Ok(count) => tracing::info!(count, "removed files of receipts that nothing names"),
        Err(error) => tracing::warn!(%error, "files of receipts that nothing names stay"),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use axum::body::Body;
    use axum::http::Request;
    use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
    use cardswitch_acquiring::zone::{ZoneKeyView, ZoneSettings};
    use cardswitch_engine::directory::exchanged_key::{ExchangedKeyCommand, NewExchangedKey};
    use cardswitch_engine::domain::ids::{ExchangedKeyId, Timestamp};
    use cardswitch_network::zone_clock::ZoneClock;
    use cardswitch_secrets::hex::{from_hex, to_hex};
    use cardswitch_secrets::issuing::SystemRandom;
    use cardswitch_zone::{Algorithm, ZoneKey};
    use tower::ServiceExt;

    use super::*;
    use crate::bench::{Bench, amount, id_of, virtual_card};
    use crate::test_world::by_switch;

    /// Once, replaced receipts stayed until the next start.
    #[tokio::test]
    async fn a_sweep_removes_receipts_that_were_replaced() {
        let bench = Bench::new().await;
        let card = bench.order(virtual_card()).await;
        assert!(bench.authorize(&card, amount(1_000)).await);
        let newest = bench.get("/v1/transactions?limit=1").await;
        let path = format!("/v1/transactions/{}/receipt", id_of(&newest["results"][0]));
        settle(&bench.state).await.unwrap();
        let upload = async |content: &'static str| {
            let request = Request::post(&path)
                .header(AUTHORIZATION, "Token admin")
                .header(CONTENT_TYPE, "application/pdf")
                .body(Body::from(content))
                .unwrap();
            let answer = bench.routes.clone().oneshot(request).await.unwrap();
            assert_eq!(answer.status(), 201);
        };
        for content in ["%PDF-1.7 one", "%PDF-1.7 two", "%PDF-1.7 three"] {
            upload(content).await;
        }
        let backups = Semaphore::new(1);
        assert_eq!(sweep(&bench.state, &backups).await, Ok(2));
        let named = bench.state.switch.read_at_once(named_receipts).unwrap();
        named.iter().for_each(|digest| drop(bench.state.receipts.read(digest).unwrap()));
    }

    const KEYS: [&str; 3] = [
        "0123456789abcdeffedcba9876543210",
        "1111111111111111aaaaaaaaaaaaaaaa",
        "2222222222222222bbbbbbbbbbbbbbbb",
    ];

    fn zone_key(digits: &str) -> ZoneKey {
        ZoneKey::new(Algorithm::Tdes, from_hex(digits).unwrap()).unwrap()
    }

    /// The check value of a key, and that of the key of PINs in force after a start with a file of this one.
    async fn started_with(bench: &Bench, digits: &str) -> (String, ZoneKeyView) {
        let home = tempfile::tempdir().unwrap();
        let keys = home.path().join("zone.keys");
        fs::write(&keys, format!("pin = {{ tdes = \"{digits}\" }}\n")).unwrap();
        fs::set_permissions(&keys, fs::Permissions::from_mode(0o600)).unwrap();
        let settings = ZoneSettings { keys, mac: None };
        let zone = Zone::open("iso8583", &settings, Arc::new(ZoneClock::start())).unwrap();
        let zone = Arc::new(zone);
        resume_zones(std::slice::from_ref(&zone), &bench.state).await.unwrap();
        let shown = zone.keys_shown().remove(0);
        bench.state.switch.visible(bench.state.switch.engine.durable_seq()).await;
        (to_hex(&zone_key(digits).check_value()), shown)
    }

    /// Once, it came back when the file got its former key again: right PINs were wrong, and locked cards.
    #[tokio::test]
    async fn an_exchanged_key_that_the_file_replaced_stays_void() {
        let bench = Bench::new().await;
        let [first, exchanged, second] = KEYS;
        let id = ExchangedKeyId::of("iso8583", "P0");
        let key = zone_key(exchanged);
        let sealed =
            bench.state.secrets.seal_zone_key(&key.to_secret(), id, &mut SystemRandom).unwrap();
        let new = NewExchangedKey {
            door: "iso8583".to_owned(),
            usage: "P0".to_owned(),
            sealed,
            check_value: key.check_value(),
            base: zone_key(first).check_value(),
            sent_at: Timestamp(1_772_000_000_000_000),
            overlap_until: Timestamp(1_772_000_060_000_000),
        };
        let exchange = AdminCommand::ExchangedKey(ExchangedKeyCommand::Exchange(new));
        by_switch(&bench.state).carry_out(exchange).await.unwrap();
        let (_, shown) = started_with(&bench, first).await;
        assert_eq!(shown.check_value, to_hex(&key.check_value()), "it counts over the file's");
        assert!(shown.exchanged_at.is_some());
        for digits in [second, first] {
            let (own, shown) = started_with(&bench, digits).await;
            assert_eq!((shown.check_value, shown.exchanged_at), (own, None), "{digits}");
        }
        let kept = bench.state.switch.read_at_once(|tables| tables.exchanged_key("iso8583", "P0"));
        let kept = kept.unwrap().unwrap();
        assert!(kept.is_void && kept.key.sealed.is_empty(), "the key is gone: {kept:?}");
    }
}
