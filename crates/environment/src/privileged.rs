//! Whether this process has rights that its caller has not: a set-user-ID or set-group-ID program,
//! or one with file capabilities. An unsafe boundary: the kernel says it in a value that only C's
//! library hands out.
//!
//! The caller of such a program sets its variables, and could have it write files, load libraries
//! and reach hosts in another user's name. So its variables count as not set, as in `secure_getenv`
//! of C.

#![expect(unsafe_code, reason = "`getauxval` of C alone has what the kernel says")]

use std::sync::OnceLock;

/// Whether the variables of this process may not be trusted.
pub fn is_privileged() -> bool {
    static PRIVILEGED: OnceLock<bool> = OnceLock::new();
    // SAFETY: the function reads what the kernel gave this process when it began, and takes any
    // number.
    *PRIVILEGED.get_or_init(|| unsafe { libc::getauxval(libc::AT_SECURE) } != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_not_privileged() {
        assert!(!is_privileged());
    }
}
