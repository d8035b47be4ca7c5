//! As much of a message as a router needs, whatever its dialect.

use cardswitch_iso8583::{Dialect, Message, RepeatedFields, decode};

/// Shows `read` what can be read of a message in the default spelling, with the fields that an answer to it repeats
/// as they came. Nothing is written down: what cannot be read here is for the cell to judge.
pub(crate) fn read_message<T>(
    dialect: &Dialect,
    body: &[u8],
    read: impl FnOnce(Option<&Message<'_>>, RepeatedFields) -> T,
) -> T {
    let (mut plain, mut repeated) = (Vec::new(), RepeatedFields::NONE);
    let decoded = match &dialect.translation {
        None => decode(body),
        Some(translation) => match translation.read(body, &mut plain, &mut repeated) {
            Ok(translated) => translated.message(&plain),
            // What came before the fault is there.
            Err(_) => decode(&plain),
        },
    };
    match &decoded {
        Ok(message) => read(Some(message), repeated),
        Err(error) => read(error.readable.as_deref(), repeated),
    }
}
