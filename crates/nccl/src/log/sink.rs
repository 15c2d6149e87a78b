//! Where lines go: standard output, or a file.

use std::fs::File;
use std::io::{self, Write};

use msccl_environment::Complaint;

use super::line;

/// Where lines go.
#[derive(Debug)]
pub enum Sink {
    /// Standard output.
    Stdout,
    /// The file that `NCCL_DEBUG_FILE` names.
    File(File),
}

impl Sink {
    /// The file of that name, in which `%h` stands for the host and `%p` for the process; standard
    /// output, and what is wrong, if it cannot be made.
    pub fn open(name: &str) -> (Self, Option<Complaint>) {
        let path = expand(name);
        match File::create(&path) {
            Ok(file) => (Self::File(file), None),
            Err(error) => {
                let text = format!("NCCL_DEBUG_FILE: {path} cannot be written: {error}");
                (Self::Stdout, Some(text))
            }
        }
    }

    /// Writes `text` in one piece. Where nobody reads, nothing can be said about it either.
    pub fn write(&mut self, text: &str) {
        let _ = match self {
            Self::Stdout => write_all(io::stdout().lock(), text),
            Self::File(file) => write_all(file, text),
        };
    }
}

impl Sink {
    /// Writes `text` in one piece, if this is a file.
    pub fn write_if_file(&mut self, text: &str) {
        match self {
            Self::Stdout => {}
            Self::File(_) => self.write(text),
        }
    }
}

/// Writes `text` to standard error.
pub fn to_stderr(text: &str) {
    let _ = write_all(io::stderr().lock(), text);
}

fn write_all(mut to: impl Write, text: &str) -> io::Result<()> {
    to.write_all(text.as_bytes())?;
    to.flush()
}

/// `name` with its placeholders filled in; `%%` is a percent sign, and others stay.
fn expand(name: &str) -> String {
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
    use super::*;

    #[test]
    fn placeholders() {
        let (host, process) = (line::host(), std::process::id());
        assert_eq!(expand("/tmp/%h.%p.log"), format!("/tmp/{host}.{process}.log"));
        assert_eq!(expand("100%%-%q-%"), "100%-%q-%");
    }

    #[test]
    fn a_file_that_cannot_be_made_is_standard_output() {
        let (sink, complaint) = Sink::open("/no/such/folder/log");
        assert!(matches!(sink, Sink::Stdout) && complaint.is_some());
        let path = std::env::temp_dir().join(format!("msccl-nccl-sink-{}", std::process::id()));
        let (mut sink, _) = Sink::open(path.to_str().unwrap());
        sink.write("one\n");
        sink.write("two\n");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\ntwo\n");
        std::fs::remove_file(path).unwrap();
    }
}
