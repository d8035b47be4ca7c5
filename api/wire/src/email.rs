//! E-mail addresses on the wire.
//!
//! Taken is what mail systems deliver to in practice: a dotted name, an `@`, and the name of a host
//! with a dot in it, also in other scripts than Latin (RFC 6531). Quoted names and addresses of
//! hosts in brackets, which the standards allow and nobody has, are refused as mistakes.

use serde_json::value::RawValue;

use super::fault::Flaw;
use super::fields;

/// The longest address. Units: bytes. Source: RFC 5321, 4.5.3.1.3.
const ADDRESS_BYTES_MAX: usize = 254;
/// The longest part before the `@`. Units: bytes. Source: RFC 5321, 4.5.3.1.1.
const NAME_BYTES_MAX: usize = 64;
/// The longest part of a host's name. Units: bytes. Source: RFC 1035, 2.3.4.
const LABEL_BYTES_MAX: usize = 63;
/// The characters of a name besides letters and digits. Source: RFC 5322, 3.2.3, atext.
const NAME_MARKS: &str = "!#$%&'*+-/=?^_`{|}~";

/// Reads an e-mail address, in the case it was written in.
pub fn email(value: &RawValue) -> Result<String, Flaw> {
    let text = fields::text(value)?;
    if is_email(&text) {
        return Ok(text);
    }
    Err(Flaw::new("not_an_email", "must be an email address, such as `ada@example.com`"))
}

/// Whether a text is an e-mail address.
pub fn is_email(text: &str) -> bool {
    let Some((name, host)) = text.rsplit_once('@') else { return false };
    text.len() <= ADDRESS_BYTES_MAX && is_name(name) && is_host(host)
}

fn is_name(name: &str) -> bool {
    let is_letter =
        |letter: char| letter.is_alphanumeric() || is_accent(letter) || NAME_MARKS.contains(letter);
    let is_atom = |atom: &str| !atom.is_empty() && atom.chars().all(is_letter);
    name.len() <= NAME_BYTES_MAX && name.split('.').all(is_atom)
}

/// Whether it is joined to the letter before it: a letter may come composed or in two.
fn is_accent(mark: char) -> bool {
    ('\u{300}'..='\u{36f}').contains(&mark)
}

fn is_host(host: &str) -> bool {
    let is_letter = |letter: char| letter.is_alphanumeric() || is_accent(letter) || letter == '-';
    let is_label = |label: &str| {
        (1..=LABEL_BYTES_MAX).contains(&label.len())
            && label.chars().all(is_letter)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let is_number = |label: &str| label.bytes().all(|byte| byte.is_ascii_digit());
    let last = host.rsplit_once('.').map(|(_, last)| last);
    last.is_some_and(|last| !is_number(last)) && host.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_a_name_and_a_host_with_a_dot() {
        let long_name = format!("{}@example.com", "a".repeat(65));
        let longest_name = format!("{}@example.com", "a".repeat(64));
        let long_label = format!("a@{}.com", "b".repeat(64));
        let long = format!(
            "a@{}.com",
            ["b".repeat(60), "c".repeat(60), "d".repeat(60), "e".repeat(70)].join(".")
        );
        let rows = [
            ("ada@example.com", true),
            ("Ada.Lovelace+cards@Mail.Example.co.uk", true),
            ("o'neill_1@example.museum", true),
            ("ada@xn--bcher-kva.example", true),
            ("jürgen@bücher.example", true),
            ("ju\u{308}rgen@bu\u{308}cher.example", true),
            ("用户@例子.测试", true),
            (longest_name.as_str(), true),
            (long_name.as_str(), false),
            (long_label.as_str(), false),
            (long.as_str(), false),
            ("ada", false),
            ("ada@localhost", false),
            ("ada@", false),
            ("@example.com", false),
            ("ada@@example.com", false),
            ("ada@b@example.com", false),
            (".ada@example.com", false),
            ("ada.@example.com", false),
            ("a..da@example.com", false),
            ("ada@example..com", false),
            ("ada@example.com.", false),
            ("ada@-example.com", false),
            ("ada@example-.com", false),
            ("ada@192.168.0.1", false),
            ("ada@[192.168.0.1]", false),
            ("\"a b\"@example.com", false),
            ("a b@example.com", false),
            ("ada@exa mple.com", false),
            (" ada@example.com", false),
            ("ada@example.com\n", false),
            ("ada\u{0}@example.com", false),
            ("Ada <ada@example.com>", false),
            ("", false),
        ];
        for (text, expected) in rows {
            assert_eq!(is_email(text), expected, "{text:?}");
        }
    }
}
