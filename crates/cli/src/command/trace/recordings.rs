//! Recordings in files and folders, as a timeline for each communicator.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use msccl_trace::recording::{MAGIC, Recording};
use msccl_trace::timeline::Timeline;

use crate::args::RecordingArgs;
use crate::failure::{Failure, Result};
use crate::input;

/// What one communicator did.
pub struct CommunicatorRun {
    /// Its identity.
    pub id: String,
    /// The name that a user gave it, or nothing.
    pub name: String,
    /// What its ranks did.
    pub timeline: Timeline,
}

/// The recordings that are meant, by communicator; those with most launches first.
///
/// # Errors
///
/// There is none, or some cannot be read or do not belong together.
pub fn read(args: &RecordingArgs) -> Result<Vec<CommunicatorRun>> {
    let RecordingArgs { recordings, communicator } = args;
    let mut by_communicator: BTreeMap<String, Vec<Recording>> = BTreeMap::new();
    for path in paths(recordings)? {
        let shown = path.display().to_string();
        let bytes = input::bytes(&shown).map_err(Failure::new)?;
        let recording =
            Recording::read(&bytes).map_err(|error| Failure::new(format!("{shown}: {error}")))?;
        let header = &recording.header;
        let is_meant = |of: &String| header.name == *of || header.communicator == *of;
        if communicator.as_ref().is_none_or(is_meant) {
            by_communicator.entry(header.communicator.clone()).or_default().push(recording);
        }
    }
    let mut runs = Vec::new();
    for (id, recordings) in by_communicator {
        let name = recordings.first().map(|of| of.header.name.clone()).unwrap_or_default();
        let timeline = Timeline::join(recordings)
            .map_err(|error| Failure::new(format!("communicator {id}: {error}")))?;
        runs.push(CommunicatorRun { id, name, timeline });
    }
    if runs.is_empty() {
        let of = communicator.as_ref().map(|of| format!(" of the communicator {of}"));
        let text = format!(
            "expected recordings{}, found none in {}; MSCCL_TRACE makes recordings",
            of.unwrap_or_default(),
            recordings.join(", ")
        );
        return Err(Failure::new(text));
    }
    runs.sort_by_key(|run| std::cmp::Reverse(run.timeline.launches.len()));
    Ok(runs)
}

/// The files that are named, and those in the folders that are; of folders, only recordings.
fn paths(named: &[String]) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for name in named {
        if !Path::new(name).is_dir() {
            paths.push(PathBuf::from(name));
            continue;
        }
        let cannot = |error| Failure::new(format!("cannot read the folder {name}: {error}"));
        let mut inside = Vec::new();
        for entry in fs::read_dir(name).map_err(cannot)? {
            inside.push(entry.map_err(cannot)?.path());
        }
        inside.retain(|path| path.is_file() && begins_as_recording(path));
        inside.sort();
        paths.append(&mut inside);
    }
    Ok(paths)
}

fn begins_as_recording(path: &Path) -> bool {
    let mut head = [0; MAGIC.len()];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && head == *MAGIC
}
