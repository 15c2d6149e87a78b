//! The time on the wall. An unsafe boundary: the C library alone knows the local time.

#![expect(unsafe_code, reason = "the C library alone knows the local time")]

use std::time::{SystemTime, UNIX_EPOCH};

/// Now, such as `2025-11-20 18:50:01`, in local time.
pub fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = libc::time_t::try_from(since.as_secs()).unwrap_or_default();
    // SAFETY: a `tm` is integers and a pointer, for all of which zeros are a value.
    let mut local: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to locals of the right types.
    unsafe { libc::localtime_r(&raw const seconds, &raw mut local) };
    let libc::tm { tm_year, tm_mon, tm_mday, tm_hour, tm_min, tm_sec, .. } = local;
    let (year, month) = (tm_year + 1900, tm_mon + 1);
    format!("{year}-{month:02}-{tm_mday:02} {tm_hour:02}:{tm_min:02}:{tm_sec:02}")
}

#[cfg(test)]
mod tests {
    #[test]
    fn has_the_shape_of_a_time() {
        let now = super::now();
        let shape: String = now.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        assert_eq!(shape, "0000-00-00 00:00:00");
    }
}
