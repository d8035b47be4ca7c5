//! Enumerations with the list of their values, and with the words that programs know them by.

/// Declares an enumeration, and the list of its values in the order of their declaration. If they
/// are numbered from 0 on, the index of a value is its number. With `Value => "word"`, each value also
/// has a word for programs, and is found by it.
#[macro_export]
macro_rules! enumeration {
    (
        $(#[$attribute:meta])*
        $visibility:vis enum $name:ident {
            $($(#[$about:meta])* $value:ident => $word:literal,)+
        }
    ) => {
        $crate::enumeration! {
            $(#[$attribute])*
            $visibility enum $name {
                $($(#[$about])* $value,)+
            }
        }

        impl $name {
            /// The words of all values, in order.
            $visibility const WORDS: [&'static str; [$($word),+].len()] = [$($word,)+];

            /// The value's word for programs.
            $visibility const fn word(self) -> &'static str {
                match self {
                    $(Self::$value => $word,)+
                }
            }

            /// The value that a word stands for.
            $visibility fn parse(word: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|value| value.word() == word)
            }
        }
    };
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
