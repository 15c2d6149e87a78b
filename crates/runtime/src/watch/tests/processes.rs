//! Ranks as processes: the test binary runs itself once per rank. (Compiled under `#[cfg(test)]`
//! alone.)

use std::env;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use msccl_collective::Rank;
use msccl_fabric::{Group, Settings, UniqueId};
use msccl_processes::{answer, await_line, itself, result};

use super::{Member, gather};
use crate::error::ErrorKind;
use crate::shared_state::tests::{join_request, settings};
use crate::watch::request_report;

/// What a rank does; its line of output says how it went.
type Role = fn(&Member) -> String;

const ROLES: &[(&str, Role)] = &[("victim", victim), ("requested", requested)];

/// Not a test by itself: what a child process runs.
#[test]
fn rank_process() {
    let Ok(role) = env::var("WATCH_ROLE") else { return };
    let number = |name: &str| env::var(name).unwrap().parse::<u32>().unwrap();
    let join_request = join_request(number("WATCH_RANK"), number("WATCH_RANKS"));
    let id = env::var("WATCH_ID").unwrap().parse().unwrap();
    let settings = Settings { host: env::var("WATCH_HOST").ok(), ..settings() };
    let member = Member::new(Group::join(&[id], &join_request, &settings).unwrap());
    let (_, role) = ROLES.iter().find(|(name, _)| *name == role).unwrap();
    answer(&role(&member));
}

/// A process for each rank, all with one role.
fn spawn(role: &str, ranks: u32) -> Vec<Child> {
    spawn_on(role, ranks, |_| None)
}

/// The same, on pretended hosts.
fn spawn_on(role: &str, ranks: u32, host: impl Fn(u32) -> Option<String>) -> Vec<Child> {
    let id = UniqueId::create(&settings()).unwrap();
    let child = |rank: u32| {
        itself("watch::tests::processes::rank_process")
            .env("WATCH_ROLE", role)
            .env("WATCH_ID", id.to_string())
            .env("WATCH_RANK", rank.to_string())
            .env("WATCH_RANKS", ranks.to_string())
            .envs(host(rank).map(|host| ("WATCH_HOST", host)))
            .spawn()
            .unwrap()
    };
    (0..ranks).map(child).collect()
}

/// Every rank waits for the next one; rank 2 is killed meanwhile.
fn victim(member: &Member) -> String {
    let _watch = member.watch(None);
    member.issue_and_wait(&gather(), Rank((member.me().0 + 1) % member.group.ranks()));
    member.group.barrier().unwrap();
    let since = Instant::now();
    println!("\nready");
    let error = member.await_failure(Duration::from_secs(30));
    assert_eq!(error.kind(), ErrorKind::Remote);
    assert!(member.engine.has_stopped());
    // Others must see this rank's failure before it goes.
    thread::sleep(Duration::from_secs(2));
    format!("{} {error}", since.elapsed().as_millis() - 2000)
}

/// Rank 2 of `children`, which lives at `place`, is killed; all others learn of it within
/// `limit_ms`.
fn one_death_fails_all(mut children: Vec<Child>, place: &str, limit_ms: u64) {
    let mut killed = children.remove(2);
    await_line(&mut killed, "ready");
    killed.kill().unwrap();
    let pid = killed.id();
    killed.wait().unwrap();
    let results: Vec<_> = children.into_iter().map(result).collect();
    let end = "call 1, allgather of 1024 f32 cannot finish";
    for (rank, result) in [0, 1, 3].into_iter().zip(results) {
        let wait = format!("on r{rank} tb0 s0 waits for message 7 from r{} on ch0", (rank + 1) % 4);
        let (millis, text) = result.split_once(' ').unwrap();
        let cause = format!("r2 (pid {pid}{place}) is dead: its connection ended");
        assert_eq!(text, format!("{cause}; {wait}; {end}"));
        assert!(millis.parse::<u64>().unwrap() < limit_ms, "{result}");
    }
}

#[test]
fn the_death_of_a_rank_fails_all_others() {
    one_death_fails_all(spawn("victim", 4), "", 2000);
}

/// Rank 2, the node leader of its host, is killed: rank 3 takes over, and all learn of everything.
#[test]
fn the_death_of_a_node_leader_fails_all_others() {
    let children = spawn_on("victim", 4, |rank| Some(format!("host{}", rank / 2)));
    one_death_fails_all(children, " on host1", 2500);
}

/// Rank 0 waits for rank 1, which has nothing to do; rank 1's process gets a request for a report.
fn requested(member: &Member) -> String {
    let _watch = member.watch(None);
    if member.me() == Rank(0) {
        member.issue_and_wait(&gather(), Rank(1));
    }
    member.group.barrier().unwrap();
    if member.me() == Rank(1) {
        request_report();
    }
    thread::sleep(Duration::from_secs(1));
    member.group.barrier().unwrap();
    assert_eq!(member.failure.get(), None);
    let id = format!("{:016x}", member.group.id());
    format!("{:?}", member.event_log.reports()).replace(&id, "[id]")
}

#[test]
fn the_process_that_gets_the_request_reports() {
    let [first, second] = spawn("requested", 2).try_into().unwrap();
    assert_eq!(result(first), "[]");
    insta::assert_snapshot!(result(second), @r#"["=> r1 holds up r0: it has not entered call 1 (it has made no call)\nwho waits for whom among the 2 ranks of [id], reported by r1: as requested\n  r0: in call 1, allgather of 1024 f32\n  r1: has made no call\n  r0 tb0 s0 waits for message 7 from r1 on ch0; r1 has not entered this collective (it has made no call)"]"#);
}

#[test]
fn a_report_covers_several_hosts() {
    let children = spawn_on("requested", 4, |rank| Some(format!("host{}", rank % 2)));
    let results: Vec<_> = children.into_iter().map(result).collect();
    assert_eq!([&results[0], &results[2], &results[3]], ["[]"; 3]);
    insta::assert_snapshot!(results[1], @r#"["=> r1-r3 hold up r0: each has not entered call 1 (it has made no call)\nwho waits for whom among the 4 ranks of [id], reported by r1: as requested\n  r0: in call 1, allgather of 1024 f32\n  r1-r3: has made no call\n  r0 tb0 s0 waits for message 7 from r1 on ch0; r1 has not entered this collective (it has made no call)"]"#);
}
