//! Index newtypes: bare nouns over `u32` that print with the prefix used in every message.

use std::fmt;

macro_rules! index {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// The position as a table index.
            #[inline]
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl From<usize> for $name {
            /// The index of table position `position`. Tables of more than `u32::MAX` entries are
            /// beyond every limit of the project, so exceeding it is a bug in the caller.
            #[inline]
            fn from(position: usize) -> Self {
                debug_assert!(u32::try_from(position).is_ok(), "index out of u32 range");
                Self(position as u32)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

index! {
    /// A participant of a collective; prints as `r3`.
    Rank, "r"
}
index! {
    /// A thread block of one rank; prints as `tb2`.
    TbIndex, "tb"
}
index! {
    /// A step of one thread block; prints as `s17`.
    StepIndex, "s"
}
index! {
    /// A channel, which distinguishes several links between one pair of ranks; prints as `ch0`.
    Channel, "ch"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_print_with_their_prefix() {
        let printed = format!("{} {} {} {:?}", Rank(3), TbIndex(2), StepIndex(17), Channel(0));
        assert_eq!(printed, "r3 tb2 s17 ch0");
    }
}
