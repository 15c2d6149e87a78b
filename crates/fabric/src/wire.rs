//! Bytes on the wire: little-endian numbers and length-prefixed strings, read with bounds checks.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// The version of everything that ranks say to one another.
pub(crate) const WIRE_VERSION: u16 = 4;

/// Bytes that are not what the protocol says; the text says which part.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) &'static str);

/// Appends values to bytes.
#[derive(Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    pub(crate) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.0.extend(value.to_le_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.0.extend(value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    pub(crate) fn u128(&mut self, value: u128) {
        self.0.extend(value.to_le_bytes());
    }

    /// As many bytes as the number needs, seven bits in each.
    pub(crate) fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.u8(value as u8 | 0x80);
            value >>= 7;
        }
        self.u8(value as u8);
    }

    pub(crate) fn bytes(&mut self, value: &[u8]) {
        self.u64(value.len() as u64);
        self.0.extend(value);
    }

    /// Bytes behind a [`Writer::number`] that counts them.
    pub(crate) fn short_bytes(&mut self, value: &[u8]) {
        self.number(value.len() as u64);
        self.0.extend(value);
    }

    pub(crate) fn text(&mut self, value: &str) {
        self.bytes(value.as_bytes());
    }

    /// 7 bytes for IPv4, 23 for IPv6.
    pub(crate) fn short_address(&mut self, value: SocketAddr) {
        match value {
            SocketAddr::V4(v4) => {
                self.u8(4);
                self.u32(v4.ip().to_bits());
                self.u16(v4.port());
            }
            SocketAddr::V6(_) => self.address(value),
        }
    }

    /// 23 bytes whatever the family.
    pub(crate) fn address(&mut self, value: SocketAddr) {
        let (family, bits, scope) = match value {
            SocketAddr::V4(v4) => (4, u128::from(v4.ip().to_bits()), 0),
            SocketAddr::V6(v6) => (6, v6.ip().to_bits(), v6.scope_id()),
        };
        self.u8(family);
        self.u128(bits);
        self.u16(value.port());
        self.u32(scope);
    }
}

/// Takes values from the front of bytes.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Malformed("it ends early"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        self.array().map(u8::from_le_bytes)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn u128(&mut self) -> Result<u128, Malformed> {
        self.array().map(u128::from_le_bytes)
    }

    pub(crate) fn number(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.u8()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed("a number does not end"))
    }

    /// Bytes behind a [`Reader::number`] that counts them.
    pub(crate) fn short_bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.number()?;
        self.take(usize::try_from(length).map_err(|_| Malformed("a length is absurd"))?)
    }

    pub(crate) fn short_address(&mut self) -> Result<SocketAddr, Malformed> {
        if self.0.first() != Some(&4) {
            return self.address();
        }
        self.u8()?;
        let (bits, port) = (self.u32()?, self.u16()?);
        Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::from_bits(bits)), port))
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = usize::try_from(self.u64()?).map_err(|_| Malformed("a length is absurd"))?;
        self.take(length)
    }

    pub(crate) fn text(&mut self) -> Result<String, Malformed> {
        let text = str::from_utf8(self.bytes()?).map_err(|_| Malformed("a text is not UTF-8"))?;
        Ok(text.to_owned())
    }

    pub(crate) fn address(&mut self) -> Result<SocketAddr, Malformed> {
        let (family, bits) = (self.u8()?, self.u128()?);
        let (port, scope) = (self.u16()?, self.u32()?);
        match (family, u32::try_from(bits)) {
            (4, Ok(bits)) => Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::from_bits(bits)), port)),
            (6, _) => {
                let address = Ipv6Addr::from_bits(bits);
                Ok(SocketAddr::V6(SocketAddrV6::new(address, port, 0, scope)))
            }
            _ => Err(Malformed("an address has no known family")),
        }
    }

    /// As many values as a count in front says, each of which takes at least one byte.
    pub(crate) fn list<T>(
        &mut self,
        mut value: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let count = self.u32()? as usize;
        if count > self.0.len() {
            return Err(Malformed("a count is absurd"));
        }
        (0..count).map(|_| value(self)).collect()
    }

    pub(crate) fn end(self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed("it does not end where it should")) }
    }
}

/// A 64-bit mark of `parts`; equal parts give equal marks in all processes (FNV-1a, each part with
/// its length).
pub(crate) fn mark(parts: &[&[u8]]) -> u64 {
    let step = |mark: u64, byte: &u8| (mark ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    parts.iter().fold(0xcbf2_9ce4_8422_2325, |mark, part| {
        let mark = (part.len() as u64).to_le_bytes().iter().fold(mark, step);
        part.iter().fold(mark, step)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let addresses = ["10.0.0.1:80", "[fe80::1%3]:9", "[::ffff:1.2.3.4]:0"];
        let addresses: Vec<SocketAddr> =
            addresses.iter().map(|text| text.parse().unwrap()).collect();
        let mut writer = Writer::default();
        writer.u16(7);
        writer.text("grüß");
        addresses.iter().for_each(|address| writer.address(*address));
        let mut reader = Reader(&writer.0);
        assert_eq!(reader.u16(), Ok(7));
        assert_eq!(reader.text().as_deref(), Ok("grüß"));
        for address in addresses {
            assert_eq!(reader.address(), Ok(address));
        }
        assert_eq!(reader.end(), Ok(()));
    }

    #[test]
    fn short_forms_come_back() {
        let numbers = [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX];
        let addresses: [SocketAddr; 2] =
            ["10.0.0.1:80", "[fe80::1%3]:9"].map(|text| text.parse().unwrap());
        let mut writer = Writer::default();
        numbers.into_iter().for_each(|number| writer.number(number));
        addresses.into_iter().for_each(|address| writer.short_address(address));
        let mut reader = Reader(&writer.0);
        assert_eq!(numbers.map(|_| reader.number().unwrap()), numbers);
        assert_eq!(addresses.map(|_| reader.short_address().unwrap()), addresses);
        assert_eq!(reader.end(), Ok(()));
        assert_eq!(Reader(&[255; 20]).number(), Err(Malformed("a number does not end")));
        assert_eq!(Reader(&[9, 1]).short_bytes(), Err(Malformed("it ends early")));
    }

    #[test]
    fn lengths_are_not_trusted() {
        assert_eq!(Reader(&[255; 9]).bytes(), Err(Malformed("it ends early")));
        assert_eq!(Reader(&[255; 9]).list(|r| r.u8()), Err(Malformed("a count is absurd")));
        assert_eq!(Reader(&[9; 23]).address(), Err(Malformed("an address has no known family")));
        assert!(Reader(&[0]).end().is_err());
    }

    #[test]
    fn marks_distinguish_parts() {
        assert_ne!(mark(&[b"ab", b"c"]), mark(&[b"a", b"bc"]));
        assert_eq!(mark(&[b"ab"]), mark(&[b"ab"]));
    }
}
