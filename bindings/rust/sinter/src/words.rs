//! Enumerations of the C ABI, in `tables`. Numbers of a newer library are values like the others: none is undefined behaviour.
use crate::sys;

macro_rules! word {
    ($(#[$doc:meta])* $name:ident: $($(#[$about:meta])* $constant:ident = $value:ident),* $(,)?) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $name(
            /// The number in the C ABI.
            pub i32,
        );
        #[allow(missing_docs)]
        impl $name {
            $($(#[$about])* pub const $constant: Self = Self(sys::$value);)*
        }
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match *self {
                    $(Self::$constant => f.write_str(stringify!($constant)),)*
                    Self(other) => write!(f, "{}({})", stringify!($name), other),
                }
            }
        }
    };
}

mod tables;
pub use tables::*;

impl Default for Activation {
    fn default() -> Self {
        Self::IDENTITY
    }
}
impl Default for Layout {
    fn default() -> Self {
        Self::OI
    }
}
impl Default for Granularity {
    fn default() -> Self {
        Self::ROW
    }
}
impl Default for Filter {
    fn default() -> Self {
        Self::OHWI
    }
}
impl Default for Choice {
    fn default() -> Self {
        Self::BEST
    }
}
impl Default for LogLevel {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl Status {
    /// "INVALID_ARGUMENT"; "UNKNOWN_STATUS" for a number that does not name a status.
    pub fn name(self) -> &'static str {
        // SAFETY: static storage.
        unsafe { crate::error::borrowed(sys::sinter_status_name(self.0)) }
    }
}
impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
