//! Which handlers the document of `/v1` shows, in the order of the reference. A test holds the list
//! to the table of scopes: nothing may be missing.

use utoipa::OpenApi;

use crate::oauth;
use crate::routes::{
    access_tokens, accounts, allowances, audit_events, card_secrets, cards, cards_at_once, company,
    decision, dimensions, members, merchant_categories, receipts, requisitions, shared_links,
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
        (name = "Access tokens"),
        (name = "Audit log"),
        (name = "OAuth"),
    ),
    paths(
        cards::list_cards,
        cards::create_card,
        cards::get_card,
        cards::update_card,
        cards::delete_card,
        cards_at_once::create_cards,
        card_secrets::get_number,
        card_secrets::set_pin,
        allowances::get_allowance,
        allowances::update_allowance,
        shared_links::list_shared_links,
        shared_links::create_shared_link,
        shared_links::get_shared_link,
        shared_links::update_shared_link,
        shared_links::delete_shared_link,
        transactions::list_transactions,
        transactions::get_transaction,
        transaction_tags::tag_transaction,
        decision::get_decision,
        receipts::get_receipt,
        receipts::upload_receipt,
        receipts::lose_receipt,
        receipts::delete_receipt,
        requisitions::list_requisitions,
        requisitions::create_requisition,
        requisitions::get_requisition,
        requisitions::update_requisition,
        requisitions::delete_requisition,
        company::get_company,
        company::update_company,
        shipping_addresses::get_shipping_address,
        members::list_members,
        members::create_member,
        members::get_member,
        members::update_member,
        members::delete_member,
        accounts::list_accounts,
        accounts::get_account,
        statements::get_csv_statement,
        statements::get_ofx_statement,
        statements::get_pdf_statement,
        statement_lines::list_statement_lines,
        statement_lines::get_statement_line,
        dimensions::list_dimensions,
        dimensions::create_dimension,
        dimensions::get_dimension,
        dimensions::update_dimension,
        dimensions::delete_dimension,
        merchant_categories::list_merchant_categories,
        access_tokens::list_access_tokens,
        access_tokens::get_access_token,
        access_tokens::revoke_access_token,
        audit_events::list_audit_events,
        oauth::create_token,
        oauth::get_challenge,
        oauth::answer_challenge,
        oauth::revoke_tokens,
    ),
)]
pub(super) struct Catalog;
