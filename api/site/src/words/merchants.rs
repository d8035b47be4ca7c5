//! Kinds of merchants by name.

use cardswitch_engine::domain::merchant_category;

/// The name of a merchant category, or of a group of them; its number where it has no name.
pub(crate) fn merchant_kind(code: u16) -> String {
    match (merchant_category::group(code), merchant_category::category(code)) {
        (Some(group), _) => group.name.to_owned(),
        (None, Some(category)) => {
            format!("{} ({code:04})", category.name.replace(" -- ", ": "))
        }
        (None, None) => format!("{code:04}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_and_categories_have_names() {
        let rows = [
            (3, "Lodging"),
            (5_812, "Eating places and restaurants (5812)"),
            (9_998, "9998"),
            (1_520, "General contractors: residential and commercial (1520)"),
        ];
        for (code, name) in rows {
            assert_eq!(merchant_kind(code), name);
        }
    }
}
