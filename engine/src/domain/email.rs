//! E-mail addresses in the form that is compared.

use unicode_normalization::UnicodeNormalization as _;

/// The compared form of an e-mail address: independent of case and of how its letters are composed
/// (Unicode NFC). Every comparison, table and index of addresses goes through here.
pub fn email_key(email: &str) -> String {
    if email.is_ascii() {
        return email.to_ascii_lowercase();
    }
    // Small letters may be composed otherwise than their capitals.
    let small = email.nfc().collect::<String>().to_lowercase();
    small.nfc().collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn addresses_are_one_in_any_case_and_composition() {
        let rows = [
            ("ada@example.com", "ADA@Example.COM"),
            ("j\u{fc}rgen@example.com", "ju\u{308}rgen@example.com"),
            ("j\u{fc}rgen@example.com", "JU\u{308}RGEN@EXAMPLE.COM"),
            ("\u{1e69}@example.com", "s\u{307}\u{323}@example.com"),
        ];
        for (one, other) in rows {
            assert_eq!(email_key(one), email_key(other), "{one} {other}");
        }
        assert_ne!(email_key("ada@example.com"), email_key("adb@example.com"));
        assert_ne!(email_key("j\u{fc}rgen@example.com"), email_key("jurgen@example.com"));
    }

    proptest! {
        /// A key is its own key, for any composition of the address.
        #[test]
        fn keys_are_the_same_however_letters_are_composed(email in "\\PC{0,20}@\\PC{0,10}") {
            let key = email_key(&email);
            prop_assert_eq!(&email_key(&key), &key);
            prop_assert_eq!(email_key(&email.nfd().collect::<String>()), key);
        }
    }
}
