//! Ranks as processes: this test binary runs itself once per rank.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::process::{Child, Command};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use msccl_collective::Rank;
use msccl_fabric::{
    ErrorKind, Filter, Group, RingBufferShape, RingBuffers, Settings, SharedMemory, UniqueId,
};
use msccl_processes::{answer, await_line, playing, result};
use rustix::process::{Pid, Signal, kill_process};

use crate::links::{check_samples, send_samples};
use crate::world::{request, settings};

/// What a rank does; its line of output says how it went.
type Role = fn(Group) -> String;

const ROLES: &[(&str, Role)] = &[
    ("gather", gather),
    ("victim", victim),
    ("stopped", stopped),
    ("memory", memory),
    ("ring_buffers", ring_buffers),
    ("family", family),
    ("hosts", hosts),
    ("bridged", bridged),
    ("cut_off", cut_off),
];

/// Not a test by itself: what a child process runs.
#[test]
fn rank_process() {
    let Ok(role) = env::var("FABRIC_ROLE") else { return };
    let number = |name: &str| env::var(name).unwrap().parse::<u32>().unwrap();
    let id = env::var("FABRIC_ID").unwrap().parse().unwrap();
    // Under `tests/namespaces/run`, which gives ranks like any launcher.
    let launched =
        |ours: &str, theirs: &str| number(if env::var(ours).is_ok() { ours } else { theirs });
    let request =
        request(launched("FABRIC_RANK", "MSCCL_RANK"), launched("FABRIC_RANKS", "MSCCL_RANKS"));
    let mut settings = settings();
    if let Ok(names) = env::var("FABRIC_INTERFACE") {
        settings.interface.filter = Filter::parse(&names);
    }
    if env::var("FABRIC_TIMEOUT_S").is_ok() {
        let seconds = number("FABRIC_TIMEOUT_S").into();
        settings.operation_timeout = Some(Duration::from_secs(seconds));
    }
    if env::var("FABRIC_JOIN_S").is_ok() {
        settings.join_timeout = Duration::from_secs(number("FABRIC_JOIN_S").into());
    }
    let group = Group::join(&[id], &request, &settings).unwrap();
    let (_, role) = ROLES.iter().find(|(name, _)| *name == role).unwrap();
    answer(&role(group));
}

/// The command that runs rank `rank`, for callers who want to wrap it.
pub fn command(program: &mut Command, role: &str, id: &UniqueId, rank: u32, ranks: u32) -> Child {
    playing(program, "processes::rank_process")
        .env("FABRIC_ROLE", role)
        .env("FABRIC_ID", id.to_string())
        .env("FABRIC_RANK", rank.to_string())
        .env("FABRIC_RANKS", ranks.to_string())
        .spawn()
        .unwrap()
}

/// A process for each rank, all with one role.
fn spawn(role: &str, ranks: u32) -> Vec<Child> {
    let id = UniqueId::create(&settings()).unwrap();
    let own = || Command::new(env::current_exe().unwrap());
    (0..ranks).map(|rank| command(&mut own(), role, &id, rank, ranks)).collect()
}

fn gather(group: Group) -> String {
    let all = group.all_gather(&[group.rank().0 as u8]).unwrap().concat();
    let expected: Vec<_> = (0..group.ranks() as u8).collect();
    assert_eq!(all, expected);
    let peers: Vec<_> = group.peers().collect();
    let me = group.peer(group.rank()).unwrap();
    assert_eq!(me.pid, std::process::id());
    assert!(peers.iter().all(|peer| peer.same_process(me) == (peer.rank == me.rank)));
    let pids: Vec<_> = peers.iter().map(|peer| peer.pid.to_string()).collect();
    pids.join(" ")
}

#[test]
fn processes_find_one_another() {
    for ranks in [2, 8, 24] {
        let children = spawn("gather", ranks);
        let pids: Vec<_> = children.iter().map(|child| child.id().to_string()).collect();
        for child in children {
            assert_eq!(result(child), pids.join(" "));
        }
    }
}

/// Rank 2, or the rank that its environment names, waits to be killed while the others gather.
fn victim(group: Group) -> String {
    let victim = Rank(env::var("FABRIC_VICTIM").unwrap().parse().unwrap());
    // Everyone has connected to everyone whom it will wait for.
    group.barrier().unwrap();
    println!("\nready");
    if group.rank() == victim {
        thread::sleep(Duration::from_secs(60));
    }
    let since = Instant::now();
    let error = group.all_gather(&[1]).unwrap_err();
    assert!(since.elapsed() < Duration::from_secs(5));
    assert_eq!((error.kind(), error.ranks()), (ErrorKind::RankLost, &[victim][..]));
    // Nobody leaves before all have seen it: the survivors go on without the victim.
    group.shrink(&[victim], &settings()).unwrap().barrier().unwrap();
    error.to_string()
}

#[test]
fn a_killed_rank_is_named_and_survived() {
    for victim in [2, 0] {
        let id = UniqueId::create(&Settings::default()).unwrap();
        let mut children: Vec<_> = (0..4)
            .map(|rank| {
                let mut own = Command::new(env::current_exe().unwrap());
                own.env("FABRIC_VICTIM", victim.to_string());
                command(&mut own, "victim", &id, rank, 4)
            })
            .collect();
        let mut killed = children.remove(victim);
        await_line(&mut killed, "ready");
        thread::sleep(Duration::from_millis(50));
        killed.kill().unwrap();
        let pid = killed.id();
        killed.wait().unwrap();
        for child in children {
            let text = result(child);
            assert!(text.starts_with(&format!("rank {victim} (host ")), "{text}");
            assert!(text.contains(&format!(", pid {pid}) ")), "{text}");
        }
    }
}

/// Rank 1 is stopped while ranks set something up; rank 2 waits for it, and rank 0 for all.
fn stopped(group: Group) -> String {
    group.begin_setup();
    group.barrier().unwrap();
    if group.rank() == Rank(1) {
        println!("\nready");
        thread::sleep(Duration::from_secs(60));
    }
    // Rank 1 is stopped meanwhile. No rank but the hub has a connection to it.
    thread::sleep(Duration::from_millis(300));
    if group.rank() == Rank(2) {
        let way = env::var("FABRIC_WAY").unwrap();
        let waited = match way.as_str() {
            "send" => group.send(Rank(1), 7, b"hello"),
            "receive" => group.receive(Rank(1), 7).map(drop),
            "send_fd" => group.send_fd(Rank(1), 7, fs::File::open("/dev/null").unwrap()),
            "receive_fd" => group.receive_fd(Rank(1), 7).map(drop),
            other => panic!("there is no way {other}"),
        };
        let error = waited.unwrap_err();
        group.give_up(&error);
        return format!("{:?} {error}", error.ranks());
    }
    let error = group.barrier().unwrap_err();
    format!("{:?} {error}", error.ranks())
}

/// Whoever waits for a rank that is stopped is not blamed for it, whatever it waits for.
#[test]
fn a_stopped_rank_is_named_by_all() {
    for way in ["send", "receive", "send_fd", "receive_fd"] {
        let id = UniqueId::create(&settings()).unwrap();
        let mut children: Vec<_> = (0..3)
            .map(|rank| {
                let mut own = Command::new(env::current_exe().unwrap());
                own.env("FABRIC_WAY", way).env("FABRIC_JOIN_S", "2");
                command(&mut own, "stopped", &id, rank, 3)
            })
            .collect();
        let mut victim = children.remove(1);
        await_line(&mut victim, "ready");
        let pid = Pid::from_child(&victim);
        kill_process(pid, Signal::STOP).unwrap();
        let [hub, other] = <[Child; 2]>::try_from(children).unwrap();
        let texts = [result(hub), result(other)];
        victim.kill().unwrap();
        victim.wait().unwrap();
        // Of rank 2 the hub may learn first that it gave up, and why.
        assert!(texts.iter().all(|text| text.contains(" rank 1 ")), "{way}: {texts:?}");
    }
}

/// Rank 0 shares memory in which every rank leaves its mark.
fn memory(group: Group) -> String {
    let bytes = 1 << 20;
    let memory = match group.rank() {
        Rank(0) => {
            let memory = SharedMemory::create(bytes).unwrap();
            for peer in group.peers().skip(1) {
                assert!(peer.shares_descriptors(group.peer(Rank(0)).unwrap()));
                group.send_fd(peer.rank, 1, memory.descriptor().unwrap()).unwrap();
            }
            memory
        }
        _ => SharedMemory::open(group.receive_fd(Rank(0), 1).unwrap(), bytes).unwrap(),
    };
    let word = |rank: usize| memory.word(bytes - 8 * (rank + 1)).unwrap();
    word(group.rank().index()).store(u64::from(std::process::id()), Ordering::Release);
    group.barrier().unwrap();
    for (rank, peer) in group.peers().enumerate() {
        assert_eq!(word(rank).load(Ordering::Acquire), u64::from(peer.pid));
    }
    "shared".to_owned()
}

/// Every rank receives from every other one through ring buffers in its own memory.
fn ring_buffers(group: Group) -> String {
    let shape = RingBufferShape { depth: 4, slot_bytes: 1000 };
    let ranks = group.ranks() as usize;
    let mine = RingBuffers::create(&vec![shape; ranks]).unwrap();
    let others = || (0..ranks).map(Rank::from).filter(|rank| *rank != group.rank());
    others().for_each(|peer| group.send_fd(peer, 2, mine.descriptor().unwrap()).unwrap());
    thread::scope(|scope| {
        for peer in others() {
            let theirs = RingBuffers::open(group.receive_fd(peer, 2).unwrap()).unwrap();
            let mut sender = theirs.sender(group.rank().index()).unwrap();
            let mut receiver = mine.receiver(peer.index()).unwrap();
            scope.spawn(move || send_samples(&mut sender, 5000));
            scope.spawn(move || check_samples(&mut receiver, 5000));
        }
    });
    "exchanged".to_owned()
}

#[test]
fn processes_share_memory() {
    for child in spawn("memory", 4) {
        assert_eq!(result(child), "shared");
    }
}

#[test]
fn processes_exchange_messages_in_place() {
    for child in spawn("ring_buffers", 3) {
        assert_eq!(result(child), "exchanged");
    }
}

/// The odd ranks form a group of their own and go on after the others have ended.
fn family(group: Group) -> String {
    let rank = group.rank().0;
    let child = group.split(Some(rank % 2), 0, &settings()).unwrap().unwrap();
    drop(group);
    if rank.is_multiple_of(2) {
        return child.ranks().to_string();
    }
    thread::sleep(Duration::from_millis(200));
    let all = child.all_gather(&[rank as u8]).unwrap().concat();
    assert_eq!(all, [1, 3, 5]);
    child.ranks().to_string()
}

#[test]
fn a_split_outlives_its_parent_and_the_parents_hub() {
    for child in spawn("family", 6) {
        assert_eq!(result(child), "3");
    }
}

/// Where everyone listens; descriptors pass between even ranks and between odd ones, no further.
fn hosts(group: Group) -> String {
    let me = group.peer(group.rank()).unwrap();
    for peer in group.peers() {
        let near = peer.rank.0 % 2 == me.rank.0 % 2;
        assert_eq!(peer.shares_descriptors(me), near);
        let memory = SharedMemory::create(1).unwrap();
        let sent = group.send_fd(peer.rank, 1, memory.descriptor().unwrap());
        assert_eq!(sent.is_ok(), near);
        if let Err(error) = sent {
            let text = error.to_string();
            assert!(text.contains("must live in the same network namespace"), "{text}");
        }
    }
    group.barrier().unwrap();
    let addresses: Vec<_> = group.peers().map(|peer| peer.address.ip().to_string()).collect();
    addresses.join(" ")
}

/// Which hosts there are, and where they listen.
fn bridged(group: Group) -> String {
    let all = group.all_gather(&[group.rank().0 as u8]).unwrap();
    assert_eq!(all.len(), group.ranks() as usize);
    let me = group.peer(group.rank()).unwrap();
    let near = group.peers().filter(|peer| peer.same_host(me)).count();
    let addresses: BTreeSet<_> = group.peers().map(|peer| peer.address.ip().to_string()).collect();
    format!(
        "{near} of {} on {}",
        group.ranks(),
        addresses.into_iter().collect::<Vec<_>>().join(" ")
    )
}

/// The last rank's host is cut off while all wait for it.
fn cut_off(group: Group) -> String {
    group.barrier().unwrap();
    if group.rank().0 + 1 == group.ranks() {
        thread::sleep(Duration::from_secs(5));
    }
    let error = group.barrier().unwrap_err();
    format!("{:?} {:?}", error.kind(), error.ranks())
}

#[test]
fn nothing_is_left_behind() {
    // In a process of its own, where nothing else opens files.
    let mut own = Command::new(env::current_exe().unwrap());
    let own = own.args(["processes::cycles", "--exact", "--nocapture"]).env("FABRIC_CYCLES", "100");
    let output = own.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("flat"), "{text}");
}

/// Not a test by itself: joins and leaves again and again, and counts descriptors and threads.
#[test]
fn cycles() {
    let Ok(cycles) = env::var("FABRIC_CYCLES") else { return };
    let count =
        || ["fd", "task"].map(|of| fs::read_dir(format!("/proc/self/{of}")).unwrap().count());
    let cycle = || {
        crate::world::run(3, &settings(), |group| {
            let child = group.split(Some(0), 0, &settings()).unwrap().unwrap();
            let memory = SharedMemory::create(4096).unwrap();
            child.send_fd(Rank(0), 1, memory.descriptor().unwrap()).unwrap();
            let ring_buffers =
                RingBuffers::create(&[RingBufferShape { depth: 1, slot_bytes: 1 }]).unwrap();
            drop((ring_buffers.sender(0).unwrap(), child));
            group.barrier().unwrap();
        });
    };
    cycle();
    let before = settled(count);
    (0..cycles.parse().unwrap()).for_each(|_| cycle());
    assert_eq!(settled(count), before);
    println!("flat");
}

/// What `count` says once roots had time to end.
fn settled(count: impl Fn() -> [usize; 2]) -> [usize; 2] {
    thread::sleep(Duration::from_millis(200));
    count()
}
