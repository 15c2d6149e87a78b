//! Sums of contributions that are each multiplied by a scalar of its rank, in the call or in
//! memory.

use msccl_collective::DataType;

use super::{Bench, Section, combines, every_collective};
use crate::case::{Case, Residence};
use crate::tally::Tally;
use crate::world::settings;

/// The section.
pub const SECTION: Section = Section {
    name: "scaled",
    about: "scaled sums: scalars in the call and in memory, every data type",
    run,
};

fn run(bench: &Bench, tally: &mut Tally) {
    let mut cases = Vec::new();
    for kind in every_collective(bench.ranks).into_iter().filter(|kind| combines(*kind)) {
        for data_type in DataType::ALL {
            for residence in [Residence::Call, Residence::Memory] {
                for in_place in [false, true] {
                    let count = [1003, 1, 50_001][cases.len() % bench.number(3, 2)];
                    let scale = Some(residence);
                    let case = Case { data_type, scale, in_place, count, ..Case::of(kind) };
                    cases.push(Case { shift: [cases.len() % 3, 1], ..case });
                }
            }
        }
    }
    bench.runner(settings(), "scaled").run(cases, "", tally);
}
