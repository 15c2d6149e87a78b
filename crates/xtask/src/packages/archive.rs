//! A list of files as a packed archive of `tar`.

use std::collections::BTreeSet;

use flate2::Compression;
use tar::{Builder, EntryType, Header};

use super::entry::{Entry, gzip};

/// Packs it, with `prefix` in front of each path.
pub fn pack(entries: &[Entry], prefix: &str, effort: Compression) -> Result<Vec<u8>, String> {
    let failed = |error| format!("cannot pack an archive: {error}");
    let mut builder = Builder::new(Vec::new());
    for folder in folders(entries, prefix) {
        let mut header = header(EntryType::Directory, 0o755, 0);
        builder.append_data(&mut header, folder, &[][..]).map_err(failed)?;
    }
    for Entry { path, bytes, mode } in entries {
        let mut header = header(EntryType::Regular, mode.bits(), bytes.len() as u64);
        let path = format!("{prefix}{path}");
        builder.append_data(&mut header, path, bytes.as_slice()).map_err(failed)?;
    }
    gzip(&builder.into_inner().map_err(failed)?, effort)
}

fn header(kind: EntryType, mode: u32, bytes: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(bytes);
    // Of the first user, at the beginning of time.
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}

/// All folders of the files, the outer ones first.
fn folders(entries: &[Entry], prefix: &str) -> BTreeSet<String> {
    let mut folders = BTreeSet::new();
    for entry in entries {
        let path = format!("{prefix}{}", entry.path);
        let ends = path.match_indices('/').filter(|(at, _)| &path[..*at] != ".");
        folders.extend(ends.map(|(at, _)| path[..=at].to_owned()));
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outer_folders_come_first() {
        let entries = [Entry::file("a/b/c", Vec::new()), Entry::file("d", Vec::new())];
        let found: Vec<_> = folders(&entries, "./").into_iter().collect();
        assert_eq!(found, ["./a/", "./a/b/"]);
        let packed = || pack(&entries, "x/", Compression::fast()).unwrap();
        assert_eq!(packed(), packed());
    }
}
