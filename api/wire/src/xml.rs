//! Whether a text is XML, for documents that are kept for others to read.
//!
//! Document types are refused: nothing here needs one, and readers have been misled by them.

use quick_xml::Reader;
use quick_xml::escape::unescape;
use quick_xml::events::{BytesStart, Event};

/// How deep elements may stand within each other.
const DEPTH_MAX: usize = 64;

/// Whether a text is one well-formed XML 1.0 element with what may stand around it.
/// Cost: O(length).
pub fn is_well_formed(text: &str) -> bool {
    text.chars().all(is_xml_char) && has_one_element(text)
}

/// Source: XML 1.0, 2.2.
const fn is_xml_char(letter: char) -> bool {
    matches!(letter, '\t' | '\n' | '\r' | '\u{20}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}

fn has_one_element(text: &str) -> bool {
    // A mark of byte order may stand before everything.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = Reader::from_str(text);
    reader.config_mut().enable_all_checks(true);
    let (mut depth, mut roots, mut is_first) = (0_usize, 0_usize, true);
    loop {
        let Ok(event) = reader.read_event() else { return false };
        let is_outside = depth == 0;
        let is_right = match event {
            Event::Eof => return depth == 0 && roots == 1,
            Event::Start(tag) => {
                roots += usize::from(is_outside);
                depth += 1;
                depth <= DEPTH_MAX && is_tag(&tag)
            }
            Event::Empty(tag) => {
                roots += usize::from(is_outside);
                is_tag(&tag)
            }
            // The reader compares it with its beginning, and refuses one that has none.
            Event::End(_) => {
                depth = depth.saturating_sub(1);
                true
            }
            Event::Text(text) if is_outside => text.trim().is_empty(),
            Event::Text(text) => !text.contains("]]>"),
            Event::CData(_) => !is_outside,
            Event::GeneralRef(name) => !is_outside && is_known_reference(&name),
            Event::Decl(_) => is_first,
            Event::DocType(_) => false,
            Event::Comment(_) | Event::PI(_) => true,
        };
        if !is_right || roots > 1 {
            return false;
        }
        is_first = false;
    }
}

fn is_tag(tag: &BytesStart<'_>) -> bool {
    is_name(tag.name().as_ref())
        && tag.attributes().all(|attribute| {
            attribute.is_ok_and(|attribute| {
                is_name(attribute.key.as_ref())
                    && !attribute.value.contains('<')
                    && are_references_known(&attribute.value)
            })
        })
}

/// Source: XML 1.0, 2.3, but for the ranges of letters, which are taken as Unicode has them.
fn is_name(name: &str) -> bool {
    let is_start = |letter: char| letter.is_alphabetic() || letter == '_' || letter == ':';
    let is_inner = |letter: char| {
        is_start(letter) || letter.is_numeric() || matches!(letter, '-' | '.' | '\u{b7}')
    };
    name.starts_with(is_start) && name.chars().all(is_inner)
}

fn is_known_reference(name: &str) -> bool {
    are_references_known(&format!("&{name};"))
}

/// Without a document type there are the five predefined names, and characters by number.
fn are_references_known(text: &str) -> bool {
    unescape(text).is_ok_and(|plain| plain.chars().all(is_xml_char))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_one_element_with_everything_closed() {
        let rows = [
            ("<a/>", true),
            ("<a></a>", true),
            (
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!-- c --><a b='1' c=\"2\">t</a>\n",
                true,
            ),
            ("\u{feff}<a/>", true),
            ("<md:a xmlns:md=\"urn:x\"><md:b>&amp;&#65;&#x41;</md:b></md:a>", true),
            ("<a><![CDATA[<b>]]></a>", true),
            ("<a>\u{e9}\u{1f600}</a>", true),
            ("", false),
            ("text", false),
            ("<a>", false),
            ("<a></b>", false),
            ("</a>", false),
            ("<a/><b/>", false),
            ("<a/>text", false),
            ("text<a/>", false),
            ("<a", false),
            ("<a b=1/>", false),
            ("<a b='1' b='2'/>", false),
            ("<a b='<'/>", false),
            ("<a b='&nbsp;'/>", false),
            ("<a>&nbsp;</a>", false),
            ("<a>&</a>", false),
            ("<a>&#0;</a>", false),
            ("<a>\u{0}</a>", false),
            ("<a>\u{fffe}</a>", false),
            ("<a>]]></a>", false),
            ("<a><!-- -- --></a>", false),
            ("<1a/>", false),
            ("< a/>", false),
            ("<a/><?xml version=\"1.0\"?>", false),
            ("<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>", false),
            ("<!DOCTYPE a><a/>", false),
            ("{\"a\": 1}", false),
        ];
        for (text, expected) in rows {
            assert_eq!(is_well_formed(text), expected, "{text:?}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |depth: usize| format!("{}{}", "<a>".repeat(depth), "</a>".repeat(depth));
        assert!(is_well_formed(&nested(DEPTH_MAX)));
        assert!(!is_well_formed(&nested(DEPTH_MAX + 1)));
    }
}
