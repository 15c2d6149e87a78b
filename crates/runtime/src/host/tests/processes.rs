//! Ranks as processes: this test binary runs itself once per rank.

use std::io::{Write, stdin};
use std::process::{Child, Command, Stdio};

use msccl_fabric::UniqueId;
use msccl_plan::Direction;

use super::collectives::long_chunks;
use super::world::{join, meeting_point, transfer};
use crate::engine::Engine;

const RANKS: u32 = 4;

#[test]
fn processes_do_what_threads_do() {
    let id = meeting_point();
    let children: Vec<_> = (0..RANKS).map(|rank| spawn(&id, rank)).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
    }
}

/// A process that gets its rank and runs [`rank_process`].
fn spawn(id: &UniqueId, rank: u32) -> Child {
    let mut child = Command::new("/proc/self/exe")
        .args(["host::tests::processes::rank_process", "--exact", "--ignored"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    writeln!(child.stdin.take().unwrap(), "{rank} {id}").unwrap();
    child
}

#[test]
#[ignore = "not a test by itself: what a child process runs"]
fn rank_process() {
    let mut line = String::new();
    stdin().read_line(&mut line).unwrap();
    let (rank, id) = line.trim().split_once(' ').expect("the line that a parent writes");
    let place = join(id.parse().unwrap(), rank.parse().unwrap(), RANKS);
    long_chunks()(&place);
    let me = place.me.0;
    let (mut there, mut back) = (vec![me as u8; 300_000], vec![0; 300_000]);
    let transfers = [
        transfer((me + 1) % RANKS, Direction::Out, &mut there),
        transfer((me + RANKS - 1) % RANKS, Direction::In, &mut back),
    ];
    place.rank.transfers(&transfers, 0, 100).unwrap();
    assert!(back.iter().all(|&byte| u32::from(byte) == (me + RANKS - 1) % RANKS));
}
