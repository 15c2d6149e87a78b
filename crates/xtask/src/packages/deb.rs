//! A list of files as a package of Debian: an archive of `ar` with two of `tar` in it.

use flate2::Compression;

use super::entry::Entry;
use super::{VERSION, archive};

/// Packs it; it needs that version of glibc.
pub fn pack(entries: &[Entry], glibc: (u32, u32), effort: Compression) -> Result<Vec<u8>, String> {
    let control = [Entry::file("control", control(entries, glibc).into_bytes())];
    let members = [
        ("debian-binary", b"2.0\n".to_vec()),
        ("control.tar.gz", archive::pack(&control, "./", effort)?),
        ("data.tar.gz", archive::pack(entries, "./", effort)?),
    ];
    let mut packed = b"!<arch>\n".to_vec();
    for (name, bytes) in members {
        packed.extend(member_header(name, bytes.len()).into_bytes());
        packed.extend(&bytes);
        if bytes.len() % 2 == 1 {
            packed.push(b'\n');
        }
    }
    Ok(packed)
}

/// 60 characters: name, time, user, group, mode, size.
fn member_header(name: &str, bytes: usize) -> String {
    format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{bytes:<10}`\n", 0, 0, 0, "100644")
}

fn control(entries: &[Entry], (major, minor): (u32, u32)) -> String {
    let installed_kib = entries.iter().map(|entry| entry.bytes.len().div_ceil(1024)).sum::<usize>();
    format!(
        "Package: msccl\nVersion: {VERSION}\nSection: libs\nPriority: optional\nArchitecture: \
         amd64\nMaintainer: The msccl authors\nInstalled-Size: {installed_kib}\n\
         Depends: libc6 (>= {major}.{minor}), libgcc-s1\nDescription: collective algorithms for \
         GPUs\n Write collective algorithms, have them proved, and run them behind NCCL's\n \
         interface. The library is /usr/lib/msccl/libnccl.so.2; `msccl launch`\n preloads it.\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_members_have_60_characters() {
        assert_eq!(member_header("control.tar.gz", 12_345).len(), 60);
    }

    #[test]
    fn what_is_needed_is_said() {
        let control = control(&[Entry::file("usr/bin/x", vec![0; 1025])], (2, 28));
        assert!(control.contains("\nDepends: libc6 (>= 2.28)"), "{control}");
        assert!(control.contains("\nInstalled-Size: 2\n"), "{control}");
    }
}
