//! Every operation of `/v1`, one line each: the access it needs, and its handler. Method, path and
//! description stand above the handler (`#[utoipa::path]`).

use std::sync::LazyLock;

use cardswitch_edge::operation::{AccessTable, Operation};
use cardswitch_edge::operations;
use cardswitch_edge::required_access::RequiredAccess;
use cardswitch_identity::oauth;
use cardswitch_identity::state::AppState;
use cardswitch_wire::reference::DIMENSION_FIELDS;
use utoipa::OpenApi;

use crate::routes::*;

/// The operations that ask for an access token.
pub fn guarded() -> impl Iterator<Item = &'static Operation<AppState>> {
    OPERATIONS.iter().filter(|operation| operation.needed != RequiredAccess::Open)
}

/// The operations that ask for none.
pub fn open() -> impl Iterator<Item = &'static Operation<AppState>> {
    OPERATIONS.iter().filter(|operation| operation.needed == RequiredAccess::Open)
}

/// Whether an operation asks for no access token.
pub fn is_open(method: &str, path: &str) -> bool {
    open().any(|operation| operation.method == method && operation.path == path)
}

/// The paths that take longer bodies than others, with their bounds. Units: bytes.
pub const LONG_BODIES: [(&str, usize); 2] = [
    ("/v1/cards/bulk", cards_at_once::BULK_BODY_BYTES_MAX),
    ("/v1/company", company::COMPANY_BODY_BYTES_MAX),
];

/// The access that each guarded operation needs.
pub static ACCESS: LazyLock<AccessTable> = LazyLock::new(|| AccessTable::of(&OPERATIONS));

/// The head of the document of `/v1`: its title and description.
#[derive(OpenApi)]
#[openapi(info(
    title = "cardswitch",
    description = "Expense cards of one company: cards and their allowances, transactions, \
            statements and accounting.\n\nSend `Authorization: Bearer <ACCESS_TOKEN>` (or `Token`). \
            Bodies are JSON objects of at most 64 KiB. Amounts are exact decimal numbers, times are \
            RFC 3339. Unknown keys and parameters are ignored.",
))]
pub struct CompanyDocument;

/// Every operation of `/v1`, in the order of the reference.
pub static OPERATIONS: LazyLock<Vec<Operation<AppState>>> = LazyLock::new(|| {
    let operations = operations! {
        "Cards": "Cards, their numbers and PINs." {
            Read       cards::list_cards,
            Admin      cards::create_card,
            Read       cards::get_card,
            Admin      cards::update_card,
            Admin      cards::delete_card,
            Admin      cards_at_once::create_cards,
            Admin      card_secrets::get_number,
            Admin      card_secrets::set_pin,
        }
        "Allowances": "Spending limits of a card: budget, interval and scope." {
            Read       allowances::get_allowance,
            Admin      allowances::update_allowance,
        }
        "Shared links": "Pages that show a card to somebody without an account." {
            Admin      shared_links::list_shared_links,
            Admin      shared_links::create_shared_link,
            Admin      shared_links::get_shared_link,
            Admin      shared_links::update_shared_link,
            Admin      shared_links::delete_shared_link,
        }
        "Transactions": "Purchases and other movements, their settlement, and notes of the company." {
            Read       transactions::list_transactions,
            Read       transactions::get_transaction,
            Accountant transaction_tags::tag_transaction,
            Read       decision::get_decision,
            Read       receipts::get_receipt,
            Accountant receipts::upload_receipt,
            Accountant receipts::lose_receipt,
            Accountant receipts::delete_receipt,
        }
        "Requisitions": "Requests of members for cards and budgets, and their review." {
            Read       requisitions::list_requisitions,
            Admin      requisitions::create_requisition,
            Read       requisitions::get_requisition,
            Admin      requisitions::update_requisition,
            Admin      requisitions::delete_requisition,
        }
        "Company": "The company itself, and where it is." {
            Read       company::get_company,
            Settings   company::update_company,
            Read       shipping_addresses::get_shipping_address,
        }
        "Members": "The people of the company." {
            Read       members::list_members,
            Admin      members::create_member,
            Read       members::get_member,
            Admin      members::update_member,
            Admin      members::delete_member,
        }
        "Accounts and statements": "The money of the company, line by line and as files." {
            Read       accounts::list_accounts,
            Read       accounts::get_account,
            Read       statements::get_csv_statement,
            Read       statements::get_ofx_statement,
            Read       statements::get_pdf_statement,
            Read       statement_lines::list_statement_lines,
            Read       statement_lines::get_statement_line,
        }
        "Dimensions": "Categories, departments, labels and locations: what transactions are booked under." {
            Read       dimensions::list_dimensions,
            Accountant dimensions::create_dimension,
            Read       dimensions::get_dimension,
            Accountant dimensions::update_dimension,
            Accountant dimensions::delete_dimension,
        }
        "Merchant categories": "Numbers of a scope." {
            Read       merchant_categories::list_merchant_categories,
        }
        "Access tokens": "The tokens that may ask for the company." {
            Admin      access_tokens::list_access_tokens,
            Admin      access_tokens::get_access_token,
            Admin      access_tokens::revoke_access_token,
        }
        "Audit log": "Changes, with their actors." {
            Admin      audit_events::list_audit_events,
        }
        "Events": "Changes of transactions, as they happen." {
            Read       events::list_events,
            Read       events::stream_events,
        }
        "Webhooks": "Endpoints that events are sent to, and each attempt." {
            Admin      webhook_endpoints::list_webhook_endpoints,
            Admin      webhook_endpoints::create_webhook_endpoint,
            Admin      webhook_endpoints::get_webhook_endpoint,
            Admin      webhook_endpoints::update_webhook_endpoint,
            Admin      webhook_endpoints::delete_webhook_endpoint,
            Admin      webhook_endpoints::rotate_webhook_secret,
            Admin      webhook_endpoints::recover_webhook_endpoint,
            Admin      webhook_attempts::send_webhook_example,
            Admin      webhook_attempts::list_webhook_attempts,
            Admin      webhook_attempts::resend_webhook,
        }
        "OAuth": "Access tokens for apps." {
            Open       oauth::create_token,
            Open       oauth::get_challenge,
            Open       oauth::answer_challenge,
            Open       oauth::revoke_tokens,
        }
    };
    operations.into_iter().flat_map(of_each_dimension).collect()
});

/// Categories, departments, labels and locations share their handlers, which are described as those
/// of categories.
fn of_each_dimension(operation: Operation<AppState>) -> Vec<Operation<AppState>> {
    if !operation.path.starts_with("/v1/categories") {
        return vec![operation];
    }
    let of =
        |singular| Operation { path: path_of_dimension(&operation.path, singular), ..operation };
    DIMENSION_FIELDS.into_iter().map(of).collect()
}

/// The path of another dimension, made from that of categories.
pub fn path_of_dimension(path: &str, singular: &str) -> String {
    let plural = if singular == "category" { "categories" } else { &format!("{singular}s") };
    path.replace("category_id", &format!("{singular}_id")).replace("categories", plural)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn an_operation_has_one_line() {
        let lines: BTreeSet<_> = OPERATIONS.iter().map(|line| (&line.path, line.method)).collect();
        assert_eq!(lines.len(), OPERATIONS.len());
    }

    #[test]
    fn nothing_is_found_that_has_no_line() {
        let cards = "/v1/cards";
        assert_eq!(ACCESS.needed("GET", cards), Some(RequiredAccess::Read));
        assert_eq!(ACCESS.needed("HEAD", cards), Some(RequiredAccess::Read));
        assert_eq!(ACCESS.needed("POST", cards), Some(RequiredAccess::Admin));
        let unknown = [("PATCH", cards), ("get", cards), ("GET", "/v1/card"), ("GET", "")];
        for (method, path) in unknown.into_iter().chain([("POST", "/v1/oauth/token")]) {
            assert_eq!(ACCESS.needed(method, path), None, "{method} {path}");
        }
        assert_eq!(ACCESS.allowed_methods(cards).as_deref(), Some("GET,HEAD,POST"));
        assert_eq!(ACCESS.allowed_methods("/v1/nothing"), None);
    }
}
