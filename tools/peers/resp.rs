//! The wire of Redis (RESP, version 2): requests are arrays of byte strings.

use crate::outcome::{Outcome, fail};

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Nil,
    Integer(i64),
    Text(Vec<u8>),
    Error(String),
    Array(Vec<Self>),
}

impl Value {
    /// The elements.
    /// Errors: it is something else.
    pub(crate) fn into_array(self) -> Outcome<Vec<Self>> {
        match self {
            Self::Array(values) => Ok(values),
            other => fail(format!("not an array but {other:?}")),
        }
    }

    /// An integer, or a text that is one.
    /// Errors: it is something else.
    pub(crate) fn to_integer(&self) -> Outcome<i64> {
        match self {
            Self::Integer(number) => Ok(*number),
            Self::Text(text) => Ok(str::from_utf8(text)?.parse()?),
            other => fail(format!("not an integer but {other:?}")),
        }
    }

    /// A text; empty where it is something else.
    pub(crate) fn to_text(&self) -> String {
        match self {
            Self::Text(text) => String::from_utf8_lossy(text).into_owned(),
            _ => String::new(),
        }
    }
}

/// Writes a request.
pub(crate) fn write_array(out: &mut Vec<u8>, parts: &[&[u8]]) {
    out.extend(format!("*{}\r\n", parts.len()).as_bytes());
    for part in parts {
        out.extend(format!("${}\r\n", part.len()).as_bytes());
        out.extend(*part);
        out.extend(b"\r\n");
    }
}

/// Reads the first value and tells how many bytes it has; none while it is incomplete.
/// Errors: the bytes are no value.
pub(crate) fn read_value(bytes: &[u8]) -> Outcome<Option<(Value, usize)>> {
    let Some(end) = bytes.windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
    let (line, after) = (&bytes[..end], end + 2);
    let Some((kind, text)) = line.split_first() else { return fail("an empty line") };
    let text = str::from_utf8(text)?;
    match kind {
        b'+' => Ok(Some((Value::Text(text.into()), after))),
        b'-' => Ok(Some((Value::Error(text.to_owned()), after))),
        b':' => Ok(Some((Value::Integer(text.parse()?), after))),
        b'$' => read_text(bytes, text.parse()?, after),
        b'*' => read_array(bytes, text.parse()?, after),
        other => fail(format!("no value starts with byte {other}")),
    }
}

fn read_text(bytes: &[u8], length: i64, start: usize) -> Outcome<Option<(Value, usize)>> {
    let Ok(length) = usize::try_from(length) else { return Ok(Some((Value::Nil, start))) };
    let after = start + length + 2;
    let Some(text) = bytes.get(start..after) else { return Ok(None) };
    Ok(Some((Value::Text(text[..length].to_vec()), after)))
}

/// Answers nest twice, so the recursion is as shallow.
fn read_array(bytes: &[u8], length: i64, start: usize) -> Outcome<Option<(Value, usize)>> {
    let Ok(length) = usize::try_from(length) else { return Ok(Some((Value::Nil, start))) };
    let (mut values, mut at) = (Vec::with_capacity(length.min(bytes.len())), start);
    for _ in 0..length {
        let Some((value, consumed)) = read_value(&bytes[at..])? else { return Ok(None) };
        values.push(value);
        at += consumed;
    }
    Ok(Some((Value::Array(values), at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_whole_or_not_at_all() {
        let bytes = b"*3\r\n:-7\r\n$4\r\na\r\nb\r\n*2\r\n$-1\r\n+OK\r\n-";
        let whole = bytes.len() - 1;
        for count in 0..whole {
            assert_eq!(read_value(&bytes[..count]).unwrap(), None, "{count} bytes");
        }
        let inner = Value::Array(vec![Value::Nil, Value::Text(b"OK".to_vec())]);
        let text = Value::Text(b"a\r\nb".to_vec());
        let expected = Value::Array(vec![Value::Integer(-7), text, inner]);
        assert_eq!(read_value(bytes).unwrap(), Some((expected, whole)));
    }

    #[test]
    fn what_is_no_value_is_refused() {
        for bytes in [b"?1\r\n".as_slice(), b":x\r\n", b"\r\n", b"$x\r\n"] {
            assert!(read_value(bytes).is_err(), "{bytes:?}");
        }
        let error = read_value(b"-ERR no\r\n").unwrap();
        assert_eq!(error, Some((Value::Error("ERR no".to_owned()), 9)));
    }

    #[test]
    fn numbers_come_as_integers_or_text() {
        assert_eq!(Value::Integer(5).to_integer().unwrap(), 5);
        assert_eq!(Value::Text(b"-12".to_vec()).to_integer().unwrap(), -12);
        assert!(Value::Nil.to_integer().is_err());
        assert!(Value::Nil.into_array().is_err());
    }

    #[test]
    fn a_request_is_an_array_of_counted_parts() {
        let mut out = Vec::new();
        write_array(&mut out, &[b"GET", b"a\r\n"]);
        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$3\r\na\r\n\r\n");
    }
}
