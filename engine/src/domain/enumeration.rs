//! Enumerations with the list of their values.

/// Declares an enumeration, and the list of its values in the order of their declaration. If they
/// are numbered from 0 on, the index of a value is its number.
#[macro_export]
macro_rules! enumeration {
    (
        $(#[$attribute:meta])*
        $visibility:vis enum $name:ident {
            $($(#[$about:meta])* $value:ident $(= $number:literal)?,)+
        }
    ) => {
        $(#[$attribute])*
        $visibility enum $name {
            $($(#[$about])* $value $(= $number)?,)+
        }

        impl $name {
            /// Every value, in order.
            $visibility const ALL: [Self; [$(stringify!($value)),+].len()] = [$(Self::$value,)+];
        }
    };
}
pub(crate) use enumeration;
