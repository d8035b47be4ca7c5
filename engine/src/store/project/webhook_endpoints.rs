//! Writes webhook endpoints, with the lists they are found in.

use std::collections::BTreeMap;

use redb::WriteTransaction;

use super::organization::set_listed;
use super::write::write_table;
use crate::domain::webhook_endpoint::WebhookEndpoint;
use crate::store::error::StoreError;
use crate::store::tables::{COMPANY_WEBHOOK_ENDPOINTS, WEBHOOK_ENDPOINT_IDS, WEBHOOK_ENDPOINTS};

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
