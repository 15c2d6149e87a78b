//! Ranks on several hosts, or as if: what crosses from one to another goes by a proxy, over RDMA where the
//! machine has it and its library lies beside this program, over TCP otherwise.

use msccl_collective::DataType;
use msccl_registry::{Registry, Shape, Wanted};
use msccl_runtime::{Settings, Wish};

use super::point_to_point::{Message, exchange};
use super::{Bench, Section, every_collective, placements};
use crate::case::Case;
use crate::examples::{Loadable, loadable};
use crate::runner::Runner;
use crate::tally::Tally;
use crate::world::settings;

/// The section.
pub const SECTION: Section = Section {
    name: "hosts",
    about: "2 to 8 ranks on pretended hosts: every collective, algorithm for several nodes, sends, XML",
    run,
};

/// Ranks, and the hosts that they are spread over.
const SHAPES: &[(u32, u32)] = &[(4, 2), (2, 2), (3, 2), (4, 4), (8, 2), (6, 3), (8, 4)];

/// Elements of a block; 16 MiB of f32 at most.
const COUNTS: &[usize] = &[1003, 150_001, 1, 1 << 20, 0, 1 << 22];

fn run(bench: &Bench, tally: &mut Tally) {
    for &(ranks, hosts) in bench.some(SHAPES, 3) {
        usual(bench, ranks, hosts, tally);
        forced(bench, ranks, hosts, tally);
        sent(bench, ranks, hosts, tally);
    }
    loaded(bench, 4, 2, tally);
}

/// Communicators of `ranks` ranks on `hosts` hosts.
fn runner<'a>(
    bench: &'a Bench,
    ranks: u32,
    hosts: u32,
    settings: Settings,
    what: &str,
) -> Runner<'a> {
    let name = format!("{ranks} ranks on {hosts} hosts, {what}");
    Runner::new(&bench.machine, ranks, settings, name).on_hosts(hosts)
}

/// Every collective, by whatever algorithm serves it.
fn usual(bench: &Bench, ranks: u32, hosts: u32, tally: &mut Tally) {
    let mut cases = Vec::new();
    for wanted in every_collective(ranks) {
        for &in_place in placements(wanted) {
            for &count in bench.some(COUNTS, 2) {
                // Larger blocks times ranks would only take time.
                if count > 1 << 20 && wanted != Wanted::AllReduce {
                    continue;
                }
                let data_type = if count % 2 == 0 { DataType::F32 } else { DataType::F16 };
                cases.push(Case { count, in_place, data_type, ..Case::of(wanted) });
            }
        }
    }
    runner(bench, ranks, hosts, settings(), "any algorithm").run(cases, "", tally);
}

/// Every built-in algorithm, by wish.
fn forced(bench: &Bench, ranks: u32, hosts: u32, tally: &mut Tally) {
    if !ranks.is_multiple_of(hosts) {
        return;
    }
    let registry = Registry::new(Shape { ranks, per_node: ranks / hosts }, &[]);
    let mut names = Vec::new();
    for wanted in every_collective(ranks) {
        for &in_place in placements(wanted) {
            let all = registry.built_in(wanted, in_place);
            names.extend(all.iter().map(|entry| (entry.name.clone(), wanted, in_place)));
        }
    }
    for (name, wanted, in_place) in names {
        let wish = Wish { algorithm: Some(name.clone()), ..Wish::default() };
        let case = |count| Case { count, in_place, data_type: DataType::I32, ..Case::of(wanted) };
        let cases: Vec<_> = bench.some(&[1003, 70_001, 1], 1).iter().copied().map(case).collect();
        let settings = Settings { wish, ..settings() };
        let mut runner = runner(bench, ranks, hosts, settings, &name);
        runner.run(cases, "", tally);
        runner.check_served_by(&name, tally);
    }
}

/// Sends and receives: round a ring, and everyone to everyone.
fn sent(bench: &Bench, ranks: u32, hosts: u32, tally: &mut Tally) {
    let mut runner = runner(bench, ranks, hosts, settings(), "sends");
    let pairs = || (0..ranks).flat_map(|from| (0..ranks).map(move |to| (from, to)));
    for &bytes in bench.some(&[100_003, 0, 1, 5_000_001], 2) {
        let all: Vec<_> = pairs().map(|(from, to)| Message { from, to, bytes }).collect();
        let ring = |from| Message { from, to: (from + 1) % ranks, bytes };
        let ring: Vec<_> = (0..ranks).map(ring).collect();
        for messages in [ring, all] {
            let Some(world) = runner.world(tally) else { return };
            let name =
                || format!("{ranks} ranks on {hosts} hosts: {} of {bytes} B", messages.len());
            tally.check(name, || exchange(world, &messages));
        }
    }
}

/// Three algorithms from MSCCL XML.
fn loaded(bench: &Bench, ranks: u32, hosts: u32, tally: &mut Tally) {
    let three = [Wanted::AllReduce, Wanted::AllGather, Wanted::AllToAll];
    let mut files: Vec<Loadable> =
        loadable(ranks).into_iter().filter(Loadable::can_serve).collect();
    files.sort_by_key(|file| !file.file.name.contains("hierarchical"));
    for wanted in three {
        let of_kind =
            |file: &&Loadable| file.wanted == wanted && file.placement.serves_out_of_place();
        let Some(file) = files.iter().find(of_kind) else {
            tally.skip(format!("no example for {wanted:?} of {ranks} ranks as XML"));
            continue;
        };
        let name = file.file.name.clone();
        let settings = Settings { files: vec![file.file.clone()], ..settings() };
        let mut runner = runner(bench, ranks, hosts, settings, &name);
        let case = |count| Case { count, data_type: DataType::I32, ..Case::of(wanted) };
        // A multiple of all numbers of chunks that are usual.
        runner.run([1008, 50_400].map(case), "", tally);
        runner.check_served_by(&name, tally);
    }
}
