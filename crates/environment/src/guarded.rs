//! Reading of files that a variable or an option names. All of them are read here: nobody knows
//! what a name leads to.
//!
//! # Guarantees
//!
//! * Opening waits for nothing: a pipe without a writer, a device or a socket is refused, not
//!   waited for. Only [`open_input`], for commands that people type, takes pipes and terminals, and
//!   waits for what comes.
//! * What is looked at is what is read: kind and owner are those of the opened file, not of a name
//!   that may lead elsewhere a moment later.
//! * No more than [`Limits::bytes`] are read, whatever size the file claims, and reading that lasts
//!   longer than [`Limits::time`] ends at the next answer of the file system. A file system that
//!   never answers is waited for.
//! * `/dev/null` is an empty file: it is how people say "none".

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, IsTerminal, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes that are asked for at a time.
const PIECE_BYTES: usize = 64 << 10;

/// How much is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Longer files are refused.
    pub bytes: u64,
    /// Files that take longer are refused.
    pub time: Duration,
}

impl Limits {
    /// For files of at most `bytes`.
    pub const fn bytes(bytes: u64) -> Self {
        Self { bytes, time: Duration::from_secs(30) }
    }
}

/// Everything in the regular file at `path`, or why it cannot be had: a phrase about "it".
///
/// # Errors
///
/// It is missing, no regular file, too long or too slow.
pub fn read(path: &Path, limits: Limits) -> Result<Vec<u8>, String> {
    let (file, metadata) = open(path, Symlinks::Followed)?;
    if is_null(&metadata) {
        return Ok(Vec::new());
    }
    expect_file(&metadata)?;
    read_all(file, limits)
}

/// Everything that `reader` gives.
///
/// # Errors
///
/// It is too long or too slow, or reading fails.
pub fn read_all(mut reader: impl Read, limits: Limits) -> Result<Vec<u8>, String> {
    let (started, mut bytes, mut piece) = (Instant::now(), Vec::new(), vec![0; PIECE_BYTES]);
    loop {
        match reader.read(&mut piece) {
            Ok(0) => return Ok(bytes),
            Ok(read) => bytes.extend_from_slice(&piece[..read]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(unreadable(error)),
        }
        if bytes.len() as u64 > limits.bytes {
            return Err(format!("it is longer than {}", Size(limits.bytes)));
        }
        if started.elapsed() > limits.time {
            return Err(format!("it could not be read within {:?}", limits.time));
        }
    }
}

/// Whether a link at the end of a path is followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Symlinks {
    Followed,
    Refused,
}

/// Opens whatever is at `path` without waiting, and looks what it is.
pub(crate) fn open(path: &Path, links: Symlinks) -> Result<(File, Metadata), String> {
    let links = match links {
        Symlinks::Followed => 0,
        Symlinks::Refused => libc::O_NOFOLLOW,
    };
    // A terminal does not become that of this process.
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY | links;
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let file = opened.map_err(|error| match error.raw_os_error() {
        Some(libc::ELOOP) => "it is a link, which is not followed".to_owned(),
        // Nobody can be reached by opening a socket.
        Some(libc::ENXIO) => "it is not a file but a device or a socket".to_owned(),
        _ => unreadable(error),
    })?;
    let metadata = file.metadata().map_err(unreadable)?;
    Ok((file, metadata))
}

/// Makes sure that it is a regular file.
pub(crate) fn expect_file(metadata: &Metadata) -> Result<(), String> {
    let kind = metadata.file_type();
    let found = match () {
        () if kind.is_file() => return Ok(()),
        () if kind.is_dir() => "a folder",
        () if kind.is_fifo() => "a pipe",
        () if kind.is_socket() => "a socket",
        () if kind.is_char_device() || kind.is_block_device() => "a device",
        () => "something else",
    };
    Err(format!("it is not a file but {found}"))
}

/// The file that a person names to a command, opened: a regular file, or a pipe or a terminal, from
/// which is read what comes. [`read_all`] reads it.
///
/// # Errors
///
/// It is missing, a folder, a socket, or a device that is no terminal.
pub fn open_input(path: &Path) -> io::Result<Result<File, String>> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    if metadata.file_type().is_fifo() || file.is_terminal() {
        // What has not come yet is waited for, and so is a writer.
        return File::open(path).map(Ok);
    }
    let refused = expect_file(&metadata).err().filter(|_| !is_null(&metadata));
    Ok(refused.map_or(Ok(file), Err))
}

/// Whether it is the device that holds nothing.
fn is_null(metadata: &Metadata) -> bool {
    metadata.file_type().is_char_device() && metadata.rdev() == libc::makedev(1, 3)
}

fn unreadable(error: io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "it cannot be read: there is no such file".to_owned(),
        _ => format!("it cannot be read: {error}"),
    }
}

/// A limit in words.
struct Size(u64);

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            bytes if bytes >= 1 << 30 && bytes % (1 << 30) == 0 => write!(f, "{} GiB", bytes >> 30),
            bytes if bytes >= 1 << 20 && bytes % (1 << 20) == 0 => write!(f, "{} MiB", bytes >> 20),
            bytes => write!(f, "{bytes} bytes"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;
    use std::process::Command;

    use super::*;

    const LIMITS: Limits = Limits::bytes(1 << 20);

    fn folder(name: &str) -> PathBuf {
        let name = format!("msccl-guarded-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// What becomes of reading `path`, which must be reported at once.
    fn refused(path: &Path) -> String {
        let started = Instant::now();
        let why = read(path, LIMITS).unwrap_err();
        assert!(started.elapsed() < Duration::from_secs(5), "{}", path.display());
        why
    }

    #[test]
    fn what_is_no_file_is_refused_at_once() {
        let folder = folder("kinds");
        let (pipe, socket, link) = (folder.join("pipe"), folder.join("socket"), folder.join("l"));
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let _listener = UnixListener::bind(&socket).unwrap();
        std::os::unix::fs::symlink(&pipe, &link).unwrap();
        assert_eq!(refused(&folder), "it is not a file but a folder");
        assert_eq!(refused(&pipe), "it is not a file but a pipe");
        assert_eq!(refused(&link), "it is not a file but a pipe");
        assert_eq!(refused(&socket), "it is not a file but a device or a socket");
        for device in ["/dev/zero", "/dev/random", "/dev/full"] {
            assert_eq!(refused(Path::new(device)), "it is not a file but a device");
        }
        let missing = "it cannot be read: there is no such file";
        assert_eq!(refused(Path::new("/no/such")), missing);
        assert_eq!(read(Path::new("/dev/null"), LIMITS), Ok(Vec::new()));
        assert_eq!(
            open(&link, Symlinks::Refused).unwrap_err(),
            "it is a link, which is not followed"
        );
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn sizes_are_those_that_are_read() {
        let folder = folder("sizes");
        let path = folder.join("file");
        for (bytes, expected) in [(LIMITS.bytes, Ok(1 << 20)), (LIMITS.bytes + 1, Err(()))] {
            File::create(&path).unwrap().set_len(bytes).unwrap();
            let found = read(&path, LIMITS).map(|bytes| bytes.len());
            let expected: Result<usize, _> = expected.map_err(|()| "it is longer than 1 MiB");
            assert_eq!(found, expected.map_err(str::to_owned));
        }
        // A file that says it is empty.
        assert_eq!(fs::metadata("/proc/self/status").unwrap().len(), 0);
        assert!(!read(Path::new("/proc/self/status"), LIMITS).unwrap().is_empty());
        assert_eq!(read_all(io::repeat(7), LIMITS), Err("it is longer than 1 MiB".to_owned()));
        fs::remove_dir_all(folder).unwrap();
    }

    /// Gives a byte at a time, and takes its time.
    struct Slow;

    impl Read for Slow {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            std::thread::sleep(Duration::from_millis(1));
            into[0] = 0;
            Ok(1)
        }
    }

    #[test]
    fn what_is_slow_is_given_up() {
        let limits = Limits { bytes: 1 << 30, time: Duration::from_millis(50) };
        let started = Instant::now();
        let why = read_all(Slow, limits).unwrap_err();
        assert_eq!(why, "it could not be read within 50ms");
        assert!(started.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn commands_take_pipes() {
        let folder = folder("input");
        let pipe = folder.join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let writer = std::thread::spawn({
            let pipe = pipe.clone();
            move || {
                std::thread::sleep(Duration::from_millis(100));
                fs::write(pipe, "text").unwrap();
            }
        });
        let file = open_input(&pipe).unwrap().unwrap();
        assert_eq!(read_all(file, LIMITS), Ok(b"text".to_vec()));
        writer.join().unwrap();
        let refused = |path: &Path| open_input(path).unwrap().unwrap_err();
        assert_eq!(refused(Path::new("/dev/zero")), "it is not a file but a device");
        assert_eq!(refused(&folder), "it is not a file but a folder");
        assert!(open_input(Path::new("/no/such")).is_err());
        fs::remove_dir_all(folder).unwrap();
    }
}
