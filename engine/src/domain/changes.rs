//! Changes of a resource: absent fields stay. An audit holds the names of the fields that are
//! present, never their values.

use super::card::CardTexts;
use super::ids::DimensionId;
use super::text::LineText;

/// A part of a change, which an audit names if it is present.
pub(crate) trait NamedChange {
    /// Adds the names of the changed fields; the part itself is called `name`.
    fn note(&self, name: &'static str, names: &mut Vec<&'static str>);
}

impl<T> NamedChange for Option<T> {
    fn note(&self, name: &'static str, names: &mut Vec<&'static str>) {
        self.is_some().note(name, names);
    }
}

/// Two parts may share a name; it is listed once.
impl NamedChange for bool {
    fn note(&self, name: &'static str, names: &mut Vec<&'static str>) {
        if *self && !names.contains(&name) {
            names.push(name);
        }
    }
}

impl NamedChange for [Option<Option<DimensionId>>; 4] {
    fn note(&self, _: &'static str, names: &mut Vec<&'static str>) {
        let kinds = ["category", "department", "label", "location"];
        for (name, change) in kinds.into_iter().zip(self) {
            change.note(name, names);
        }
    }
}

impl NamedChange for CardTexts<Option<LineText>> {
    fn note(&self, _: &'static str, names: &mut Vec<&'static str>) {
        self.named().iter().for_each(|(name, change)| change.note(name, names));
    }
}

/// Replaces the current value by the wanted one, if there is one.
pub(crate) fn replace<T, W: Clone + Into<T>>(current: &mut T, wanted: &Option<W>) {
    if let Some(wanted) = wanted {
        *current = wanted.clone().into();
    }
}

/// Declares the changeable fields of a resource. An audit names each field by its own name, or by
/// the name after `as`; a field after the bar is not named.
macro_rules! changes {
    (
        $(#[$attribute:meta])*
        pub struct $type:ident {
            $($(#[$about:meta])+ $field:ident $(as $called:literal)?: $part:ty,)*
            $(| $(#[$silent_about:meta])+ $silent:ident: $silent_part:ty,)*
        }
    ) => {
        $(#[$attribute])*
        pub struct $type {
            $($(#[$about])+ pub $field: $part,)*
            $($(#[$silent_about])+ pub $silent: $silent_part,)*
        }

        impl $type {
            /// The names of the changed fields.
            pub(crate) fn names(&self) -> Vec<&'static str> {
                let mut names = Vec::new();
                $(
                    let name = [$($called,)? stringify!($field)][0];
                    $crate::domain::changes::NamedChange::note(&self.$field, name, &mut names);
                )*
                names
            }
        }
    };
}
pub(crate) use changes;
