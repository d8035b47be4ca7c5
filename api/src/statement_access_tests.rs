//! A statement on its way ends with the access of the caller.

use bytes::Bytes;
use cardswitch_engine::command::admin::AdminCommand;
use cardswitch_engine::directory::access_token::AccessTokenCommand;
use cardswitch_identity::auth::find_caller;
use cardswitch_statements::{GuardedWriter, StatementError, StatementWriter};

use crate::bench::Bench;
use crate::test_world::by_switch;

/// A statement without an end.
struct EndlessStatement;

impl StatementWriter for EndlessStatement {
    fn next_piece(&mut self) -> Result<Option<Bytes>, StatementError> {
        Ok(Some(Bytes::from_static(b"piece")))
    }
}

#[tokio::test]
async fn a_statement_breaks_off_where_access_ends() {
    let Bench { state, .. } = &Bench::new().await;
    let headers = [("authorization".parse().unwrap(), "Token read".parse().unwrap())];
    let caller = find_caller(&headers.into_iter().collect(), state).unwrap();
    let access = caller.lasting_access(&state.switch);
    let mut writer = GuardedWriter::new(EndlessStatement, access);
    assert!(matches!(writer.next_piece(), Ok(Some(_))));
    let revoked =
        AdminCommand::AccessToken(AccessTokenCommand::Revoke(caller.company.id, caller.token));
    by_switch(state).carry_out(revoked).await.unwrap();
    assert!(matches!(writer.next_piece(), Err(StatementError::AccessEnded)));
}
