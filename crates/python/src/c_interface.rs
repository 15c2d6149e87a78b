//! The two functions.

#![expect(unsafe_code, reason = "exports functions of C, and reads and frees C strings")]

use std::ffi::{CStr, CString, c_char};
use std::ptr;

use crate::request::answer;

/// Answers `request`; see the crate.
///
/// # Safety
///
/// `request` is null or a string that ends with a zero, and stays as it is during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn msccl_python_call(request: *const c_char) -> *mut c_char {
    let request = match request.is_null() {
        true => &[],
        // SAFETY: as the caller promises.
        false => unsafe { CStr::from_ptr(request) }.to_bytes(),
    };
    // Strings in JSON have no zeros: they are escaped.
    CString::new(answer(request)).map_or(ptr::null_mut(), CString::into_raw)
}

/// Frees an answer; null is allowed.
///
/// # Safety
///
/// `answer` is null or came from [`msccl_python_call`], and was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn msccl_python_free(answer: *mut c_char) {
    if !answer.is_null() {
        // SAFETY: as the caller promises.
        drop(unsafe { CString::from_raw(answer) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_strings_of_c() {
        let request = c"{\"arguments\": [\"--version\"]}";
        // SAFETY: a string of C; the answer is freed once.
        let text = unsafe {
            let answer = msccl_python_call(request.as_ptr());
            let text = CStr::from_ptr(answer).to_str().unwrap().to_owned();
            msccl_python_free(answer);
            msccl_python_free(ptr::null_mut());
            text
        };
        assert!(text.starts_with(r#"{"exit":0,"stdout":"msccl "#), "{text}");
        // SAFETY: null is allowed.
        let none = unsafe { msccl_python_call(ptr::null()) };
        // SAFETY: an answer, freed once.
        unsafe { msccl_python_free(none) };
    }
}
