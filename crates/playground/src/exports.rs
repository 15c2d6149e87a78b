//! The three functions that a page calls. Texts are UTF-8; all numbers are as wide as a pointer.
//!
//! The caller gets room by [`msccl_alloc`], writes its request there, and calls [`msccl_answer`],
//! which takes the room back. What that gives is a block whose first word is the length of the
//! answer, which follows; [`msccl_free`] takes it back.

#![expect(unsafe_code, reason = "what WebAssembly exports are raw functions over raw memory")]

use std::alloc::{Layout, alloc, dealloc};

/// Bytes of the length before an answer.
const HEAD: usize = size_of::<usize>();

fn layout(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes.max(1), align_of::<usize>()).ok()
}

/// Room for `bytes` bytes, aligned as a word; null if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn msccl_alloc(bytes: usize) -> *mut u8 {
    match layout(bytes) {
        // SAFETY: the layout has at least one byte.
        Some(layout) => unsafe { alloc(layout) },
        None => std::ptr::null_mut(),
    }
}

/// The answer to the request of `bytes` bytes at `request`, which is taken back; null if there is
/// no room for it.
///
/// # Safety
///
/// `request` came from [`msccl_alloc`] with the same `bytes`, is written in full, and is not used
/// again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn msccl_answer(request: *mut u8, bytes: usize) -> *mut u8 {
    // SAFETY: the caller promises so many bytes, and that nobody else has them.
    let text = unsafe { std::slice::from_raw_parts(request, bytes) };
    let answer = match std::str::from_utf8(text) {
        Ok(text) => crate::answer(text),
        Err(_) => r#"{"error": "the request is not UTF-8"}"#.to_owned(),
    };
    // SAFETY: as promised, it came from `msccl_alloc`, and the text is not used any more.
    unsafe { release(request, bytes) };
    let block = msccl_alloc(HEAD + answer.len());
    if !block.is_null() {
        // SAFETY: the block has room for the head, and for the answer behind it; it is aligned.
        unsafe {
            block.cast::<usize>().write(answer.len());
            std::ptr::copy_nonoverlapping(answer.as_ptr(), block.add(HEAD), answer.len());
        }
    }
    block
}

/// Takes an answer back.
///
/// # Safety
///
/// `block` is null or came from [`msccl_answer`], and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn msccl_free(block: *mut u8) {
    if !block.is_null() {
        // SAFETY: `msccl_answer` wrote the length first, and made the block with it.
        unsafe { release(block, HEAD + block.cast::<usize>().read()) };
    }
}

/// Takes room back.
///
/// # Safety
///
/// `at` came from `msccl_alloc(bytes)`, and is not used again.
unsafe fn release(at: *mut u8, bytes: usize) {
    if let Some(layout) = layout(bytes) {
        // SAFETY: the caller promises that `at` was made with this layout.
        unsafe { dealloc(at, layout) };
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;

    #[test]
    fn exports_take_and_give_memory() {
        let request =
            r#"{"op": "format", "text": "algorithm  x( ranks N=2 ) implements allreduce( ) {}"}"#;
        let at = msccl_alloc(request.len());
        // SAFETY: the room is as long as the request; the answer is read before it is given back.
        let text = unsafe {
            std::ptr::copy_nonoverlapping(request.as_ptr(), at, request.len());
            let block = msccl_answer(at, request.len());
            let length = block.cast::<usize>().read();
            let text = std::slice::from_raw_parts(block.add(size_of::<usize>()), length).to_vec();
            msccl_free(block);
            String::from_utf8(text).unwrap()
        };
        assert!(text.contains("algorithm x(ranks N = 2)"), "{text}");
    }
}
