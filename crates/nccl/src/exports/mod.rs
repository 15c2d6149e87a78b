//! Every function that C can call, by subject.
//!
//! A function here decides nothing: it names its arguments, hands them on, and `guard` turns what
//! comes back into a number. Whatever it answers, the places of its results are set: where there is
//! no result, to null, -1 or zeros. Both names of a function are plain exports; where a profiler
//! defines one of them, the loader takes the profiler's, as it does with weak symbols.

#![allow(non_snake_case, reason = "the names are those of the C interface")]

/// Functions that answer with a result, each under both of its names.
macro_rules! exported {
    ($(
        $(#[$note:meta])*
        fn $name:ident | $twin:ident($($argument:ident: $kind:ty),* $(,)?) $body:block
    )*) => {$(
        $(#[$note])*
        #[expect(unsafe_code, reason = "C finds the function by its name")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($argument: $kind),*) -> $crate::abi::Code {
            $($crate::abi::Argument::blank(&$argument);)*
            $crate::guard::answer(stringify!($name), move || $body)
        }

        #[doc = concat!("[`", stringify!($name), "`] under its second name.")]
        #[expect(unsafe_code, reason = "C finds the function by its name")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $twin($($argument: $kind),*) -> $crate::abi::Code {
            $name($($argument),*)
        }
    )*};
}

/// Functions that answer with something else, each under both of its names; what stands after `or`
/// if they fail.
macro_rules! exported_with_value {
    ($(
        $(#[$note:meta])*
        fn $name:ident | $twin:ident(
            $($argument:ident: $kind:ty),* $(,)?
        ) -> $value:ty, or $otherwise:expr => $body:block
    )*) => {$(
        $(#[$note])*
        #[expect(unsafe_code, reason = "C finds the function by its name")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($argument: $kind),*) -> $value {
            $crate::guard::value(stringify!($name), $otherwise, move || $body)
        }

        #[doc = concat!("[`", stringify!($name), "`] under its second name.")]
        #[expect(unsafe_code, reason = "C finds the function by its name")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $twin($($argument: $kind),*) -> $value {
            $name($($argument),*)
        }
    )*};
}

/// Functions that are refused, each under both of its names. They look at no arguments: the caller
/// removes what it passed, in every calling convention of the hosts that this library is for. Why
/// is said behind the name of the function; tests find all of them in the constant.
macro_rules! refused {
    ($all:ident, $note:literal, $why:literal: $($name:ident | $twin:ident),+ $(,)?) => {
        exported! {$(
            #[doc = $note]
            fn $name | $twin() {
                Err::<(), _>($crate::fault::Fault::usage(concat!(stringify!($name), " ", $why)))
            }
        )+}

        #[cfg(test)]
        const $all: &[extern "C" fn() -> $crate::abi::Code] = &[$($name, $twin),+];
    };
}

pub mod information;

pub mod communicator;

pub mod suspension;

pub mod question;

pub mod collective;

pub mod one_sided;

pub mod group;

pub mod operator;

pub mod memory;

pub mod device;

pub mod newer;

pub mod order;
/// Signals of blocks.
pub mod signals;

pub mod trace;

pub mod trial;
