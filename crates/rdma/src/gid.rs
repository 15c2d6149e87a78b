//! Which of a port's global addresses (GIDs) a rail uses.
//!
//! On Ethernet a port has an entry for each address and each kind of RoCE, in an order that differs
//! between drivers; so an entry is chosen for what it is, not for its index: RoCE v2 before v1, and
//! of each an IPv4 address before a global IPv6 address before a link-local one. Users may name an
//! index (`NCCL_IB_GID_INDEX`). InfiniBand uses entry 0 or the one that is named, and needs it only
//! between subnets.

use std::fmt;
use std::net::Ipv6Addr;

/// An address of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gid {
    /// Its place in the port's table.
    pub index: u8,
    /// The address: an IPv6 address, or an IPv4 address mapped into one.
    pub bytes: [u8; 16],
    /// How packets with it look.
    pub kind: GidType,
}

/// How packets with a GID look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GidType {
    /// InfiniBand.
    InfiniBand,
    /// Ethernet frames of a type of their own, which are not routed.
    RoceV1,
    /// UDP datagrams.
    RoceV2,
}

impl Gid {
    /// The address as IPv6 has it.
    fn address(&self) -> Ipv6Addr {
        Ipv6Addr::from(self.bytes)
    }

    /// Less is better.
    fn rank(&self) -> u8 {
        let kind = match self.kind {
            GidType::InfiniBand | GidType::RoceV2 => 0,
            GidType::RoceV1 => 3,
        };
        let address = self.address();
        let family = match address.to_ipv4_mapped() {
            Some(_) => 0,
            None if !address.is_unicast_link_local() => 1,
            None => 2,
        };
        kind + family
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            GidType::InfiniBand => "InfiniBand",
            GidType::RoceV1 => "RoCE v1",
            GidType::RoceV2 => "RoCE v2",
        };
        write!(out, "{}: {} ({kind})", self.index, Shown(self.bytes))
    }
}

/// A GID for people: an IPv4 address as such.
pub struct Shown(pub [u8; 16]);

impl fmt::Display for Shown {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = Ipv6Addr::from(self.0);
        match address.to_ipv4_mapped() {
            Some(short) => short.fmt(out),
            None => address.fmt(out),
        }
    }
}

/// Chooses of a port's table.
///
/// # Errors
/// If the named index is not in it, or nothing is; in words, with the table.
pub fn choose(table: &[Gid], ethernet: bool, named: Option<u8>) -> Result<Gid, String> {
    if let Some(index) = named {
        return table.iter().find(|gid| gid.index == index).copied().ok_or_else(|| {
            format!("NCCL_IB_GID_INDEX is {index}, but the port has {}", listed(table))
        });
    }
    let best = if ethernet {
        table.iter().min_by_key(|gid| (gid.rank(), gid.index))
    } else {
        table.iter().min_by_key(|gid| gid.index)
    };
    best.copied().ok_or_else(|| "the port has no GID; give its network interface an address".into())
}

fn listed(table: &[Gid]) -> String {
    if table.is_empty() {
        return "no GID at all".into();
    }
    let entries: Vec<_> = table.iter().map(Gid::to_string).collect();
    format!("these GIDs: {}", entries.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gid(index: u8, address: &str, kind: GidType) -> Gid {
        let address: std::net::IpAddr = address.parse().unwrap();
        let bytes = match address {
            std::net::IpAddr::V4(short) => short.to_ipv6_mapped().octets(),
            std::net::IpAddr::V6(long) => long.octets(),
        };
        Gid { index, bytes, kind }
    }

    /// As `mlx5` lists them: each address twice, version 1 first.
    fn usual() -> Vec<Gid> {
        vec![
            gid(0, "fe80::1", GidType::RoceV1),
            gid(1, "fe80::1", GidType::RoceV2),
            gid(2, "10.0.0.1", GidType::RoceV1),
            gid(3, "10.0.0.1", GidType::RoceV2),
            gid(4, "2001:db8::1", GidType::RoceV2),
        ]
    }

    #[test]
    fn roce_v2_with_an_ipv4_address_comes_first_wherever_it_stands() {
        assert_eq!(choose(&usual(), true, None).unwrap().index, 3);
        let mut turned = usual();
        turned.reverse();
        assert_eq!(choose(&turned, true, None).unwrap().index, 3);
    }

    #[test]
    fn then_global_ipv6_then_link_local_then_version_1() {
        let mut table = usual();
        let mut order = Vec::new();
        while let Ok(best) = choose(&table, true, None) {
            order.push(best.index);
            table.retain(|gid| gid.index != best.index);
        }
        assert_eq!(order, [3, 4, 1, 2, 0]);
    }

    #[test]
    fn of_equals_the_first() {
        let table = [gid(5, "10.0.0.2", GidType::RoceV2), gid(3, "10.0.0.1", GidType::RoceV2)];
        assert_eq!(choose(&table, true, None).unwrap().index, 3);
    }

    #[test]
    fn infiniband_uses_its_first() {
        let table =
            [gid(0, "fe80::2", GidType::InfiniBand), gid(1, "2001:db8::2", GidType::InfiniBand)];
        assert_eq!(choose(&table, false, None).unwrap().index, 0);
    }

    #[test]
    fn a_named_index_is_used_or_the_table_is_shown() {
        assert_eq!(choose(&usual(), true, Some(0)).unwrap().index, 0);
        let why = choose(&usual(), true, Some(9)).unwrap_err();
        assert!(why.contains("NCCL_IB_GID_INDEX is 9"), "{why}");
        assert!(why.contains("3: 10.0.0.1 (RoCE v2)"), "{why}");
        assert!(choose(&[], true, Some(0)).unwrap_err().contains("no GID at all"));
    }

    #[test]
    fn no_gid_says_what_to_do() {
        assert!(choose(&[], true, None).unwrap_err().contains("an address"));
    }
}
