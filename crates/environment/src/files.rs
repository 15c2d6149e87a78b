//! The algorithm files that the environment names, read.

use std::fs;
use std::path::{Path, PathBuf};

use msccl_registry::File;

use super::guarded::{self, Limits};

/// No algorithm or table is longer.
const LIMITS: Limits = Limits::bytes(64 << 20);

/// The files of `list` (separated by colons), then those of `folder`.
pub fn read(list: Option<&str>, folder: Option<&str>) -> Vec<File> {
    let listed = list.unwrap_or_default().split(':').filter(|path| !path.is_empty());
    let mut files: Vec<_> = listed.map(|path| read_file(Path::new(path))).collect();
    if let Some(folder) = folder {
        files.extend(read_folder(Path::new(folder)));
    }
    files
}

/// The names of the files of `folder`.
pub fn names(folder: &str) -> Vec<String> {
    let paths = algorithms_in(Path::new(folder)).unwrap_or_default();
    paths.iter().map(|path| path.display().to_string()).collect()
}

fn read_folder(folder: &Path) -> Vec<File> {
    match algorithms_in(folder) {
        Ok(paths) => paths.iter().map(|path| read_file(path)).collect(),
        Err(reason) => {
            let name = folder.display().to_string();
            vec![File { name, content: Err(format!("the folder cannot be read: {reason}")) }]
        }
    }
}

/// More algorithms than anybody writes; a folder with more is another one than was meant.
const FILES_MAX: usize = 4096;

/// In order of their names, so that all ranks have one order.
fn algorithms_in(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        if extension.is_some_and(|known| ["xml", "json", "msccl"].contains(&known)) {
            paths.push(path);
        }
        if paths.len() > FILES_MAX {
            let text = format!("it has more than {FILES_MAX} files of algorithms");
            return Err(std::io::Error::other(text));
        }
    }
    paths.sort_unstable();
    Ok(paths)
}

fn read_file(path: &Path) -> File {
    File { name: path.display().to_string(), content: content(path) }
}

/// What the file at `path` holds, or why it cannot be had.
pub fn content(path: &Path) -> Result<Vec<u8>, String> {
    guarded::read(path, LIMITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let name = format!("msccl-environment-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn files_come_in_order_and_failures_stay_in_the_list() {
        let folder = folder("files");
        for name in ["b.msccl", "a.xml", "notes.txt", "c.json"] {
            fs::write(folder.join(name), name).unwrap();
        }
        let list = format!("/no/such.xml::{}", folder.display());
        let files = read(Some(&list), folder.to_str());
        let found: Vec<_> = files.iter().map(|file| file.content.clone()).collect();
        assert!(found[0].as_ref().unwrap_err().contains("no such file"), "{found:?}");
        assert_eq!(found[1], Err("it is not a file but a folder".to_owned()));
        let contents = ["a.xml", "b.msccl", "c.json"].map(|name| Ok(name.as_bytes().to_vec()));
        assert_eq!(found[2..], contents);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_folder_of_too_many_files_is_one_refusal() {
        let folder = folder("many");
        for number in 0..=FILES_MAX {
            fs::write(folder.join(format!("{number}.xml")), "").unwrap();
        }
        let [File { content, .. }] = &read(None, folder.to_str())[..] else {
            panic!("one refusal")
        };
        let expected = "the folder cannot be read: it has more than 4096 files of algorithms";
        assert_eq!(content, &Err(expected.to_owned()));
        fs::remove_file(folder.join("0.xml")).unwrap();
        assert_eq!(read(None, folder.to_str()).len(), FILES_MAX);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_folder_that_is_not_there_is_one_refusal() {
        let files = read(None, Some("/no/such/folder"));
        assert_eq!(files.len(), 1);
        assert!(files[0].content.as_ref().unwrap_err().contains("cannot be read"));
        assert!(read(None, None).is_empty());
    }
}
