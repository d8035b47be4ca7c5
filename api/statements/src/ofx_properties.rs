//! Properties of a name of any letters in a statement. The fuzz target `ofx_names` and the test
//! below run them.

use cardswitch_engine::domain::money::CurrencyCode;
use cardswitch_wire::xml::is_well_formed;
use chrono_tz::Tz;
use quick_xml::escape::unescape;

use super::{NAME_CHARS_MAX, OfxElements, cut};

/// A name is one line of bounded length, and readers of XML find it as it was written.
pub fn check(text: &str) {
    let name = cut(text, NAME_CHARS_MAX);
    assert!(name.chars().count() <= NAME_CHARS_MAX, "{name:?}");
    assert!(!name.chars().any(char::is_control), "{name:?}");
    assert_eq!(cut(&name, NAME_CHARS_MAX), name, "a cut name stays as it is");
    let mut elements = OfxElements::new(CurrencyCode(840), Tz::UTC);
    elements.text("NAME", &name).expect("memory takes everything");
    let element = String::from_utf8(elements.finish().to_vec()).expect("a statement is text");
    assert!(is_well_formed(&element), "{element:?}");
    let inner = element.strip_prefix("<NAME>").and_then(|rest| rest.strip_suffix("</NAME>"));
    let read = inner.and_then(|inner| unescape(inner).ok());
    assert_eq!(read.as_deref(), Some(name.as_str()), "{element:?}");
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_name_is_read_back_as_it_was_written(
            letters in vec(prop_oneof![
                4 => any::<char>(),
                1 => proptest::sample::select(&['<', '>', '&', '"', '\'', ']', ';', '#', ' '][..]),
                1 => proptest::sample::select(
                    &['\0', '\n', '\u{85}', '\u{a0}', '\u{2028}', '\u{202e}', '\u{feff}', '\u{fffe}'][..]
                ),
            ], 0..60),
        ) {
            super::check(&letters.into_iter().collect::<String>());
        }
    }
}
