//! What a caller needs for each operation of `/v1`: the one table that requests are checked against
//! and the published document shows.
//!
//! INVARIANT: what has no row here is not served: a path without one answers 404 and a method
//! without one 405, whatever handler stands behind it.

use cardswitch_engine::directory::access_token::AccessScope;

use self::Needed::{Accountant, Admin, Read, Settings};

/// What the scope of a token must have. Source: spec "Authentication", scopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needed {
    /// Nothing: every token reads.
    Read,
    /// The books: dimensions, tags, notes and receipts.
    Accountant,
    /// Everything else that can be changed, and what is secret.
    Admin,
    /// The company's settings: how its people sign in needs `iam`, the rest `admin`. The handler looks
    /// which of them a body has.
    Settings,
}

impl Needed {
    /// The scopes of which one suffices; none where any token does.
    #[must_use]
    pub const fn scopes(self) -> &'static [&'static str] {
        match self {
            Read => &[],
            Accountant => &["accountant", "admin"],
            Admin => &["admin"],
            Settings => &["iam", "admin"],
        }
    }

    /// Whether a token of this scope will do.
    #[must_use]
    pub const fn is_met_by(self, scope: AccessScope) -> bool {
        match self {
            Read => true,
            Accountant => scope.accountant || scope.admin,
            Admin => scope.admin,
            Settings => scope.iam || scope.admin,
        }
    }
}

/// An operation, and what it needs.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// `GET`, `POST`, `PUT` or `DELETE`. Who may get may ask for the head alone.
    pub method: &'static str,
    /// The path as the router has it.
    pub path: &'static str,
    /// What the caller needs.
    pub needed: Needed,
}

const fn row(method: &'static str, path: &'static str, needed: Needed) -> Row {
    Row { method, path, needed }
}

/// Every operation of `/v1`.
#[rustfmt::skip]
pub const TABLE: &[Row] = &[
    row("GET",    "/v1/cards", Read),
    row("POST",   "/v1/cards", Admin),
    row("POST",   "/v1/cards/bulk", Admin),
    row("GET",    "/v1/cards/{card_id}", Read),
    row("PUT",    "/v1/cards/{card_id}", Admin),
    row("DELETE", "/v1/cards/{card_id}", Admin),
    row("GET",    "/v1/cards/{card_id}/number", Admin),
    row("PUT",    "/v1/cards/{card_id}/pin", Admin),
    row("GET",    "/v1/allowances/{allowance_id}", Read),
    row("PUT",    "/v1/allowances/{allowance_id}", Admin),
    row("GET",    "/v1/shared-links", Admin),
    row("POST",   "/v1/shared-links", Admin),
    row("GET",    "/v1/shared-links/{shared_link_id}", Admin),
    row("PUT",    "/v1/shared-links/{shared_link_id}", Admin),
    row("DELETE", "/v1/shared-links/{shared_link_id}", Admin),
    row("GET",    "/v1/transactions", Read),
    row("GET",    "/v1/transactions/{transaction_id}", Read),
    row("PUT",    "/v1/transactions/{transaction_id}", Accountant),
    row("GET",    "/v1/transactions/{transaction_id}/decision", Read),
    row("GET",    "/v1/transactions/{transaction_id}/receipt", Read),
    row("POST",   "/v1/transactions/{transaction_id}/receipt", Accountant),
    row("PUT",    "/v1/transactions/{transaction_id}/receipt", Accountant),
    row("DELETE", "/v1/transactions/{transaction_id}/receipt", Accountant),
    row("GET",    "/v1/requisitions", Read),
    row("POST",   "/v1/requisitions", Admin),
    row("GET",    "/v1/requisitions/{requisition_id}", Read),
    row("PUT",    "/v1/requisitions/{requisition_id}", Admin),
    row("DELETE", "/v1/requisitions/{requisition_id}", Admin),
    row("GET",    "/v1/company", Read),
    row("PUT",    "/v1/company", Settings),
    row("GET",    "/v1/shipping-addresses/{shipping_address_id}", Read),
    row("GET",    "/v1/members", Read),
    row("POST",   "/v1/members", Admin),
    row("GET",    "/v1/members/{member_id}", Read),
    row("PUT",    "/v1/members/{member_id}", Admin),
    row("DELETE", "/v1/members/{member_id}", Admin),
    row("GET",    "/v1/access-tokens", Admin),
    row("GET",    "/v1/access-tokens/{access_token_id}", Admin),
    row("DELETE", "/v1/access-tokens/{access_token_id}", Admin),
    row("GET",    "/v1/audit-events", Admin),
    row("GET",    "/v1/events", Read),
    row("GET",    "/v1/events/stream", Read),
    row("GET",    "/v1/webhook-endpoints", Admin),
    row("POST",   "/v1/webhook-endpoints", Admin),
    row("GET",    "/v1/webhook-endpoints/{webhook_endpoint_id}", Admin),
    row("PUT",    "/v1/webhook-endpoints/{webhook_endpoint_id}", Admin),
    row("DELETE", "/v1/webhook-endpoints/{webhook_endpoint_id}", Admin),
    row("POST",   "/v1/webhook-endpoints/{webhook_endpoint_id}/rotate-secret", Admin),
    row("POST",   "/v1/webhook-endpoints/{webhook_endpoint_id}/recover", Admin),
    row("POST",   "/v1/webhook-endpoints/{webhook_endpoint_id}/test", Admin),
    row("GET",    "/v1/webhook-endpoints/{webhook_endpoint_id}/attempts", Admin),
    row("POST",   "/v1/webhook-endpoints/{webhook_endpoint_id}/attempts/{attempt_id}/resend", Admin),
    row("GET",    "/v1/accounts", Read),
    row("GET",    "/v1/accounts/{account_id}", Read),
    row("GET",    "/v1/accounts/{account_id}/statement.csv", Read),
    row("GET",    "/v1/accounts/{account_id}/statement.ofx", Read),
    row("GET",    "/v1/accounts/{account_id}/statement.pdf", Read),
    row("GET",    "/v1/accounts/{account_id}/statement-lines", Read),
    row("GET",    "/v1/accounts/{account_id}/statement-lines/{statement_line_id}", Read),
    row("GET",    "/v1/categories", Read),
    row("POST",   "/v1/categories", Accountant),
    row("GET",    "/v1/categories/{category_id}", Read),
    row("PUT",    "/v1/categories/{category_id}", Accountant),
    row("DELETE", "/v1/categories/{category_id}", Accountant),
    row("GET",    "/v1/departments", Read),
    row("POST",   "/v1/departments", Accountant),
    row("GET",    "/v1/departments/{department_id}", Read),
    row("PUT",    "/v1/departments/{department_id}", Accountant),
    row("DELETE", "/v1/departments/{department_id}", Accountant),
    row("GET",    "/v1/labels", Read),
    row("POST",   "/v1/labels", Accountant),
    row("GET",    "/v1/labels/{label_id}", Read),
    row("PUT",    "/v1/labels/{label_id}", Accountant),
    row("DELETE", "/v1/labels/{label_id}", Accountant),
    row("GET",    "/v1/locations", Read),
    row("POST",   "/v1/locations", Accountant),
    row("GET",    "/v1/locations/{location_id}", Read),
    row("PUT",    "/v1/locations/{location_id}", Accountant),
    row("DELETE", "/v1/locations/{location_id}", Accountant),
    row("GET",    "/v1/merchant-categories", Read),
];

/// The operations of `/v1` that ask for no access token: how apps come by one. They stand outside of
/// the check, and are here for the document.
pub const OPEN: &[(&str, &str)] = &[
    ("POST", "/v1/oauth/token"),
    ("GET", "/v1/oauth/token/challenge"),
    ("POST", "/v1/oauth/token/challenge"),
    ("POST", "/v1/oauth/token/revoke"),
];

/// Whether an operation asks for no access token.
#[must_use]
pub fn is_open(method: &str, path: &str) -> bool {
    OPEN.contains(&(method, path))
}

/// What an operation needs; none where there is no such operation.
#[must_use]
pub fn find_needed(method: &str, path: &str) -> Option<Needed> {
    let method = if method == "HEAD" { "GET" } else { method };
    let row = TABLE.iter().find(|row| row.path == path && row.method == method)?;
    Some(row.needed)
}

/// The methods of a path, as the header `Allow` lists them; none where there is no such path.
#[must_use]
pub fn allowed_methods(path: &str) -> Option<String> {
    let rows = TABLE.iter().filter(|row| row.path == path);
    let names = rows.map(|row| if row.method == "GET" { "GET,HEAD" } else { row.method });
    let listed = names.collect::<Vec<_>>().join(",");
    (!listed.is_empty()).then_some(listed)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const SCOPES: [(&str, AccessScope); 5] = {
        let none = AccessScope { accountant: false, admin: false, scim: false, iam: false };
        [
            ("", none),
            ("accountant", AccessScope { accountant: true, ..none }),
            ("admin", AccessScope { admin: true, ..none }),
            ("scim", AccessScope { scim: true, ..none }),
            ("iam", AccessScope { iam: true, ..none }),
        ]
    };

    #[test]
    fn the_scopes_named_are_those_that_suffice() {
        for needed in [Read, Accountant, Admin, Settings] {
            for (name, scope) in SCOPES {
                let is_named = needed.scopes().is_empty() || needed.scopes().contains(&name);
                assert_eq!(needed.is_met_by(scope), is_named, "{needed:?} {name}");
            }
        }
    }

    #[test]
    fn an_operation_has_one_row() {
        let rows: BTreeSet<_> = TABLE.iter().map(|row| (row.path, row.method)).collect();
        assert_eq!(rows.len(), TABLE.len());
    }

    #[test]
    fn nothing_is_found_that_has_no_row() {
        let cards = "/v1/cards";
        assert_eq!(find_needed("GET", cards), Some(Read));
        assert_eq!(find_needed("HEAD", cards), Some(Read));
        assert_eq!(find_needed("POST", cards), Some(Admin));
        for (method, path) in [("PATCH", cards), ("get", cards), ("GET", "/v1/card"), ("GET", "")] {
            assert_eq!(find_needed(method, path), None, "{method} {path}");
        }
        assert_eq!(allowed_methods(cards).as_deref(), Some("GET,HEAD,POST"));
        assert_eq!(allowed_methods("/v1/nothing"), None);
    }
}
