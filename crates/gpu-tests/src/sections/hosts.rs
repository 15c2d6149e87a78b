//! Ranks on several hosts, or as if: what crosses from one to another goes by a proxy.

use msccl_collective::DataType;

use super::{Bench, Section, every_collective, placements};
use crate::case::Case;
use crate::runner::Runner;
use crate::tally::Tally;
use crate::world::settings;

/// The section.
pub const SECTION: Section = Section {
    name: "hosts",
    about: "every collective on 2 to 4 pretended hosts, joined by TCP on the loopback",
    run,
};

/// Ranks, and the hosts that they are spread over.
const SHAPES: &[(u32, u32)] = &[(4, 2), (2, 2), (3, 2), (4, 4), (8, 2), (6, 3)];

fn run(bench: &Bench, tally: &mut Tally) {
    for &(ranks, hosts) in bench.some(SHAPES, 3) {
        let mut cases = Vec::new();
        for wanted in every_collective(ranks) {
            for &in_place in placements(wanted) {
                for &count in bench.some(&[1003, 150_001, 1, 1 << 20, 0], 2) {
                    let data_type = if count % 2 == 0 { DataType::F32 } else { DataType::F16 };
                    cases.push(Case { count, in_place, data_type, ..Case::of(wanted) });
                }
            }
        }
        let setting = format!("{ranks} ranks on {hosts} hosts");
        let runner = Runner::new(&bench.machine, ranks, settings(), setting);
        runner.on_hosts(hosts).run(cases, "", tally);
    }
}
