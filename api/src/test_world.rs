//! The switch that tests of handlers ask: a real engine on a manual clock, all routes, a data
//! directory of its own.

use std::path::Path;
use std::sync::Arc;

use axum::Router;
use cardswitch_edge::descriptors::{DescriptorShares, STREAMS_MAX};
use cardswitch_edge::switch::Switch;
use cardswitch_edge::write_error::WriteError;
use cardswitch_engine::clock::Clock;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::reply::Rejection;
use cardswitch_engine::data_directory::DataDirectory;
use cardswitch_engine::directory::access_token::{
    AccessScope, AccessTokenCommand, NewAccessToken, NewTokenGrant, TokenOrigin,
};
use cardswitch_engine::directory::company::{NewAccount, NewCompany};
use cardswitch_engine::directory::member::{MemberRole, NewMember};
use cardswitch_engine::domain::audit::{Actor, AuditNote};
use cardswitch_engine::domain::company::{Address, CompanyState, VelocityLimits};
use cardswitch_engine::domain::hold_table::HoldTable;
use cardswitch_engine::domain::ids::{AccessTokenId, AccountId, CompanyId, MemberId};
use cardswitch_engine::domain::money::{CurrencyCode, Minor};
use cardswitch_engine::engine::{Engine, EngineOptions, OpenError, Retention};
use cardswitch_engine::journal::limits::CommitLimits;
use cardswitch_engine::shard::CacheLimits;
use cardswitch_engine::store::Pacing;
use cardswitch_identity::actor_state::ActorState;
use cardswitch_identity::receipts::ReceiptFiles;
use cardswitch_identity::state::{ApiConfig, AppState};
use cardswitch_notify::mail::Outbox;
use cardswitch_notify::webhooks::addresses::Reach;
use cardswitch_notify::webhooks::{Equipment, Webhooks};
use cardswitch_secrets::issuing::CardNumbers;
use cardswitch_secrets::master_key::data_key::{DataKey, WrappedKey, write_wrapped};
use cardswitch_secrets::master_key::{MASTER_KEY_FILE, MasterKey};
use cardswitch_secrets::{Secrets, token_digest};
use cardswitch_site::overview::LiveOverviews;
use cardswitch_v1::operations::ACCESS;
use cardswitch_wire::urls::Urls;
use tempfile::TempDir;
use tokio::sync::watch;
use uuid::Uuid;

use crate::router::{self, RouterParts};

/// The base of its objects' addresses.
pub(crate) const BASE: &str = "https://cards.example.com";

/// A switch without any use so far.
pub(crate) struct TestSwitch {
    pub(crate) state: AppState,
    pub(crate) overviews: Arc<LiveOverviews>,
    pub(crate) routes: Router,
    pub(crate) directory: TempDir,
}

impl TestSwitch {
    /// Starts one and has it carry out `commands`.
    pub(crate) async fn start(clock: Clock, commands: Vec<AdminCommand>) -> Self {
        Self::start_with(Engine::open, clock, commands).await
    }

    /// The same with an engine that `open` opens.
    pub(crate) async fn start_with(
        open: impl FnOnce(EngineOptions) -> Result<Engine, OpenError>,
        clock: Clock,
        commands: Vec<AdminCommand>,
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let secrets = Arc::new(Secrets::from_root([9; 32]));
        let engine = open(EngineOptions {
            directory: DataDirectory::create(&directory.path().join("data"), [1; 16]).unwrap(),
            id_key: secrets.id_key(),
            clock,
            retention: Retention::Forever,
            pacing: Pacing::default(),
            caches: CacheLimits::default(),
            commits: CommitLimits::default(),
        });
        let switch = Switch::new(Arc::new(engine.unwrap()));
        let webhooks = deliveries(&switch, &secrets, directory.path());
        let state = AppState {
            switch,
            secrets,
            access: &ACCESS,
            config: Arc::new(ApiConfig {
                urls: Urls::new(BASE),
                card_numbers: CardNumbers::new("41111111").unwrap(),
                requisition_network: "visa".to_owned(),
                trusted_proxies: Vec::new(),
                faults: None,
            }),
            receipts: Arc::new(ReceiptFiles::open(directory.path()).unwrap()),
            callers: Arc::default(),
            passwords: Arc::default(),
            throttle: Arc::default(),
            second_factors: Arc::default(),
            outbox: Arc::new(Outbox::open(directory.path(), BASE).unwrap()),
            webhooks,
            token_rate: Arc::default(),
        };
        for command in commands {
            by_switch(&state).carry_out(command).await.unwrap();
        }
        let served = served(state.clone());
        let overviews = Arc::clone(&served.overviews);
        Self { routes: router::whole(served), state, overviews, directory }
    }
}

/// The state for changes that no caller asks for.
pub(crate) fn by_switch(state: &AppState) -> ActorState {
    state.for_changes_of(AuditNote { actor: Actor::Switch, address: None })
}

/// The result of `work`, and the number of passwords that were verified meanwhile.
pub(crate) async fn verifications<T>(state: &AppState, work: impl Future<Output = T>) -> (T, u64) {
    let before = state.passwords.begun();
    let done = work.await;
    (done, state.passwords.begun() - before)
}

/// A switch as it is served.
pub(crate) fn served(state: AppState) -> RouterParts {
    let overviews = Arc::new(LiveOverviews::new(STREAMS_MAX, None));
    RouterParts { state, overviews, peers: Arc::default(), compat: None }
}

/// Deliveries to this machine, too, and without streams that would never end.
fn deliveries(switch: &Switch, secrets: &Arc<Secrets>, data: &Path) -> Arc<Webhooks> {
    let (running, stop) = watch::channel(false);
    let (_, streams_stop) = watch::channel(true);
    let (switch, secrets, reach) = (switch.clone(), Arc::clone(secrets), Reach::Local);
    let shares = DescriptorShares::default();
    let (elsewhere, faults) = (None, None);
    let equipment =
        Equipment { switch, secrets, data, elsewhere, reach, faults, shares, stop, streams_stop };
    let (webhooks, task) = Webhooks::start(equipment).unwrap();
    tokio::spawn(async move {
        drop(task.await);
        drop(running);
    });
    webhooks
}

/// A company in Los Angeles whose account holds `opening` minor units and has no credit.
pub(crate) fn company(
    id: CompanyId,
    account: AccountId,
    currency: CurrencyCode,
    opening: i64,
) -> NewCompany {
    NewCompany {
        id,
        name: "Acme".parse().unwrap(),
        website: "https://acme.example.com".parse().unwrap(),
        zone: chrono_tz::America::Los_Angeles,
        currency,
        network: "visa".parse().unwrap(),
        velocity: VelocityLimits::default(),
        partial_approval: false,
        hold_table: HoldTable::default(),
        billing_address: address(),
        shipping_address: address(),
        state: CompanyState::Active,
        account: NewAccount {
            id: account,
            name: "Spending".parse().unwrap(),
            number: "000123456789".parse().unwrap(),
            credit_limit: Minor::ZERO,
            funding_source: None,
            opening_balance: Minor(opening),
        },
    }
}

fn address() -> Address {
    Address {
        attn: Default::default(),
        address_1: "1 Market Street".parse().unwrap(),
        address_2: Default::default(),
        city: "San Francisco".parse().unwrap(),
        state: "CA".parse().unwrap(),
        zip_code: "94105".parse().unwrap(),
        country: "US".parse().unwrap(),
    }
}

/// A person who is to be a member of a company, without further rights and without an invitation.
pub(crate) fn new_member(id: MemberId, company: CompanyId, email: &str) -> NewMember {
    NewMember {
        id,
        company,
        first_name: "Ada".parse().unwrap(),
        last_name: "Byron".parse().unwrap(),
        email: email.into(),
        role: MemberRole::Member,
        code: None,
        dimensions: Default::default(),
        external_id: None,
        is_active: true,
        invite: None,
    }
}

/// An access token of a company.
pub(crate) fn access_token(
    id: AccessTokenId,
    text: &str,
    company: CompanyId,
    scope: AccessScope,
) -> AdminCommand {
    let digest = token_digest(text);
    AdminCommand::AccessToken(AccessTokenCommand::Create(NewAccessToken {
        id,
        digest,
        company,
        scope,
    }))
}

/// An id that no other has.
pub(crate) fn token_id() -> AccessTokenId {
    AccessTokenId(Uuid::now_v7())
}

/// Makes a data directory that has its keys, and nothing else.
pub(crate) fn make_keyed_directory(data: &Path) {
    drop(DataDirectory::create(data, [7; 16]).unwrap());
    let (data_key, master) = (DataKey::new([3; 32]), MasterKey::new([1; 32]));
    master.write_new(&data.join(MASTER_KEY_FILE)).unwrap();
    let wrapped = WrappedKey::wrap(&data_key, &master, [7; 16]).unwrap();
    write_wrapped(data, &wrapped, &Secrets::from_root(*data_key)).unwrap();
}

/// Gives a member as many tokens as there may be, the further ones of no app.
pub(crate) async fn fill_with_tokens(state: &AppState, (company, member): (CompanyId, MemberId)) {
    loop {
        let id = AccessTokenId(Uuid::now_v7());
        let (digest, scope) = (token_digest(&id.0.to_string()), AccessScope::default());
        let grant = NewTokenGrant {
            token: NewAccessToken { id, digest, company, scope },
            app: None,
            member: Some(member),
            origin: TokenOrigin::OwnCompany,
            label: Default::default(),
        };
        let grant = AccessTokenCommand::Grant(Box::new(grant));
        match by_switch(state).carry_out(AdminCommand::AccessToken(grant)).await {
            Err(WriteError::Rejected(Rejection::TooManyTokens)) => break,
            made => made.unwrap(),
        }
    }
}
