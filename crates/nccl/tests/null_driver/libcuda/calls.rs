//! Declares the driver's functions and counts their calls. An unsafe boundary: names come from C.

use std::ffi::{CStr, c_char};

/// A function of the driver, and how often the calling thread has called it; or something else that
/// is counted.
pub type Counted = (&'static str, fn() -> u64);

/// Declares functions of the driver, and `COUNTED` with all of them.
macro_rules! driver {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block)*) => {
        pub const COUNTED: &[$crate::calls::Counted] =
            &[$((stringify!($name), || $name::CALLS.get())),*];

        $(
            mod $name {
                thread_local! {
                    pub static CALLS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
                }
            }

            #[unsafe(no_mangle)]
            pub extern "C" fn $name($($argument: $type),*) -> u32 {
                $name::CALLS.set($name::CALLS.get() + 1);
                $body
            }
        )*
    };
}

/// How often the calling thread has called the function `name`, all of them together if it is null;
/// or how often it has launched what `name` says.
///
/// # Safety
///
/// `name` is null or a zero-terminated text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nullCalls(name: *const c_char) -> u64 {
    let calls = crate::COUNTED.iter().chain(crate::kernels::COUNTED);
    if name.is_null() {
        return calls.map(|(_, count)| count()).sum();
    }
    let mut all = calls.chain(crate::kernels::LAUNCHED);
    // SAFETY: promised by the caller.
    let name = unsafe { CStr::from_ptr(name) }.to_str().unwrap_or_default();
    all.find(|(known, _)| *known == name).map_or(u64::MAX, |(_, count)| count())
}
