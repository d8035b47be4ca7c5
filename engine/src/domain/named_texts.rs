//! Groups of texts: one declaration of their names, for each of their uses: stored, requested,
//! changed or searched for.
//!
//! INVARIANT: they are packed, hashed and listed in the order of their declaration.

/// Declares a struct of texts, generic over the type of each.
macro_rules! named_texts {
    (
        $(#[$attribute:meta])*
        pub struct $type:ident {
            $($(#[$about:meta])+ $field:ident,)+
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct $type<T = $crate::domain::text::LineText> {
            $($(#[$about])+ pub $field: T,)+
        }

        impl<T> $type<T> {
            /// The number of texts.
            pub const COUNT: usize = [$(stringify!($field)),+].len();

            /// Makes each text from its name, in their order.
            pub fn from_fn(mut make: impl FnMut(&'static str) -> T) -> Self {
                Self { $($field: make(stringify!($field)),)+ }
            }

            /// Each text with its name, in their order.
            pub fn named(&self) -> [(&'static str, &T); [$(stringify!($field)),+].len()] {
                [$((stringify!($field), &self.$field)),+]
            }

            /// Makes each text from its counterpart.
            pub fn map<V>(&self, make: impl Fn(&T) -> V) -> $type<V> {
                $type { $($field: make(&self.$field),)+ }
            }

            /// Makes each text from its name and its counterpart, in their order.
            pub fn map_named<V>(&self, mut make: impl FnMut(&'static str, &T) -> V) -> $type<V> {
                $type { $($field: make(stringify!($field), &self.$field),)+ }
            }

            /// Makes each text from its two counterparts.
            pub fn zip<U, V>(&self, other: &$type<U>, make: impl Fn(&T, &U) -> V) -> $type<V> {
                $type { $($field: make(&self.$field, &other.$field),)+ }
            }
        }
    };
}
pub(crate) use named_texts;
