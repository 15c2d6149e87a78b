//! Links in host memory, for GPUs that cannot map one another's.

use msccl_collective::{DataType, Protocol};
use msccl_runtime::{Overrides, Settings};

use super::{Bench, Section, every_collective, placements};
use crate::case::Case;
use crate::tally::Tally;
use crate::world::settings;

/// The section.
pub const SECTION: Section = Section {
    name: "host-links",
    about: "every collective and protocol without mapped peer memory",
    run,
};

fn run(bench: &Bench, tally: &mut Tally) {
    if !bench.machine.has_gpus() {
        return tally.skip("links of ranks on the host always lie in host memory");
    }
    for protocol in Protocol::ALL {
        let overrides = Overrides { protocol: Some(protocol), ..Overrides::default() };
        let settings = Settings { overrides, peer_memory: false, ..settings() };
        let mut cases = Vec::new();
        for kind in every_collective(bench.ranks) {
            for &in_place in placements(kind) {
                for &count in bench.some(&[1003, 150_001, 1, 1 << 20], 2) {
                    let data_type = if count % 2 == 0 { DataType::F32 } else { DataType::F16 };
                    cases.push(Case { count, in_place, data_type, ..Case::of(kind) });
                }
            }
        }
        bench.runner(settings, protocol.name()).run(cases, "", tally);
    }
}
