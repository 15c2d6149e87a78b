//! Files that a process may load as `libnccl.so.2`, found as a loader finds them.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use msccl_doctor::facts::{FoundBy, LibraryFile, LibraryKind, LoadedLibrary, ProcessFacts};
use msccl_doctor::library;

use super::sources::Sources;
use crate::own_library::beside;

/// The name that programs ask the loader for.
const SONAME: &str = "libnccl.so.2";

/// All of them, in the order in which they are found.
pub fn find(sources: &impl Sources, nccl_paths: &[String]) -> Vec<LibraryFile> {
    let mut found = Vec::new();
    found.extend(preloaded(sources));
    found.extend(nccl_paths.iter().map(|path| file(sources, path, FoundBy::NcclPackage)));
    found.extend(in_folders(sources, &library_path(sources), FoundBy::LibraryPath));
    found.extend(in_folders(sources, &system_folders(sources), FoundBy::System));
    for (name, by) in
        [("VLLM_NCCL_SO_PATH", FoundBy::Vllm), ("SGLANG_NCCL_SO_PATH", FoundBy::Sglang)]
    {
        found.extend(sources.variable(name).map(|path| file(sources, &path, by)));
    }
    found.extend(own(sources));
    found
}

/// Whether the library for RDMA lies beside one of `libraries` that is ours.
pub fn has_rdma(libraries: &[LibraryFile]) -> bool {
    let ours = libraries.iter().filter(|file| file.kind == LibraryKind::Msccl);
    let beside = ours.filter_map(|file| Path::new(&file.real_path).parent());
    beside.into_iter().any(|folder| folder.join("libmsccl-rdma.so").is_file())
}

fn preloaded(sources: &impl Sources) -> Vec<LibraryFile> {
    let Some(value) = sources.variable("LD_PRELOAD") else { return Vec::new() };
    let entries = library::preloads(&value).into_iter();
    let named = entries.map(|entry| file(sources, &located(sources, entry), FoundBy::Preload));
    // Other libraries may be preloaded as well; only what is missing might have been meant for one.
    named
        .filter(|file| match file.kind {
            LibraryKind::Msccl | LibraryKind::OtherNccl => true,
            LibraryKind::Unknown | LibraryKind::Missing => library::is_nccl_name(&file.path),
        })
        .collect()
}

/// The path of an entry of `LD_PRELOAD`: one without a slash is looked for.
fn located(sources: &impl Sources, entry: &str) -> String {
    if entry.contains('/') {
        return entry.to_owned();
    }
    let folders = library_path(sources).into_iter().chain(system_folders(sources));
    let mut paths = folders.map(|folder| format!("{folder}/{entry}"));
    paths.find(|path| sources.place(path).is_file()).unwrap_or_else(|| entry.to_owned())
}

fn library_path(sources: &impl Sources) -> Vec<String> {
    let value = sources.variable("LD_LIBRARY_PATH").unwrap_or_default();
    value.split([':', ';']).filter(|it| !it.is_empty()).map(str::to_owned).collect()
}

/// The folders that `/etc/ld.so.conf` names, and those that need no name.
fn system_folders(sources: &impl Sources) -> Vec<String> {
    let mut folders = Vec::new();
    let mut unread = vec!["/etc/ld.so.conf".to_owned()];
    let mut read = BTreeSet::new();
    while let Some(path) = unread.pop().filter(|path| read.insert(path.clone())) {
        let text = fs::read_to_string(sources.place(&path)).unwrap_or_default();
        let configuration = library::loader_configuration(&text);
        folders.extend(configuration.folders.into_iter().map(str::to_owned));
        for pattern in configuration.includes {
            unread.extend(matching(sources, pattern));
        }
    }
    folders.extend(library::USUAL_FOLDERS.map(str::to_owned));
    folders
}

/// The files of a pattern such as `/etc/ld.so.conf.d/*.conf`.
fn matching(sources: &impl Sources, pattern: &str) -> Vec<String> {
    let Some((folder, name)) = pattern.rsplit_once('/') else { return Vec::new() };
    let suffix = name.trim_start_matches('*');
    let entries = fs::read_dir(sources.place(folder)).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut paths: Vec<_> = names
        .filter(|name| name.ends_with(suffix))
        .map(|name| format!("{folder}/{name}"))
        .collect();
    paths.sort_unstable_by(|one, other| other.cmp(one));
    paths
}

/// The first of `folders` that has the file.
fn in_folders(sources: &impl Sources, folders: &[String], by: FoundBy) -> Option<LibraryFile> {
    let mut paths =
        folders.iter().map(|folder| format!("{}/{SONAME}", folder.trim_end_matches('/')));
    let path = paths.find(|path| sources.place(path).is_file())?;
    Some(file(sources, &path, by))
}

/// What commands use that need a library: what a variable names, or what comes with this command.
fn own(sources: &impl Sources) -> Option<LibraryFile> {
    if let Some(path) = sources.variable(msccl_environment::variable::LIBRARY.name) {
        let path = std::path::absolute(&path).unwrap_or_else(|_| path.into());
        return Some(file(sources, &path.to_string_lossy(), FoundBy::Named));
    }
    let folder = sources.own_folder()?;
    let place = beside(&folder)?;
    let place = place.canonicalize().unwrap_or(place);
    Some(file(sources, &sources.name(&place), FoundBy::Own))
}

fn file(sources: &impl Sources, path: &str, found_by: FoundBy) -> LibraryFile {
    let place = sources.place(path);
    let real_path = place.canonicalize().unwrap_or_else(|_| place.clone());
    let real_path = real_path.to_string_lossy().into_owned();
    LibraryFile { path: path.to_owned(), real_path, found_by, kind: kind(&place) }
}

fn kind(place: &Path) -> LibraryKind {
    beginning(place).map_or(LibraryKind::Missing, |beginning| library::kind(&beginning))
}

fn beginning(place: &Path) -> io::Result<Vec<u8>> {
    let mut beginning = Vec::new();
    fs::File::open(place)?.take(library::BEGINNING_BYTES).read_to_end(&mut beginning)?;
    Ok(beginning)
}

/// What process `pid` has loaded.
pub fn of_process(sources: &impl Sources, pid: u32) -> ProcessFacts {
    let maps = sources.place(&format!("/proc/{pid}/maps"));
    let loaded = fs::read_to_string(maps).map_err(|error| error.to_string()).map(|maps| {
        let files: BTreeSet<&str> = maps.lines().filter_map(mapped_file).collect();
        let named = files.into_iter().filter(|path| library::is_nccl_name(path));
        let loaded = named
            .map(|path| LoadedLibrary { path: path.to_owned(), kind: kind(&sources.place(path)) });
        loaded.collect()
    });
    let environ = fs::read(sources.place(&format!("/proc/{pid}/environ"))).unwrap_or_default();
    ProcessFacts { pid, preloads_ours: preloads_ours(sources, &environ), loaded }
}

/// Whether `environ`, variables that end with zeros, preloads a file of ours.
fn preloads_ours(sources: &impl Sources, environ: &[u8]) -> bool {
    let variables = environ.split(|byte| *byte == 0);
    let mut values = variables.filter_map(|text| text.strip_prefix(b"LD_PRELOAD="));
    values.any(|value| {
        let value = String::from_utf8_lossy(value);
        let entries = library::preloads(&value).into_iter();
        entries.map(|path| kind(&sources.place(path))).any(|kind| kind == LibraryKind::Msccl)
    })
}

/// The file of a line of `maps`.
fn mapped_file(line: &str) -> Option<&str> {
    let start = line.find('/')?;
    Some(line[start..].trim_end_matches(" (deleted)"))
}

/// Links of `folder` in `/sys`, by name.
pub fn names_in(folder: &PathBuf) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.filter_map(|it| it.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}
