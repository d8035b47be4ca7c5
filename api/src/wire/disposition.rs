//! File names in the header `Content-Disposition`. Source: RFC 6266, RFC 8187.

/// A file to be saved under `filename`: in plain letters for old clients, and as it is.
#[must_use]
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
#[must_use]
pub fn name_in_disposition(header: &str) -> Option<String> {
    let parameter = |name: &str| {
        let parts = header.split(';').filter_map(|part| part.split_once('='));
        let mut values = parts.filter(|(key, _)| key.trim().eq_ignore_ascii_case(name));
        values.next().map(|(_, value)| value.trim().trim_matches('"'))
    };
    let extended = parameter("filename*").and_then(|value| value.strip_prefix("UTF-8''"));
    extended.and_then(decode).or_else(|| parameter("filename").map(str::to_owned))
}

/// Undoes percent signs; none where they make no text.
fn decode(text: &str) -> Option<String> {
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
    fn names_are_read_in_either_form() {
        let rows = [
            ("attachment; filename=\"lunch.png\"", Some("lunch.png")),
            ("attachment; filename=lunch.png", Some("lunch.png")),
            ("attachment; filename=\"x\"; filename*=UTF-8''f%C3%BCr.pdf", Some("für.pdf")),
            ("attachment; filename=\"x\"; filename*=UTF-8''%FF", Some("x")),
            ("attachment; filename*=UTF-8''%F", None),
            ("attachment", None),
            ("", None),
        ];
        for (header, expected) in rows {
            assert_eq!(name_in_disposition(header).as_deref(), expected, "{header}");
        }
    }
}
