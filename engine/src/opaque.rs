//! Types with opaque `Debug` output: secrets, which reach no log, error or panic, tables, and parts that run.

/// Shows values by the names of their types alone.
#[macro_export]
macro_rules! opaque {
    (for<$($parameter:ident),*> $type:ty) => {
        impl<$($parameter),*> std::fmt::Debug for $type {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(concat!(stringify!($type), "(..)"))
            }
        }
    };
    ($($type:ty),+) => {
        $($crate::opaque!(for<> $type);)+
    };
}
