//! How many file descriptors a process may have, and what it is called when there are no more.
//!
//! What communicators hold is added to the soft limit that the process had before the first one, as
//! far as the hard limit allows: so the application keeps as many as it had.

use std::io;
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::log::{Event, Log};

/// What a process needs besides connections: libraries, devices, files.
const OTHERS: u64 = 512;

/// What all groups of this process hold.
struct Held {
    /// The soft limit before the first of them; none without a limit.
    before: Option<u64>,
    descriptors: u64,
}

static HELD: Mutex<Option<Held>> = Mutex::new(None);

/// Room for the descriptors of one group, until it is dropped. Limits stay where they are then: who
/// knows what else counts on them.
#[derive(Debug)]
pub(crate) struct Room {
    descriptors: u64,
}

impl Room {
    /// Raises the soft limit by `descriptors`, as far as the hard one allows.
    pub(crate) fn make(descriptors: u64) -> Self {
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        let before = || Held { before: getrlimit(Resource::Nofile).current, descriptors: 0 };
        let held = held.get_or_insert_with(before);
        held.descriptors = held.descriptors.saturating_add(descriptors);
        if let Some(before) = held.before {
            raise_to(before.saturating_add(held.descriptors));
        }
        Self { descriptors }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(held) = held.as_mut() {
            held.descriptors = held.descriptors.saturating_sub(self.descriptors);
        }
    }
}

/// Raises the soft limit to `needed`, or as far as the hard one allows; how far it is then, if
/// there is a limit.
fn raise_to(needed: u64) -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // No limit is room for all.
    if current.is_none_or(|current| current >= needed) {
        return current;
    }
    let raised_to = maximum.map_or(needed, |maximum| maximum.min(needed));
    let result = setrlimit(Resource::Nofile, Rlimit { current: Some(raised_to), maximum });
    if result.is_ok() { Some(raised_to) } else { current }
}

/// Sees to it that this process may hold `connections` more descriptors, by raising the soft limit
/// as far as the hard one. Small jobs change nothing. What cannot be had is logged, and fails later
/// only if it is really needed.
pub(crate) fn make_room_for(connections: u32, log: &dyn Log) {
    let needed = u64::from(connections).saturating_add(OTHERS);
    // The limit of a small job may be as low as its user likes.
    if let Some(now) =
        raise_to(needed).filter(|now| *now < needed && u64::from(connections) > OTHERS)
    {
        log.event(&Event::Trouble(format!(
            "{connections} ranks connect to this process, which may hold {now} file descriptors; \
             raise the limit (ulimit -Hn) to {needed}"
        )));
    }
}

/// How many descriptors this process may have; none without a limit.
pub(crate) fn soft_limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Whether `error` says that there are no descriptors left, in this process or on this host.
pub(crate) fn are_used_up(error: &io::Error) -> bool {
    let codes = [Errno::MFILE, Errno::NFILE].map(Errno::raw_os_error);
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}

/// What to do about `error`, if it says that there are no descriptors left.
pub(crate) fn advice(error: &io::Error) -> Option<String> {
    if error.raw_os_error() == Some(Errno::NFILE.raw_os_error()) {
        return Some("this host has no file descriptors left (sysctl fs.file-max)".to_owned());
    }
    are_used_up(error).then(used_up)
}

/// That this process has no descriptors left.
pub(crate) fn used_up() -> String {
    let limit = soft_limit().map_or_else(|| "no limit".to_owned(), |limit| limit.to_string());
    format!("this process has no file descriptors left (limit {limit}); raise it (ulimit -n)")
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[derive(Default)]
    struct Diary(Mutex<Vec<String>>);

    impl Log for Diary {
        fn event(&self, event: &Event) {
            self.0.lock().unwrap().push(event.to_string());
        }
    }

    /// One test, since limits are those of the process.
    #[test]
    fn the_limit_grows_with_the_job_and_what_is_missing_is_logged() {
        let before = getrlimit(Resource::Nofile);
        let soft = |limit| {
            setrlimit(Resource::Nofile, Rlimit { current: Some(limit), maximum: before.maximum })
                .unwrap();
        };
        let diary = Diary::default();
        make_room_for(1, &diary);
        assert_eq!(getrlimit(Resource::Nofile), before);
        soft(600);
        make_room_for(400, &diary);
        assert_eq!(getrlimit(Resource::Nofile).current, Some(912));
        assert!(diary.0.lock().unwrap().is_empty());
        if before.maximum.is_some() {
            make_room_for(u32::MAX, &diary);
            let said = diary.0.lock().unwrap().concat();
            assert!(said.contains("raise the limit (ulimit -Hn) to 4294967807"), "{said}");
            assert_eq!(getrlimit(Resource::Nofile).current, before.maximum);
        }
        setrlimit(Resource::Nofile, before).unwrap();
    }

    #[test]
    fn errors_are_named_as_what_they_are() {
        assert!(advice(&Errno::NOENT.into()).is_none());
        assert!(advice(&Errno::NFILE.into()).unwrap().contains("fs.file-max"));
        assert!(advice(&Errno::MFILE.into()).unwrap().contains("ulimit -n"));
    }
}
