//! Every built-in algorithm, forced: every protocol, several instances, in and out of place. Sums
//! are rounded, so the oracle of that very algorithm must give the same bits.

use std::collections::BTreeSet;

use msccl_collective::{CollectiveKind, DataType, Protocol};
use msccl_runtime::{Overrides, Settings};

use super::{Bench, Section, every_collective, placements};
use crate::case::Case;
use crate::oracle::Oracle;
use crate::tally::Tally;
use crate::world::settings;

/// The section.
pub const SECTION: Section = Section {
    name: "built-ins",
    about: "every built-in algorithm, forced: protocols, instances, in and out of place",
    run,
};

/// Numbers of instances.
const INSTANCES: [u32; 4] = [3, 1, 2, 8];

fn run(bench: &Bench, tally: &mut Tally) {
    let oracle = Oracle::new(bench.ranks, &[]);
    for name in names(&oracle, bench.ranks) {
        for protocol in Protocol::ALL {
            for &instances in bench.some(&INSTANCES, 1) {
                force(bench, &oracle, &name, protocol, instances, tally);
            }
        }
    }
}

/// The last parts of the names of all built-in algorithms, such as `/ring`: each is the name of at
/// most one algorithm of a collective.
fn names(oracle: &Oracle, ranks: u32) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for kind in every_collective(ranks) {
        for &in_place in placements(kind) {
            let all = oracle.built_in(kind, in_place);
            let last = |name: &String| name.rfind('/').map(|slash| name[slash..].to_owned());
            names.extend(all.iter().filter_map(last));
        }
    }
    names
}

fn force(
    bench: &Bench,
    oracle: &Oracle,
    name: &str,
    protocol: Protocol,
    instances: u32,
    tally: &mut Tally,
) {
    let setting = format!("{name} {protocol} x{instances}");
    let overrides = Overrides {
        algorithm: Some(name.to_owned()),
        protocol: Some(protocol),
        instances: Some(instances),
        ..Overrides::default()
    };
    let mut runner = bench.runner(Settings { overrides, ..settings() }, setting);
    for kind in every_collective(bench.ranks) {
        for &in_place in placements(kind) {
            if oracle.entry(name, kind, in_place).is_some() {
                runner.run(cases(bench, kind, in_place), name, tally);
            }
        }
    }
    runner.check_served_by(name, tally);
}

fn cases(bench: &Bench, kind: CollectiveKind, in_place: bool) -> Vec<Case> {
    let types = bench.some(&[DataType::F32, DataType::Bf16, DataType::F16, DataType::I8], 1);
    let counts = bench.some(&[1003, 33_333, 1, 100, 400_000], 2);
    let mut cases = Vec::new();
    for &data_type in types {
        for &count in counts {
            let case = Case { data_type, count, in_place, ..Case::of(kind) };
            cases.push(bench.rounded(case, cases.len()));
        }
    }
    cases
}
