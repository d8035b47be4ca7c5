//! The commands of one resource, each declared once: its parts, the object it makes, its audit
//! line, its execution.
//!
//! ```text
//! /// Changes an app.
//! Update(company: CompanyId, id: AppId, changes: AppChanges) =>   the variant, its parts by name
//!     AuditLine::of_company(*company, "app.updated", id.0),       its audit line
//!     update(change, (*company, *id), changes);                   its effects, or its rejection
//! ```
//!
//! `makes` behind the parts gives the id of the new object.

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
            /// The id of the one object that the command makes.
            pub(crate) fn made_id(&self) -> Option<uuid::Uuid> {
                match self {
                    $(Self::$variant($($part),+) => {
                        let _ = ($($part),+);
                        [$(Some($made),)? None][0]
                    })+
                }
            }

            /// The audit line of the command.
            pub(crate) fn audited(&self) -> $crate::command::audit_line::AuditLine<'_> {
                match self {
                    $(Self::$variant($($part),+) => {
                        let _ = ($($part),+);
                        $audited
                    })+
                }
            }

            /// Adds the effects of the command to the change.
            /// Errors: a named object does not exist, or a rule forbids the change.
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
