//! How many file descriptors a process may have, where one rank holds a connection to every other.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::log::{Event, Log};

/// What a process needs besides connections: libraries, devices, files.
const OTHERS: u64 = 512;

/// Sees to it that this process may hold `connections` more descriptors, by raising the soft limit as
/// far as the hard one. Small jobs change nothing. What cannot be had is told, and fails later only if
/// it is really needed.
pub(crate) fn make_room_for(connections: u32, log: &dyn Log) {
    let needed = u64::from(connections).saturating_add(OTHERS);
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // No limit is room for all.
    if current.is_none_or(|current| current >= needed) {
        return;
    }
    let wanted = maximum.map_or(needed, |maximum| maximum.min(needed));
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
    let now = if raised.is_ok() { Some(wanted) } else { current };
    if now.is_some_and(|now| now < needed) {
        let now = now.unwrap_or_default();
        log.event(&Event::Trouble(format!(
            "{connections} ranks connect to this process, which may hold {now} file descriptors; raise \
             the limit (ulimit -Hn) to {needed}"
        )));
    }
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

    #[test]
    fn the_limit_grows_with_the_job_and_what_is_missing_is_told() {
        let before = getrlimit(Resource::Nofile);
        let diary = Diary::default();
        make_room_for(1, &diary);
        assert_eq!(getrlimit(Resource::Nofile), before);
        setrlimit(Resource::Nofile, Rlimit { current: Some(600), maximum: before.maximum })
            .unwrap();
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
}
