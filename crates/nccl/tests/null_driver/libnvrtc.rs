//! A run-time compiler that compiles nothing: every program becomes the same few bytes, but those
//! of bf16, which it refuses. An unsafe boundary: it writes where its callers say.

#![allow(non_snake_case, reason = "the names are NVRTC's")]

use std::ffi::{CStr, c_char, c_int, c_void};

const SUCCESS: c_int = 0;
const COMPILATION: c_int = 6;

const CODE: &[u8] = b"machine code of nothing";
const LOG: &[u8] = b"there is no bf16 here\0";

/// A program: whether it compiles.
struct Program(bool);

#[unsafe(no_mangle)]
pub extern "C" fn nvrtcVersion(major: &mut c_int, minor: &mut c_int) -> c_int {
    (*major, *minor) = (12, 99);
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn nvrtcGetErrorString(status: c_int) -> *const c_char {
    match status {
        COMPILATION => c"it does not compile".as_ptr(),
        _ => c"something is wrong".as_ptr(),
    }
}

/// # Safety
///
/// As NVRTC has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcCreateProgram(
    program: &mut *mut c_void,
    source: *const c_char,
    _name: *const c_char,
    _count: c_int,
    _headers: *const *const c_char,
    _names: *const *const c_char,
) -> c_int {
    // SAFETY: promised by the caller.
    let source = unsafe { CStr::from_ptr(source) }.to_string_lossy();
    *program = Box::into_raw(Box::new(Program(!source.contains("Bf16")))).cast();
    SUCCESS
}

/// # Safety
///
/// The program was created and not destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcDestroyProgram(program: &mut *mut c_void) -> c_int {
    // SAFETY: promised by the caller.
    drop(unsafe { Box::from_raw(program.cast::<Program>()) });
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn nvrtcCompileProgram(
    program: &Program,
    _count: c_int,
    _options: *const *const c_char,
) -> c_int {
    if program.0 { SUCCESS } else { COMPILATION }
}

/// Declares a pair of functions: how long something is, and what it is.
macro_rules! content {
    ($size:ident $content:ident $bytes:expr) => {
        #[unsafe(no_mangle)]
        pub extern "C" fn $size(_program: *const c_void, bytes: &mut usize) -> c_int {
            *bytes = $bytes.len();
            SUCCESS
        }

        /// # Safety
        ///
        /// There is as much room as was asked for.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $content(_program: *const c_void, to: *mut u8) -> c_int {
            // SAFETY: promised by the caller.
            unsafe { to.copy_from_nonoverlapping($bytes.as_ptr(), $bytes.len()) };
            SUCCESS
        }
    };
}

content!(nvrtcGetCUBINSize nvrtcGetCUBIN CODE);
content!(nvrtcGetPTXSize nvrtcGetPTX CODE);
content!(nvrtcGetProgramLogSize nvrtcGetProgramLog LOG);
