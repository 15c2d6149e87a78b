//! Ranks on several hosts, or as if: what crosses from one to another goes by a proxy, over RDMA
//! where the machine has it and its library lies beside this program, over TCP otherwise.

pub mod faults;
pub mod pair;
pub mod rdma;
pub mod test_bed;

use std::collections::BTreeSet;

use msccl_collective::{CollectiveKind, DataType};
use msccl_runtime::Settings;

use super::point_to_point::{Message, exchange};
use super::{Bench, Section, every_collective, placements};
use crate::case::Case;
use crate::examples::{Loadable, loadable};
use crate::hosts::Hosts;
use crate::runner::Runner;
use crate::tally::Tally;
use crate::world::settings;

/// The section.
pub const SECTION: Section = Section {
    name: "hosts",
    about: "2 to 8 ranks on pretended hosts: every collective, algorithm for several nodes, \
        sends, XML",
    run,
};

/// Ranks, and the hosts that they are spread over.
const SHAPES: &[(u32, u32)] = &[(4, 2), (2, 2), (3, 2), (4, 4), (8, 2), (6, 3), (8, 4)];

/// Elements of a block; 16 MiB of f32 at most.
const COUNTS: &[usize] = &[1003, 150_001, 1, 1 << 20, 0, 1 << 22];

fn run(bench: &Bench, tally: &mut Tally) {
    for &(ranks, hosts) in bench.some(SHAPES, 3) {
        let site = Site { bench, ranks, hosts: Hosts::pretended(hosts), settings: settings() };
        usual(&site, tally);
        forced(&site, &[""], bench.some(&[1003, 70_001, 1], 1), tally);
        sent(&site, bench.some(&[100_003, 0, 1, 5_000_001], 2), tally);
    }
    let site = Site { bench, ranks: 4, hosts: Hosts::pretended(2), settings: settings() };
    loaded(&site, &[1008, 50_400], tally);
}

/// Where communicators are.
struct Site<'a> {
    bench: &'a Bench,
    ranks: u32,
    hosts: Hosts,
    settings: Settings,
}

impl Site<'_> {
    fn describe(&self) -> String {
        format!("{} ranks on {} hosts", self.ranks, self.hosts.count)
    }

    /// Communicators on it, for `what`.
    fn runner(&self, what: &str) -> Runner<'_> {
        self.runner_with(self.settings.clone(), what)
    }

    fn runner_with(&self, settings: Settings, what: &str) -> Runner<'_> {
        let name = format!("{}, {what}", self.describe());
        Runner::new(&self.bench.machine, self.ranks, settings, name).on_hosts(self.hosts)
    }
}

/// Every collective, by whatever algorithm serves it.
fn usual(site: &Site<'_>, tally: &mut Tally) {
    let mut cases = Vec::new();
    for kind in every_collective(site.ranks) {
        for &in_place in placements(kind) {
            for &count in site.bench.some(COUNTS, 2) {
                // Larger blocks times ranks would only take time.
                if count > 1 << 20 && kind != CollectiveKind::AllReduce {
                    continue;
                }
                let data_type = if count % 2 == 0 { DataType::F32 } else { DataType::F16 };
                cases.push(Case { count, in_place, data_type, ..Case::of(kind) });
            }
        }
    }
    site.runner("any algorithm").run(cases, "", tally);
}

/// Every algorithm whose name contains one of `parts`, each alone, on one communicator.
fn forced(site: &Site<'_>, parts: &[&str], counts: &[usize], tally: &mut Tally) {
    let mut runner = site.runner("forced");
    for kind in every_collective(site.ranks) {
        for &in_place in placements(kind) {
            let case = Case { in_place, data_type: DataType::I32, ..Case::of(kind) };
            let Some(world) = runner.world(tally) else { return };
            let (mut seen, mut choices) = (BTreeSet::new(), world.choices(&case));
            choices.retain(|choice| parts.iter().any(|part| choice.algorithm.contains(part)));
            choices.retain(|choice| seen.insert(choice.algorithm.clone()));
            for choice in choices {
                runner.pin(choice);
                runner.run(counts.iter().map(|&count| Case { count, ..case }), "", tally);
            }
            if seen.is_empty() {
                let name = || format!("{}: {kind:?} by any of {parts:?}", site.describe());
                tally.check(name, || Err("there is no such algorithm".into()));
            }
        }
    }
}

/// Sends and receives: round a ring, and everyone to everyone.
fn sent(site: &Site<'_>, sizes: &[usize], tally: &mut Tally) {
    let (ranks, mut runner) = (site.ranks, site.runner("sends"));
    let pairs = || (0..ranks).flat_map(|from| (0..ranks).map(move |to| (from, to)));
    for &bytes in sizes {
        let all: Vec<_> = pairs().map(|(from, to)| Message { from, to, bytes }).collect();
        for messages in [ring(ranks, bytes), all] {
            let Some(world) = runner.world(tally) else { return };
            let name = || format!("{}: {} of {bytes} B", site.describe(), messages.len());
            tally.check(name, || exchange(world, &messages));
        }
    }
}

/// A message from every rank to the next.
fn ring(ranks: u32, bytes: usize) -> Vec<Message> {
    (0..ranks).map(|from| Message { from, to: (from + 1) % ranks, bytes }).collect()
}

/// Three algorithms from MSCCL XML.
fn loaded(site: &Site<'_>, counts: &[usize], tally: &mut Tally) {
    let ranks = site.ranks;
    let mut files: Vec<Loadable> =
        loadable(ranks).into_iter().filter(Loadable::can_serve).collect();
    files.sort_by_key(|file| !file.file.name.contains("hierarchical"));
    for kind in [CollectiveKind::AllReduce, CollectiveKind::AllGather, CollectiveKind::AllToAll] {
        let of_kind = |file: &&Loadable| file.kind == kind && file.placement.serves_out_of_place();
        let Some(file) = files.iter().find(of_kind) else {
            tally.skip(format!("no example for {kind:?} of {ranks} ranks as XML"));
            continue;
        };
        let name = file.file.name.clone();
        let settings = Settings { files: vec![file.file.clone()], ..site.settings.clone() };
        let mut runner = site.runner_with(settings, &name);
        let case = |&count| Case { count, data_type: DataType::I32, ..Case::of(kind) };
        // Multiples of all numbers of chunks that are usual.
        runner.run(counts.iter().map(case), "", tally);
        runner.check_served_by(&name, tally);
    }
}
