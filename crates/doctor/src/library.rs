//! Files with NCCL's interface: how they are recognised, and where a loader looks for them.

use crate::facts::LibraryKind;

/// How many bytes of a file decide what it is: names of functions stand near its beginning.
pub const BEGINNING_BYTES: u64 = 4 << 20;

/// A function that only this library has.
const OURS: &[u8] = b"mscclCommPin";
/// A function that every library with NCCL's interface has.
const ANY: &[u8] = b"ncclCommInitRank";

/// How somebody gets this library who has the command alone, as after `cargo install`.
pub const HOW_TO_GET: &str = "`cargo build --release -p msccl-nccl` in the sources makes \
     target/release/libnccl.so, `pip install msccl` brings one with a command of its own; \
     MSCCL_LIBRARY=PATH names it";

/// What a file is that begins with `beginning`.
pub fn kind(beginning: &[u8]) -> LibraryKind {
    let has = |name: &[u8]| beginning.windows(name.len()).any(|part| part == name);
    match beginning.starts_with(b"\x7fELF") {
        true if has(OURS) => LibraryKind::Msccl,
        true if has(ANY) => LibraryKind::OtherNccl,
        true | false => LibraryKind::Unknown,
    }
}

/// Whether a file of this name is looked for as NCCL: `libnccl.so`, `libnccl.so.2`, and the like.
pub fn is_nccl_name(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    name.strip_prefix("libnccl.so").is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The entries of a list of paths as the loader reads `LD_PRELOAD`: blanks separate as colons do.
pub fn preloads(value: &str) -> Vec<&str> {
    value.split([':', ' ']).filter(|entry| !entry.is_empty()).collect()
}

/// The folders that `text`, a file such as `/etc/ld.so.conf`, names, and the patterns of files that
/// it includes.
pub fn loader_configuration(text: &str) -> LoaderConfiguration<'_> {
    let mut found = LoaderConfiguration::default();
    for line in text.lines().map(|line| line.split('#').next().unwrap_or_default().trim()) {
        match line.strip_prefix("include ") {
            Some(pattern) => found.includes.push(pattern.trim()),
            None if line.starts_with('/') => found.folders.push(line),
            None => {}
        }
    }
    found
}

/// What a file for the loader says.
#[derive(PartialEq, Eq, Default, Debug)]
pub struct LoaderConfiguration<'a> {
    /// Folders to look in.
    pub folders: Vec<&'a str>,
    /// Patterns of further files.
    pub includes: Vec<&'a str>,
}

/// Folders that a loader looks in by itself.
pub const USUAL_FOLDERS: [&str; 6] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_say_what_a_file_is() {
        assert_eq!(kind(b"\x7fELF\0ncclCommInitRank\0mscclCommPin\0"), LibraryKind::Msccl);
        assert_eq!(kind(b"\x7fELF\0ncclCommInitRank\0"), LibraryKind::OtherNccl);
        assert_eq!(kind(b"\x7fELF\0cublasCreate\0"), LibraryKind::Unknown);
        assert_eq!(kind(b"ncclCommInitRank mscclCommPin"), LibraryKind::Unknown);
    }

    #[test]
    fn names_are_recognised() {
        for name in ["/a/libnccl.so.2", "libnccl.so", "libnccl.so.2.28.9"] {
            assert!(is_nccl_name(name), "{name}");
        }
        for name in ["libnccl_device.bc", "libnccl-net.so", "/libnccl.so.2/readme", "libncclso"] {
            assert!(!is_nccl_name(name), "{name}");
        }
        assert_eq!(preloads("/a/b.so: c.so  d"), ["/a/b.so", "c.so", "d"]);
    }

    #[test]
    fn configuration_of_the_loader_is_read() {
        let text = "include /etc/ld.so.conf.d/*.conf\n# /not\n /opt/lib # note\nhwcap 1 x\n";
        let expected = LoaderConfiguration {
            folders: vec!["/opt/lib"],
            includes: vec!["/etc/ld.so.conf.d/*.conf"],
        };
        assert_eq!(loader_configuration(text), expected);
    }
}
