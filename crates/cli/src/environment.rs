//! What the library reads from its variables, as far as the command tells what the library would do.
//!
//! Empty values count as not set, and what makes no sense is told and ignored, as in the library. Not
//! read: the files that may set the same variables (`NCCL_CONF_FILE`).

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::ValueEnum;
use msccl_registry::File;
use msccl_runtime::Wish;

use crate::args::PlaceName;
use crate::input;

/// What a variable is set to, by name.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// What the variables say.
pub struct Environment {
    /// The algorithm files that they name, read.
    pub files: Vec<File>,
    /// What is to be used.
    pub wish: Wish,
    /// Where ranks run.
    pub place: Option<PlaceName>,
}

/// What `name` is set to in this process.
pub fn lookup(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

impl Environment {
    /// What the variables that `lookup` knows say; `warn` hears what makes no sense.
    pub fn read(lookup: Lookup<'_>, warn: &mut dyn FnMut(String)) -> Self {
        let text = |name: &str| lookup(name).filter(|text| !text.is_empty());
        let listed = text("MSCCL_XML_FILES").unwrap_or_default();
        let listed = listed.split(':').filter(|path| !path.is_empty()).map(file);
        let folder = text("MSCCL_ALGO_DIR").map(|path| files_of(Path::new(&path)));
        let place = |text: &str| PlaceName::from_str(text, true);
        let count = |text: &str| match text.parse() {
            Ok(0) | Err(_) => Err("expected a number from 1 on".to_owned()),
            Ok(count) => Ok(count),
        };
        Self {
            files: listed.chain(folder.into_iter().flatten()).collect(),
            wish: Wish {
                algorithm: text("MSCCL_ALGO"),
                protocol: parsed("MSCCL_PROTO", &text, FromStr::from_str, warn),
                instances: parsed("MSCCL_INSTANCES", &text, count, warn),
                threads: parsed("MSCCL_THREADS", &text, count, warn),
            },
            place: parsed("MSCCL_DEVICE", &text, place, warn),
        }
    }
}

/// What `parse` makes of the variable `name`.
fn parsed<T>(
    name: &str,
    text: &dyn Fn(&str) -> Option<String>,
    parse: impl Fn(&str) -> Result<T, String>,
    warn: &mut dyn FnMut(String),
) -> Option<T> {
    let value = text(name)?;
    let complain = |reason| warn(format!("{name} is `{value}` and is ignored: {reason}"));
    parse(&value).map_err(complain).ok()
}

/// The file at `path`, read.
pub fn file(path: &str) -> File {
    let name = if path == input::STDIN { input::STDIN_NAME } else { path };
    File { name: name.to_owned(), content: input::bytes(path) }
}

/// The algorithms in `folder`, in order of their names.
fn files_of(folder: &Path) -> Vec<File> {
    match algorithms_in(folder) {
        Ok(paths) => paths.iter().map(|path| file(&path.to_string_lossy())).collect(),
        Err(error) => {
            let name = folder.display().to_string();
            vec![File { name, content: Err(format!("the folder cannot be read: {error}")) }]
        }
    }
}

fn algorithms_in(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        if extension.is_some_and(|known| ["xml", "json", "msccl"].contains(&known)) {
            paths.push(path);
        }
    }
    paths.sort_unstable();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use msccl_collective::Protocol;

    use super::*;

    fn check(variables: &[(&str, &str)], warnings: usize) -> Environment {
        let mut warned = Vec::new();
        let lookup = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let environment = Environment::read(&lookup, &mut |warning| warned.push(warning));
        assert_eq!(warned.len(), warnings, "{variables:?}: {warned:?}");
        environment
    }

    #[test]
    fn wishes_are_read_and_nonsense_is_told() {
        let Environment { files, wish, place } = check(
            &[
                ("MSCCL_ALGO", "ring"),
                ("MSCCL_PROTO", "LL128"),
                ("MSCCL_INSTANCES", "4"),
                ("MSCCL_DEVICE", "HOST"),
            ],
            0,
        );
        assert_eq!((wish.algorithm.as_deref(), wish.instances), (Some("ring"), Some(4)));
        assert_eq!((wish.protocol, place), (Some(Protocol::Ll128), Some(PlaceName::Host)));
        assert!(files.is_empty());
        let nonsense = check(&[("MSCCL_PROTO", "LL256"), ("MSCCL_INSTANCES", "0")], 2);
        assert_eq!(nonsense.wish, Wish::default());
        assert_eq!(check(&[("MSCCL_DEVICE", "tpu"), ("MSCCL_ALGO", "")], 1).wish, Wish::default());
    }

    #[test]
    fn files_that_are_not_there_stay_in_the_list() {
        let variables = [("MSCCL_XML_FILES", ":/no/a.xml::/no/b.xml"), ("MSCCL_ALGO_DIR", "/no")];
        let files = check(&variables, 0).files;
        let names: Vec<_> = files.iter().map(|file| file.name.as_str()).collect();
        assert_eq!(names, ["/no/a.xml", "/no/b.xml", "/no"]);
        assert!(files.iter().all(|file| file.content.is_err()), "{files:?}");
    }
}
