//! The secret of ranks that meet at a fixed address, from the file that `MSCCL_SECRET_FILE` names.
//!
//! A file that others can read or change is no secret. So it must be a regular file that belongs to
//! this user, and that nobody else may read or write; or one of root, such as those that Kubernetes
//! mounts, that a group may read. What is looked at is the opened file, and opening waits for
//! nothing.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use msccl_fabric::Secret;

use super::guarded::{self, Limits, Symlinks};
use super::{Reader, variable};

/// Longer files are not secrets.
const LONGEST_BYTES: u64 = 4096;

/// Permissions that a file of this user must not give, and one of root.
const FORBIDDEN: u32 = 0o077;
const FORBIDDEN_OF_ROOT: u32 = 0o037;

/// The secret that the variables of `reader` name; the text says why it cannot be had.
pub fn secret(reader: &mut Reader<'_>) -> Option<Result<Secret, String>> {
    let path = reader.text(&variable::SECRET_FILE)?;
    let name = variable::SECRET_FILE.name;
    Some(read(&path).map_err(|why| format!("{name} names {path}: {why}")))
}

fn read(path: &str) -> Result<Secret, String> {
    let (file, metadata) = guarded::open(Path::new(path), Symlinks::Followed)?;
    check(&metadata, rustix::process::geteuid().as_raw())?;
    let content = guarded::read_all(file, Limits::bytes(LONGEST_BYTES))?;
    Secret::new(&content).map_err(|error| error.to_string())
}

/// Makes sure that nobody but the user `own` and root can know or change the file.
fn check(metadata: &Metadata, own: u32) -> Result<(), String> {
    if !metadata.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    if metadata.len() > LONGEST_BYTES {
        let found = metadata.len();
        return Err(format!("it has {found} bytes, expected {LONGEST_BYTES} at most"));
    }
    check_access(metadata.uid(), metadata.mode(), own)
}

fn check_access(owner: u32, mode: u32, own: u32) -> Result<(), String> {
    let forbidden = match owner {
        _ if owner == own => FORBIDDEN,
        0 => FORBIDDEN_OF_ROOT,
        _ => return Err(format!("it belongs to user {owner}, expected {own} (this user) or 0")),
    };
    match mode & forbidden {
        0 => Ok(()),
        _ => {
            let mode = mode & 0o7777;
            Err(format!("others can read or write it (mode {mode:04o}); run `chmod 600` on it"))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    use super::*;

    /// A file of this test, with `content` and `mode`.
    fn file(name: &str, content: &[u8], mode: u32) -> PathBuf {
        let path = std::env::temp_dir().join(format!("msccl-{}-{name}", std::process::id()));
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        path
    }

    fn check_file(name: &str, content: &[u8], mode: u32) -> Result<Secret, String> {
        let path = file(name, content, mode);
        let read = read(path.to_str().unwrap());
        fs::remove_file(path).unwrap();
        read
    }

    #[test]
    fn a_secret_is_its_owners_alone() {
        let words = b"correct horse battery staple\n";
        assert_eq!(check_file("good", words, 0o600), Ok(Secret::new(words).unwrap()));
        for mode in [0o640, 0o604, 0o620, 0o666] {
            let refused = check_file("open", words, mode).unwrap_err();
            assert!(refused.contains(&format!("(mode {mode:04o})")), "{refused}");
        }
        let refused = check_file("short", b"short", 0o600).unwrap_err();
        assert!(refused.contains("expected 16 at least"), "{refused}");
        let refused = check_file("long", &[b'x'; 5000], 0o600).unwrap_err();
        assert!(refused.contains("it has 5000 bytes"), "{refused}");
    }

    #[test]
    fn who_may_own_it() {
        assert_eq!(check_access(7, 0o400, 7), Ok(()));
        assert_eq!(check_access(0, 0o440, 7), Ok(()));
        assert!(check_access(0, 0o444, 7).is_err() && check_access(0, 0o460, 7).is_err());
        let refused = check_access(8, 0o400, 7).unwrap_err();
        assert_eq!(refused, "it belongs to user 8, expected 7 (this user) or 0");
    }

    #[test]
    fn what_is_no_file_is_not_waited_for() {
        let path = std::env::temp_dir().join(format!("msccl-{}-fifo", std::process::id()));
        let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        for path in [path.to_str().unwrap(), "/dev/zero", "/"] {
            let refused = read(path).unwrap_err();
            assert_eq!(refused, "it is not a regular file", "{path}");
        }
        fs::remove_file(path).unwrap();
        assert!(read("/no/such").unwrap_err().starts_with("it cannot be read: "));
    }
}
