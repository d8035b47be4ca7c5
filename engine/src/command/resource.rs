//! The commands of one resource, each declared once: what it carries, what it makes, what an audit says
//! of it, and what carries it out.
//!
//! ```text
//! /// Changes an app.
//! Update(company: CompanyId, id: AppId, changes: AppChanges) =>   the variant, its parts by name
//!     Audited::of_company(*company, "app.updated", id.0),         what an audit says of it
//!     update(change, (*company, *id), changes);                   its effects, or why it is refused
//! ```
//!
//! `makes` behind the parts gives the id of what is made.

/// Declares the commands of a resource; see the head of this file.
macro_rules! commands {
    (
        $(#[$attribute:meta])*
        pub enum $type:ident($change:ident) {
            $(
                $(#[$about:meta])+
                $variant:ident($($part:ident: $part_type:ty),+) $(makes $made:expr)? =>
                    $audited:expr,
                    $executed:expr;
            )+
        }
    ) => {
        $(#[$attribute])*
        pub enum $type {
            $($(#[$about])+ $variant($($part_type),+),)+
        }

        impl $type {
            /// The id of the one object that it makes.
            pub(crate) fn made_id(&self) -> Option<uuid::Uuid> {
                match self {
                    $(Self::$variant($($part),+) => {
                        let _ = ($($part),+);
                        [$(Some($made),)? None][0]
                    })+
                }
            }

            /// The audit line of the command.
            pub(crate) fn audited(&self) -> $crate::command::audited::Audited<'_> {
                match self {
                    $(Self::$variant($($part),+) => {
                        let _ = ($($part),+);
                        $audited
                    })+
                }
            }

            /// Adds the effects of the command to the change.
            /// Errors: what it names is not there, or a rule is against it.
            pub(crate) fn execute(
                &self,
                $change: &mut $crate::directory::change::StateChange<'_>,
            ) -> Result<(), $crate::command::reply::Rejection> {
                match self {
                    $(Self::$variant($($part),+) => {
                        let _ = ($($part),+);
                        $executed
                    })+
                }
            }
        }
    };
}
pub(crate) use commands;
