//! Which handlers the document of `/v1` shows, in the order of the reference. A test holds the list
//! to the table of scopes: nothing may be missing.

use utoipa::OpenApi;

use crate::routes::{
    accounts, allowances, cards, company, decision, dimension_kinds, merchant_categories, receipts,
    shipping_addresses, statement_lines, statements, transaction_tags, transactions,
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
        transaction_tags::tag_transaction,
        receipts::get_receipt,
        receipts::upload_receipt,
        receipts::lose_receipt,
        receipts::delete_receipt,
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
        dimension_kinds::categories::list,
        dimension_kinds::categories::create,
        dimension_kinds::categories::get,
        dimension_kinds::categories::update,
        dimension_kinds::categories::delete,
        dimension_kinds::departments::list,
        dimension_kinds::departments::create,
        dimension_kinds::departments::get,
        dimension_kinds::departments::update,
        dimension_kinds::departments::delete,
        dimension_kinds::labels::list,
        dimension_kinds::labels::create,
        dimension_kinds::labels::get,
        dimension_kinds::labels::update,
        dimension_kinds::labels::delete,
        dimension_kinds::locations::list,
        dimension_kinds::locations::create,
        dimension_kinds::locations::get,
        dimension_kinds::locations::update,
        dimension_kinds::locations::delete,
        merchant_categories::list_merchant_categories,
    ),
)]
pub(super) struct Catalog;
