//! Links over queue pairs: which rails are chosen, and what happens when a device breaks.

#[allow(dead_code, reason = "other tests use more of it")]
#[path = "../../../tests/proxy/world.rs"]
mod world;

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use msccl_collective::Rank;
use msccl_fabric::{Abort, Group};

use msccl_topology::Topology;

use super::loopback::{self, API, OfDevice, REFUSES, STRAIGHT};
use crate::config::{Config, Gpu, MachineFacts, RdmaConfig};
use crate::proxy::Proxy;
use crate::rdma::Devices;
use crate::ring_buffers;
use world::{Diary, Ends, SHAPES, run, talk};

/// Starts a proxy whose devices are those of the library in this process.
fn start(group: &Arc<Group>, hca: &str, log: &Arc<Diary>) -> Proxy {
    let rdma = RdmaConfig { hca: Some(hca.to_owned()), ..RdmaConfig::default() };
    let devices = Devices::open(&API, &rdma);
    let config = Config { rdma, log: log.clone(), ..Config::default() };
    Proxy::start_with(devices, group.clone(), config, Abort::new()).unwrap()
}

/// Where the memory of links to one peer begins, besides the ends.
fn connect(proxy: &Proxy, peer: Rank) -> (Vec<Ends>, usize) {
    let pair = ring_buffers::pair(&SHAPES, &proxy.doorbell()).unwrap();
    let base = pair.endpoints.memory.address() as usize;
    proxy.connect(peer, pair.endpoints).unwrap();
    (vec![Ends { peer, senders: pair.senders, receivers: pair.receivers }], base)
}

/// Two ranks, of which each starts a proxy by `start`, talk; answers what the log says of
/// connections.
fn choice(start: impl Fn(&Arc<Group>, &Arc<Diary>) -> Proxy + Sync) -> Vec<String> {
    let diary = Arc::new(Diary::default());
    run(2, |group| {
        let proxy = start(&group, &diary);
        let (mut ends, _) = connect(&proxy, Rank(1 - group.rank().0));
        talk(group.rank(), &mut ends, 0, 100);
        group.barrier().unwrap();
        assert_eq!(proxy.failure(), None);
    });
    let lines = diary.lines().into_iter().filter(|line| line.starts_with("links to "));
    let mut lines: Vec<_> = lines.collect();
    lines.sort();
    lines
}

#[test]
fn rails_are_pairs_of_devices_if_both_have_some() {
    let lines = choice(|group, log| start(group, "", log));
    let rails = "loop0:1 → loop0:1, loop1:1 → loop1:1 (RDMA on both hosts)";
    assert_eq!(lines, [0, 1].map(|peer| format!("links to r{peer} go over {rails}")));
}

#[test]
fn without_devices_on_one_side_links_go_over_tcp() {
    let lines = choice(|group, log| match group.rank() {
        Rank(0) => start(group, "", log),
        _ => {
            let config = Config { log: log.clone(), ..world::config() };
            Proxy::start(group.clone(), config, Abort::new()).unwrap()
        }
    });
    assert!(
        lines[0].starts_with("links to r0 go over TCP 0 ")
            && lines[0].ends_with("(RDMA is switched off)"),
        "{lines:?}"
    );
    assert!(lines[1].ends_with("(the peer: RDMA is switched off)"), "{lines:?}");
}

#[test]
fn where_connecting_fails_links_go_over_tcp() {
    let lines =
        choice(|group, log| start(group, if group.rank() == Rank(1) { REFUSES } else { "" }, log));
    let why = "loop0 → loop0: no path to that GID";
    assert!(
        lines[0].starts_with("links to r0 go over TCP 0 ")
            && lines[0].ends_with(&format!("({why})")),
        "{lines:?}"
    );
    assert!(lines[1].ends_with(&format!("(the peer: {why})")), "{lines:?}");
}

/// A host with a GPU and a device behind each of two PCI switches.
fn machine(gpu: u32) -> MachineFacts {
    let pci = |bus: String, class: &str, inside: String| {
        format!("<pci busid=\"0000:{bus}:00.0\" class=\"{class}\">{inside}</pci>")
    };
    let switch = |at: u32| {
        let gpu = pci(format!("1{at}"), "0x030200", format!("<gpu dev=\"{at}\"/>"));
        let net = format!("<nic><net name=\"loop{at}\" dev=\"{at}\"/></nic>");
        let nic = pci(format!("2{at}"), "0x020700", net);
        pci(format!("3{at}"), "0x060400", gpu + &nic)
    };
    let text = format!("<system><cpu numaid=\"0\">{}{}</cpu></system>", switch(0), switch(1));
    let topology = Topology::new(msccl_topology::xml::read(&text).unwrap().system);
    let bus_id = format!("0000:1{gpu}:00.0").parse().unwrap();
    MachineFacts {
        topologies: Arc::new(move || vec![topology.clone()]),
        gpu: Some(Gpu { bus_id, around: Vec::new() }),
    }
}

/// Which rails two ranks have whose GPUs are near the devices `near`, over the network `hca`, if
/// rails may join different places as `crosses` says by rank.
#[track_caller]
fn check_near(near: [u32; 2], hca: &str, crosses: [bool; 2], rails: &str, why: &str) {
    let lines = choice(|group, log| {
        let me = group.rank().index();
        let hca = Some(hca.to_owned());
        let rdma = RdmaConfig { hca, crosses: crosses[me], ..RdmaConfig::default() };
        let (devices, machine) = (Devices::open(&API, &rdma), machine(near[me]));
        let config = Config { rdma, machine, log: log.clone(), ..Config::default() };
        Proxy::start_with(devices, group.clone(), config, Abort::new()).unwrap()
    });
    assert_eq!(lines[1], format!("links to r1 go over {rails} (RDMA on both hosts{why})"));
}

#[test]
fn rails_join_what_is_near_at_both_ends() {
    let free = [true, true];
    check_near([1, 1], "", free, "loop1:1 → loop1:1", "");
    check_near([0, 1], "", free, "loop0:1 → loop1:1", "");
    check_near([1, 0], "", free, "loop1:1 → loop0:1", "");
}

#[test]
fn rails_keep_to_their_places_if_one_rank_wants_that() {
    let both = "loop0:1 → loop0:1, loop1:1 → loop1:1";
    check_near([0, 1], "", [true, false], both, "");
    check_near([0, 1], "", [false, false], both, "");
    check_near([0, 0], "", [false, true], "loop0:1 → loop0:1", "");
}

#[test]
fn rails_keep_to_their_places_where_nothing_else_can_be_connected() {
    let both = "loop0:1 → loop0:1, loop1:1 → loop1:1";
    let why = "; not by distance: loop0 → loop1: no path to that GID";
    check_near([0, 1], STRAIGHT, [true, true], both, why);
}

#[test]
fn what_a_rank_uses_is_described_with_the_reason() {
    let diary = Arc::new(Diary::default());
    run(1, |group| {
        let devices = Devices::open(&API, &RdmaConfig::default());
        let (log, machine) = (diary.clone(), machine(1));
        let config = Config { machine, log, ..Config::default() };
        Proxy::start_with(devices, group, config, Abort::new()).unwrap();
    });
    let devices = "loop0:1 (RoCE, 100 Gbit/s), loop1:1 (RoCE, 100 Gbit/s)";
    let why = "this rank uses loop1:1 (nearest to GPU 0000:11:00.0: PIX)";
    assert_eq!(diary.lines()[0], format!("RDMA: {devices}; {why}"));
}

#[test]
fn a_device_that_breaks_loses_nothing_and_the_last_one_fails() {
    let diary = Arc::new(Diary::default());
    let failures = run(2, |group| {
        let proxy = start(&group, "", &diary);
        let me = group.rank();
        let (mut ends, base) = connect(&proxy, Rank(1 - me.0));
        talk(me, &mut ends, 0, 20);
        group.barrier().unwrap();
        thread::scope(|scope| {
            scope.spawn(|| talk(me, &mut ends, 20, 3000));
            if me == Rank(0) {
                thread::sleep(Duration::from_millis(15));
                assert_eq!(loopback::break_device(0, &[base]), 1);
            }
        });
        group.barrier().unwrap();
        assert_eq!(proxy.failure(), None);
        assert_eq!(proxy.waits()[0].rails, ["loop1:1 → loop1:1"]);
        group.barrier().unwrap();
        assert_eq!(loopback::break_device(1, &[base]), 1);
        let failure = world::wait_for(|| proxy.failure());
        group.barrier().unwrap();
        failure
    });
    for (failure, peer) in failures.iter().zip([1, 0]) {
        assert_eq!((failure.peer, failure.rail.as_str()), (Rank(peer), "loop1:1 → loop1:1"));
        assert_eq!(failure.why, "retries exceeded (status 12)");
    }
}

/// Two ranks talk, of which the first has its slots in memory of a device. Answers what the log
/// says to it of the connection, and whether its devices, of the context of `hca`, could register
/// the memory.
fn of_device(hca: &str) -> (String, Result<(), String>) {
    let diary = Arc::new(Diary::default());
    let registered = run(2, |group| {
        let me = group.rank();
        let proxy = match me {
            Rank(0) => start(&group, hca, &diary),
            _ => start(&group, "", &Arc::default()),
        };
        let mut pair = ring_buffers::pair(&SHAPES, &proxy.doorbell()).unwrap();
        if me == Rank(0) {
            pair.endpoints.memory = Arc::new(OfDevice(pair.ring_buffers.clone()));
        }
        let registered = proxy.register(&pair.endpoints.memory);
        let peer = Rank(1 - me.0);
        proxy.connect(peer, pair.endpoints).unwrap();
        let mut ends = [Ends { peer, senders: pair.senders, receivers: pair.receivers }];
        talk(me, &mut ends, 0, 100);
        group.barrier().unwrap();
        assert_eq!(proxy.failure(), None);
        registered.map(drop)
    });
    let line = diary.lines().into_iter().find(|line| line.starts_with("links to "));
    (line.unwrap(), registered.into_iter().next().unwrap())
}

#[test]
fn memory_of_a_device_is_reached_by_its_dma_buf() {
    let (line, registered) = of_device(loopback::MAPS);
    assert_eq!(registered, Ok(()));
    let expected = "links to r1 go over loop0:1 → loop0:1, loop1:1 → loop1:1 (RDMA on both hosts), \
                    with slots in memory of a device";
    assert_eq!(line, expected);
}

#[test]
fn memory_of_a_device_that_cannot_be_registered_is_copied_over_tcp() {
    let (line, registered) = of_device("");
    let why = "loop0: EOPNOTSUPP; loop1: EOPNOTSUPP";
    assert_eq!(registered, Err(why.to_owned()));
    assert!(line.starts_with("links to r1 go over TCP 0 "), "{line}");
    assert!(line.ends_with(&format!("({why}), with slots in memory of a device")), "{line}");
}
