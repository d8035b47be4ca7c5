//! Administrators of before there were users: their password stood in the member's row.
//!
//! A directory of that time gets its users at the first start, by the same command as any other
//! user, so journal, tables and audit have them. INVARIANT: an address gets a user by this once;
//! what the user decides afterwards is never undone, since rows keep the old password for ever.

use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::command::identity::NewUser;
use cardswitch_engine::command::reply::Rejection;
use cardswitch_engine::domain::ids::UserId;
use cardswitch_engine::domain::member::Member;
use cardswitch_engine::store::query::{Order, Page};
use cardswitch_engine::store::{Snapshot, StoreError};

use crate::error::ApiError;
use crate::issuing::{RandomSource, SystemRandom};
use crate::state::{AppState, WriteError};

/// Makes the users that are missing.
/// Errors: the tables cannot be read, or the switch takes no change.
/// Cost: O(members) reads.
pub async fn adopt_old_passwords(state: &AppState) -> Result<(), ApiError> {
    for member in state.switch.read(without_users).await? {
        let new = NewUser {
            id: UserId(SystemRandom.id(state.now())?),
            email: member.email,
            first_name: member.first_name,
            last_name: member.last_name,
            password_hash: member.password_hash,
            developer_of: Vec::new(),
        };
        match state.carry_out(AdminCommand::CreateUser(new)).await {
            // Somebody of one address may administer several companies: the oldest one counts.
            Ok(()) | Err(WriteError::Rejected(Rejection::EmailTaken)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Members who take part, have a password in their row, and are nobody who signs in yet.
fn without_users(snapshot: &Snapshot) -> Result<Vec<Member>, StoreError> {
    let everyone = Page { order: Order::OldestFirst, ..Page::first(usize::MAX) };
    let has_password = |member: &Member| member.takes_part() && member.password_hash.is_some();
    let mut found = Vec::new();
    for company in snapshot.companies()? {
        for member in snapshot.list_members(company.slot, &everyone, has_password)?.rows {
            if snapshot.user_by_email(&member.email)?.is_none() {
                found.push(member);
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use cardswitch_engine::command::effect::Effect;
    use cardswitch_engine::command::record::append_record;
    use cardswitch_engine::directory::DataDirectory;
    use cardswitch_engine::domain::audit::Actor;
    use cardswitch_engine::domain::ids::{MemberId, MemberSlot, RecordSeq, Timestamp};
    use cardswitch_engine::domain::member::MemberState;
    use cardswitch_engine::domain::user::User;
    use cardswitch_engine::engine::Engine;
    use cardswitch_engine::journal::chain::BatchBuilder;
    use cardswitch_engine::journal::redb::Expectation;
    use cardswitch_engine::journal::{DirectoryId, Journal, JournalIdentity, RedbJournal};
    use cardswitch_engine::store::query::AuditFilter;
    use uuid::Uuid;

    use super::*;
    use crate::auth::passwords::{hash, verify};
    use crate::commands::init::demo_company;
    use crate::config::{ClockSetting, RetentionSetting, Settings};
    use crate::install::{Installation, install};
    use crate::issuing::CardNumbers;
    use crate::opening::open_engine;
    use crate::server::Server;

    const OLD: &str = "an old password";
    const EMAIL: &str = "old@example.com";

    /// A data directory without anybody of the old kind.
    async fn fresh(data: &Path) {
        let installation = Installation {
            data: data.to_owned(),
            company: demo_company().order().unwrap(),
            admin_email: "admin@example.com".into(),
            card_numbers: CardNumbers::new("45371100").unwrap(),
            network: "visa".into(),
            cards: 0,
            cards_out: None,
            at: None,
            master_key: Default::default(),
        };
        install(&installation, &mut SystemRandom, &|_| {}).await.unwrap();
    }

    fn engine(data: &Path) -> Engine {
        open_engine(data, ClockSetting::System, RetentionSetting::Forever).unwrap().0
    }

    /// Writes members into the journal as builds did before there were users: no command makes a
    /// member with a password any more.
    async fn write_old_members(data: &Path) {
        let opened = engine(data);
        let pattern = opened.store().read().unwrap().member(MemberSlot(0)).unwrap().unwrap();
        // Records are in the order of their times.
        let at = opened.clock().now();
        opened.shut_down();
        drop(opened);
        let password_hash = Some(hash(OLD).await.unwrap());
        let old = |slot: u32, email: &str| Member {
            slot: MemberSlot(slot),
            id: MemberId(Uuid::from_u128(u128::from(slot))),
            email: email.to_owned(),
            password_hash: password_hash.clone(),
            ..pattern.clone()
        };
        let gone = Member { state: MemberState::Inactive, ..old(2, "gone@example.com") };
        let members = [old(1, EMAIL), gone];
        let effects = members.map(|member| Effect::Member(Box::new(member)));

        let directory = DataDirectory::open(data).unwrap();
        let directory_id = DirectoryId(directory.id());
        let identity = JournalIdentity { directory_id, partition: 0 };
        let expected = Expectation { identity, checkpoint: None };
        let mut journal = RedbJournal::open(&directory.journal_path(), &expected).unwrap();
        let seq = RecordSeq(journal.tip().last_seq + 1);
        let mut record = Vec::new();
        append_record(&mut record, seq, at, &effects).unwrap();
        let mut batch = BatchBuilder::start(Vec::new());
        batch.push(1, &record);
        let batch = batch.seal(0, &journal.tip());
        let first = journal.first();
        journal.append(&[batch], first).unwrap();
    }

    /// Serves a directory once, and says what stands in its tables then.
    async fn served<T>(data: &Path, read: impl Fn(&Snapshot) -> T) -> T {
        let settings = Settings {
            http: "127.0.0.1:0".parse().unwrap(),
            iso8583: "127.0.0.1:0".parse().unwrap(),
            ..Settings::default()
        };
        Server::start(data, &settings).await.unwrap().stop().await;
        let engine = engine(data);
        let found = read(&engine.store().read().unwrap());
        engine.shut_down();
        found
    }

    fn user(snapshot: &Snapshot, email: &str) -> Option<User> {
        snapshot.user_by_email(email).unwrap()
    }

    #[tokio::test]
    async fn the_old_password_signs_in_once_there_are_users() {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        fresh(&data).await;
        write_old_members(&data).await;
        let (made, gone, events) = served(&data, |snapshot| {
            let company = snapshot.companies().unwrap()[0].slot;
            let made = user(snapshot, EMAIL).unwrap();
            let filter = AuditFilter { object: Some(made.id.0), ..AuditFilter::default() };
            let events = snapshot.audit_events(Some(company), &filter, &Page::first(10)).unwrap();
            (made, user(snapshot, "gone@example.com"), events.rows)
        })
        .await;
        assert!(verify(made.password_hash.clone(), OLD).await.unwrap());
        assert_eq!(gone, None, "nobody signs in who takes no part");
        assert_eq!((events.len(), events[0].actor), (1, Actor::Switch));
        assert_eq!(events[0].action, "user.created");
        assert!(made.created_at > Timestamp::default());

        let again = served(&data, |snapshot| user(snapshot, EMAIL).unwrap()).await;
        assert_eq!(again, made);
    }
}
