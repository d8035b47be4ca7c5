//! The check of a viewer's answers to the passphrase fields of a link.
//!
//! Texts are the same in any case and with any blanks around and between their words; dates are those
//! of the calendar. INVARIANT: every field is compared, and in constant time, so how long it takes
//! tells neither which answer was wrong nor how much of it was right.

use subtle::{Choice, ConstantTimeEq};

use cardswitch_secrets::link_secrets::{PassphraseField, PassphraseKind};
use cardswitch_secrets::token_digest;
use cardswitch_wire::time::{parse_date, render_date};

/// Whether `answers`, in the order of the fields, are right, all of them.
pub(super) fn are_right(fields: &[PassphraseField], answers: &[String]) -> bool {
    let known = fields.iter().enumerate().map(|(place, field)| {
        let given = answers.get(place).map_or("", String::as_str);
        // Digests are of one length whatever was typed.
        let expected = token_digest(&normal(&field.value, field.kind));
        expected.ct_eq(&token_digest(&normal(given, field.kind)))
    });
    let all_known = known.fold(Choice::from(1), |all, is_known| all & is_known);
    bool::from(all_known) && answers.len() == fields.len()
}

/// The compared form of an answer.
fn normal(text: &str, kind: PassphraseKind) -> String {
    match kind {
        PassphraseKind::Text => {
            text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
        }
        // A text that is no date equals none: dates are kept in this form.
        PassphraseKind::Date => {
            parse_date(text.trim()).map_or_else(|| format!("not a date: {text}"), render_date)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(wanted: &[(&str, PassphraseKind)]) -> Vec<PassphraseField> {
        let field = |(value, kind): &(&str, PassphraseKind)| PassphraseField {
            name: "Name".to_owned(),
            value: (*value).to_owned(),
            kind: *kind,
        };
        wanted.iter().map(field).collect()
    }

    #[test]
    fn answers_are_taken_as_people_type_them() {
        use PassphraseKind::{Date, Text};
        let rows: [(&str, PassphraseKind, &str, bool); 19] = [
            ("Rex", Text, "Rex", true),
            ("Rex", Text, " rEX\t", true),
            ("Rex  the dog", Text, "rex the  Dog", true),
            ("ÄPFEL", Text, "äpfel", true),
            ("Rex", Text, "Rexx", false),
            ("Rex", Text, "Re", false),
            ("Rex", Text, "", false),
            ("Rex", Text, "R e x", false),
            ("Rex", Text, "\u{202e}Rex", false),
            ("Rex", Text, "Rex\0", false),
            ("\u{1f415}", Text, "\u{1f415}", true),
            ("1990-02-28", Text, "1990-02-28", true),
            ("1990-02-28", Date, "1990-02-28", true),
            ("1990-02-28", Date, " 1990-02-28 ", true),
            ("1990-02-28", Date, "1990-2-28", false),
            ("1990-02-28", Date, "28.02.1990", false),
            ("1990-02-28", Date, "1990-02-29", false),
            ("1990-02-28", Date, "1990-02-27", false),
            ("1990-02-28", Date, "", false),
        ];
        for (value, kind, given, expected) in rows {
            let answers = [given.to_owned()];
            assert_eq!(are_right(&fields(&[(value, kind)]), &answers), expected, "{given:?}");
        }
    }

    #[test]
    fn every_field_has_to_be_right_and_no_other_is_taken() {
        use PassphraseKind::{Date, Text};
        let asked = fields(&[("Rex", Text), ("1990-02-28", Date)]);
        let answers = |given: &[&str]| given.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert!(are_right(&asked, &answers(&["rex", "1990-02-28"])));
        for wrong in [
            &["1990-02-28", "rex"][..],
            &["rex", "1990-02-27"],
            &["max", "1990-02-28"],
            &["rex"],
            &[],
            &["rex", "1990-02-28", "rex"],
        ] {
            assert!(!are_right(&asked, &answers(wrong)), "{wrong:?}");
        }
    }
}
