//! A body that breaks off when the access of the caller ends.

use std::sync::atomic::Ordering;

use axum::body::Body;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::access_token::AccessTokenCommand;
use cardswitch_identity::auth::find_caller;
use cardswitch_identity::auth::lasting_body::LastingBody;
use http_body_util::BodyExt;
use tokio::sync::mpsc;

use crate::bench::Bench;
use crate::test_world::by_switch;

#[tokio::test]
async fn a_body_breaks_off_where_access_ends_while_it_is_waited_for() {
    let Bench { state, .. } = &Bench::new().await;
    let headers = [("authorization".parse().unwrap(), "Token read".parse().unwrap())];
    let caller = find_caller(&headers.into_iter().collect(), state).unwrap();
    let (send, mut sent) = mpsc::channel::<&'static str>(1);
    let pieces = futures_util::stream::poll_fn(move |context| {
        sent.poll_recv(context).map(|piece| piece.map(Ok::<_, std::convert::Infallible>))
    });
    let access = caller.lasting_access(&state.switch);
    let (mut body, has_ended) = LastingBody::new(Body::from_stream(pieces), access);
    send.send("one").await.unwrap();
    assert!(body.frame().await.unwrap().is_ok());
    let reading = tokio::spawn(async move { body.frame().await });
    tokio::task::yield_now().await;
    let revoked =
        AdminCommand::AccessToken(AccessTokenCommand::Revoke(caller.company.id, caller.token));
    by_switch(state).carry_out(revoked).await.unwrap();
    send.send("two").await.unwrap();
    assert!(reading.await.unwrap().unwrap().is_err());
    assert!(has_ended.load(Ordering::Acquire));
}
