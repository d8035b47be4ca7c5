//! Lines of text files about messages (dialects, keys, scenarios), which errors name.

/// The line that a byte of a text lies in, from 1.
pub fn line_of(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count()
}
