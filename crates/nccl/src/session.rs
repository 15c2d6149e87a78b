//! What comes before every communicator: the environment is read, and the process says who it is.
//!
//! What a user requests and does not get is logged once in a job. Rank 0 of a communicator logs
//! what is wrong with the environment before the ranks meet. When they have met, all of them
//! remember it, so that none logs it for a later communicator. What the ranks find out together, of
//! files and settings, they find out for the first communicator that has these files and settings
//! ([`extent`]), which is taken to be the whole job.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, Once, PoisonError};

use msccl_environment::{self as environment, ValueError};
use msccl_runtime::{Extent, Settings, Tuning};

use crate::abi::VERSION_TEXT;
use crate::log::Subsystem;
use crate::requests::Requests;
use crate::{log, profiler, signal, trace_switch};

/// What the environment asks for now, and what of it does not happen.
pub fn begin() -> Requests {
    let (mut requests, value_errors) = Requests::read(&environment::lookup);
    let of_log = log::value_errors();
    let unsupported = requests.preferences.unsupported.clone();
    let all = of_log
        .into_iter()
        .chain(value_errors)
        .chain(environment::unknown_names())
        .chain(unsupported);
    requests.unmet = all.collect();
    environment::older_names_in_use().iter().for_each(|line| log_once(line));
    if requests.report_signal {
        signal::watch();
    }
    requests
}

/// The settings of a communicator that follows `requests`, with the files and tables that these
/// name, read now. What of them cannot be used is among what is unmet.
pub fn with_files(requests: &Requests) -> Settings {
    let mut unmet = requests.unmet.clone();
    let tuning: Option<Tuning> =
        requests.preferences.tuning().map_err(|value_error| unmet.push(value_error)).ok().flatten();
    unmet.extend(requests.network.topology_error());
    unmet.extend(requests.preferences.kernel_cache_error());
    unmet.extend(profiler::plugin(requests.profiler.as_deref()).err());
    let files = requests.preferences.files();
    unmet.extend(trace_switch::follow(requests).err());
    let recordings = trace_switch::switch();
    Settings { files, tuning, recordings, unmet, ..requests.settings() }
}

/// Logs what was requested and does not happen, each once per process.
pub fn say(unmet: &[ValueError]) {
    unmet.iter().for_each(|value_error| say_once(log::NO_DEVICE, value_error));
}

/// Writes to standard error what was requested and does not happen, once per process.
pub fn say_once(device: i32, value_error: &str) {
    if is_new(value_error) {
        log::report(device, value_error);
    }
}

/// From now on nothing of this is said: rank 0 has said it.
pub fn remember(unmet: &[ValueError]) {
    for value_error in unmet {
        is_new(value_error);
    }
}

/// Logs what was read from the environment, once per process.
fn log_once(line: &str) {
    if log::is_enabled(Subsystem::Env) && is_new(line) {
        log::info(Subsystem::Env, log::NO_DEVICE, format_args!("{line}"));
    }
}

/// Warns of what nobody requested, once per process.
pub fn report_once(value_error: ValueError) {
    if is_new(&value_error) {
        log::warn_of_environment(&value_error);
    }
}

/// Says once who we are, in a line that scripts look for, without pretending to be somebody else.
/// One process of a job does so: that of rank 0.
pub fn greet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let own = env!("CARGO_PKG_VERSION");
        log::banner(&format!("NCCL version {VERSION_TEXT}+msccl{own}\n"));
    });
}

/// Whether a communicator whose ranks meet by `ids` is the first one of this process with the files
/// and overrides of `settings`.
pub fn extent(ids: &[[u8; 128]], settings: &Settings) -> Extent {
    let request = request(settings);
    let mut first = FIRST.lock().unwrap_or_else(PoisonError::into_inner);
    match first.iter().find(|(known, _)| *known == request) {
        Some((_, known)) if known != ids => Extent::Part,
        Some(_) => Extent::Job,
        None => {
            first.push((request, ids.to_vec()));
            Extent::Job
        }
    }
}

/// A communicator whose ranks were to meet by `ids` was not made: the next one is the first again.
pub fn not_made(ids: &[[u8; 128]]) {
    let mut first = FIRST.lock().unwrap_or_else(PoisonError::into_inner);
    first.retain(|(_, known)| known != ids);
}

/// Requests, each with the ids by which the ranks of its first communicator meet.
static FIRST: Mutex<Vec<(u64, Vec<[u8; 128]>)>> = Mutex::new(Vec::new());

/// A number that stands for the files and overrides.
fn request(settings: &Settings) -> u64 {
    let mut hasher = DefaultHasher::new();
    for file in &settings.files {
        (&file.name, &file.content).hash(&mut hasher);
    }
    let tuning = settings.tuning.as_ref().map(|tuning| (tuning.name(), tuning.to_string()));
    tuning.hash(&mut hasher);
    format!("{:?} {:?}", settings.overrides, settings.specialised.mode).hash(&mut hasher);
    hasher.finish()
}

fn is_new(text: &str) -> bool {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    SAID.lock().unwrap_or_else(PoisonError::into_inner).insert(text.to_owned())
}
