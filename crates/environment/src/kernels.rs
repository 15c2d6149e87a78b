//! The folder of specialised kernels.
//!
//! What is in it runs on GPUs in the name of whoever reads it. So nothing is read from a folder,
//! and nothing put into one, that others than this user and root can write to, or that lies below
//! such a folder ([`ownership`]); and of its files none is read that others can write to, or that
//! is a link.

use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use msccl_select::KernelCache;

use super::guarded::{self, Limits, Symlinks};
use super::placed::place_file;
use super::{Lookup, ownership};

/// No kernel is longer.
const LIMITS: Limits = Limits::bytes(64 << 20);

/// What switches the folder off, instead of a path.
const OFF: &str = "off";

/// A folder with a file for each kernel.
///
/// A file is written under a name of its writer's and then renamed, so readers see it whole or not
/// at all, and of writers at the same time the last one stays. The folder is made by the first
/// writer, for its user alone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// The folder that the variable names, or the usual one; none if it is switched off, or nobody
    /// has a home.
    pub(crate) fn of(named: Option<&str>, process: Lookup<'_>) -> Option<Self> {
        match named {
            Some(OFF) => None,
            Some(path) => Some(Self(path.into())),
            None => usual(process).map(Self),
        }
    }
}

impl Folder {
    /// Why nothing of the folder is used: others can change what is in it. Nothing if they cannot,
    /// or there is no folder.
    pub(crate) fn is_unsafe(&self) -> Option<String> {
        if self.0.exists() { ownership::folder(&self.0).err() } else { None }
    }
}

/// Where programs keep what they can make again.
fn usual(process: Lookup<'_>) -> Option<PathBuf> {
    let absolute = |name: &str| process(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || absolute("HOME").map(|home| home.join(".cache"));
    Some(absolute("XDG_CACHE_HOME").or_else(home)?.join("msccl/kernels"))
}

impl KernelCache for Folder {
    fn place(&self) -> String {
        self.0.display().to_string()
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, String> {
        let is_missing = |path: &Path| {
            fs::symlink_metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound)
        };
        if is_missing(&self.0) {
            return Ok(None);
        }
        let path = ownership::folder(&self.0)?.join(name);
        if is_missing(&path) {
            return Ok(None);
        }
        let (file, metadata) = guarded::open(&path, Symlinks::Refused)?;
        guarded::expect_file(&metadata)?;
        ownership::file(&metadata)?;
        guarded::read_all(file, LIMITS).map(Some)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), String> {
        static WRITTEN: AtomicU64 = AtomicU64::new(0);
        let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.0)
            .map_err(|it| it.to_string())?;
        let folder = ownership::folder(&self.0)?;
        let own = folder.join(format!(".{name}.{}.{number}", std::process::id()));
        place_file(&folder.join(name), &own, bytes).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::thread;

    use super::*;

    fn folder(name: &str) -> Folder {
        let name = format!("msccl-kernels-{name}-{}", std::process::id());
        Folder(std::env::temp_dir().join(name).join("below"))
    }

    fn remove(folder: &Folder) {
        fs::remove_dir_all(folder.0.parent().unwrap()).unwrap();
    }

    #[test]
    fn what_was_written_is_read() {
        let folder = folder("round");
        assert_eq!(folder.read("a"), Ok(None));
        folder.write("a", b"one").unwrap();
        folder.write("a", b"two").unwrap();
        assert_eq!(folder.read("a"), Ok(Some(b"two".to_vec())));
        assert_eq!(folder.read("b"), Ok(None));
        fs::create_dir(folder.0.join("b")).unwrap();
        assert_eq!(folder.read("b"), Err("it is not a file but a folder".to_owned()));
        remove(&folder);
    }

    #[test]
    fn readers_never_see_half_a_file() {
        let folder = folder("race");
        let content = |byte: u8| vec![byte; 1 << 16];
        thread::scope(|scope| {
            for byte in 1..=4 {
                let folder = &folder;
                scope.spawn(move || {
                    (0..50).for_each(|_| folder.write("a", &content(byte)).unwrap())
                });
            }
            for _ in 0..200 {
                let Some(found) = folder.read("a").unwrap() else { continue };
                assert_eq!(found, content(found[0]));
            }
        });
        let left: Vec<_> =
            fs::read_dir(&folder.0).unwrap().map(|of| of.unwrap().file_name()).collect();
        assert_eq!(left, ["a"]);
        remove(&folder);
    }

    #[test]
    fn what_others_can_write_is_not_used() {
        let folder = folder("others");
        folder.write("a", b"one").unwrap();
        let set = |path: &Path, mode: u32| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        let file = folder.0.join("a");
        set(&file, 0o666);
        let why = folder.read("a").unwrap_err();
        assert!(why.starts_with("it can be written by others: its mode is 0666, "), "{why}");
        set(&file, 0o644);
        for path in [&folder.0, folder.0.parent().unwrap()] {
            set(path, 0o777);
            for why in [folder.read("a").unwrap_err(), folder.write("b", b"x").unwrap_err()] {
                let expected = format!("{} can be written by others: ", path.display());
                assert!(why.starts_with(&expected), "{why}");
            }
            set(path, 0o700);
        }
        std::os::unix::fs::symlink(&file, folder.0.join("link")).unwrap();
        let why = folder.read("link").unwrap_err();
        assert_eq!(why, "it is a link, which is not followed");
        assert_eq!(folder.read("a"), Ok(Some(b"one".to_vec())));
        remove(&folder);
    }

    #[test]
    fn a_folder_that_takes_nothing_says_why() {
        let folder = Folder("/proc/self/no/kernels".into());
        assert_eq!(folder.read("a"), Ok(None));
        assert!(!folder.write("a", b"x").unwrap_err().is_empty());
        let below_a_file = folder_below_a_file();
        assert!(below_a_file.write("a", b"x").is_err() && below_a_file.read("a").is_err());
        fs::remove_file(below_a_file.0.parent().unwrap()).unwrap();
    }

    fn folder_below_a_file() -> Folder {
        let name = format!("msccl-kernels-file-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, "").unwrap();
        Folder(path.join("kernels"))
    }

    #[test]
    fn the_usual_folder_is_where_caches_are() {
        let check = |named: Option<&str>, values: &[(&str, &str)], expected: Option<&str>| {
            let lookup = |name: &str| {
                let found = values.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            assert_eq!(Folder::of(named, &lookup), expected.map(|path| Folder(path.into())));
        };
        let home = ("HOME", "/home/a");
        check(None, &[home], Some("/home/a/.cache/msccl/kernels"));
        check(None, &[home, ("XDG_CACHE_HOME", "/c")], Some("/c/msccl/kernels"));
        check(None, &[home, ("XDG_CACHE_HOME", "c")], Some("/home/a/.cache/msccl/kernels"));
        check(None, &[], None);
        check(Some("off"), &[home], None);
        check(Some("/shared/kernels"), &[home], Some("/shared/kernels"));
    }
}
