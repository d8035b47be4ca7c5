//! Types that show nothing of what they hold: secrets, which reach no log, error or panic, and tables.

/// Shows the values of types by the names of these alone.
#[macro_export]
macro_rules! opaque {
    ($($type:ty),+) => {$(
        impl std::fmt::Debug for $type {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(concat!(stringify!($type), "(..)"))
            }
        }
    )+};
}
