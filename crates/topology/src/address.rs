//! Names of PCI devices: where they are, and what they are.

use std::fmt;
use std::str::FromStr;

/// Where a PCI function is; prints as `0000:1b:00.0`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BusId {
    /// The segment.
    pub domain: u32,
    /// The bus.
    pub bus: u8,
    /// The device; at most 31.
    pub device: u8,
    /// The function; at most 7.
    pub function: u8,
}

impl BusId {
    /// As a number, which orders as the place does.
    pub fn to_number(self) -> u64 {
        let BusId { domain, bus, device, function } = self;
        let place = u64::from(bus) << 8 | u64::from(device) << 3 | u64::from(function);
        u64::from(domain) << 16 | place
    }

    /// The place of which `number` is [`BusId::to_number`].
    pub fn from_number(number: u64) -> Option<Self> {
        let domain = u32::try_from(number >> 16).ok()?;
        let [function, bus, ..] = number.to_le_bytes();
        Some(Self { domain, bus, device: function >> 3, function: function & 7 })
    }
}

impl fmt::Display for BusId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BusId { domain, bus, device, function } = self;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{function:x}")
    }
}

/// A text is no [`BusId`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotABusId;

impl FromStr for BusId {
    type Err = NotABusId;

    fn from_str(text: &str) -> Result<Self, NotABusId> {
        let (place, function) = text.split_once('.').ok_or(NotABusId)?;
        let mut words = place.split(':');
        let mut word = |digits: std::ops::RangeInclusive<usize>| {
            let word = words.next().filter(|word| digits.contains(&word.len()));
            word.and_then(hex).ok_or(NotABusId)
        };
        let (domain, bus, device) = (word(4..=8)?, word(2..=2)?, word(2..=2)?);
        let function = hex(function).filter(|&function| function < 8).ok_or(NotABusId)?;
        if words.next().is_some() || device > 31 {
            return Err(NotABusId);
        }
        // The widths above leave nothing that would be cut off.
        Ok(Self { domain, bus: bus as u8, device: device as u8, function: function as u8 })
    }
}

/// A number in hexadecimal digits and nothing else: no sign, no prefix.
fn hex(text: &str) -> Option<u32> {
    let plain = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if plain { u32::from_str_radix(text, 16).ok() } else { None }
}

/// What a PCI function is: base class, subclass and programming interface in 24 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PciClass(pub u32);

impl PciClass {
    /// A bridge, or a port of a switch.
    pub const BRIDGE: PciClass = PciClass(0x06_0400);
    /// A switch between NVLinks.
    pub const NVSWITCH: PciClass = PciClass(0x06_8000);
    /// A GPU.
    pub const GPU: PciClass = PciClass(0x03_0200);

    /// Whether it is a display controller or a processing accelerator, which GPUs are.
    pub fn is_gpu(self) -> bool {
        matches!(self.0 >> 16, 0x03 | 0x12)
    }

    /// Whether it is a network controller.
    pub fn is_nic(self) -> bool {
        self.0 >> 16 == 0x02
    }

    /// Whether it is a bridge of any kind, which switches are.
    pub fn is_bridge(self) -> bool {
        self.0 >> 16 == 0x06
    }
}

impl fmt::Display for PciClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:06x}", self.0)
    }
}

/// Number of a vendor or of one of its products; prints as `0x10de`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PciId(pub u16);

impl PciId {
    /// NVIDIA as a vendor.
    pub const NVIDIA: PciId = PciId(0x10de);
}

impl fmt::Display for PciId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:04x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bus_ids_are_read_as_they_are_written() {
        for text in ["0000:1b:00.0", "10000:ff:1f.7"] {
            let read = text.parse::<BusId>().unwrap();
            assert_eq!(read.to_string(), text);
            assert_eq!(BusId::from_number(read.to_number()), Some(read));
        }
        assert_eq!(BusId::from_number(u64::MAX), None);
        for text in ["", "1b:00.0", "0000:1b:00", "0000:1b:20.0", "0000:1b:00.8", "0000:+b:00.0"] {
            assert_eq!(text.parse::<BusId>(), Err(NotABusId), "{text:?}");
        }
        assert_eq!("0000:1b:00.0:1".parse::<BusId>(), Err(NotABusId));
    }
}
