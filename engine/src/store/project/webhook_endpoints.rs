//! Writes webhook endpoints, with the lists they are found in, and which tokens apps hold: who an
//! app's endpoints are told of follows from those.

use std::collections::BTreeMap;

use redb::{ReadableTable, WriteTransaction};

use super::organization::{set_listed, stored_row};
use super::write::write_table;
use crate::domain::member::AccessToken;
use crate::domain::webhook_endpoint::WebhookEndpoint;
use crate::store::error::StoreError;
use crate::store::rows;
use crate::store::tables::{
    ACCESS_TOKENS, APP_TOKENS, COMPANY_WEBHOOK_ENDPOINTS, TOKEN_GRANTS, WEBHOOK_ENDPOINT_IDS,
    WEBHOOK_ENDPOINTS,
};

pub(super) fn write_endpoints(
    write_txn: &WriteTransaction,
    rows: &BTreeMap<u32, WebhookEndpoint>,
) -> Result<(), StoreError> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut ids = write_txn.open_table(WEBHOOK_ENDPOINT_IDS)?;
    let mut listed = write_txn.open_table(COMPANY_WEBHOOK_ENDPOINTS)?;
    for (slot, row) in rows {
        ids.insert(row.id.0.as_u128(), slot)?;
        set_listed(&mut listed, (row.company.0, *slot), !row.is_deleted)?;
    }
    write_table(write_txn, &WEBHOOK_ENDPOINTS, rows)
}

/// Lists the tokens that apps hold. Comes behind what tokens were given for.
pub(super) fn list_app_tokens<'a>(
    write_txn: &WriteTransaction,
    tokens: impl Iterator<Item = &'a AccessToken>,
) -> Result<(), StoreError> {
    let mut tokens = tokens.peekable();
    if tokens.peek().is_none() {
        return Ok(());
    }
    let grants = write_txn.open_table(TOKEN_GRANTS.definition())?;
    let mut listed = write_txn.open_table(APP_TOKENS)?;
    for token in tokens {
        let id = token.id.0.as_u128();
        let grant = stored_row(&TOKEN_GRANTS, &grants, id)?;
        if let Some(app) = grant.and_then(|grant| grant.app) {
            set_listed(&mut listed, (app.0, token.company.0, id), !token.is_revoked)?;
        }
    }
    Ok(())
}

/// Lists the tokens that apps hold in tables that were made before there was this list.
pub(in crate::store) fn list_all_app_tokens(
    write_txn: &WriteTransaction,
) -> Result<(), StoreError> {
    let mut tokens = Vec::new();
    for entry in write_txn.open_table(ACCESS_TOKENS.definition())?.iter()? {
        tokens.push(rows::decode::<AccessToken>(ACCESS_TOKENS.name(), entry?.1.value())?);
    }
    list_app_tokens(write_txn, tokens.iter())
}
