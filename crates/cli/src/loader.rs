//! Imports from the file system.

use std::path::{Path, PathBuf};

use msccl_compiler::evaluate::Loader;

use crate::input::{Input, STDIN};

/// Finds imported files relative to the importing one. A file is named by its canonical path, made
/// relative to the working directory where it lies below it, so that one file has one name however
/// it is reached.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileSystem;

impl Loader for FileSystem {
    fn load(&self, importer: &str, path: &str) -> Result<(String, String), String> {
        if path == STDIN {
            return Err("standard input cannot be imported".to_owned());
        }
        let folder = Path::new(importer).parent().unwrap_or(Path::new(""));
        let joined = folder.join(path);
        let input =
            Input::read(&joined.to_string_lossy()).map_err(|failure| failure.to_string())?;
        Ok((canonical_name(&joined), input.text))
    }
}

/// The one name of the file at `path`.
pub fn canonical_name(path: &Path) -> String {
    let Ok(canonical) = path.canonicalize() else { return path.to_string_lossy().into_owned() };
    let here = std::env::current_dir().and_then(|here| here.canonicalize());
    let short: Option<PathBuf> =
        here.ok().and_then(|here| canonical.strip_prefix(here).ok().map(Path::to_path_buf));
    short.unwrap_or(canonical).to_string_lossy().into_owned()
}
