//! Files that set variables: `NAME=value` lines, `#` in the first column begins a comment. Nothing
//! is trimmed and there are no quotes, as NCCL has it.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::{Lookup, variable};

/// What all files say; the user's wins over the system's.
pub fn read_all(process: Lookup<'_>) -> HashMap<String, String> {
    let mut values = HashMap::new();
    for path in [Some(PathBuf::from("/etc/nccl.conf")), of_user(process)].into_iter().flatten() {
        // A file that is not there, or not for us to read, says nothing.
        let text = fs::read(path).unwrap_or_default();
        values.extend(parse(&String::from_utf8_lossy(&text)));
    }
    values
}

fn of_user(process: Lookup<'_>) -> Option<PathBuf> {
    let named =
        process(variable::CONF_FILE.name).filter(|name| !name.is_empty()).map(PathBuf::from);
    named.or_else(|| Some(Path::new(&process("HOME")?).join(".nccl.conf")))
}

fn parse(text: &str) -> impl Iterator<Item = (String, String)> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let pairs = lines.filter_map(|line| line.split_once('='));
    pairs.filter(|(name, _)| !name.is_empty()).map(|(name, value)| (name.into(), value.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_taken_as_they_stand() {
        let text = "# comment\nNCCL_DEBUG=INFO\n #A=b\nEMPTY=\n=x\nnonsense\nA=b=c \r\n";
        let parsed: Vec<_> = parse(text).collect();
        let expected =
            [("NCCL_DEBUG", "INFO"), (" #A", "b"), ("EMPTY", ""), ("A", "b=c ")].map(own);
        assert_eq!(parsed, expected);
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
