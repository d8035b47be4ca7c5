//! People and programs, as the tables show them: users, tickets, apps, tokens, audits.

use uuid::Uuid;

use super::model::{Model, page_of};
use super::world::{EMAILS, journal};
use super::*;
use crate::directory::app::App;
use crate::directory::member::MemberState;
use crate::directory::ticket::{TicketKind, TicketState};
use crate::directory::user::User;
use crate::domain::email::email_key;
use crate::domain::ids::{AppId, CompanySlot, Timestamp, UserId};
use crate::store::query::{AuditFilter, Order, Page};

fn pages() -> Vec<Page> {
    let middle = Timestamp(1_772_000_000_000_000).plus(40 * Timestamp::DAY);
    let first = Page::first(7);
    vec![
        first,
        Page { order: Order::OldestFirst, offset: 3, ..first },
        Page { created_after: Some(middle), limit: 100, ..first },
        Page { created_before: Some(middle), offset: 2, limit: 3, ..first },
        Page { created_before: Some(Timestamp(0)), ..first },
    ]
}

#[test]
fn people_are_those_of_the_slow_store() {
    // In the end there is a ticket that has not been forgotten.
    let worlds = (30..60).map(|seed| (seed, journal(seed, 1_500)));
    let worlds = worlds.map(|(seed, records)| (seed, Model::of(&records), records));
    let lasting = worlds.filter(|(_, model, _)| !model.rows.tickets.is_empty()).take(3);
    for (seed, model, records) in lasting.collect::<Vec<_>>() {
        println!("seed {seed}");
        let store = store_of(&records);
        let snapshot = store.read().unwrap();
        for user in model.rows.users.values() {
            assert_eq!(snapshot.row::<User>(user.slot).unwrap().as_ref(), Some(user));
            assert_eq!(snapshot.user_by_id(user.id).unwrap().as_ref(), Some(user));
            let shouted = user.email.to_uppercase();
            let open = (!user.is_closed).then_some(user);
            assert_eq!(snapshot.user_by_email(&shouted).unwrap().as_ref(), open);
            let sessions: Vec<_> = snapshot.sessions_of(user.slot).unwrap();
            let mut expected: Vec<_> = model.rows.tickets.values().cloned().collect();
            expected.retain(|ticket| {
                ticket.user == user.slot
                    && ticket.kind() == TicketKind::Session
                    && ticket.state == TicketState::Open
            });
            expected.sort_by_key(|ticket| std::cmp::Reverse((ticket.created_at, ticket.digest)));
            assert_eq!(sessions, expected);
        }
        assert_eq!(snapshot.user_by_id(UserId(Uuid::nil())).unwrap(), None);
        assert_eq!(snapshot.user_by_email("nobody@a.test").unwrap(), None);
        for (digest, ticket) in &model.rows.tickets {
            assert_eq!(snapshot.ticket(digest).unwrap().as_ref(), Some(ticket));
        }
        for email in EMAILS {
            let mut expected: Vec<_> = model.rows.members.values().cloned().collect();
            expected.retain(|member| {
                member.state == MemberState::Active && email_key(&member.email) == email_key(email)
            });
            let found = snapshot.memberships(email).unwrap();
            assert!(found.iter().all(|(company, member)| member.company == company.slot));
            let found: Vec<_> = found.into_iter().map(|(_, member)| member).collect();
            assert_eq!(found, expected, "{email}");
        }
        for member in model.rows.members.values() {
            let Some(id) = &member.external_id else { continue };
            let found = snapshot.member_by_external_id(member.company, id).unwrap();
            let live = (member.state != MemberState::Deleted).then_some(member);
            assert_eq!(found.as_ref(), live);
            assert_eq!(snapshot.member_by_external_id(CompanySlot(9), id).unwrap(), None);
        }
    }
}

#[test]
fn apps_and_tokens_are_those_of_the_slow_store() {
    let records = journal(34, 4_000);
    let (store, model) = (store_of(&records), Model::of(&records));
    let snapshot = store.read().unwrap();
    let mut rows = 0;
    for page in pages() {
        for company in (0..3).map(CompanySlot) {
            let apps =
                model.rows.apps.values().filter(|app| app.company == company && !app.is_deleted);
            let apps: Vec<_> = apps.map(|app| (app.created_at, app.clone())).collect();
            assert_eq!(snapshot.list_own::<App>(company, &page).unwrap(), page_of(&apps, &page));
            let tokens = model.rows.access_tokens.values();
            let mut tokens: Vec<_> = tokens
                .filter(|token| token.company == company && !token.is_revoked)
                .map(|token| (token.created_at, token.clone()))
                .collect();
            tokens.sort_by_key(|(at, token)| (*at, token.digest));
            let found = snapshot.access_tokens(company, &page).unwrap();
            assert_eq!(found, page_of(&tokens, &page));
            rows += found.rows.len();
        }
    }
    assert!(rows > 30, "{rows} tokens compared");
    for app in model.rows.apps.values() {
        assert_eq!(snapshot.row::<App>(app.slot).unwrap().as_ref(), Some(app));
        let live = (!app.is_deleted).then(|| app.clone());
        assert_eq!(snapshot.app_by_id(app.id).unwrap(), live);
    }
    assert_eq!(snapshot.app_by_id(AppId(Uuid::nil())).unwrap(), None);
    for token in model.rows.access_tokens.values() {
        assert_eq!(snapshot.access_token(&token.digest).unwrap().as_ref(), Some(token));
        let found = snapshot.access_token_by_id(token.company, token.id).unwrap();
        assert_eq!(found.as_ref(), Some(token));
        assert_eq!(snapshot.access_token_by_id(CompanySlot(9), token.id).unwrap(), None);
    }
}

#[test]
fn audits_are_those_of_the_slow_store() {
    let records = journal(35, 2_500);
    let (store, model) = (store_of(&records), Model::of(&records));
    let snapshot = store.read().unwrap();
    let mut actors: Vec<_> =
        model.events.iter().flat_map(|event| event.actor.ids()).flatten().collect();
    actors.sort();
    actors.dedup();
    let mut filters = vec![AuditFilter::default()];
    for actor in actors.into_iter().chain([Uuid::max()]) {
        filters.push(AuditFilter { actor: Some(actor), ..AuditFilter::default() });
        let objects = vec![Uuid::from_u128(1)];
        filters.push(AuditFilter { actor: Some(actor), objects, ..AuditFilter::default() });
    }
    for action in ["card.updated", "card.deleted"] {
        let action = Some(action.to_owned());
        filters.push(AuditFilter { action: action.clone(), ..AuditFilter::default() });
        let objects = [1, 2].map(Uuid::from_u128).into();
        filters.push(AuditFilter { action, objects, ..AuditFilter::default() });
    }
    for kind in ["card", "member"] {
        let object_kind = Some(kind.to_owned());
        filters.push(AuditFilter { object_kind, ..AuditFilter::default() });
    }
    let mut rows = 0;
    for company in [None, Some(CompanySlot(0)), Some(CompanySlot(1)), Some(CompanySlot(2))] {
        for filter in &filters {
            let events = model.events.iter().filter(|event| {
                event.company == company
                    && filter.actor.is_none_or(|id| event.actor.ids().contains(&Some(id)))
                    && (filter.objects.is_empty()
                        || event.object.is_some_and(|id| filter.objects.contains(&id)))
                    && filter.object_kind.as_ref().is_none_or(|kind| event.object_kind == *kind)
                    && filter.action.as_ref().is_none_or(|action| event.action == *action)
            });
            let events: Vec<_> = events.map(|event| (event.at, event.clone())).collect();
            for page in pages() {
                let found = snapshot.audit_events(company, filter, &page).unwrap();
                assert_eq!(found, page_of(&events, &page), "{company:?} {filter:?} {page:?}");
                rows += found.rows.len();
            }
        }
    }
    assert!(rows > 200, "{rows} events compared");
}
