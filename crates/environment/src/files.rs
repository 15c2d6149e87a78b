//! The algorithm files that the environment names, read.

use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use msccl_registry::File;

/// Longer files are refused: no algorithm or table is that long.
const LONGEST_BYTES: u64 = 64 << 20;

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

/// In order of their names, so that all ranks have one order.
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

fn read_file(path: &Path) -> File {
    File { name: path.display().to_string(), content: content(path) }
}

/// What the file at `path` holds, or why it cannot be had.
pub fn content(path: &Path) -> Result<Vec<u8>, String> {
    let cannot = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound => "it cannot be read: there is no such file".to_owned(),
        _ => format!("it cannot be read: {error}"),
    };
    // Asked before it is opened: opening a pipe waits for its other end.
    let metadata = fs::metadata(path).map_err(cannot)?;
    if !metadata.is_file() {
        return Err("it is not a file".to_owned());
    }
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(cannot)?;
    file.take(LONGEST_BYTES + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > LONGEST_BYTES {
        return Err(format!("it is longer than {} MiB", LONGEST_BYTES >> 20));
    }
    Ok(bytes)
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
        assert_eq!(found[1], Err("it is not a file".to_owned()));
        let contents = ["a.xml", "b.msccl", "c.json"].map(|name| Ok(name.as_bytes().to_vec()));
        assert_eq!(found[2..], contents);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_file_without_end_is_refused() {
        let folder = folder("long");
        let path = folder.join("long.xml");
        let check = |bytes: u64, expected: Result<usize, &str>| {
            fs::File::create(&path).unwrap().set_len(bytes).unwrap();
            let length = content(&path).map(|bytes| bytes.len());
            assert_eq!(length, expected.map_err(str::to_owned), "{bytes} bytes");
        };
        check(LONGEST_BYTES, Ok(64 << 20));
        check(LONGEST_BYTES + 1, Err("it is longer than 64 MiB"));
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
