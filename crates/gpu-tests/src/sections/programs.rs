//! Algorithms loaded as files: random ones, and the examples as MSCCL XML. Sums are rounded, so the
//! host executor of that very algorithm must give the same bits.

use std::collections::BTreeMap;

use msccl_collective::{Collective, CollectiveKind, DataType, Placement, Rank};
use msccl_interchange::json;
use msccl_ir::text;
use msccl_registry::File;
use msccl_runtime::Settings;

use super::{Bench, Section};
use crate::Trouble;
use crate::case::Case;
use crate::examples::{Loadable, loadable};
use crate::oracle::Oracle;
use crate::random::Random;
use crate::random_program::random_algorithm;
use crate::tally::Tally;
use crate::world::settings;

/// Random programs.
pub const RANDOM: Section = Section {
    name: "random",
    about: "random algorithms of every collective, loaded as text and JSON",
    run: run_random,
};

/// Examples as XML.
pub const LOADED: Section = Section {
    name: "loaded",
    about: "the examples of the language, loaded as MSCCL XML",
    run: run_examples,
};

fn run_random(bench: &Bench, tally: &mut Tally) {
    let mut random = Random::new(bench.seed);
    for number in 0..bench.number(40, 6) {
        let name = || format!("random programs number {number}");
        let make = || random_files(bench.ranks, number, &mut random);
        if let Some(files) = tally.need(name, make) {
            run_files(bench, files, tally);
        }
    }
}

/// One random program for each collective.
fn random_files(ranks: u32, number: usize, random: &mut Random) -> Result<Vec<Loadable>, Trouble> {
    let root = Rank::from(random.below(ranks as usize));
    let mut files = Vec::new();
    for kind in CollectiveKind::all(root) {
        let chunks = 1 + random.below(4) as u32;
        // Where only the root knows its placement, an algorithm must serve both.
        let placement = match (kind, kind.root()) {
            (_, Some(_)) => Placement::Both,
            (CollectiveKind::AllToAll, None) => Placement::OutOfPlace,
            (_, None) => [Placement::InPlace, Placement::OutOfPlace][random.below(2)],
        };
        let collective = Collective { kind: kind.into(), ranks, chunks };
        let title = format!("random-{number}-{}", collective.name());
        let algorithm = random_algorithm(&title, collective, placement, random)?;
        let (extension, content) = match random.once_in(2) {
            true => ("json", json::write(&algorithm)),
            false => ("txt", text::print(&algorithm)),
        };
        let name = format!("{title}.{extension}");
        let file = File { name, content: Ok(content.into_bytes()) };
        files.push(Loadable { file, kind, placement });
    }
    Ok(files)
}

fn run_examples(bench: &Bench, tally: &mut Tally) {
    let (files, others): (Vec<_>, Vec<_>) =
        loadable(bench.ranks).into_iter().partition(Loadable::can_serve);
    for _ in others {
        tally.skip("for one placement only, which a root alone would know");
    }
    run_in_turns(bench, files, bench.number(usize::MAX, 3), tally);
}

/// Runs `files`, of every kind of call one at a time, so that it is clear which one serves; so many
/// of each kind at most.
pub(super) fn run_in_turns(bench: &Bench, files: Vec<Loadable>, most: usize, tally: &mut Tally) {
    tally.remark(format!("{} files for {} ranks", files.len(), bench.ranks));
    let mut shelves: BTreeMap<String, Vec<Loadable>> = BTreeMap::new();
    for file in files {
        // The first that is loaded serves both placements.
        shelves.entry(format!("{:?}", file.kind)).or_default().push(file);
    }
    for _ in 0..most {
        let files: Vec<_> = shelves.values_mut().filter_map(Vec::pop).collect();
        if files.is_empty() {
            return;
        }
        run_files(bench, files, tally);
    }
}

/// Loads the files in one world and makes calls that each must serve.
fn run_files(bench: &Bench, files: Vec<Loadable>, tally: &mut Tally) {
    let loaded: Vec<_> = files.iter().map(|loadable| loadable.file.clone()).collect();
    let names = || loaded.iter().map(|file| file.name.as_str()).collect::<Vec<_>>().join(", ");
    let oracle = Oracle::new(bench.ranks, &loaded);
    let refused = oracle.refused();
    let accepted = || if refused.is_empty() { Ok(()) } else { Err(refused.join("; ").into()) };
    tally.check(names, accepted);
    let settings = Settings { files: loaded.clone(), ..settings() };
    let mut runner = bench.runner(settings, names());
    for loadable in &files {
        let name = &loadable.file.name;
        for in_place in [false, true] {
            runner.run(cases(bench, &oracle, loadable, in_place), name, tally);
        }
        runner.check_served_by(name, tally);
    }
}

/// Calls that the file must serve.
fn cases(bench: &Bench, oracle: &Oracle, loadable: &Loadable, in_place: bool) -> Vec<Case> {
    let Loadable { file, kind, placement: _ } = loadable;
    let Some(entry) = oracle.entry(&file.name, *kind, in_place) else { return Vec::new() };
    // Where not every count is served, a built-in would serve the others.
    let chunks = match entry.verified.facts().serves_any_count {
        true => 1,
        false => entry.verified.algorithm().collective.chunks as usize,
    };
    let serves = |bytes: usize| entry.verified.algorithm().sizes.contains(bytes as u64);
    let mut cases = Vec::new();
    for &data_type in bench.some(&[DataType::F32, DataType::F16, DataType::U8], 1) {
        for &count in bench.some(&[1003_usize, 20_021, 5], 2) {
            let count = count.next_multiple_of(chunks);
            // The size of a call is that of its larger buffer.
            let bytes = count * data_type.size_bytes() * larger_blocks(*kind, bench.ranks);
            if serves(bytes) {
                let case = Case { data_type, count, in_place, ..Case::of(*kind) };
                cases.push(bench.rounded(case, cases.len()));
            }
        }
    }
    cases
}

fn larger_blocks(kind: CollectiveKind, ranks: u32) -> usize {
    match kind {
        CollectiveKind::AllReduce | CollectiveKind::Broadcast(_) | CollectiveKind::Reduce(_) => 1,
        CollectiveKind::AllGather
        | CollectiveKind::ReduceScatter
        | CollectiveKind::AllToAll
        | CollectiveKind::Gather(_)
        | CollectiveKind::Scatter(_) => ranks as usize,
    }
}
