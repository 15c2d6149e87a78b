//! More ranks than GPUs: eight and sixteen, however few GPUs there are.

use msccl_collective::{DataType, Protocol};
use msccl_runtime::{Overrides, Settings};

use super::{Bench, Section, every_collective, placements};
use crate::case::Case;
use crate::machine::Machine;
use crate::runner::Runner;
use crate::tally::Tally;
use crate::world::settings;

/// The section.
pub const SECTION: Section = Section {
    name: "many-ranks",
    about: "8 and 16 ranks on the first GPU, every collective and protocol",
    run,
};

fn run(bench: &Bench, tally: &mut Tally) {
    let machine = match &bench.machine {
        Machine::Host => Machine::Host,
        Machine::Gpus(gpus) => Machine::Gpus(vec![gpus[0].clone()]),
    };
    for &ranks in bench.some(&[8, 16], 1) {
        for protocol in [None, Some(Protocol::Simple), Some(Protocol::Ll), Some(Protocol::Ll128)] {
            let setting = format!("{ranks} ranks, {}", protocol.map_or("any", Protocol::name));
            let overrides = Overrides { protocol, ..Overrides::default() };
            let settings = Settings { overrides, ..settings() };
            let mut cases = Vec::new();
            for kind in every_collective(ranks) {
                for &in_place in placements(kind) {
                    for &count in bench.some(&[1003, 100_003, 7], 2) {
                        let data_type = DataType::F32;
                        cases.push(Case { count, in_place, data_type, ..Case::of(kind) });
                    }
                }
            }
            Runner::new(&machine, ranks, settings, setting).run(cases, "", tally);
        }
    }
}
