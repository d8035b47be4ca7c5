//! File names in the header `Content-Disposition`. Source: RFC 6266, RFC 8187.

/// A file to be saved under `filename`: in plain letters for old clients, and as it is.
pub fn render_attachment(filename: &str) -> String {
    let plain: String = filename.chars().map(plain_letter).collect();
    let mut header = format!("attachment; filename=\"{plain}\"; filename*=UTF-8''");
    for byte in filename.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            header.push(char::from(byte));
        } else {
            header.push_str(&format!("%{byte:02X}"));
        }
    }
    header
}

fn plain_letter(letter: char) -> char {
    let is_plain = (' '..='~').contains(&letter) && !"\"\\%".contains(letter);
    if is_plain { letter } else { '_' }
}

/// The file's name in a `Content-Disposition` that a client sent, where it says one.
pub fn name_in_disposition(header: &str) -> Option<String> {
    let parameters = parameters(header);
    let named = |name: &str| {
        let mut values = parameters.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
        values.next().map(|(_, value)| value.as_str())
    };
    let extended = named("filename*").and_then(|value| {
        // Charset, language, text. Source: RFC 8187, 3.2.1.
        let (charset, rest) = value.split_once('\'')?;
        let (_, encoded) = rest.split_once('\'')?;
        charset.eq_ignore_ascii_case("UTF-8").then(|| decode_percents(encoded))?
    });
    extended.or_else(|| named("filename").map(str::to_owned))
}

/// The parameters after the type, each value without its quotes. Source: RFC 9110, 5.6.4, 5.6.6.
fn parameters(header: &str) -> Vec<(&str, String)> {
    let mut parameters = Vec::new();
    let mut rest = header.split_once(';').map_or("", |(_, rest)| rest);
    while let Some((name, after)) = rest.split_once('=') {
        let (value, after) = value(after.trim_start());
        parameters.push((name.trim(), value));
        rest = after.split_once(';').map_or("", |(_, rest)| rest);
    }
    parameters
}

/// A value, quoted or not, and what follows it.
fn value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(';').unwrap_or(text.len());
        return (text[..end].trim().to_owned(), &text[end..]);
    };
    let mut value = String::new();
    let mut letters = quoted.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return (value, &quoted[at + 1..]),
            '\\' => value.extend(letters.next().map(|(_, letter)| letter)),
            _ => value.push(letter),
        }
    }
    (value, "")
}

/// The file's name as a form has it: browsers write `%22` for a quotation mark and leave percent
/// signs alone. Source: HTML, "multipart/form-data encoding algorithm".
pub fn name_in_form(name: &str) -> String {
    name.replace("%22", "\"")
}

/// The text behind `%41` and its like; none where it is no text.
pub fn decode_percents(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next()?, rest.next()?];
        bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_so_that_nothing_breaks_out() {
        let rows = [
            ("lunch 1.png", "filename=\"lunch 1.png\"; filename*=UTF-8''lunch%201.png"),
            ("a\"; b=\"c", "filename=\"a_; b=_c\"; filename*=UTF-8''a%22%3B%20b%3D%22c"),
            ("für.pdf", "filename=\"f_r.pdf\"; filename*=UTF-8''f%C3%BCr.pdf"),
        ];
        for (filename, expected) in rows {
            assert_eq!(render_attachment(filename), format!("attachment; {expected}"));
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        for name in
            ["a\"b\\c;d=e.png", "%22.pdf", "東京 \u{5d0}\u{5d1} 'x' 100%.jpg", "👩\u{200d}🌾.png"]
        {
            assert_eq!(name_in_disposition(&render_attachment(name)).as_deref(), Some(name));
        }
        assert_eq!(name_in_form("of %22Ada%22 5%.png"), "of \"Ada\" 5%.png");
    }

    #[test]
    fn names_are_read_in_either_form() {
        let rows = [
            ("attachment; filename=\"lunch.png\"", Some("lunch.png")),
            ("attachment; filename=lunch.png", Some("lunch.png")),
            ("attachment; filename=\"x\"; filename*=UTF-8''f%C3%BCr.pdf", Some("für.pdf")),
            ("attachment; filename=\"x\"; filename*=UTF-8''%FF", Some("x")),
            ("attachment; filename*=UTF-8''%F", None),
            ("attachment; filename*=utf-8'de'f%C3%BCr.pdf", Some("für.pdf")),
            ("attachment; filename*=latin1''f%FCr.pdf; filename=x", Some("x")),
            ("attachment; filename=\"a;b=c.png\"", Some("a;b=c.png")),
            ("attachment; FileName = \"a \\\"b\\\".png\" ; size=5", Some("a \"b\".png")),
            ("attachment; name=\"filename=x\"; filename=y", Some("y")),
            ("attachment; filename=\"open", Some("open")),
            ("inline; filename=\"für.png\"", Some("für.png")),
            ("attachment", None),
            ("", None),
        ];
        for (header, expected) in rows {
            assert_eq!(name_in_disposition(header).as_deref(), expected, "{header}");
        }
    }
}
