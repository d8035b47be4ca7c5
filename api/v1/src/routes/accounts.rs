//! Accounts: the money behind the cards. Source: spec "Accounts and statements".

use cardswitch_edge::error::ApiError;
use cardswitch_edge::input::{Answer, ListQuery, PathId};
use cardswitch_edge::json::Json;
use cardswitch_engine::domain::ids::AccountId;
use cardswitch_engine::store::query::AccountRow;
use cardswitch_identity::auth::Call;
use cardswitch_wire::amount::Amount;
use cardswitch_wire::currency::render_currency;
use cardswitch_wire::page::{Listing, PageParameters, is_within, page_of};
use cardswitch_wire::time::render_time;
use cardswitch_wire::urls::Urls;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::view::{BY_CREATION, list_view, read_view, unfiltered};

/// An account as responses show it. Source: spec "Account".
#[derive(Debug, Serialize, ToSchema)]
pub struct AccountBody {
    id: Uuid,
    url: String,
    name: String,
    number: String,
    /// The currency of its amounts (extension). Source: ISO 4217.
    currency: String,
    ledger_balance: Amount,
    available_balance: Amount,
    available_credit: Amount,
    pending_credits: Amount,
    credit_limit: Amount,
    funding_source: Option<FundingSourceBody>,
    created_at: String,
}

/// Bank account that funds an account.
#[derive(Debug, Serialize, ToSchema)]
pub struct FundingSourceBody {
    name: String,
    is_verified: bool,
}

impl AccountBody {
    /// The account as it is shown.
    pub fn new(row: &AccountRow, urls: &Urls) -> Self {
        let (account, balances) = (&row.account, &row.balances);
        let amount = |minor| Amount::new(minor, account.currency);
        Self {
            id: account.id.0,
            url: urls.object("accounts", account.id.0),
            name: account.name.clone(),
            number: account.number.clone(),
            currency: render_currency(account.currency),
            ledger_balance: amount(balances.ledger),
            available_balance: amount(balances.available_balance()),
            available_credit: amount(balances.available_credit(account.credit_limit)),
            pending_credits: amount(balances.credits_in_transit),
            credit_limit: amount(account.credit_limit),
            funding_source: account.funding_source.as_ref().map(|source| FundingSourceBody {
                name: source.name.to_string(),
                is_verified: source.is_verified,
            }),
            created_at: render_time(account.created_at),
        }
    }
}

/// List the company's accounts.
#[utoipa::path(
    get, path = "/v1/accounts", params(PageParameters),
    responses((status = 200, body = Listing<AccountBody>)),
)]
pub async fn list_accounts(call: Call, list: ListQuery) -> Answer<Json<Listing<AccountBody>>> {
    list_view(&call, list, BY_CREATION, unfiltered, |view, (), page| {
        let mut accounts = view.snapshot.accounts(view.company.slot)?;
        accounts.retain(|row| is_within(page, row.account.created_at));
        page_of(accounts, page).load(|row| Ok(AccountBody::new(&row, view.urls)))
    })
    .await
}

/// Retrieve an account.
#[utoipa::path(
    get, path = "/v1/accounts/{account_id}", responses((status = 200, body = AccountBody)),
)]
pub async fn get_account(call: Call, PathId(id): PathId) -> Answer<Json<AccountBody>> {
    let Call(state, _) = &call;
    let account =
        read_view(&call, |view| view.snapshot.account_by_id(view.company.slot, AccountId(id)));
    let account = account.await?.ok_or_else(ApiError::not_found)?;
    Ok(Json(AccountBody::new(&account, state.urls())))
}
