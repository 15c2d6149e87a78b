//! What crosses the loopback interface, as anybody who can listen to the network receives it. Needs
//! a privilege. An unsafe boundary: sockets of packets are calls to C.

#![expect(unsafe_code, reason = "sockets of packets are calls to C")]

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Who says something to whom, by ports.
pub type Direction = (u16, u16);

/// All that is said, by direction.
pub type Captured = BTreeMap<Direction, Vec<u8>>;

/// Captures packets until [`Capture::end`].
pub struct Capture {
    ended: Arc<AtomicBool>,
    captured: Arc<Mutex<Captured>>,
    thread: JoinHandle<()>,
}

const HEADER_BYTES: usize = 14;

impl Capture {
    /// Begins to listen; an error says that this user may not.
    pub fn begin() -> io::Result<Self> {
        let socket = open()?;
        let (ended, captured) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::default()));
        let (stop, into) = (ended.clone(), captured.clone());
        let thread = std::thread::spawn(move || listen(&socket, &stop, &into));
        Ok(Self { ended, captured, thread })
    }

    /// What was said so far.
    pub fn captured(&self) -> Captured {
        self.captured.lock().unwrap().clone()
    }

    pub fn end(self) -> Captured {
        // The last packets may wait to be taken.
        std::thread::sleep(Duration::from_millis(100));
        self.ended.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        std::mem::take(&mut *self.captured.lock().unwrap())
    }
}

fn open() -> io::Result<OwnedFd> {
    let protocol = i32::from((libc::ETH_P_IP as u16).to_be());
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: no memory is passed.
    let socket = unsafe { libc::socket(libc::AF_PACKET, kind, protocol) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it was opened here and has no other owner.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    let limit = libc::timeval { tv_sec: 0, tv_usec: 50_000 };
    for (name, value, length) in [
        (libc::SO_RCVTIMEO, (&raw const limit).cast(), size_of_val(&limit)),
        (libc::SO_RCVBUFFORCE, (&raw const BUFFER_BYTES).cast(), size_of_val(&BUFFER_BYTES)),
    ] {
        let length = length as libc::socklen_t;
        // SAFETY: the value lives as long as the call and has that length.
        unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, name, value, length) };
    }
    Ok(socket)
}

static BUFFER_BYTES: i32 = 64 << 20;

fn listen(socket: &OwnedFd, ended: &AtomicBool, captured: &Mutex<Captured>) {
    let mut next: BTreeMap<Direction, u32> = BTreeMap::new();
    let mut packet = vec![0; 70_000];
    while !ended.load(Ordering::Relaxed) {
        let room = packet.len();
        // SAFETY: the buffer has that many bytes.
        let length = unsafe { libc::recv(socket.as_raw_fd(), packet.as_mut_ptr().cast(), room, 0) };
        let Ok(length) = usize::try_from(length) else { continue };
        take(&packet[..length], &mut next, &mut captured.lock().unwrap());
    }
}

/// Adds what a packet over TCP says behind what was captured. The interface shows every packet
/// twice.
fn take(packet: &[u8], next: &mut BTreeMap<Direction, u32>, captured: &mut Captured) -> Option<()> {
    let ip = packet.get(HEADER_BYTES..)?;
    if *ip.get(9)? != 6 {
        return None;
    }
    let total = usize::from(u16::from_be_bytes([*ip.get(2)?, *ip.get(3)?]));
    let tcp = ip.get(usize::from(ip[0] & 15) * 4..total)?;
    let port = |at: usize| Some(u16::from_be_bytes([*tcp.get(at)?, *tcp.get(at + 1)?]));
    let direction = (port(0)?, port(2)?);
    let sequence = u32::from_be_bytes(tcp.get(4..8)?.try_into().ok()?);
    let flags = *tcp.get(13)?;
    if flags & 2 != 0 {
        next.insert(direction, sequence.wrapping_add(1));
        captured.remove(&direction);
        return None;
    }
    let payload = tcp.get(usize::from(tcp[12] >> 4) * 4..)?;
    let expected = next.get_mut(&direction)?;
    if sequence == *expected {
        *expected = sequence.wrapping_add(payload.len() as u32);
        let said = captured.entry(direction).or_default();
        // Handshakes stand at the beginning, and tensors are long.
        let room = (1_usize << 20).saturating_sub(said.len());
        said.extend(&payload[..payload.len().min(room)]);
    }
    Some(())
}
