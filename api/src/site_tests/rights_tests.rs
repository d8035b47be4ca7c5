//! The right that each page of the site demands, by its route. A visitor without it gets the page of a refusal
//! before anything is looked for: so the things of these addresses need not be there.

use std::collections::BTreeSet;

use super::roles_world::{BOOKS, HOLDER, REVIEWER, ROOT, stage, visit};

const ID: &str = "00000000-0000-7000-8000-000000000001";

type Roles = &'static [&'static str];
const ADMINISTRATORS: Roles = &[ROOT];
const BOOKKEEPERS: Roles = &[ROOT, BOOKS];
const REVIEWERS: Roles = &[ROOT, REVIEWER];
const WHO_SEE_MEMBERS: Roles = &[ROOT, BOOKS, REVIEWER];

/// The routes that demand a right, and who has it.
const DEMANDING: [(&str, Roles); 55] = [
    ("GET /apps", ADMINISTRATORS),
    ("GET /apps/new", ADMINISTRATORS),
    ("POST /apps/new", ADMINISTRATORS),
    ("GET /apps/{id}", ADMINISTRATORS),
    ("POST /apps/{id}", ADMINISTRATORS),
    ("POST /apps/{id}/secret", ADMINISTRATORS),
    ("POST /apps/{id}/token", ADMINISTRATORS),
    ("POST /apps/{id}/delete", ADMINISTRATORS),
    ("GET /tokens", BOOKKEEPERS),
    ("POST /tokens/{id}/revoke", ADMINISTRATORS),
    ("GET /audit", ADMINISTRATORS),
    ("GET /peers", ADMINISTRATORS),
    ("POST /cards/suspend", ADMINISTRATORS),
    ("GET /cards/new", ADMINISTRATORS),
    ("POST /cards/new", ADMINISTRATORS),
    ("GET /cards/{id}/edit", ADMINISTRATORS),
    ("POST /cards/{id}/edit", ADMINISTRATORS),
    ("GET /cards/{id}/allowance", ADMINISTRATORS),
    ("POST /cards/{id}/allowance", ADMINISTRATORS),
    ("POST /cards/{id}/state", ADMINISTRATORS),
    ("GET /cards/{id}/close", ADMINISTRATORS),
    ("POST /cards/{id}/close", ADMINISTRATORS),
    ("GET /cards/{id}/links/new", ADMINISTRATORS),
    ("POST /cards/{id}/links/new", ADMINISTRATORS),
    ("POST /cards/{id}/links/{link}/delete", ADMINISTRATORS),
    ("GET /dimensions/{kind}", BOOKKEEPERS),
    ("POST /dimensions/{kind}", BOOKKEEPERS),
    ("GET /dimensions/{kind}/{id}", BOOKKEEPERS),
    ("POST /dimensions/{kind}/{id}", BOOKKEEPERS),
    ("POST /dimensions/{kind}/{id}/delete", BOOKKEEPERS),
    ("GET /members", WHO_SEE_MEMBERS),
    ("GET /members/new", ADMINISTRATORS),
    ("POST /members/new", ADMINISTRATORS),
    ("GET /members/{id}", WHO_SEE_MEMBERS),
    ("POST /members/{id}", ADMINISTRATORS),
    ("GET /members/{id}/deactivate", ADMINISTRATORS),
    ("POST /members/{id}/deactivate", ADMINISTRATORS),
    ("GET /members/{id}/delete", ADMINISTRATORS),
    ("POST /members/{id}/delete", ADMINISTRATORS),
    ("POST /members/{id}/reactivate", ADMINISTRATORS),
    ("POST /members/{id}/invite", ADMINISTRATORS),
    ("POST /requisitions/{id}/review", REVIEWERS),
    ("GET /statements", BOOKKEEPERS),
    ("GET /statements/file", BOOKKEEPERS),
    ("GET /webhooks", ADMINISTRATORS),
    ("GET /webhooks/new", ADMINISTRATORS),
    ("POST /webhooks/new", ADMINISTRATORS),
    ("GET /webhooks/{id}", ADMINISTRATORS),
    ("POST /webhooks/{id}", ADMINISTRATORS),
    ("POST /webhooks/{id}/state", ADMINISTRATORS),
    ("POST /webhooks/{id}/secret", ADMINISTRATORS),
    ("POST /webhooks/{id}/recover", ADMINISTRATORS),
    ("POST /webhooks/{id}/delete", ADMINISTRATORS),
    ("POST /webhooks/{id}/example", ADMINISTRATORS),
    ("POST /webhooks/{id}/attempts/{attempt}/resend", ADMINISTRATORS),
];

/// The routes that demand none: everybody has them, or their pages say what they show to whom. The stream of
/// the overview, which demands one, never ends: it has a test of its own.
const OPEN: [&str; 44] = [
    "GET /",
    "GET /account",
    "POST /account",
    "GET /account/password",
    "POST /account/password",
    "GET /account/question",
    "POST /account/question",
    "POST /account/sessions/end-others",
    "POST /account/sessions/{id}/end",
    "GET /account/totp",
    "POST /account/totp",
    "GET /cards",
    "GET /cards/{id}",
    "GET /cards/{id}/number",
    "POST /cards/{id}/number",
    "POST /company",
    "GET /dimensions",
    "GET /login",
    "POST /login",
    "GET /login/second-factor",
    "POST /login/second-factor",
    "POST /logout",
    "GET /overview",
    "GET /overview/live",
    "GET /password/forgot",
    "POST /password/forgot",
    "GET /password/set/{key}",
    "POST /password/set/{key}",
    "GET /requisitions",
    "GET /requisitions/new",
    "POST /requisitions/new",
    "GET /requisitions/{id}",
    "POST /requisitions/{id}",
    "POST /requisitions/{id}/cancel",
    "GET /search",
    "GET /transactions",
    "GET /transactions/{id}",
    "POST /transactions/{id}",
    "GET /transactions/{id}/receipt",
    "POST /transactions/{id}/receipt",
    "POST /transactions/{id}/receipt/delete",
    "POST /transactions/{id}/receipt/lost",
    "GET /v1/oauth/authorize",
    "POST /v1/oauth/authorize",
];

/// The sources that name routes of members.
const SOURCES: [&str; 9] = [
    include_str!("../../site/src/lib.rs"),
    include_str!("../../site/src/cards/mod.rs"),
    include_str!("../../site/src/dimensions/mod.rs"),
    include_str!("../../site/src/members/mod.rs"),
    include_str!("../../site/src/overview/mod.rs"),
    include_str!("../../site/src/requisitions/mod.rs"),
    include_str!("../../site/src/statements/mod.rs"),
    include_str!("../../site/src/transactions/mod.rs"),
    include_str!("../../site/src/webhooks/mod.rs"),
];

/// The routes of `SOURCES`, as `GET /cards`.
fn routes() -> BTreeSet<String> {
    let mut routes = BTreeSet::new();
    for source in SOURCES {
        for after in source.split(".route(").skip(1) {
            let mut depth = 1;
            let is_inside = |letter: &char| {
                depth += i32::from(*letter == '(') - i32::from(*letter == ')');
                depth > 0
            };
            let route: String = after.chars().take_while(is_inside).collect();
            let path = route.split('"').nth(1).expect("a route begins with its path");
            for (call, method) in [("get(", "GET"), ("post(", "POST")] {
                if route.contains(call) {
                    routes.insert(format!("{method} {path}"));
                }
            }
        }
    }
    routes
}

#[test]
fn every_route_demands_a_right_or_is_known_to_demand_none() {
    let demanding = DEMANDING.iter().map(|(route, _)| *route);
    let known: BTreeSet<_> = demanding.chain(OPEN).map(str::to_owned).collect();
    assert_eq!(known.len(), DEMANDING.len() + OPEN.len(), "a route has one row");
    assert_eq!(routes(), known);
}

#[tokio::test]
async fn a_page_is_refused_to_every_role_without_its_right() {
    let (bench, _) = stage().await;
    for email in [ROOT, BOOKS, REVIEWER, HOLDER] {
        let mut visitor = visit(&bench, email).await;
        for (route, allowed) in DEMANDING {
            let (method, path) = route.split_once(' ').unwrap();
            let path = path
                .replace("{id}", ID)
                .replace("{link}", ID)
                .replace("{attempt}", ID)
                .replace("{kind}", "labels");
            let page = match method {
                "GET" => visitor.get(&path).await,
                _ => {
                    let form = visitor.get("/account").await;
                    visitor.post_from(&form, &path, &[]).await
                }
            };
            let is_refused = page.status == 403 && page.body.contains("Your role at");
            assert_eq!(is_refused, !allowed.contains(&email), "{email}: {route}: {}", page.body);
        }
    }
}
