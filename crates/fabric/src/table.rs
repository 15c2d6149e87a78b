//! The table of all ranks, as the root sends it to each: the square of their number is on its way
//! at once, so every byte counts.
//!
//! What ranks of one host share (its names and namespaces) is said once, ranks follow from the
//! order, and numbers are as long as they must be: 20 bytes and its description for a rank that is
//! reached by IPv4. Whoever reads it holds the shared parts once, too.

use std::collections::HashMap;
use std::sync::Arc;

use msccl_collective::Rank;

use crate::identity::{Domain, HostId, Peer};
use crate::wire::{Malformed, Reader, Writer};

/// What ranks of one host and container have in common.
#[derive(Clone, PartialEq, Eq, Hash)]
struct HostEntry {
    host: HostId,
    host_name: Arc<str>,
    domain: Domain,
}

impl HostEntry {
    fn of(peer: &Peer) -> Self {
        let Peer { host, host_name, domain, .. } = peer;
        Self { host: host.clone(), host_name: host_name.clone(), domain: *domain }
    }

    fn write(&self, writer: &mut Writer) {
        let Self { host, host_name, domain } = self;
        host.write(writer);
        writer.text(host_name);
        domain.write(writer);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            host: HostId::read(reader)?,
            host_name: reader.text()?.into(),
            domain: Domain::read(reader)?,
        })
    }
}

/// Appends `peers`, which stand in order of their ranks from 0 on.
pub(crate) fn write(peers: &[Peer], writer: &mut Writer) {
    let mut numbers: HashMap<HostEntry, u64> = HashMap::new();
    let mut hosts = Writer::default();
    let mut rows = Writer::default();
    for peer in peers {
        let Peer { pid, cookie, address, description, .. } = peer;
        let next = numbers.len() as u64;
        let entry = HostEntry::of(peer);
        let number = *numbers.entry(entry).or_insert_with_key(|entry| {
            entry.write(&mut hosts);
            next
        });
        rows.number(number);
        rows.number(u64::from(*pid));
        rows.u64(*cookie);
        rows.short_address(*address);
        rows.short_bytes(description);
    }
    writer.u32(numbers.len() as u32);
    writer.0.extend(hosts.0);
    writer.u32(peers.len() as u32);
    writer.0.extend(rows.0);
}

/// Takes what [`write`] appended.
pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Vec<Peer>, Malformed> {
    let hosts = reader.list(HostEntry::read)?;
    let mut rank = 0..;
    reader.list(|reader| {
        let number = usize::try_from(reader.number()?).unwrap_or(usize::MAX);
        let HostEntry { host, host_name, domain } =
            hosts.get(number).cloned().ok_or(Malformed("a rank lives nowhere"))?;
        Ok(Peer {
            rank: Rank(rank.next().unwrap_or(u32::MAX)),
            host,
            host_name,
            pid: u32::try_from(reader.number()?).map_err(|_| Malformed("a pid is absurd"))?,
            cookie: reader.u64()?,
            domain,
            address: reader.short_address()?,
            description: reader.short_bytes()?.to_vec(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity;

    fn peers(ranks: u32) -> Vec<Peer> {
        let peer = |rank| {
            let address = format!("10.0.0.{}:{}", rank / 8 + 1, 40_000 + rank).parse().unwrap();
            let host = format!("host{}", rank / 8);
            identity::here(Rank(rank), address, Some(&host), &[7; 5]).unwrap()
        };
        (0..ranks).map(peer).collect()
    }

    #[test]
    fn what_is_written_is_read_and_is_short() {
        let peers = peers(64);
        let mut writer = Writer::default();
        write(&peers, &mut writer);
        let bytes = writer.0.len();
        let mut reader = Reader(&writer.0);
        assert_eq!(read(&mut reader).as_ref(), Ok(&peers));
        assert_eq!(reader.end(), Ok(()));
        // 8 hosts are said once; a row without its description has at most 1 + 5 + 8 + 7 + 1 bytes.
        let mut hosts = Writer::default();
        peers.iter().step_by(8).for_each(|peer| HostEntry::of(peer).write(&mut hosts));
        assert!(bytes <= 8 + hosts.0.len() + 64 * (22 + 5), "{bytes} bytes");
    }

    #[test]
    fn the_shared_is_held_once() {
        let mut writer = Writer::default();
        write(&peers(16), &mut writer);
        let read = read(&mut Reader(&writer.0)).unwrap();
        assert!(Arc::ptr_eq(&read[0].host_name, &read[7].host_name));
    }

    #[test]
    fn nonsense_is_refused() {
        let mut writer = Writer::default();
        write(&peers(3), &mut writer);
        for length in 0..writer.0.len() {
            assert!(read(&mut Reader(&writer.0[..length])).is_err(), "{length}");
        }
        let nowhere = [&[0; 4][..], &[1, 0, 0, 0], &[0; 40]].concat();
        assert_eq!(read(&mut Reader(&nowhere)), Err(Malformed("a rank lives nowhere")));
    }
}
