//! Enumerations with the list of their values.

/// Declares an enumeration, and all its values in the order in which they are declared: where they are
/// numbered from 0 on, each stands at the place of its number.
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
