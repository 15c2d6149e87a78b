//! Every data type and reduction: exact sums against the reference, rounded ones against the host
//! executor of the ring.

use msccl_collective::{CollectiveKind, DataType, Protocol, Reduction};
use msccl_runtime::{Overrides, Settings};

use super::{Bench, Section, combines, every_collective};
use crate::case::{Case, Numbers};
use crate::tally::Tally;
use crate::world::settings;

/// The section.
pub const SECTION: Section = Section {
    name: "types",
    about: "every data type and reduction, exact and rounded sums, every protocol",
    run,
};

/// An algorithm of which the order of every sum is known: the name's part, and what it serves.
const ORDERED: (&str, [CollectiveKind; 2]) =
    ("/ring", [CollectiveKind::AllReduce, CollectiveKind::ReduceScatter]);

fn run(bench: &Bench, tally: &mut Tally) {
    for protocol in Protocol::ALL {
        let overrides = Overrides { protocol: Some(protocol), ..Overrides::default() };
        let settings = Settings { overrides, ..settings() };
        let exact = every_collective(bench.ranks).into_iter();
        let exact = exact.flat_map(|kind| cases(bench, kind, Numbers::Exact));
        bench.runner(settings.clone(), protocol.name()).run(exact, "", tally);

        let (name, collectives) = ORDERED;
        let overrides = Overrides { algorithm: Some(name.to_owned()), ..settings.overrides };
        let rounded = collectives.into_iter().flat_map(|kind| cases(bench, kind, Numbers::Rounded));
        let settings = Settings { overrides, ..settings };
        bench.runner(settings, protocol.name()).run(rounded, name, tally);
    }
}

fn cases(bench: &Bench, kind: CollectiveKind, numbers: Numbers) -> Vec<Case> {
    let reductions = if combines(kind) { &Reduction::ALL[..] } else { &[Reduction::Sum] };
    let counts: &[usize] = bench.some(&[517, 1, 40_003], 1);
    let mut cases = Vec::new();
    for data_type in DataType::ALL {
        for &reduction in reductions {
            for (number, &count) in counts.iter().enumerate() {
                let in_place = (number + cases.len()) % 2 == 1 && kind != CollectiveKind::AllToAll;
                let seed = bench.seed ^ cases.len() as u64;
                let case = Case::of(kind);
                cases.push(Case { data_type, reduction, count, in_place, numbers, seed, ..case });
            }
        }
    }
    cases
}
