//! Files of keys as crashes and other nodes leave them: none loses a key that its tables need, and none
//! keeps one that the journal does not know or has forgotten.

use std::path::Path;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, header};
use cardswitch_engine::clock::Clock;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::access_token::AccessScope;
use cardswitch_engine::directory::company::CompanyCommand;
use cardswitch_engine::directory::pan_key::PanKeyCommand;
use cardswitch_engine::domain::ids::{AccountId, CompanyId, Timestamp};
use cardswitch_engine::domain::money::CurrencyCode;
use cardswitch_engine::domain::pan_key::PanGeneration;
use cardswitch_engine::engine::{Engine, EngineOptions, EngineStorage, OpenError};
use cardswitch_engine::journal::testing::{DiskFaultPlan, FaultyBackend, FaultyDisk};
use cardswitch_engine::store::Pacing;
use cardswitch_engine::store::overlay::SharedBackend;
use cardswitch_wire::time::parse_time;
use tempfile::TempDir;
use tokio::sync::watch;
use tower::ServiceExt;
use uuid::Uuid;

use super::*;
use crate::opening::{UnusedKey, settle_keys};
use crate::pan_rotation::{PanRotation, ResealingPace};
use crate::test_world::{TestSwitch, access_token, by_switch, company, token_id};

/// A switch that leads with one card under generation 0, and the keys of a node that follows it closely.
struct World {
    leader: TestSwitch,
    rotation: PanRotation,
    secrets: Secrets,
    follower: FollowerPanKeys,
    data: TempDir,
}

impl World {
    async fn new() -> Self {
        Self::with(Engine::open).await
    }

    async fn with(open: impl FnOnce(EngineOptions) -> Result<Engine, OpenError>) -> Self {
        let company_id = CompanyId(Uuid::from_u128(1));
        let account = AccountId(Uuid::from_u128(2));
        let company = company(company_id, account, CurrencyCode(840), 1_000_000);
        let scope = AccessScope { admin: true, ..AccessScope::default() };
        let commands = vec![
            AdminCommand::Company(CompanyCommand::Create(company)),
            access_token(token_id(), "token", company_id, scope),
        ];
        let clock = Clock::manual(parse_time("2026-03-04T20:00:00Z").unwrap());
        let leader = TestSwitch::start_with(open, clock, commands).await;
        make_card(&leader.routes).await;
        let switch = leader.state.switch.clone();
        let at = leader.directory.path().join("data");
        let rotation = PanRotation::new(
            switch,
            Arc::clone(&leader.state.secrets),
            &at,
            ResealingPace::AtRest,
            None,
        )
        .unwrap();
        let (data, secrets) = (tempfile::tempdir().unwrap(), Secrets::from_root([9; 32]));
        let store = Arc::clone(&leader.state.switch.engine.store);
        let place = (data.path().to_path_buf(), secrets.clone());
        let follower = FollowerPanKeys::new(place, store, Arc::default());
        Self { leader, rotation, secrets, follower, data }
    }

    /// The follower's answer to keys of the leader of the epoch that it knows.
    fn take(&self, keys: &PanKeys) -> Result<(), TakingError> {
        self.follower.take(0, self.secrets.render_pan_keys(keys).unwrap().as_bytes())
    }

    fn followers(&self) -> PanKeys {
        self.secrets.read_pan_keys(self.data.path()).unwrap()
    }

    fn leaders(&self) -> PanKeys {
        self.secrets.read_pan_keys(&self.leader.directory.path().join("data")).unwrap()
    }

    /// Leaves a file as a crash may, and opens the directory.
    fn settle(&self, left: &PanKeys, unused: UnusedKey) -> Vec<u32> {
        let engine = &self.leader.state.switch.engine;
        self.secrets.write_pan_keys(engine.directory.path(), left).unwrap();
        settle_keys(engine, &self.leader.state.secrets, unused).unwrap();
        numbers(&self.leaders())
    }

    async fn reseal(&self) {
        let (_stop, stopped) = watch::channel(false);
        self.rotation.reseal_asked(&stopped).await;
        // Once the tables show it.
        assert_eq!(self.rotation.report().await.unwrap().cards_left, 0);
    }

    /// Has the engine forget older keys, and breaks off before the file.
    async fn forget_by_half(&self, newest: u32) {
        let forget = PanKeyCommand::Forget(PanGeneration(newest));
        by_switch(&self.leader.state).carry_out(AdminCommand::PanKey(forget)).await.unwrap();
        self.rotation.report().await.unwrap();
    }
}

async fn make_card(routes: &Router) {
    let body = r#"{"allowance": {"amount": 100}, "description": "x", "is_virtual": true,
        "billing_address": {"address_1": "1 St", "city": "B", "state": "CA", "zip_code": "94105"}}"#;
    let request = Request::builder()
        .method("POST")
        .uri("/v1/cards")
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::AUTHORIZATION, "Token token");
    let request = request.body(Body::from(body)).unwrap();
    assert_eq!(routes.clone().oneshot(request).await.unwrap().status(), StatusCode::CREATED);
}

fn numbers(keys: &PanKeys) -> Vec<u32> {
    keys.generations().map(|generation| generation.0).collect()
}

/// The same keys with a next generation that was not put to use.
fn with_unused(keys: &PanKeys) -> PanKeys {
    keys.with(Timestamp(0), Secrets::fresh_pan_key().unwrap()).unwrap()
}

#[tokio::test]
async fn a_follower_takes_what_the_leader_has_and_loses_no_key_that_it_needs() {
    let world = World::new().await;
    let (none, first, second) = {
        let none = PanKeys::default();
        (none.clone(), with_unused(&none), with_unused(&none))
    };
    // A rotation that was refused elsewhere, another one, and none again.
    for keys in [&first, &second, &none] {
        world.take(keys).unwrap();
        assert_eq!(world.followers(), *keys);
    }
    world.rotation.rotate().await.unwrap();
    let both = world.leaders();
    let newest = both.with_newest_alone();
    assert!(matches!(world.take(&newest), Err(TakingError::Needed)), "a card is under the first");
    world.take(&both).unwrap();
    assert!(matches!(world.take(&none), Err(TakingError::Needed)), "it is in use");
    world.reseal().await;
    let refused = world.take(&newest).unwrap_err();
    assert!(refused.passes(), "a card may still be made under it: {refused}");
    world.rotation.forget().await.unwrap();
    world.take(&newest).unwrap();
    assert_eq!((world.followers(), world.secrets.pan_generation().0), (world.leaders(), 1));
    let damaged = world.follower.take(0, b"cardswitch card number keys\n");
    assert!(!damaged.unwrap_err().passes());
    let text = world.secrets.render_pan_keys(&with_unused(&newest)).unwrap();
    let refused = world.follower.take(1, text.as_bytes()).unwrap_err();
    assert!(matches!(refused, TakingError::NotFollowing), "of another epoch: {refused}");
    world.follower.close();
    let refused = world.follower.take(0, text.as_bytes()).unwrap_err();
    assert!(matches!(refused, TakingError::NotFollowing), "it leads: {refused}");
    assert_eq!(world.followers(), newest);
}

#[tokio::test]
async fn a_start_makes_the_file_what_the_journal_says() {
    let world = World::new().await;
    let none = PanKeys::default();
    assert_eq!(world.settle(&with_unused(&none), UnusedKey::Kept), [0, 1], "it goes on with it");
    assert_eq!(world.settle(&with_unused(&none), UnusedKey::Dropped), [0]);
    world.rotation.rotate().await.unwrap();
    world.rotation.report().await.unwrap();
    let both = world.leaders();
    assert_eq!(world.settle(&with_unused(&both), UnusedKey::Dropped), [0, 1]);
    assert_eq!(world.leaders(), both);
    // A card that came while older keys were being forgotten: they stay until it is re-sealed.
    world.forget_by_half(1).await;
    assert_eq!(world.settle(&both, UnusedKey::Dropped), [0, 1]);
    world.reseal().await;
    assert_eq!(world.settle(&both, UnusedKey::Dropped), [1]);
    assert_eq!(world.settle(&both, UnusedKey::Kept), [1], "of a switch alone, too");
    assert_eq!(world.leader.state.secrets.pan_generation().0, 1);
    let lost = settle_without(&world, &none);
    assert!(lost.contains("lacks generation 1"), "{lost}");
}

/// Once, a node whose tables stood still took the lead, and dropped the key that the newest cards were sealed under.
#[tokio::test]
async fn tables_that_stand_still_drop_no_key_that_the_journal_knows() {
    let (tables, log) = (FaultyBackend::default(), FaultyDisk::default());
    let (store, journal) = (SharedBackend::new(tables.clone()), Arc::new(log));
    let storage = EngineStorage { store, cache_bytes: 1 << 20, journal };
    // The commit that shows the change is the one that fails.
    let pacing = Pacing { checkpoint_records: 1, ..Pacing::default() };
    let world =
        World::with(|options| Engine::open_on(EngineOptions { pacing, ..options }, storage)).await;
    let (state, engine) = (&world.leader.state, &world.leader.state.switch.engine);
    tables.plan(DiskFaultPlan { fail_write: Some(1), ..DiskFaultPlan::default() });
    let rotate = |newest| AdminCommand::PanKey(PanKeyCommand::Rotate(newest));
    let keys = with_unused(&PanKeys::default());
    by_switch(state).carry_out(rotate(keys.newest())).await.expect_err("nobody sees it");
    world.secrets.write_pan_keys(engine.directory.path(), &keys).unwrap();
    let refused = settle_keys(engine, &state.secrets, UnusedKey::Dropped).unwrap_err();
    assert!(refused.to_string().contains("query tables"), "{refused}");
    assert_eq!(world.leaders(), keys);
}

/// The error of a start that finds another file.
fn settle_without(world: &World, found: &PanKeys) -> String {
    let engine = &world.leader.state.switch.engine;
    world.secrets.write_pan_keys(engine.directory.path(), found).unwrap();
    settle_keys(engine, &world.secrets, UnusedKey::Dropped).unwrap_err().to_string()
}

/// A restored directory had the keys of 0 and 2 alone, with its cards under 1.
#[tokio::test]
async fn keys_with_a_gap_are_refused_where_cards_are_in_it() {
    let world = World::new().await;
    world.rotation.rotate().await.unwrap();
    world.reseal().await;
    world.rotation.rotate().await.unwrap();
    let all = world.leaders();
    let gap = PanKeys::default().merged(&all.with_newest_alone(), Path::new("x")).unwrap();
    assert_eq!((numbers(&all), numbers(&gap)), (vec![0, 1, 2], vec![0, 2]));
    let engine = &world.leader.state.switch.engine;
    let settled = |keys: &PanKeys| {
        world.secrets.write_pan_keys(engine.directory.path(), keys).unwrap();
        settle_keys(engine, &world.leader.state.secrets, UnusedKey::Kept)
    };
    let refused = settled(&gap).unwrap_err().to_string();
    assert!(refused.contains("lacks generation 1"), "{refused}");
    assert!(matches!(world.take(&gap), Err(TakingError::Needed)));
    settled(&all).unwrap();
    world.reseal().await;
    settled(&gap).unwrap();
    world.take(&gap).unwrap();
}
