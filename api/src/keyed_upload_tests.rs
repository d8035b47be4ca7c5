//! Uploads and other bodies with an idempotency key: no more of them are in memory than without one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::routing::post;
use cardswitch_edge::company_turns::CompanyTurn;
use cardswitch_edge::error::ApiError;
use cardswitch_edge::idempotency_header::IDEMPOTENCY_KEY;
use cardswitch_edge::input::BODY_BYTES_MAX;
use cardswitch_edge::token_rate::TokenRate;
use cardswitch_engine::domain::ids::CompanySlot;
use cardswitch_identity::auth::find_caller;
use cardswitch_identity::idempotency::{RouteManners, once_per_key};
use cardswitch_v1::routes::cards_at_once::BULK_BODY_BYTES_MAX;
use futures_util::{FutureExt, StreamExt, stream};
use tokio::sync::Notify;
use tower::ServiceExt;

use crate::bench::{Bench, amount, id_of, virtual_card};
use crate::router;
use crate::test_world::served;

const PDF: &str = "%PDF-1.7 lunch";
const NO_TRANSACTION: &str = "/v1/transactions/0198f2a0-1b2c-7d3e-8f40-5a6b7c8d9e0f/receipt";

/// A file that is asked for once its reader begins to read.
fn file(is_read: &Arc<AtomicBool>) -> Body {
    let is_read = Arc::clone(is_read);
    let pieces = stream::once(async move {
        is_read.store(true, Ordering::SeqCst);
        Ok::<_, std::convert::Infallible>(PDF)
    });
    Body::from_stream(pieces)
}

fn upload(token: &str, path: &str, body: Body) -> Request {
    Request::post(path)
        .header(AUTHORIZATION, format!("Token {token}"))
        .header(CONTENT_TYPE, "application/pdf")
        .header(IDEMPOTENCY_KEY, "one")
        .body(body)
        .unwrap()
}

async fn status_of(routes: Router, request: Request) -> u16 {
    routes.oneshot(request).await.unwrap().status().as_u16()
}

/// The path of the receipt of a purchase.
async fn receipt_path(bench: &Bench) -> String {
    let card = bench.order(virtual_card()).await;
    assert!(bench.authorize(&card, amount(1_000)).await);
    let newest = bench.get("/v1/transactions?limit=1").await;
    format!("/v1/transactions/{}/receipt", id_of(&newest["results"][0]))
}

fn company_of(bench: &Bench, token: &str) -> CompanySlot {
    let headers = [(AUTHORIZATION, format!("Token {token}").parse().unwrap())];
    find_caller(&headers.into_iter().collect(), &bench.state).unwrap().company.slot
}

/// A turn of a company that is free now.
fn free_turn(bench: &Bench, company: CompanySlot) -> Option<CompanyTurn> {
    bench.state.receipts.turn(company).now_or_never().flatten()
}

/// Lets the tasks of this test go on until they wait for something.
async fn let_others_run() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// The whole file came before anybody looked whether its sender may upload.
#[tokio::test]
async fn who_may_not_upload_is_refused_before_the_file_comes() {
    let mut bench = Bench::new().await;
    let is_read = Arc::default();
    let request = upload("read", NO_TRANSACTION, file(&is_read));
    assert_eq!(status_of(bench.routes.clone(), request).await, 403);
    assert!(!is_read.load(Ordering::SeqCst), "the scope is too small");
    bench.state.token_rate = Arc::new(TokenRate::per_second(1));
    let routes = router::whole(served(bench.state.clone()));
    loop {
        let is_read = Arc::default();
        let request = upload("admin", NO_TRANSACTION, file(&is_read));
        let status = status_of(routes.clone(), request).await;
        assert_eq!(is_read.load(Ordering::SeqCst), status == 404, "{status}");
        if status == 429 {
            break;
        }
    }
}

/// The whole body came, up to that of the longest operation, before anybody looked.
#[tokio::test]
async fn a_body_with_a_key_comes_for_those_who_may_send_it_and_within_the_bound_of_its_path() {
    let bench = Bench::new().await;
    let rows = [
        ("read", "/v1/cards", 0, (403, false)),
        ("nobody", "/v1/cards", 0, (401, false)),
        ("admin", "/v1/cards", 0, (400, true)),
        ("admin", "/v1/cards", BODY_BYTES_MAX + 1, (413, false)),
        ("admin", "/v1/cards/bulk", BODY_BYTES_MAX + 1, (400, true)),
        ("admin", "/v1/cards/bulk", BULK_BODY_BYTES_MAX + 1, (413, false)),
    ];
    for (token, path, bytes, expected) in rows {
        let is_read = Arc::default();
        let (first, last) = (Body::from(vec![b' '; bytes]), file(&is_read));
        let pieces = first.into_data_stream().chain(last.into_data_stream());
        let mut request = upload(token, path, Body::from_stream(pieces));
        request.headers_mut().insert(CONTENT_TYPE, "application/json".parse().unwrap());
        let status = status_of(bench.routes.clone(), request).await;
        assert_eq!((status, is_read.load(Ordering::SeqCst)), expected, "{token} {path} {bytes}");
    }
}

/// Files came outside of the turns, as many at once as there were requests.
#[tokio::test]
async fn a_file_comes_in_the_turn_of_its_company_and_needs_no_second() {
    let bench = Bench::new().await;
    let (path, company) = (receipt_path(&bench).await, company_of(&bench, "admin"));
    let _held = free_turn(&bench, company).unwrap();
    let last = free_turn(&bench, company).unwrap();
    let is_read = Arc::default();
    let request = upload("admin", &path, file(&is_read));
    let asked = tokio::spawn(status_of(bench.routes.clone(), request));
    let_others_run().await;
    assert!(!is_read.load(Ordering::SeqCst), "the company has no turn left");
    drop(last);
    assert_eq!(asked.await.unwrap(), 201);
    assert!(is_read.load(Ordering::SeqCst));
    assert!(free_turn(&bench, company).is_some(), "the turn ends with the request");
}

/// Whoever hung up gave up their place, while the switch still had the file.
#[tokio::test]
async fn hanging_up_does_not_free_the_turn_while_the_file_is_there() {
    let bench = Bench::new().await;
    let company = company_of(&bench, "admin");
    let (begun, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (tell, wait) = (Arc::clone(&begun), Arc::clone(&go));
    let handler = move |request: Request| async move {
        tell.notify_one();
        wait.notified().await;
        drop(request);
    };
    let path = "/v1/transactions/{transaction_id}/receipt";
    let routes = Router::new().route(path, post(handler));
    let routes = once_per_key(routes, bench.state.clone(), RouteManners::V1);
    let routes = routes.with_state(bench.state.clone());
    let routes = router::finish(routes, async || ApiError::not_found());
    let asked = upload("admin", NO_TRANSACTION, Body::from(PDF));
    let asked = tokio::spawn(status_of(routes, asked));
    begun.notified().await;
    asked.abort();
    assert!(asked.await.is_err(), "the client has hung up");
    let _held = free_turn(&bench, company).unwrap();
    assert!(free_turn(&bench, company).is_none(), "one of two is the file's");
    go.notify_one();
    while free_turn(&bench, company).is_none() {
        tokio::task::yield_now().await;
    }
}
