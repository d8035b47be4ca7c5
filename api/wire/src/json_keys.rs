//! The keys of a JSON text, looked at as a whole before anybody reads a part of it.
//!
//! Readers differ in which of two equal keys counts, so a text with two equal keys is refused: the
//! switch must not act on another value than a proxy or a log has seen. The scan builds no values,
//! follows no recursion and takes time in proportion to the text.

use std::borrow::Cow;
use std::collections::HashSet;

/// How deep objects and arrays may be nested.
const DEPTH_MAX: usize = 128;

/// Why a JSON text is not to be read.
#[derive(Debug, PartialEq, Eq)]
pub enum KeyFlaw {
    /// An object has the key at this path twice.
    Repeated(String),
    /// It is nested deeper than anything that is asked for.
    TooDeep,
}

/// An object or array that is open where the scan is, and the key or place it is at.
enum OpenLevel<'a> {
    Object { keys: HashSet<Cow<'a, str>>, at: Cow<'a, str> },
    Array { at: usize },
}

/// Whether each object within `json` has each of its keys once. A text that is no JSON may pass: its
/// reader refuses it.
pub fn check_keys(json: &[u8]) -> Result<(), KeyFlaw> {
    let mut levels: Vec<OpenLevel<'_>> = Vec::new();
    let mut rest = json;
    while let Some((byte, tail)) = rest.split_first() {
        rest = tail;
        match byte {
            b'{' | b'[' if levels.len() == DEPTH_MAX => return Err(KeyFlaw::TooDeep),
            b'{' => levels.push(OpenLevel::Object { keys: HashSet::new(), at: Cow::Borrowed("") }),
            b'[' => levels.push(OpenLevel::Array { at: 0 }),
            b'}' | b']' => drop(levels.pop()),
            b',' => {
                if let Some(OpenLevel::Array { at }) = levels.last_mut() {
                    *at += 1;
                }
            }
            b'"' => {
                let (text, tail) = rest.split_at(text_bytes(rest));
                rest = tail.get(1..).unwrap_or_default();
                if is_key(rest) && !is_new_key(&mut levels, text) {
                    return Err(KeyFlaw::Repeated(path_of(&levels)));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// The end of the text at the start of `rest`.
fn text_bytes(rest: &[u8]) -> usize {
    let mut is_escaped = false;
    let end = rest.iter().position(|byte| {
        let is_end = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        is_end
    });
    end.unwrap_or(rest.len())
}

/// Whether the text before `rest` was a key.
fn is_key(rest: &[u8]) -> bool {
    rest.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b':')
}

/// Notes a key of the innermost object; false where that has it already.
fn is_new_key<'a>(levels: &mut [OpenLevel<'a>], text: &'a [u8]) -> bool {
    let (Some(OpenLevel::Object { keys, at }), Some(key)) = (levels.last_mut(), plain(text)) else {
        return true;
    };
    at.clone_from(&key);
    keys.insert(key)
}

/// A text without its escapes; none where it is no text of JSON.
fn plain(text: &[u8]) -> Option<Cow<'_, str>> {
    if text.contains(&b'\\') {
        return serde_json::from_slice(&[b"\"", text, b"\""].concat()).ok().map(Cow::Owned);
    }
    std::str::from_utf8(text).ok().map(Cow::Borrowed)
}

fn path_of(levels: &[OpenLevel<'_>]) -> String {
    let steps = levels.iter().map(|level| match level {
        OpenLevel::Object { at, .. } => at.to_string(),
        OpenLevel::Array { at } => at.to_string(),
    });
    steps.collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn keys_come_once() {
        let rows = [
            (r#"{"a": 1, "a": 1}"#, Some("a")),
            (r#"{"a": 1, "b": {"a": 1}, "c": [{"a": 1}, {"a": 2}]}"#, None),
            (r#"{"a": "a", "b": "a:", "c": "\",\"a\":"}"#, None),
            (r#"{"a":{"b":[0,[1,2],{"c":1,"d":2,"c":3}]}}"#, Some("a.b.2.c")),
            (r#"[{"x": 1}, {"x": 1 , "x" : 2}]"#, Some("1.x")),
            ("{\"a\"\n\t: 1e999, \"a\" :2}", Some("a")),
            (r#"{"a": 1, "\u0061": 2}"#, Some("a")),
            (r#"{"a\\": 1, "a\"": 2, "a\\": 3}"#, Some("a\\")),
            (r#"{"": 1, "": 2}"#, Some("")),
            (r#"{"ä": 1, "\u00e4": 2}"#, Some("ä")),
            (r#"{"a": 1, "A": 2}"#, None),
            ("{}", None),
            ("", None),
            // Text that is no JSON does no harm here: its reader refuses it.
            ("\"", None),
            ("{\"a\\", None),
            ("}}]]{", None),
            (r#"{"\ud800": 1, "\ud800": 2}"#, None),
            (r#""a": 1, "a": 2"#, None),
        ];
        for (text, path) in rows {
            let expected = path.map_or(Ok(()), |path| Err(KeyFlaw::Repeated(path.to_owned())));
            assert_eq!(check_keys(text.as_bytes()), expected, "{text}");
        }
        assert_eq!(check_keys(b"{\"\xff\": 1, \"\xff\": 2}"), Ok(()));
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(check_keys(nested(DEPTH_MAX).as_bytes()), Ok(()));
        assert_eq!(check_keys(nested(DEPTH_MAX + 1).as_bytes()), Err(KeyFlaw::TooDeep));
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 64, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::hash_map(".{0,3}", inner, 0..5)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_a_writer_of_json_makes_passes(value in json()) {
            prop_assert_eq!(check_keys(value.to_string().as_bytes()), Ok(()));
        }

        #[test]
        fn a_key_put_in_again_is_met(value in json(), key in ".{0,3}") {
            let quoted = Value::from(key.as_str()).to_string();
            let text = format!("{{\"x\": [{value}, {{{quoted}: {value}, {quoted}: {value}}}]}}");
            let path = format!("x.1.{key}");
            prop_assert_eq!(check_keys(text.as_bytes()), Err(KeyFlaw::Repeated(path)));
        }

        #[test]
        fn any_bytes_are_taken(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            drop(check_keys(&bytes));
        }
    }
}
