//! The 128 bytes by which ranks find one another.
//!
//! An id says where its root listens and carries a token of 16 random bytes, from which ranks and
//! root derive the [`Key`] by which they know one another. The token never crosses a connection of
//! ours: whoever hands ids to ranks must keep them from others. Whoever creates an id runs its
//! root, a thread that ends when all ranks came. Bytes made by another library or cut in transport
//! are refused, not connected to.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use crate::error::Error;
use crate::identity;
use crate::interface;
use crate::key::Key;
use crate::root;
use crate::secret::Secret;
use crate::settings::Settings;
use crate::wire::{Malformed, Reader, WIRE_VERSION, Writer, mark};

const MAGIC: u64 = u64::from_le_bytes(*b"msccl-id");

/// Length of an id in bytes, as in NCCL's ABI.
pub const UNIQUE_ID_BYTES: usize = 128;

/// Where the checksum stands; everything between the fields and it is zero.
const CHECKSUM_AT: usize = UNIQUE_ID_BYTES - 8;

/// What stands for the secret of a fixed root whose user has none.
const NO_SECRET: &[u8] = b"";

/// By which ranks find one another. In transport it is plain bytes, or a text without spaces: these
/// bytes in hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct UniqueId {
    pub(crate) address: SocketAddr,
    pub(crate) token: u128,
    /// Whether the address was fixed by the user, so that rank 0 opens the root.
    pub(crate) fixed: bool,
}

impl UniqueId {
    /// A new id. Its root listens in this process, unless the address is fixed: then every process
    /// makes the same id, and the root is rank 0's affair.
    pub fn create(settings: &Settings) -> Result<Self, Error> {
        if let Some(address) = settings.root {
            let secret = settings.secret.as_ref().map(|secret| secret.as_ref());
            let secret = secret.transpose().map_err(|why| {
                Error::invalid(format!("there is no secret for the root at {address}: {why}"))
            })?;
            return Self::at(address, secret);
        }
        let token = identity::random_u128()?;
        let interface = interface::choose(&settings.interface, settings.near)?;
        let name = Some(interface.name.clone());
        let key = Key::from_secret(&token.to_le_bytes());
        let address = root::start(interface.any_port(), key, name, settings)?;
        Ok(Self { address, token, fixed: false })
    }

    /// The id of the root at a fixed address: a secret one, if all ranks know the same secret.
    /// Without one everybody who knows the port knows the token.
    fn at(address: SocketAddr, secret: Option<&Secret>) -> Result<Self, Error> {
        if interface::is_unspecified(address.ip()) || address.port() == 0 {
            let text = "nobody can connect to it; name the host's own address and a port";
            return Err(Error::invalid(format!("the root address is {address}: {text}")));
        }
        let key = Key::from_secret(secret.map_or(NO_SECRET, |Secret(secret)| secret));
        // The port alone: hosts may know one name by several addresses.
        let token = key.mac("token of a fixed root", &[&address.port().to_le_bytes()]);
        let (token, _) = token.split_at(16);
        let token = token.iter().rev().fold(0, |token, byte| token << 8 | u128::from(*byte));
        Ok(Self { address, token, fixed: true })
    }

    /// By which ranks and root know one another.
    pub(crate) fn key(&self) -> Key {
        Key::from_secret(&self.token.to_le_bytes())
    }

    /// The id as bytes.
    pub fn to_bytes(&self) -> [u8; UNIQUE_ID_BYTES] {
        let Self { address, token, fixed } = *self;
        let mut writer = Writer::default();
        writer.u64(MAGIC);
        writer.u16(WIRE_VERSION);
        writer.u8(u8::from(fixed));
        writer.u128(token);
        writer.address(address);
        let mut bytes = [0; UNIQUE_ID_BYTES];
        bytes[..writer.0.len()].copy_from_slice(&writer.0);
        let checksum = mark(&[&bytes[..CHECKSUM_AT]]);
        bytes[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// The id that `bytes` hold.
    pub fn from_bytes(bytes: &[u8; UNIQUE_ID_BYTES]) -> Result<Self, Error> {
        let mut reader = Reader(bytes);
        if reader.u64() != Ok(MAGIC) {
            let hint = "all ranks and whoever makes the id must load the same library";
            return Err(Error::invalid(format!("the unique id is not one of ours; {hint}")));
        }
        let version = reader.u16().unwrap_or_default();
        if version != WIRE_VERSION {
            return Err(Error::mismatch(format!(
                "the unique id speaks version {version} of the wire protocol, this library version \
                 {WIRE_VERSION}; all ranks must load the same library"
            )));
        }
        let (content, checksum) = bytes.split_at(CHECKSUM_AT);
        if mark(&[content]).to_le_bytes() != checksum {
            let hint = "pass all of its 128 bytes on unchanged";
            return Err(Error::invalid(format!("the unique id was damaged in transport; {hint}")));
        }
        Self::fields(reader).map_err(|Malformed(why)| {
            Error::invalid(format!("the unique id makes no sense: {why}"))
        })
    }

    fn fields(mut reader: Reader<'_>) -> Result<Self, Malformed> {
        let fixed = reader.u8()? != 0;
        let token = reader.u128()?;
        Ok(Self { fixed, token, address: reader.address()? })
    }
}

impl fmt::Display for UniqueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for UniqueId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let digits: Option<Vec<u32>> = text.chars().map(|digit| digit.to_digit(16)).collect();
        let pairs = digits.unwrap_or_default();
        let bytes: Vec<u8> = pairs.chunks(2).map(|pair| pair.iter().fold(0, with_digit)).collect();
        match bytes.try_into() {
            Ok(bytes) if text.len() == 2 * UNIQUE_ID_BYTES => Self::from_bytes(&bytes),
            Ok(_) | Err(_) => Err(Error::invalid(format!(
                "the text of a unique id has {} hexadecimal digits, found {} characters that are \
                 not one; pass it on unchanged",
                2 * UNIQUE_ID_BYTES,
                text.chars().count()
            ))),
        }
    }
}

/// A number with one more hexadecimal digit.
fn with_digit(number: u8, digit: &u32) -> u8 {
    number << 4 | *digit as u8
}

impl fmt::Debug for UniqueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The token is a secret.
        write!(f, "UniqueId({})", self.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> UniqueId {
        UniqueId::at("10.0.0.1:4000".parse().unwrap(), None).unwrap()
    }

    #[test]
    fn bytes_bring_the_id_back() {
        assert_eq!(UniqueId::from_bytes(&sample().to_bytes()), Ok(sample()));
    }

    #[test]
    fn text_brings_the_id_back() {
        let text = sample().to_string();
        assert_eq!(text.parse(), Ok(sample()));
        assert_eq!(text.to_uppercase().parse(), Ok(sample()));
        let not_hexadecimal = text.replace('0', "g");
        for cut in ["", &text[1..], &text[..2], &format!("{text}00"), &not_hexadecimal, "müde"] {
            let refused = cut.parse::<UniqueId>().unwrap_err().to_string();
            assert!(refused.contains("has 256 hexadecimal digits, found "), "{refused}");
        }
    }

    #[test]
    fn fixed_ids_are_alike_everywhere_and_differ_by_port() {
        assert_eq!(sample().to_bytes(), sample().to_bytes());
        let other = UniqueId::at("10.0.0.1:4001".parse().unwrap(), None).unwrap();
        assert_ne!(other.token, sample().token);
        assert!(UniqueId::at("0.0.0.0:4000".parse().unwrap(), None).is_err());
        assert!(UniqueId::at("10.0.0.1:0".parse().unwrap(), None).is_err());
    }

    #[test]
    fn a_secret_makes_another_token_and_is_not_shown() {
        let address = "10.0.0.1:4000".parse().unwrap();
        let secret = |text: &str| Secret::new(text.as_bytes()).unwrap();
        let at = |text: &str| UniqueId::at(address, Some(&secret(text))).unwrap();
        let known = at("0123456789abcdef");
        assert_ne!(known.token, sample().token);
        assert_ne!(known.token, at("0123456789abcdeF").token);
        assert_eq!(known, at(" 0123456789abcdef\n"));
        assert!(Secret::new(b" 0123456789abcde\n").is_err());
        assert_eq!(format!("{:?}", secret("0123456789abcdef")), "Secret(…)");
        assert_eq!(format!("{known:?}"), "UniqueId(10.0.0.1:4000)");
    }

    #[test]
    fn foreign_and_damaged_ids_are_refused() {
        let check = |position: usize, expected: &str| {
            let mut bytes = sample().to_bytes();
            bytes[position] ^= 1;
            let text = UniqueId::from_bytes(&bytes).unwrap_err().to_string();
            assert!(text.contains(expected), "{text}");
        };
        check(0, "not one of ours");
        check(8, &format!("version {} of the wire protocol", WIRE_VERSION ^ 1));
        check(20, "damaged");
        check(100, "damaged");
    }
}
