//! Whole communicators over the RDMA devices of the test bed: what must be right over RDMA, in few
//! calls, since Soft-RoCE is slow.

use std::time::Duration;

use msccl_collective::{CollectiveKind, DataType};
use msccl_runtime::Settings;

use super::test_bed::{Patience, RdmaTestBed};
use super::{Site, forced, loaded, sent};
use crate::case::Case;
use crate::sections::point_to_point::{Message, exchange};
use crate::sections::{Bench, Section, every_collective, placements};
use crate::tally::Tally;

/// The section.
pub const SECTION: Section = Section {
    name: "rdma-calls",
    about: "2 to 8 ranks over the test bed's RDMA devices: collectives, sends, hierarchical \
        algorithms, XML",
    run,
};

/// Devices, which hosts divide among themselves: two hosts have two rails.
const DEVICES: u32 = 4;

/// How long a call may take without ending or waiting: eight ranks, their proxies and Soft-RoCE
/// share the few processors of a guest, and what else the machine does slows all of them. An
/// all-reduce of 16 MiB on four hosts took 128 s on a slow one.
const TIMEOUT: Duration = Duration::from_secs(240);

/// Ranks, and the hosts that they are spread over.
const SHAPES: &[(u32, u32)] = &[(2, 2), (4, 2), (8, 4), (4, 4), (8, 2)];

/// What the names of algorithms contain that know of hosts: the all-to-all in two steps is called
/// after its rails.
const TWO_LEVELS: &[&str] = &["hierarchical", "rail_first"];

fn run(bench: &Bench, tally: &mut Tally) {
    let Some(test_bed) = RdmaTestBed::find(DEVICES, tally) else { return };
    let site = |(ranks, hosts)| {
        let (hosts, settings) = (test_bed.hosts(hosts), test_bed.settings(Patience::DEFAULT));
        let settings = Settings { timeout: Some(TIMEOUT), ..settings };
        Site { bench, ranks, hosts, settings }
    };
    for &shape in bench.some(SHAPES, 3) {
        let site = site(shape);
        small(&site, tally);
        // Everyone to everyone takes all links, whose memory is what takes time.
        sent(&site, if site.ranks < 8 { &[1, 10_007] } else { &[10_007] }, tally);
    }
    for shape in [(4, 2), (8, 4)] {
        forced(&site(shape), TWO_LEVELS, &[1003], tally);
    }
    loaded(&site((4, 2)), &[1008, 50_400], tally);
    for shape in [(2, 2), (4, 2), (8, 4)] {
        large(&site(shape), tally);
    }
    let connected = test_bed.log.connected();
    tally.remark(format!("{} connections over RDMA", connected.len()));
    tally.check(|| "all connections are queue pairs".to_owned(), || test_bed.log.all_over_rdma());
}

/// Every collective with odd counts, from one byte, in place and out of place by turns.
fn small(site: &Site<'_>, tally: &mut Tally) {
    let sizes = [(1, DataType::U8), (1003, DataType::F16), (5003, DataType::F32)];
    let mut cases = Vec::new();
    for kind in every_collective(site.ranks) {
        let sizes = if kind.root().is_some() { &sizes[1..2] } else { &sizes[..] };
        for (number, &(count, data_type)) in sizes.iter().enumerate() {
            let places = placements(kind);
            let in_place = places[number % places.len()];
            cases.push(Case { count, data_type, in_place, ..Case::of(kind) });
        }
    }
    site.runner("any algorithm").run(cases, "", tally);
}

/// 16 MiB in all, less what makes the count odd, by each of the collectives that people call most;
/// and 16 MiB in one message to another host and back.
fn large(site: &Site<'_>, tally: &mut Tally) {
    const BYTES: usize = 16 << 20;
    let mut runner = site.runner("16 MiB");
    // The one that takes most memory first: memory that is outgrown is not given back.
    for kind in [CollectiveKind::AllToAll, CollectiveKind::AllGather, CollectiveKind::AllReduce] {
        let (blocks, in_place) = match kind {
            CollectiveKind::AllReduce => (1, true),
            _ => (site.ranks as usize, false),
        };
        let count = BYTES / blocks / DataType::F32.size_bytes() - 1;
        runner.run([Case { count, in_place, ..Case::of(kind) }], "", tally);
    }
    let Some(world) = runner.world(tally) else { return };
    let (first, last) = (0, site.ranks - 1);
    let ways = [(first, last), (last, first)].map(|(from, to)| Message { from, to, bytes: BYTES });
    let name = || format!("{}: a message of 16 MiB there and back", site.describe());
    tally.check(name, || exchange(world, &ways));
}
