//! Files that set variables: `NAME=value` lines, `#` in the first column begins a comment. Nothing
//! is trimmed and there are no quotes, as NCCL has it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::guarded::{self, Limits};
use super::{Lookup, ValueError, variable};

/// No such file is longer.
const LIMITS: Limits = Limits::bytes(1 << 20);

/// What all files say, and what is wrong with them.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Configuration {
    /// What they set, by name; the user's wins over the system's.
    pub values: HashMap<String, String>,
    /// A file that was named and cannot be read, or a line that sets nothing.
    pub value_errors: Vec<ValueError>,
}

/// What the files of the system and of the user say.
pub fn read_all(process: Lookup<'_>) -> Configuration {
    let mut all = Configuration::default();
    let named = process(variable::CONF_FILE.name).filter(|name| !name.is_empty());
    for path in [Some(PathBuf::from("/etc/nccl.conf")), of_user(process)].into_iter().flatten() {
        match guarded::read(&path, LIMITS) {
            Ok(text) => all.add(&path, &String::from_utf8_lossy(&text)),
            // A file that nobody named may be missing, or not for us to read.
            Err(why) if named.as_deref().is_some_and(|named| Path::new(named) == path) => {
                let (name, path) = (variable::CONF_FILE.name, path.display());
                all.value_errors.push(format!("{name} is not used: {path}: {why}"));
            }
            Err(_) => {}
        }
    }
    all
}

fn of_user(process: Lookup<'_>) -> Option<PathBuf> {
    let named =
        process(variable::CONF_FILE.name).filter(|name| !name.is_empty()).map(PathBuf::from);
    named.or_else(|| Some(Path::new(&process("HOME")?).join(".nccl.conf")))
}

impl Configuration {
    /// Adds what the file at `path` says in `text`.
    fn add(&mut self, path: &Path, text: &str) {
        for (number, line) in (1..).zip(text.lines()) {
            match line.split_once('=').filter(|(name, _)| !name.is_empty()) {
                _ if line.starts_with('#') || line.trim().is_empty() => {}
                Some((name, value)) => drop(self.values.insert(name.into(), value.into())),
                None => {
                    let path = path.display();
                    let text = format!("{path} line {number}: expected NAME=value, found `{line}`");
                    self.value_errors.push(text);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_taken_as_they_stand() {
        let text = "# comment\nNCCL_DEBUG=INFO\n #A=b\nEMPTY=\n=x\nnonsense\nA=b=c \r\n";
        let mut parsed = Configuration::default();
        parsed.add(Path::new("/c"), text);
        let expected =
            [("NCCL_DEBUG", "INFO"), (" #A", "b"), ("EMPTY", ""), ("A", "b=c ")].map(own);
        assert_eq!(parsed.values, expected.into_iter().collect());
        let wrong = |line: &str| format!("/c line {line}: expected NAME=value, found ");
        assert_eq!(parsed.value_errors, [wrong("5") + "`=x`", wrong("6") + "`nonsense`"]);
    }

    #[test]
    fn a_file_that_was_named_must_be_there() {
        let named = |name: &str| (name == "NCCL_CONF_FILE").then(|| "/no/such.conf".to_owned());
        let Configuration { values: _, value_errors } = read_all(&named);
        let [value_error] = &value_errors[..] else { panic!("{value_errors:?}") };
        let why = "it cannot be read: there is no such file";
        assert_eq!(*value_error, format!("NCCL_CONF_FILE is not used: /no/such.conf: {why}"));
        let at_home = |name: &str| (name == "HOME").then(|| "/no/such".to_owned());
        assert_eq!(read_all(&at_home).value_errors, [""; 0]);
    }

    #[test]
    fn what_never_ends_is_not_read() {
        for (path, kind) in [("/dev/zero", "device"), ("/", "folder")] {
            let named = |name: &str| (name == "NCCL_CONF_FILE").then(|| path.to_owned());
            let Configuration { values, value_errors } = read_all(&named);
            assert!(values.is_empty());
            let expected =
                format!("NCCL_CONF_FILE is not used: {path}: it is not a file but a {kind}");
            assert_eq!(value_errors, [expected]);
        }
    }

    fn own((name, value): (&str, &str)) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn the_named_file_replaces_the_one_at_home() {
        let home = |name: &str| (name == "HOME").then(|| "/home/a".to_owned());
        assert_eq!(of_user(&home), Some(PathBuf::from("/home/a/.nccl.conf")));
        let named = |name: &str| match name {
            "NCCL_CONF_FILE" => Some("/etc/site.conf".to_owned()),
            other => home(other),
        };
        assert_eq!(of_user(&named), Some(PathBuf::from("/etc/site.conf")));
        assert_eq!(of_user(&|_| None), None);
    }
}
