//! Texts in the form that searches compare.

use super::email::email_key;

/// The compared form of a text: that of addresses, and independent of the two small forms of the
/// letter sigma. Which of them lower case writes depends on the letters around it, of which a part
/// of a text has others than the whole.
pub fn search_key(text: &str) -> String {
    email_key(text).replace('ς', "σ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found_in_any_case_and_composition() {
        let rows = [
            ("ΣΊΣΥΦΟΣ shop", "ΣΊΣ"),
            ("ΣΊΣΥΦΟΣ shop", "σίσυφος"),
            ("Σίσυφος", "ΣΊΣΥΦΟΣ"),
            ("CAFE\u{301}", "caf\u{e9}"),
            ("Caf\u{e9}", "FE\u{301}"),
            ("Łukasz", "łUK"),
            ("Rent", "REN"),
        ];
        for (text, part) in rows {
            assert!(search_key(text).contains(&search_key(part)), "{text} {part}");
        }
        assert!(!search_key("Café").contains(&search_key("cafe")));
    }
}
