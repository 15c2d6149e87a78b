//! Ranks in processes of their own, which can be killed.

use std::env;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use msccl_collective::Rank;
use msccl_fabric::{Abort, Group, UniqueId};
use msccl_proxy::Proxy;

use crate::world::{SHAPES, config, connect_all, join_request, settings, talk, wait_for};

const ID: &str = "PROXY_TEST_ID";

/// Runs `test`, which is ignored otherwise, in a process of its own.
pub fn alone(test: &str) {
    let output = command(test).stdout(Stdio::piped()).stderr(Stdio::piped()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}{errors}");
}

fn command(test: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "--ignored", "--nocapture", test]);
    command
}

/// Ends its process with it.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn join(id: UniqueId, rank: u32) -> (Arc<Group>, Proxy) {
    let group = Arc::new(Group::join(&[id], &join_request(rank, 3), &settings()).unwrap());
    let proxy = Proxy::start(group.clone(), config(), Abort::new()).unwrap();
    (group, proxy)
}

/// Ranks 1 and 2 live on, rank 0 is this test; rank 2 is killed.
#[test]
fn a_killed_peer_is_named_and_others_go_on() {
    let id = UniqueId::create(&settings()).unwrap();
    let start = |rank: u32| {
        let test = "processes::lives_as_a_child";
        let text = id.to_string();
        let child = command(test).env(ID, format!("{text} {rank}")).stdout(Stdio::null()).spawn();
        Killed(child.unwrap())
    };
    let (_one, mut two) = (start(1), start(2));
    let (group, proxy) = join(id, 0);
    let mut ends = connect_all(&proxy, &group, &SHAPES);
    talk(Rank(0), &mut ends, 0, 50);
    group.send(Rank(1), 1, b"talked").unwrap();
    group.receive(Rank(1), 1).unwrap();
    two.0.kill().unwrap();
    let since = Instant::now();
    let failure = wait_for(|| proxy.failure());
    assert!(since.elapsed() < Duration::from_secs(5), "it took {:?}", since.elapsed());
    assert_eq!(failure.peer, Rank(2), "{failure}");
    let host = &group.peer(Rank(2)).unwrap().host_name;
    assert!(failure.to_string().contains(&format!("r2 on host {host}")), "{failure}");
    let mut rest: Vec<_> = ends.into_iter().filter(|ends| ends.peer == Rank(1)).collect();
    talk(Rank(0), &mut rest, 50, 100);
    assert_eq!(proxy.failures().len(), 1);
}

#[test]
#[ignore = "a rank that other tests start"]
fn lives_as_a_child() {
    let Ok(life) = env::var(ID) else { return };
    let (id, rank) = life.split_once(' ').unwrap();
    let rank = rank.parse().unwrap();
    let (group, proxy) = join(id.parse().unwrap(), rank);
    let mut ends = connect_all(&proxy, &group, &SHAPES);
    talk(Rank(rank), &mut ends, 0, 50);
    if rank == 2 {
        std::thread::sleep(Duration::from_secs(60));
        return;
    }
    group.receive(Rank(0), 1).unwrap();
    group.send(Rank(0), 1, b"talked").unwrap();
    assert_eq!(wait_for(|| proxy.failure()).peer, Rank(2));
    let mut rest: Vec<_> = ends.into_iter().filter(|ends| ends.peer == Rank(0)).collect();
    talk(Rank(1), &mut rest, 50, 100);
}
