//! Declares settings once each: the key in a file, the flag, the default and the meaning.
//!
//! `settings!` makes two structs of one declaration. The first holds the values; serde reads it from
//! a file. The second holds what flags and variables say, every member optional; clap reads it. The
//! documentation of a member is the help of its flag, and a flag is its key with hyphens, unless
//! `#[arg(long = ..)]` says otherwise. A member with no default is an `Option`; its documentation ends
//! with what holds where it is absent, as `[default: none]`. The members of `file` have no flag.
//!
//! The calling crate has `serde` and `clap`.

/// Declares the settings of a section, whose keys begin with the literal.
#[macro_export]
macro_rules! settings {
    (
        $(#[doc = $about:literal])+
        $section:literal $settings:ident, $flags:ident {
            $(
                $(#[doc = $doc:literal])+
                $(#[arg($($arg:tt)+)])?
                $key:ident: $type:ty $(= $default:expr)?,
            )+
            $(file {
                $( $(#[$file_attribute:meta])+ $file_key:ident: $file_type:ty, )+
            })?
            $(sections {
                $( $(#[doc = $part_doc:literal])+ $part:ident: $part_settings:ty, $part_flags:ty, )+
            })?
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $settings {
            $( $(#[doc = $doc])+ pub $key: $crate::setting!(type $type $(, $default)?), )+
            $($( $(#[$file_attribute])+ pub $file_key: $file_type, )+)?
            $($( $(#[doc = $part_doc])+ pub $part: $part_settings, )+)?
        }

        /// The values that flags and variables give these settings.
        #[derive(Clone, Debug, Default, clap::Args)]
        pub struct $flags {
            $(
                $(#[doc = $doc])+
                #[arg(long, id = concat!($section, stringify!($key)), $($($arg)+)?)]
                $key: Option<$type>,
            )+
            $($( #[command(flatten)] $part: $part_flags, )+)?
        }

        impl $flags {
            /// The settings of a file, overridden by these.
            pub fn over(self, file: $settings) -> $settings {
                $settings {
                    $( $key: $crate::setting!(over self.$key, file.$key $(, $default)?), )+
                    $($( $file_key: file.$file_key, )+)?
                    $($( $part: self.$part.over(file.$part), )+)?
                }
            }
        }

        impl Default for $settings {
            fn default() -> Self {
                Self {
                    $( $key: $crate::setting!(default $($default)?), )+
                    $($( $file_key: Default::default(), )+)?
                    $($( $part: Default::default(), )+)?
                }
            }
        }
    };
}

/// The parts of a setting that depend on whether it has a default.
#[doc(hidden)]
#[macro_export]
macro_rules! setting {
    (type $type:ty) => { Option<$type> };
    (type $type:ty, $default:expr) => { $type };
    (over $given:expr, $file:expr) => { $given.or($file) };
    (over $given:expr, $file:expr, $default:expr) => { $given.unwrap_or($file) };
    (default) => { None };
    (default $default:expr) => { $default };
}
