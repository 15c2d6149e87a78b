//! What communicators across hosts leave behind; alone in its process, since it counts what that
//! has.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod world;

use std::path::Path;

use msccl_runtime::Settings;

use world::{all_reduce, world_on};

/// Entries of a folder of this process.
fn count(folder: &str) -> usize {
    Path::new("/proc/self").join(folder).read_dir().unwrap().count()
}

#[test]
fn no_thread_and_no_file_is_left() {
    let use_once = || {
        world_on(4, &|rank| Some(format!("host{}", rank / 2)), &Settings::default(), |all| {
            assert_eq!(all_reduce(&all, 100).unwrap(), [10; 100]);
            let part = all.split(Some(all.rank().0 % 2), 0, None).unwrap().unwrap();
            all_reduce(&part, 100).unwrap();
        });
    };
    use_once();
    let before = [count("fd"), count("task")];
    (0..10).for_each(|_| use_once());
    assert_eq!([count("fd"), count("task")], before);
}
