//! Where lines go: standard output, or a file.
//!
//! A log is written in the name of the process, at a path that a variable says, often in a folder
//! where everybody may write. So a link is not followed, nothing is waited for, and only a regular
//! file of this user that has no other name is written to. What is in it stays: lines are added at
//! its end, also those of several processes to one file.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use msccl_environment::ValueError;

use super::line;

/// Where lines go.
#[derive(Debug)]
pub enum Sink {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// Nowhere.
    Null,
    /// The file that `NCCL_DEBUG_FILE` names.
    File(File),
}

impl Sink {
    /// The file of that name, in which `%h` stands for the host and `%p` for the process; standard
    /// output, and what is wrong, if it cannot be made.
    pub fn open(name: &str) -> (Self, Option<ValueError>) {
        let path = expand(name);
        match path.as_str() {
            "/dev/stdout" => return (Self::Stdout, None),
            "/dev/stderr" => return (Self::Stderr, None),
            "/dev/null" => return (Self::Null, None),
            _ => {}
        }
        match append_to(Path::new(&path)) {
            Ok(file) => (Self::File(file), None),
            Err(why) => {
                let text = format!("NCCL_DEBUG_FILE: {path} cannot be written: {why}");
                (Self::Stdout, Some(text))
            }
        }
    }

    /// Writes `text` in one piece. Where nobody reads, nothing can be said about it either.
    pub fn write(&mut self, text: &str) {
        let _ = match self {
            Self::Stdout => write_all(io::stdout().lock(), text),
            Self::Stderr => write_all(io::stderr().lock(), text),
            Self::Null => Ok(()),
            Self::File(file) => write_all(file, text),
        };
    }
}

impl Sink {
    /// Writes `text` in one piece, if this is a file.
    pub fn write_if_file(&mut self, text: &str) {
        match self {
            Self::Stdout | Self::Stderr | Self::Null => {}
            Self::File(_) => self.write(text),
        }
    }
}

/// Writes `text` to standard error.
pub fn to_stderr(text: &str) {
    let _ = write_all(io::stderr().lock(), text);
}

/// The file at `path`, made if there is none, at whose end is written.
fn append_to(path: &Path) -> Result<File, String> {
    // Opening a pipe that nobody reads would wait, and one of a terminal could make it that of this
    // process.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    let opened =
        OpenOptions::new().append(true).create(true).mode(0o644).custom_flags(flags).open(path);
    let file = opened.map_err(|error| match error.raw_os_error() {
        Some(libc::ELOOP) => "it is a link, which is not followed".to_owned(),
        Some(libc::ENXIO) => "it is not a file but a pipe, a device or a socket".to_owned(),
        _ => error.to_string(),
    })?;
    let metadata = file.metadata().map_err(|error| error.to_string())?;
    let (owner, user) = (metadata.uid(), rustix::process::geteuid().as_raw());
    match () {
        () if !metadata.is_file() => Err("it is not a regular file".to_owned()),
        () if owner != user => Err(format!("it belongs to user {owner}, expected user {user}")),
        () if metadata.nlink() != 1 => Err("the file has other names, too (hard links)".to_owned()),
        () => Ok(file),
    }
}

fn write_all(mut to: impl Write, text: &str) -> io::Result<()> {
    to.write_all(text.as_bytes())?;
    to.flush()
}

/// `name` with its placeholders filled in; `%%` is a percent sign, and others stay.
pub fn expand(name: &str) -> String {
    let mut expanded = String::new();
    let mut rest = name;
    while let Some((before, after)) = rest.split_once('%') {
        expanded.push_str(before);
        let mark = after.chars().next();
        match mark {
            Some('h') => expanded.push_str(&line::host()),
            Some('p') => expanded.push_str(&std::process::id().to_string()),
            Some('%') => expanded.push('%'),
            other => expanded.extend(['%'].into_iter().chain(other)),
        }
        rest = &after[mark.map_or(0, char::len_utf8)..];
    }
    expanded + rest
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{chown, symlink};
    use std::path::PathBuf;
    use std::process::Command;

    use super::*;

    #[test]
    fn placeholders() {
        let (host, process) = (line::host(), std::process::id());
        assert_eq!(expand("/tmp/%h.%p.log"), format!("/tmp/{host}.{process}.log"));
        assert_eq!(expand("100%%-%q-%"), "100%-%q-%");
    }

    fn folder(name: &str) -> PathBuf {
        let name = format!("msccl-nccl-sink-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn a_file_that_cannot_be_made_is_standard_output() {
        let (sink, value_error) = Sink::open("/no/such/folder/log");
        assert!(matches!(sink, Sink::Stdout) && value_error.is_some());
    }

    #[test]
    fn lines_are_added_to_what_is_there() {
        let folder = folder("append");
        let path = folder.join("log");
        fs::write(&path, "before\n").unwrap();
        let (mut one, _) = Sink::open(path.to_str().unwrap());
        let (mut other, _) = Sink::open(path.to_str().unwrap());
        one.write("one\n");
        other.write("other\n");
        one.write("two\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "before\none\nother\ntwo\n");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn only_a_file_of_this_user_is_written_to() {
        let folder = folder("kinds");
        let [precious, link, hard, pipe, theirs] =
            ["precious", "link", "hard", "pipe", "theirs"].map(|name| folder.join(name));
        fs::write(&precious, "keep me\n").unwrap();
        symlink(&precious, &link).unwrap();
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let refused = |path: &Path, why: &str| {
            let (sink, value_error) = Sink::open(path.to_str().unwrap());
            assert!(matches!(sink, Sink::Stdout), "{}", path.display());
            let value_error = value_error.unwrap();
            assert!(value_error.ends_with(why), "{value_error}");
        };
        refused(&link, "it is a link, which is not followed");
        refused(&pipe, "it is not a file but a pipe, a device or a socket");
        refused(&folder, "Is a directory (os error 21)");
        refused(Path::new("/dev/full"), "it is not a regular file");
        fs::hard_link(&precious, &hard).unwrap();
        refused(&hard, "the file has other names, too (hard links)");
        fs::write(&theirs, "theirs\n").unwrap();
        if chown(&theirs, Some(12_345), None).is_ok() {
            refused(&theirs, "it belongs to user 12345, expected user 0");
        } else {
            eprintln!("SKIPPED: only root can give files to others");
        }
        assert_eq!(fs::read_to_string(&precious).unwrap(), "keep me\n");
        assert_eq!(fs::read_to_string(&theirs).unwrap(), "theirs\n");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn devices_that_everybody_knows_have_their_names() {
        let kind = |name: &str| Sink::open(name);
        assert!(matches!(kind("/dev/stdout"), (Sink::Stdout, None)));
        assert!(matches!(kind("/dev/stderr"), (Sink::Stderr, None)));
        assert!(matches!(kind("/dev/null"), (Sink::Null, None)));
    }
}
