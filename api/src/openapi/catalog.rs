//! Which handlers the document of `/v1` shows, in the order of the reference. A test holds the list
//! to the table of scopes: nothing may be missing.

use utoipa::OpenApi;

use crate::routes::{
    accounts, allowances, cards, company, decision, merchant_categories, shipping_addresses,
    statement_lines, statements, transactions,
};

/// The operations of `/v1`.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "cardswitch",
        description = "Expense cards of one company: cards and their allowances, transactions, \
            statements and accounting.\n\nSend `Authorization: Bearer <ACCESS_TOKEN>` (or `Token`). \
            Bodies are JSON objects of at most 64 KiB. Amounts are exact decimal numbers, times are \
            RFC 3339. Unknown keys and parameters are ignored.",
    ),
    tags(
        (name = "Cards"),
        (name = "Allowances"),
        (name = "Shared links"),
        (name = "Transactions"),
        (name = "Requisitions"),
        (name = "Company"),
        (name = "Members"),
        (name = "Accounts and statements"),
        (name = "Dimensions"),
        (name = "Merchant categories"),
    ),
    paths(
        cards::list_cards,
        cards::create_card,
        cards::get_card,
        cards::update_card,
        cards::delete_card,
        allowances::get_allowance,
        allowances::update_allowance,
        transactions::list_transactions,
        transactions::get_transaction,
        decision::get_decision,
        company::get_company,
        shipping_addresses::get_shipping_address,
        accounts::list_accounts,
        accounts::get_account,
        statements::get_csv_statement,
        statements::get_ofx_statement,
        statements::get_pdf_statement,
        statement_lines::list_statement_lines,
        statement_lines::get_statement_line,
        merchant_categories::list_merchant_categories,
    ),
)]
pub(super) struct Catalog;
