//! Tables of older versions, and how they are brought up to this one.

use redb::WriteTransaction;

use super::world::journal;
use super::*;

/// Takes away what version 5 added.
fn drop_events(write_txn: &WriteTransaction) {
    macro_rules! drop_tables {
        ($($name:expr),*) => { $(assert!(write_txn.delete_table($name).unwrap());)* };
    }
    drop_tables!(
        EVENT_BLOCKS.definition(),
        DAY_FIGURES.definition(),
        WEBHOOK_ENDPOINTS.definition(),
        WEBHOOK_ENDPOINT_IDS,
        COMPANY_WEBHOOK_ENDPOINTS,
        APP_TOKENS
    );
    let removed = write_txn.open_table(META).unwrap().remove(META_EVENTS_SINCE).unwrap().is_some();
    assert!(removed);
}

/// Takes away what version 4 added.
fn drop_people(write_txn: &WriteTransaction) {
    macro_rules! drop_tables {
        ($($name:expr),*) => { $(assert!(write_txn.delete_table($name).unwrap());)* };
    }
    drop_tables!(
        USERS.definition(),
        TICKETS.definition(),
        APPS.definition(),
        TOKEN_GRANTS.definition(),
        MEMBER_EXTERNAL_IDS.definition(),
        AUDIT_EVENTS.definition(),
        TICKET_ENDS,
        USER_TICKETS,
        USER_IDS,
        USER_EMAILS,
        APP_IDS,
        COMPANY_APPS,
        TOKEN_IDS,
        COMPANY_TOKENS,
        EXTERNAL_IDS,
        EMAIL_MEMBERS,
        AUDIT_MARKS,
        INCREMENTS.definition()
    );
}

/// Takes away what version 3 added.
fn drop_organization(write_txn: &WriteTransaction) {
    macro_rules! drop_tables {
        ($($name:expr),*) => { $(assert!(write_txn.delete_table($name).unwrap());)* };
    }
    drop_tables!(
        DIMENSIONS.definition(),
        SHARED_LINKS.definition(),
        REQUISITIONS.definition(),
        TRANSACTION_TAGS.definition(),
        COMPANY_SSO.definition(),
        KEYED_ANSWERS.definition(),
        KEYED_ANSWER_ENDS,
        DIMENSION_IDS,
        SHARED_LINK_IDS,
        SHARED_LINK_KEYS,
        REQUISITION_IDS,
        COMPANY_DIMENSIONS,
        COMPANY_MEMBERS,
        COMPANY_SHARED_LINKS,
        CARD_SHARED_LINKS,
        COMPANY_REQUISITIONS,
        MEMBER_REQUISITIONS,
        CARD_REQUISITIONS,
        TAG_MOVES,
        STATE_PAGES
    );
}

/// Makes tables those of an older version.
fn make_older(store: &Store, format: u32) {
    let write_txn = store.database.begin_write().unwrap();
    drop_events(&write_txn);
    if format < STORE_FORMAT_WITH_PEOPLE {
        drop_people(&write_txn);
    }
    if format < STORE_FORMAT_WITH_SETS {
        drop_organization(&write_txn);
    }
    let format = format.to_le_bytes();
    write_txn.open_table(META).unwrap().insert(META_FORMAT, format.as_slice()).unwrap();
    write_txn.commit().unwrap();
}

/// Whether tables of a version know of an effect.
fn is_known(effect: &Effect, format: u32) -> bool {
    match effect {
        Effect::User(_)
        | Effect::Ticket(_)
        | Effect::App(_)
        | Effect::TokenGrant(_)
        | Effect::MemberExternalId(..)
        | Effect::Audit(_)
        | Effect::Increment(_) => format >= STORE_FORMAT_WITH_PEOPLE,
        Effect::WebhookEndpoint(_) => false,
        Effect::Dimension(_)
        | Effect::SharedLink(_)
        | Effect::Requisition(_)
        | Effect::TransactionTags(..)
        | Effect::CompanySso(..)
        | Effect::KeyedAnswer(_) => format >= STORE_FORMAT_WITH_SETS,
        _ => true,
    }
}

#[test]
fn tables_of_older_versions_are_brought_up_to_date() {
    for format in STORE_FORMAT_OLDEST..STORE_FORMAT {
        println!("format {format}");
        let whole = journal(13, 900);
        let mut records = whole[..600].to_vec();
        for record in &mut records {
            record.effects.retain(|effect| is_known(effect, format));
        }
        let disk = FaultyBackend::new();
        let store = Store::open_with_backend(disk.clone(), DIRECTORY).unwrap();
        commit(&store, &records, CommitKind::Checkpoint).unwrap();
        make_older(&store, format);
        drop(store);
        let store = Store::open_with_backend(disk, DIRECTORY).unwrap();
        let made_anew = store_of(&records);
        // What happened before there was a log of events is not told.
        let is_elsewhere = |name: &str| name == EVENT_BLOCKS.name() || name == META.to_string();
        for (found, expected) in dump(&store).iter().zip(&dump(&made_anew)) {
            if !is_elsewhere(&found.0) {
                assert_eq!(found, expected, "brought up to date, and made anew");
            }
        }
        let before = made_anew.read().unwrap().last_event().unwrap();
        assert!(before > EventNumber(100), "{before:?}");
        assert_eq!(store.read().unwrap().last_event().unwrap(), EventNumber(0));
        check_next_events(&store, &made_anew, &whole, &records);
    }
}

/// Events of what comes next are those of tables that always had a log, numbered from 1.
fn check_next_events(store: &Store, made_anew: &Store, whole: &[Record], records: &[Record]) {
    let before = made_anew.read().unwrap().last_event().unwrap();
    let next: Vec<_> = whole[records.len()..].to_vec();
    for store in [store, made_anew] {
        store.commit(&gather(&next), position_after(whole), CommitKind::Checkpoint).unwrap();
    }
    let (snapshot, other) = (store.read().unwrap(), made_anew.read().unwrap());
    let mut events = snapshot.events_after(EventNumber(0), usize::MAX).unwrap();
    assert!(events.len() > 20, "{} events", events.len());
    events.iter_mut().for_each(|event| event.number.0 += before.0);
    assert_eq!(events, other.events_after(before, usize::MAX).unwrap());
    for figure in snapshot.audit_events_log().unwrap() {
        assert!(figure.agrees(), "{figure:?}");
    }
}
