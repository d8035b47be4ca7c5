//! Kinds of merchants by name.

use cardswitch_engine::domain::allowance::Scope;
use cardswitch_engine::domain::merchant_category;

/// What a merchant category, or a group of them, is called; its number where it has no name.
pub(crate) fn merchant_kind(code: u16) -> String {
    match (merchant_category::group(code), merchant_category::category(code)) {
        (Some(group), _) => group.name.to_owned(),
        (None, Some(category)) => format!("{} ({code:04})", category.name),
        (None, None) => format!("{code:04}"),
    }
}

/// The names of the categories and groups in a scope, with `between` between them.
pub(crate) fn scope_words(scope: &Scope, between: &str) -> String {
    let names: Vec<_> = scope.codes().iter().map(|code| merchant_kind(*code)).collect();
    names.join(between)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_told_by_name() {
        let scope = Scope::new(&[3, 5_812]).unwrap();
        assert_eq!(scope_words(&scope, "; "), "Lodging; Eating places and restaurants (5812)");
        assert_eq!(merchant_kind(9_998), "9998");
    }
}
