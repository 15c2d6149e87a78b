//! Odd counts and unaligned buffers: every collective under every protocol, against the reference.

use msccl_collective::{DataType, Protocol};
use msccl_runtime::{Overrides, Settings};

use super::{Bench, Section, every_collective, placements};
use crate::case::Case;
use crate::tally::Tally;
use crate::world::settings;

/// The section.
pub const SECTION: Section = Section {
    name: "counts",
    about: "every collective: odd counts, unaligned buffers, every protocol",
    run,
};

/// Counts around the sizes of packets, chunks and slices; those that show most come first.
const COUNTS: [usize; 22] = [
    1, 1003, 70_001, 0, 2, 17, 128, 3, 7, 8, 15, 16, 31, 33, 119, 121, 127, 129, 1024, 4099,
    262_144, 1_048_577,
];

/// Counts from here on are tried once.
const LARGE: usize = 100_000;

/// Shifts of input and output, in elements.
const SHIFTS: [[usize; 2]; 4] = [[0, 0], [1, 3], [2, 2], [5, 0]];

/// Types of every size.
const TYPES: [DataType; 4] = [DataType::F32, DataType::I8, DataType::Bf16, DataType::F64];

fn run(bench: &Bench, tally: &mut Tally) {
    for protocol in [None, Some(Protocol::Simple), Some(Protocol::Ll), Some(Protocol::Ll128)] {
        let overrides = Overrides { protocol, ..Overrides::default() };
        let setting = protocol.map_or("any protocol", Protocol::name);
        let mut runner = bench.runner(Settings { overrides, ..settings() }, setting);
        runner.run(cases(bench), "", tally);
    }
}

fn cases(bench: &Bench) -> Vec<Case> {
    let mut cases = Vec::new();
    for kind in every_collective(bench.ranks) {
        for &in_place in placements(kind) {
            for (number, &count) in bench.some(&COUNTS, 7).iter().enumerate() {
                // What is known of large calls takes long to compute.
                let shifts = if count < LARGE { bench.some(&SHIFTS, 2) } else { &SHIFTS[1..2] };
                for (turn, &shift) in shifts.iter().enumerate() {
                    let data_type = TYPES[(number + turn) % TYPES.len()];
                    let seed = bench.seed + number as u64;
                    let case = Case { count, in_place, shift, data_type, seed, ..Case::of(kind) };
                    cases.push(case);
                }
            }
        }
    }
    cases
}
