//! Archives of the ZIP format, without compression: what VS Code asks of an extension.
//!
//! Times are fixed, so that the same files give the same archive.

/// A file of an archive.
pub struct Entry {
    /// Its path, with `/`.
    pub path: String,
    /// What is in it.
    pub bytes: Vec<u8>,
}

/// 1 January 1980, midnight: the first that the format knows.
const DATE: u16 = 1 << 5 | 1;

/// What a reader must understand: version 2.0.
const VERSION: u16 = 20;

/// Names are UTF-8.
const FLAGS: u16 = 1 << 11;

/// The archive of `entries`, in their order.
///
/// # Errors
///
/// A file or the archive is larger than the format holds.
pub fn archive(entries: &[Entry]) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    let mut directory = Vec::new();
    for Entry { path, bytes } in entries {
        let too_large = |_| format!("{path}: an archive holds no more than 4 GiB");
        let offset = u32::try_from(out.len()).map_err(too_large)?;
        let size = u32::try_from(bytes.len()).map_err(too_large)?;
        let name = u16::try_from(path.len()).map_err(too_large)?;
        let common = [
            &VERSION.to_le_bytes()[..],
            &FLAGS.to_le_bytes(),
            &0_u16.to_le_bytes(), // stored
            &0_u16.to_le_bytes(), // midnight
            &DATE.to_le_bytes(),
            &crc32(bytes).to_le_bytes(),
            &size.to_le_bytes(),
            &size.to_le_bytes(),
            &name.to_le_bytes(),
            &0_u16.to_le_bytes(), // no extra field
        ]
        .concat();
        out.extend_from_slice(b"PK\x03\x04");
        out.extend_from_slice(&common);
        out.extend_from_slice(path.as_bytes());
        out.extend_from_slice(bytes);
        directory.extend_from_slice(b"PK\x01\x02");
        directory.extend_from_slice(&VERSION.to_le_bytes());
        directory.extend_from_slice(&common);
        // No comment, first disk, no attributes.
        directory.extend_from_slice(&[0; 10]);
        directory.extend_from_slice(&offset.to_le_bytes());
        directory.extend_from_slice(path.as_bytes());
    }
    let count = u16::try_from(entries.len()).map_err(|_| "too many files".to_owned())?;
    let start = u32::try_from(out.len()).map_err(|_| "the archive is too large".to_owned())?;
    out.extend_from_slice(&directory);
    out.extend_from_slice(b"PK\x05\x06");
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&count.to_le_bytes());
    out.extend_from_slice(&count.to_le_bytes());
    out.extend_from_slice(&(directory.len() as u32).to_le_bytes());
    out.extend_from_slice(&start.to_le_bytes());
    out.extend_from_slice(&[0; 2]);
    Ok(out)
}

/// The checksum of the format: the reversed polynomial of IEEE 802.3.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_the_format() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
    }

    #[test]
    fn archives_have_a_directory() {
        let entries = ["a", "b/c"].map(|path| Entry { path: path.to_owned(), bytes: vec![1, 2] });
        let archive = archive(&entries).unwrap();
        assert!(archive.starts_with(b"PK\x03\x04"));
        let end = &archive[archive.len() - 22..];
        assert!(end.starts_with(b"PK\x05\x06"));
        assert_eq!(end[10], 2);
        let start = u32::from_le_bytes([end[16], end[17], end[18], end[19]]) as usize;
        assert_eq!(&archive[start..start + 4], b"PK\x01\x02");
    }
}
