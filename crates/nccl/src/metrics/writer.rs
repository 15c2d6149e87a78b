//! The files of this process: which ranks count for which, and the thread that writes them.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use msccl_environment::{place_file, variable};

use super::rank::RankMetrics;
use super::text::{WrittenRank, text};
use crate::log::{self, NO_DEVICE};
use crate::process::Process;
use crate::session;

/// How often files are written.
pub(super) const PERIOD: Duration = Duration::from_secs(5);

/// Ranks of ended communicators that a file still has.
const ENDED_KEPT: usize = 64;

/// All files.
#[derive(Default)]
struct Files {
    /// The process that writes them; a fork has its own.
    writer: Option<Process>,
    ranks: BTreeMap<PathBuf, Vec<Arc<RankMetrics>>>,
}

static FILES: Mutex<Files> = Mutex::new(Files { writer: None, ranks: BTreeMap::new() });

/// Counts of a rank from now on, which are written to the file `name`, in which `%h` stands for the
/// host and `%p` for the process.
pub fn follow(name: &str, communicator: Option<&str>) -> Arc<RankMetrics> {
    let path = PathBuf::from(log::expand(name));
    let rank = Arc::new(RankMetrics::new(communicator));
    let mut files = files();
    let current = Process::current();
    if files.writer != Some(current) {
        *files = Files { writer: Some(current), ranks: BTreeMap::new() };
        // Without a thread, the file is written at the end of communicators.
        let named = thread::Builder::new().name("msccl-metrics".to_owned());
        let _ = named.spawn(write_forever);
    }
    files.ranks.entry(path).or_default().push(Arc::clone(&rank));
    rank
}

/// Writes all files.
pub fn write_now() {
    let mut files = files();
    for (path, ranks) in &mut files.ranks {
        if let Err(error) = write(path, ranks) {
            let (variable, path) = (variable::METRICS.name, path.display());
            let text = format!("{variable}: cannot write {path}: {error}; calls go on");
            session::say_once(NO_DEVICE, &text);
        }
    }
}

fn write_forever() {
    loop {
        thread::sleep(PERIOD);
        write_now();
    }
}

fn files() -> MutexGuard<'static, Files> {
    FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes the file at `path`, of `ranks`, of which the first that have ended are forgotten if there
/// are many. Nothing is written before ranks have met.
fn write(path: &Path, ranks: &mut Vec<Arc<RankMetrics>>) -> io::Result<()> {
    let written = ranks.iter().filter_map(|rank| {
        let counts = rank.take();
        let (name, identity) = (rank.name.clone(), counts.identity.clone()?);
        Some(WrittenRank { name, identity, counts })
    });
    let written: Vec<_> = written.collect();
    let mut surplus =
        ranks.iter().filter(|rank| rank.has_ended()).count().saturating_sub(ENDED_KEPT);
    ranks.retain(|rank| {
        let is_forgotten = surplus > 0 && rank.has_ended();
        surplus -= usize::from(is_forgotten);
        !is_forgotten
    });
    if written.is_empty() {
        return Ok(());
    }
    replace(path, &text(&written, std::process::id()))
}

/// Puts a file with `text` at `path`, at once.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let beside = path.with_file_name(name);
    // One that a process of this number has left.
    let _ = fs::remove_file(&beside);
    place_file(path, &beside, text.as_bytes())
}
