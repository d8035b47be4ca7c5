//! As much of a message as a router needs, whatever its dialect.

use cardswitch_iso8583::{Dialect, Message, RepeatedFields, decode};

/// Shows `read` the readable part of a message in the default spelling, with the fields that an answer to
/// it repeats as they came. Nothing is logged: the cell judges the unreadable part.
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
            // The part before the fault is there.
            Err(_) => decode(&plain),
        },
    };
    match &decoded {
        Ok(message) => read(Some(message), repeated),
        Err(error) => read(error.readable.as_deref(), repeated),
    }
}
