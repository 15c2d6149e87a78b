//! Who a rank is and where it lives: what decides which ranks can share memory.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use msccl_collective::Rank;
use rustix::fs::{self, Mode, OFlags};
use rustix::rand::GetRandomFlags;

use crate::error::Error;
use crate::wire::{Malformed, Reader, Writer};

/// One running system. Containers of one machine are one host as long as they share its host name;
/// what they can share is asked of the [`Domain`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HostId(Arc<str>);

impl HostId {
    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.text(&self.0);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self(reader.text()?.into()))
    }
}

impl fmt::Display for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The kernel namespaces of a process, by number; 0 where the system does not say.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Domain {
    /// Network: unix sockets without a file, hence descriptors, are shared within it.
    pub network: u64,
    /// Process ids: a pid means the same process within it.
    pub process: u64,
    /// Mounts: a path means the same file within it.
    pub mount: u64,
    /// System V IPC and POSIX queues.
    pub ipc: u64,
}

impl Domain {
    pub(crate) fn write(&self, writer: &mut Writer) {
        let Self { network, process, mount, ipc } = *self;
        [network, process, mount, ipc].into_iter().for_each(|number| writer.u64(number));
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            network: reader.u64()?,
            process: reader.u64()?,
            mount: reader.u64()?,
            ipc: reader.u64()?,
        })
    }
}

/// A rank as its peers know it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    /// Its rank in the group.
    pub rank: Rank,
    /// Its host.
    pub host: HostId,
    /// The name of its host, for people.
    pub host_name: Arc<str>,
    /// Its process.
    pub pid: u32,
    /// A random number of its process; distinguishes processes where pids cannot.
    pub cookie: u64,
    /// Its namespaces.
    pub domain: Domain,
    /// Where it accepts its peers' connections.
    pub address: SocketAddr,
    /// What its caller said about it at join, such as its device.
    pub description: Vec<u8>,
}

impl Peer {
    /// Whether both live on one host.
    pub fn same_host(&self, other: &Self) -> bool {
        self.host == other.host
    }

    /// Whether both live in one process.
    pub fn same_process(&self, other: &Self) -> bool {
        self.same_host(other) && self.pid == other.pid && self.cookie == other.cookie
    }

    /// Whether file descriptors, hence memory, can go from one to the other.
    pub fn shares_descriptors(&self, other: &Self) -> bool {
        self.same_host(other) && self.domain.network == other.domain.network
    }

    /// `rank 3 (host node7, pid 1234)`.
    pub(crate) fn describe(&self) -> String {
        format!("rank {} (host {}, pid {})", self.rank.0, self.host_name, self.pid)
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        let Self { rank, host, host_name, pid, cookie, domain, address, description } = self;
        writer.u32(rank.0);
        host.write(writer);
        writer.text(host_name);
        writer.u32(*pid);
        writer.u64(*cookie);
        domain.write(writer);
        writer.address(*address);
        writer.bytes(description);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            rank: Rank(reader.u32()?),
            host: HostId::read(reader)?,
            host_name: reader.text()?.into(),
            pid: reader.u32()?,
            cookie: reader.u64()?,
            domain: Domain::read(reader)?,
            address: reader.address()?,
            description: reader.bytes()?.to_vec(),
        })
    }
}

/// What this process is to its peers, as `rank` at `address`.
pub(crate) fn here(
    rank: Rank,
    address: SocketAddr,
    host: Option<&str>,
    description: &[u8],
) -> Result<Peer, Error> {
    let system_name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let (host, host_name) = match host {
        Some(host) => (host.to_owned(), host.to_owned()),
        None => (format!("{}/{system_name}", boot_id()), system_name),
    };
    Ok(Peer {
        rank,
        host: HostId(host.into()),
        host_name: host_name.into(),
        pid: std::process::id(),
        cookie: cookie()?,
        domain: domain(),
        address,
        description: description.to_vec(),
    })
}

/// The kernel's name for this run of the system; empty where it is hidden.
fn boot_id() -> String {
    let path = "/proc/sys/kernel/random/boot_id";
    let mut text = [0; 64];
    let read = fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .and_then(|file| rustix::io::read(file, &mut text));
    String::from_utf8_lossy(&text[..read.unwrap_or(0)]).trim().to_owned()
}

fn domain() -> Domain {
    let number = |name: &str| fs::stat(format!("/proc/self/ns/{name}")).map_or(0, |s| s.st_ino);
    Domain {
        network: number("net"),
        process: number("pid"),
        mount: number("mnt"),
        ipc: number("ipc"),
    }
}

/// Random for each process; a forked child that joins has another pid.
fn cookie() -> Result<u64, Error> {
    static COOKIE: OnceLock<u64> = OnceLock::new();
    if let Some(cookie) = COOKIE.get() {
        return Ok(*cookie);
    }
    let fresh = random_u128()? as u64;
    Ok(*COOKIE.get_or_init(|| fresh))
}

/// A number that nobody can foresee.
pub(crate) fn random_u128() -> Result<u128, Error> {
    let mut bytes = [0; 16];
    rustix::rand::getrandom(&mut bytes, GetRandomFlags::empty())
        .map_err(|error| Error::system("cannot get random numbers", error))?;
    Ok(u128::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(host: Option<&str>) -> Peer {
        here(Rank(3), "10.0.0.1:9".parse().unwrap(), host, b"gpu 0").unwrap()
    }

    #[test]
    fn a_peer_survives_the_wire() {
        let mut writer = Writer::default();
        peer(None).write(&mut writer);
        let mut reader = Reader(&writer.0);
        assert_eq!(Peer::read(&mut reader), Ok(peer(None)));
        assert_eq!(reader.end(), Ok(()));
    }

    #[test]
    fn threads_of_one_process_know_one_another() {
        let other = std::thread::spawn(|| peer(None)).join().unwrap();
        assert!(peer(None).same_process(&other));
        assert!(peer(None).shares_descriptors(&other));
        assert!(peer(None).domain.network != 0, "this system hides its namespaces");
    }

    #[test]
    fn a_given_host_overrides_the_real_one() {
        assert!(!peer(Some("a")).same_host(&peer(Some("b"))));
        assert!(!peer(Some("a")).shares_descriptors(&peer(None)));
        assert!(peer(Some("a")).same_process(&peer(Some("a"))));
        assert_eq!(&*peer(Some("a")).host_name, "a");
    }
}
