//! What the peer must know of a rail, as bytes: [`abi::Address`].
//!
//! All numbers are little-endian.
//!
//! | bytes | what |
//! |---|---|
//! | 0–3 | `MSRD` |
//! | 4–5 | version of this layout: 1 |
//! | 6 | link layer: 0 InfiniBand, 1 Ethernet |
//! | 7 | bytes of a packet, as verbs number them: 1 is 256, 5 is 4096 |
//! | 8–11 | number of the queue pair |
//! | 12–15 | sequence number of its first packet |
//! | 16–31 | GID |
//! | 32–33 | LID |
//! | 34 | port |
//! | 35 | 0 |
//! | 36–39 | remote key of the memory |
//! | 40–47 | where the memory begins |
//! | 48–55 | how long it is |
//! | 56–119 | name of the device, padded with zeros |
//! | 120–127 | 0 |

use msccl_proxy::rdma::abi;

use crate::gid::Shown;

/// One end of a rail, as the other must know it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct End {
    /// Whether the link layer is Ethernet.
    pub ethernet: bool,
    /// Bytes of the largest packet, as verbs number them.
    pub mtu_code: u8,
    /// The queue pair.
    pub pair: u32,
    /// The sequence number of its first packet.
    pub packet: u32,
    /// The global address.
    pub gid: [u8; 16],
    /// InfiniBand's address.
    pub lid: u16,
    /// The port.
    pub port: u8,
    /// What to show to write to the memory.
    pub key: u32,
    /// Where the memory begins.
    pub memory: u64,
    /// How long it is.
    pub memory_bytes: u64,
    /// The device, for people; cut to 64 bytes.
    pub device: String,
}

const MAGIC: [u8; 4] = *b"MSRD";
const VERSION: u16 = 1;
const DEVICE_BYTES: usize = 64;

impl End {
    /// As bytes.
    pub fn encode(&self) -> abi::Address {
        let Self {
            ethernet,
            mtu_code,
            pair,
            packet,
            gid,
            lid,
            port,
            key,
            memory,
            memory_bytes,
            device,
        } = self;
        let mut writer = Writer { bytes: [0; 128], at: 0 };
        writer.put(MAGIC);
        writer.put(VERSION.to_le_bytes());
        writer.put([u8::from(*ethernet), *mtu_code]);
        writer.put(pair.to_le_bytes());
        writer.put(packet.to_le_bytes());
        writer.put(*gid);
        writer.put(lid.to_le_bytes());
        writer.put([*port, 0]);
        writer.put(key.to_le_bytes());
        writer.put(memory.to_le_bytes());
        writer.put(memory_bytes.to_le_bytes());
        writer.put(padded::<DEVICE_BYTES>(device));
        abi::Address { bytes: writer.bytes }
    }

    /// From bytes.
    ///
    /// # Errors
    /// If they are not of this layout; in words.
    pub fn decode(address: &abi::Address) -> Result<Self, String> {
        let mut reader = Reader { bytes: &address.bytes, at: 0 };
        let (magic, version) = (reader.take(), u16::from_le_bytes(reader.take()));
        if magic != MAGIC || version != VERSION {
            return Err(format!(
                "the peer's address is not of layout {VERSION} but begins with {magic:02x?}, \
                 version {version}; both hosts need the same libmsccl-rdma.so"
            ));
        }
        let [ethernet, mtu_code] = reader.take();
        if ethernet > 1 || !(1..=5).contains(&mtu_code) {
            return Err(format!(
                "the peer's address has link layer {ethernet}, packet size {mtu_code}"
            ));
        }
        Ok(Self {
            ethernet: ethernet == 1,
            mtu_code,
            pair: u32::from_le_bytes(reader.take()),
            packet: u32::from_le_bytes(reader.take()),
            gid: reader.take(),
            lid: u16::from_le_bytes(reader.take()),
            port: reader.take::<2>()[0],
            key: u32::from_le_bytes(reader.take()),
            memory: u64::from_le_bytes(reader.take()),
            memory_bytes: u64::from_le_bytes(reader.take()),
            device: text(&reader.take::<DEVICE_BYTES>()),
        })
    }

    /// For people, with a word for the queue pair.
    pub fn describe(&self) -> String {
        let Self { pair, gid, lid, port, device, ethernet, .. } = self;
        let at = if *ethernet { Shown(*gid).to_string() } else { format!("LID {lid}") };
        format!("{device} port {port} ({at}), queue pair {pair}")
    }
}

/// Bytes of a packet, of verbs' number.
pub fn mtu_bytes(code: u8) -> u32 {
    128 << code.clamp(1, 5)
}

/// `text` in `N` bytes, cut at a character so that at least one zero follows.
pub fn padded<const N: usize>(text: &str) -> [u8; N] {
    let mut bytes = [0; N];
    let cut = (0..N.min(text.len() + 1)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    bytes[..cut].copy_from_slice(&text.as_bytes()[..cut]);
    bytes
}

fn text(bytes: &[u8]) -> String {
    let used = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(used).into_owned()
}

struct Writer {
    bytes: [u8; 128],
    at: usize,
}

impl Writer {
    fn put<const N: usize>(&mut self, field: [u8; N]) {
        self.bytes[self.at..self.at + N].copy_from_slice(&field);
        self.at += N;
    }
}

struct Reader<'a> {
    bytes: &'a [u8; 128],
    at: usize,
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut field = [0; N];
        field.copy_from_slice(&self.bytes[self.at..self.at + N]);
        self.at += N;
        field
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end() -> End {
        End {
            ethernet: true,
            mtu_code: 5,
            pair: 0x0102_0304,
            packet: 0x0005_0607,
            gid: std::array::from_fn(|at| 0x80 + u8::try_from(at).unwrap()),
            lid: 0x0809,
            port: 2,
            key: 0x0a0b_0c0d,
            memory: 0x1112_1314_1516_1718,
            memory_bytes: 0x2122_2324_2526_2728,
            device: "mlx5_0".into(),
        }
    }

    #[test]
    fn every_field_lies_where_the_table_says() {
        let bytes = end().encode().bytes;
        assert_eq!(&bytes[..8], b"MSRD\x01\x00\x01\x05");
        assert_eq!(bytes[8..12], [4, 3, 2, 1]);
        assert_eq!(bytes[12..16], [7, 6, 5, 0]);
        assert_eq!(bytes[16..32], end().gid);
        assert_eq!(bytes[32..36], [9, 8, 2, 0]);
        assert_eq!(bytes[36..40], [0xd, 0xc, 0xb, 0xa]);
        assert_eq!(bytes[40..48], [0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11]);
        assert_eq!(bytes[48..56], [0x28, 0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21]);
        assert_eq!(&bytes[56..63], b"mlx5_0\0");
        assert!(bytes[63..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn what_was_encoded_is_decoded() {
        assert_eq!(End::decode(&end().encode()), Ok(end()));
        let long = End { device: "é".repeat(60), ..end() };
        assert_eq!(End::decode(&long.encode()).unwrap().device, "é".repeat(31));
        let longest = End { device: "d".repeat(64), ..end() };
        assert_eq!(End::decode(&longest.encode()).unwrap().device, "d".repeat(63));
    }

    #[test]
    fn other_bytes_are_refused() {
        let why = End::decode(&abi::Address { bytes: [0; 128] }).unwrap_err();
        assert!(why.contains("the same libmsccl-rdma.so"), "{why}");
        for (at, value) in [(0, b'X'), (4, 2), (6, 2), (7, 0), (7, 6)] {
            let mut address = end().encode();
            address.bytes[at] = value;
            assert!(End::decode(&address).is_err(), "byte {at} as {value}");
        }
    }

    #[test]
    fn packets_have_256_to_4096_bytes() {
        assert_eq!([1, 2, 3, 4, 5].map(mtu_bytes), [256, 512, 1024, 2048, 4096]);
    }
}
