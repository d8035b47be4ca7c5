//! Properties of filters of any text. The fuzz target `scim_filter` and the test below run them.

use cardswitch_wire::time::parse_time;

use super::super::attribute::Field;
use super::{FieldValue, Filter};

/// Either a filter or its negation accepts a user, never both. Text that is no filter is refused.
pub fn check(text: &str) {
    let Ok(filter) = Filter::parse(text) else { return };
    let _ = filter.sole_text();
    // Brackets around it may make it too long or too deep.
    let negation = Filter::parse(&format!("not ({text})"));
    for has_values in [true, false] {
        let accepts = filter.accepts(&mut |field| value_of(field, has_values));
        if let Ok(negation) = &negation {
            let accepts_not = negation.accepts(&mut |field| value_of(field, has_values));
            assert_ne!(accepts, accepts_not, "{text:?}");
        }
    }
}

fn value_of(field: Field, has_values: bool) -> Option<FieldValue<'static>> {
    has_values.then_some(())?;
    Some(match field {
        Field::Active | Field::EmailPrimary => FieldValue::Flag(true),
        Field::Created => FieldValue::Time(parse_time("2026-03-01T10:00:00Z")?),
        _ => FieldValue::Text("Ada@Example.com"),
    })
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    const PIECES: [&str; 26] = [
        "(",
        ")",
        "[",
        "]",
        "not",
        "and",
        "or",
        "eq",
        "ne",
        "co",
        "sw",
        "gt",
        "le",
        "pr",
        "userName",
        "emails",
        "value",
        "active",
        "meta.created",
        "unknown",
        "true",
        "null",
        "12",
        "\"ada\"",
        "\"2026-03-01T10:00:00Z\"",
        "\"\\ud800\"",
    ];
    const COMPARISONS: [&str; 5] = [
        "userName pr",
        "active eq true",
        "meta.created lt \"2027-01-01T00:00:00Z\"",
        "x eq 1",
        "emails[value co \"A\"]",
    ];

    proptest! {
        #[test]
        fn any_text_is_a_filter_or_none(text in ".{0,120}") {
            super::check(&text);
        }

        #[test]
        fn any_order_of_pieces_is_a_filter_or_none(
            pieces in vec(proptest::sample::select(&PIECES[..]), 0..40),
        ) {
            super::check(&pieces.join(" "));
        }

        #[test]
        fn a_negation_accepts_whom_the_filter_does_not(
            parts in vec((proptest::sample::select(&COMPARISONS[..]), any::<[bool; 3]>()), 1..12),
        ) {
            let mut text = String::new();
            for (comparison, [is_or, is_negated, is_group]) in parts {
                let joint = if text.is_empty() { "" } else if is_or { " or " } else { " and " };
                let not = if is_negated { "not " } else { "" };
                text = match is_group && !text.is_empty() {
                    true => format!("{not}({text}){joint}{comparison}"),
                    false => format!("{text}{joint}{not}({comparison})"),
                };
            }
            prop_assert!(super::Filter::parse(&text).is_ok(), "{}", text);
            super::check(&text);
        }
    }
}
