//! Which network interface to listen on, by the rules that NCCL's users know.
//!
//! A filter, if there is one, decides alone. Otherwise the first kind that has an address wins: the
//! names that start with `ib`; the subnet of an address that is known to be reached; anything but
//! `docker`, `lo` and `virbr`; then `docker`; then `lo`; then `virbr`. Within a kind the system's
//! order stands, except that link-local IPv6 addresses, which need a scope to be reached, come
//! last.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, ToSocketAddrs};

use if_addrs::IfAddr;

use crate::error::Error;

/// What the user requires of an interface; the default requires nothing.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Choice {
    /// Only interfaces that this lets through.
    pub filter: Option<Filter>,
    /// Only addresses of this family.
    pub family: Option<AddressFamily>,
}

impl Choice {
    /// The address that the rules choose on this host, with `port`; 0 leaves the port to the
    /// system.
    pub fn address(&self, port: u16) -> Result<SocketAddr, Error> {
        let mut address = choose(self, None)?.any_port();
        address.set_port(port);
        Ok(address)
    }
}

/// An address family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AddressFamily {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// A list of interface names: prefixes, or exact names after `=`; `^` in front excludes them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Filter {
    exclude: bool,
    exact: bool,
    names: Vec<String>,
}

impl Filter {
    /// Reads `eth,ib`, `=eth0`, `^docker`, `^=eth1,lo`; a `:port` after a name is ignored. `None`
    /// if no name is left.
    pub fn parse(text: &str) -> Option<Self> {
        let (exclude, text) = strip(text.trim(), '^');
        let (exact, text) = strip(text, '=');
        let name = |item: &str| item.split(':').next().unwrap_or_default().trim().to_owned();
        let names: Vec<_> = text.split(',').map(name).filter(|name| !name.is_empty()).collect();
        (!names.is_empty()).then_some(Self { exclude, exact, names })
    }

    fn lets_through(&self, interface: &str) -> bool {
        let matches = |name: &String| match self.exact {
            true => interface == name,
            false => interface.starts_with(name.as_str()),
        };
        self.names.iter().any(matches) != self.exclude
    }

    fn text(&self) -> String {
        let exclude = if self.exclude { "^" } else { "" };
        let exact = if self.exact { "=" } else { "" };
        format!("{exclude}{exact}{}", self.names.join(","))
    }
}

fn strip(text: &str, mark: char) -> (bool, &str) {
    text.strip_prefix(mark).map_or((false, text), |rest| (true, rest))
}

impl AddressFamily {
    fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }
}

/// One address of one network interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) address: IpAddr,
    pub(crate) prefix_bits: u8,
    pub(crate) index: u32,
}

impl Interface {
    /// The address with a port that the system chooses.
    pub(crate) fn any_port(&self) -> SocketAddr {
        match self.address {
            IpAddr::V4(address) => SocketAddr::from((address, 0)),
            IpAddr::V6(address) => {
                let scope = if is_link_local(address) { self.index } else { 0 };
                SocketAddr::V6(SocketAddrV6::new(address, 0, 0, scope))
            }
        }
    }
}

/// The interface to listen on; `near` is an address that other ranks are known to reach, if there
/// is one.
pub(crate) fn choose(choice: &Choice, near: Option<SocketAddr>) -> Result<Interface, Error> {
    let all = list().map_err(|error| Error::system("cannot list network interfaces", error))?;
    pick(&all, choice, near).cloned().ok_or_else(|| nothing_fits(&all, choice))
}

/// The addresses of interfaces that are not down, in the system's order.
fn list() -> std::io::Result<Vec<Interface>> {
    let found = if_addrs::get_if_addrs()?.into_iter();
    let found = found.filter(|found| found.is_oper_up() || found.is_loopback());
    Ok(found.map(interface).collect())
}

fn interface(found: if_addrs::Interface) -> Interface {
    let prefix_bits = match &found.addr {
        IfAddr::V4(v4) => v4.prefixlen,
        IfAddr::V6(v6) => v6.prefixlen,
    };
    let index = found.index.unwrap_or_default();
    Interface { address: found.ip(), prefix_bits, index, name: found.name }
}

fn pick<'a>(
    all: &'a [Interface],
    choice: &Choice,
    near: Option<SocketAddr>,
) -> Option<&'a Interface> {
    let is_of_family = |interface: &&Interface| {
        choice.family.is_none_or(|family| family == AddressFamily::of(interface.address))
    };
    let mut fit: Vec<_> = all.iter().filter(is_of_family).collect();
    fit.sort_by_key(|interface| matches!(interface.address, IpAddr::V6(v6) if is_link_local(v6)));
    let first = |filter: &dyn Fn(&Interface) -> bool| fit.iter().copied().find(|i| filter(i));
    if let Some(filter) = &choice.filter {
        return first(&|interface| filter.lets_through(&interface.name));
    }
    let virtual_names = ["docker", "lo", "virbr"];
    let named = |prefix: &'static str| first(&|interface| interface.name.starts_with(prefix));
    named("ib")
        .or_else(|| near.and_then(|near| first(&|interface| same_subnet(interface, near.ip()))))
        .or_else(|| first(&|i| !virtual_names.iter().any(|name| i.name.starts_with(name))))
        .or_else(|| virtual_names.iter().find_map(|name| named(name)))
}

fn same_subnet(interface: &Interface, other: IpAddr) -> bool {
    match (interface.address, other) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(interface.prefix_bits)).unwrap_or(0);
            (a.to_bits() ^ b.to_bits()) & mask == 0
        }
        (IpAddr::V6(a), IpAddr::V6(b)) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(interface.prefix_bits)).unwrap_or(0);
            (a.to_bits() ^ b.to_bits()) & mask == 0
        }
        _ => false,
    }
}

fn is_link_local(address: Ipv6Addr) -> bool {
    address.segments()[0] & 0xffc0 == 0xfe80
}

fn nothing_fits(all: &[Interface], choice: &Choice) -> Error {
    let here: Vec<_> = all.iter().map(|i| format!("{} {}", i.name, i.address)).collect();
    let here = if here.is_empty() { "none".to_owned() } else { here.join(", ") };
    let filter = choice.filter.as_ref().map(|filter| format!(" matches `{}`", filter.text()));
    let family = choice.family.map(|family| match family {
        AddressFamily::V4 => " has an IPv4 address",
        AddressFamily::V6 => " has an IPv6 address",
    });
    let required = match (filter, family) {
        (Some(filter), Some(family)) => format!("{filter} and{family}"),
        (Some(filter), None) => filter,
        (None, Some(family)) => family.to_owned(),
        (None, None) => " has an address".to_owned(),
    };
    let text =
        format!("no network interface{required}; this host has: {here}; choose one of these");
    Error::invalid(text)
}

/// Reads `host:port`, `10.0.0.1:4000` or `[fd00::1]:4000`, asking the resolver for a name; an
/// address of `family` is preferred if one is given.
pub fn parse_address(text: &str, family: Option<AddressFamily>) -> Result<SocketAddr, Error> {
    let found = text.to_socket_addrs().map_err(|error| {
        Error::invalid(format!("expected host:port or [IPv6]:port, found `{text}`: {error}"))
    })?;
    let fits = |address: &SocketAddr| {
        family.is_none_or(|family| family == AddressFamily::of(address.ip()))
    };
    let mut found = found.filter(fits);
    found.next().ok_or_else(|| Error::invalid(format!("`{text}` has no address of that family")))
}

/// Whether `address` stands for "any interface", which nobody can connect to from elsewhere.
pub(crate) fn is_unspecified(address: IpAddr) -> bool {
    address == IpAddr::V4(Ipv4Addr::UNSPECIFIED) || address == IpAddr::V6(Ipv6Addr::UNSPECIFIED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> Vec<Interface> {
        let one = |(index, (name, address, prefix_bits)): (usize, (&str, &str, u8))| Interface {
            name: name.to_owned(),
            address: address.parse().unwrap(),
            prefix_bits,
            index: index as u32,
        };
        let all = [
            ("lo", "127.0.0.1", 8),
            ("docker0", "172.17.0.1", 16),
            ("eth0", "fe80::1", 64),
            ("eth0", "10.0.0.7", 24),
            ("eth1", "10.0.1.7", 24),
            ("eth10", "fd00::7", 64),
        ];
        all.into_iter().enumerate().map(one).collect()
    }

    #[track_caller]
    fn check(filter: &str, family: Option<AddressFamily>, near: Option<&str>, expected: &str) {
        let choice = Choice { filter: Filter::parse(filter), family };
        let near = near.map(|near| near.parse().unwrap());
        let found = pick(&host(), &choice, near).map(|i| format!("{} {}", i.name, i.address));
        assert_eq!(found.as_deref().unwrap_or("nothing"), expected);
    }

    #[test]
    fn rules_in_order() {
        check("", None, None, "eth0 10.0.0.7");
        check("", None, Some("10.0.1.1:80"), "eth1 10.0.1.7");
        check("", None, Some("192.168.1.1:80"), "eth0 10.0.0.7");
        check("", Some(AddressFamily::V6), None, "eth10 fd00::7");
        check("", Some(AddressFamily::V6), Some("[fe80::9]:1"), "eth0 fe80::1");
    }

    #[test]
    fn filters_decide_alone() {
        check("eth1", None, Some("10.0.0.1:80"), "eth1 10.0.1.7");
        check("=eth1", None, None, "eth1 10.0.1.7");
        check("=eth", None, None, "nothing");
        check("^eth", None, None, "lo 127.0.0.1");
        check("^=eth0,eth1,lo:1", None, None, "docker0 172.17.0.1");
        check("lo,docker", None, None, "lo 127.0.0.1");
        check("ens", None, None, "nothing");
        check("eth0", Some(AddressFamily::V6), None, "eth0 fe80::1");
    }

    #[test]
    fn virtual_interfaces_are_the_last_resort() {
        let lonely = |names: &[&str]| {
            let keep = |i: &Interface| names.contains(&i.name.as_str());
            let all: Vec<_> = host().into_iter().filter(keep).collect();
            pick(&all, &Choice::default(), None).map(|i| i.name.clone())
        };
        assert_eq!(lonely(&["lo"]).as_deref(), Some("lo"));
        assert_eq!(lonely(&["lo", "docker0"]).as_deref(), Some("docker0"));
        assert_eq!(lonely(&[]), None);
    }

    #[test]
    fn the_refusal_lists_what_there_is() {
        let filter = Filter::parse("^=ens3");
        let choice = Choice { filter, family: Some(AddressFamily::V6) };
        let text = nothing_fits(&host()[..2], &choice).to_string();
        assert_eq!(
            text,
            "no network interface matches `^=ens3` and has an IPv6 address; this host has: \
             lo 127.0.0.1, docker0 172.17.0.1; choose one of these"
        );
    }

    #[test]
    fn addresses_with_ports() {
        let check = |text, expected: &str| {
            let found = parse_address(text, None).map(|address| address.to_string());
            assert_eq!(found.unwrap_or_else(|_| "refused".to_owned()), expected);
        };
        check("10.0.0.1:4000", "10.0.0.1:4000");
        check("[fd00::1]:4000", "[fd00::1]:4000");
        check("10.0.0.1", "refused");
        check("", "refused");
        assert!(parse_address("10.0.0.1:4000", Some(AddressFamily::V6)).is_err());
    }
}
