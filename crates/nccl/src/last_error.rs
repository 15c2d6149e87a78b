//! The last warning of the process, for `ncclGetLastError`.
//!
//! C gets a pointer to memory that is written again by later warnings, of any thread; a caller who
//! reads at that moment may see a mixture, but never reads beyond the end.

use std::ffi::c_char;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

const LENGTH: usize = 1024;

static TEXT: [AtomicU8; LENGTH] = [const { AtomicU8::new(0) }; LENGTH];
static WRITER: Mutex<()> = Mutex::new(());

/// Keeps `text`, cut to what fits.
pub fn set(text: &str) {
    let _alone = WRITER.lock().unwrap_or_else(PoisonError::into_inner);
    let fits = (0..LENGTH).rev().find(|&end| text.is_char_boundary(end.min(text.len())));
    let kept = &text.as_bytes()[..fits.unwrap_or_default().min(text.len())];
    let bytes = kept.iter().map(|&byte| if byte == 0 { b'?' } else { byte });
    for (place, byte) in TEXT.iter().zip(bytes.chain([0])) {
        place.store(byte, Ordering::Relaxed);
    }
}

/// Where the text is.
pub fn pointer() -> *const c_char {
    TEXT.as_ptr().cast()
}

/// The text.
#[cfg(test)]
pub fn get() -> String {
    let bytes = TEXT.iter().map(|byte| byte.load(Ordering::Relaxed));
    let bytes: Vec<u8> = bytes.take_while(|&byte| byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test, since there is one text.
    #[test]
    fn texts_are_cut_at_a_character() {
        let _alone = crate::log::tests::alone();
        set("first\0second");
        assert_eq!(get(), "first?second");
        set(&"ä".repeat(1000));
        assert_eq!(get(), "ä".repeat(511));
        set("short");
        assert_eq!(get(), "short");
    }
}
