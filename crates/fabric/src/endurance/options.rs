//! The options of TCP connections that Linux alone offers: an unsafe boundary.

#![expect(unsafe_code, reason = "Linux alone has these options of sockets")]

use std::io;
use std::mem::size_of;
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// `TCP_RTO_MAX_MS`, since Linux 6.15; libc has no name for it.
const TCP_RTO_MAX_MS: libc::c_int = 44;

/// What was sent and not acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Unacknowledged {
    /// How many packets.
    pub packets: u32,
    /// How often the first of them has been sent again.
    pub attempts: u8,
}

/// The longest time between two attempts of `stream` to send something again.
pub(super) fn set_longest_pause(stream: &TcpStream, pause: Duration) -> io::Result<()> {
    let pause_ms = libc::c_int::try_from(pause.as_millis()).unwrap_or(libc::c_int::MAX);
    // SAFETY: the descriptor is open as long as `stream` lives; the kernel reads the integer and
    // keeps no pointer.
    let failed = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            TCP_RTO_MAX_MS,
            (&raw const pause_ms).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// What `stream` has sent in vain so far.
pub(super) fn unacknowledged(stream: &TcpStream) -> io::Result<Unacknowledged> {
    // The first fields of `struct tcp_info`, which all kernels have: state, congestion state,
    // attempts, probes, backoff, options and two of bits; then words, the fifth of which counts
    // packets.
    let mut bytes = [0_u8; 28];
    let mut length = bytes.len() as libc::socklen_t;
    // SAFETY: the descriptor is open as long as `stream` lives; the kernel writes at most `length`
    // bytes.
    let failed = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            bytes.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if failed != 0 {
        return Err(io::Error::last_os_error());
    }
    let [.., a, b, c, d] = bytes;
    Ok(Unacknowledged { packets: u32::from_ne_bytes([a, b, c, d]), attempts: bytes[2] })
}
