//! The programs of `dsl-examples/` as files that a communicator loads: MSCCL XML, as a user of other
//! tools would have it.

use msccl_collective::{Kind, Placement};
use msccl_compiler::compile;
use msccl_compiler::evaluate::{Launch, NoFiles};
use msccl_interchange::xml;
use msccl_ir::{Algorithm, Target};
use msccl_registry::{File, Wanted};
use msccl_syntax::SourceMap;

/// Names and texts.
const EXAMPLES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/examples.rs"));

/// A file to load, and which calls it is for.
pub struct Loadable {
    /// The file.
    pub file: File,
    /// The collective.
    pub wanted: Wanted,
    /// Whether it is for calls in place.
    pub in_place: bool,
}

/// The examples that exist for `ranks` ranks and that XML can say, in both placements.
pub fn loadable(ranks: u32) -> Vec<Loadable> {
    let placements = [Placement::InPlace, Placement::OutOfPlace];
    let all = EXAMPLES.iter().flat_map(|example| placements.map(|placement| (example, placement)));
    all.filter_map(|((name, text), placement)| {
        let algorithm = algorithm(name, text, ranks, placement)?;
        let wanted = wanted(&algorithm.collective.kind)?;
        let content = dialects(&algorithm)?;
        let in_place = placement == Placement::InPlace;
        let suffix = if in_place { "in" } else { "out" };
        let file = File { name: format!("{name}.{suffix}.xml"), content: Ok(content) };
        Some(Loadable { file, wanted, in_place })
    })
    .collect()
}

fn algorithm(name: &str, text: &str, ranks: u32, placement: Placement) -> Option<Algorithm> {
    let mut sources = SourceMap::new();
    let file = sources.add(name, text);
    let launch = Launch { ranks: Some(ranks), placement: Some(placement), ..Launch::default() };
    let compiled = compile(&mut sources, file, &NoFiles, &launch, &Target::msccl()).ok()?;
    let algorithm = compiled.schedule.algorithm;
    // A program may name its own number of ranks.
    (algorithm.collective.ranks == ranks).then_some(algorithm)
}

/// The XML in the first dialect that can say it.
fn dialects(algorithm: &Algorithm) -> Option<Vec<u8>> {
    let written = xml::Dialect::ALL.iter().find_map(|dialect| xml::write(algorithm, *dialect).ok());
    written.map(String::into_bytes)
}

/// The call that asks for `kind`; custom collectives cannot be called by name.
pub fn wanted(kind: &Kind) -> Option<Wanted> {
    Some(match kind {
        Kind::AllReduce => Wanted::AllReduce,
        Kind::AllGather => Wanted::AllGather,
        Kind::ReduceScatter => Wanted::ReduceScatter,
        Kind::AllToAll => Wanted::AllToAll,
        Kind::Broadcast { root } => Wanted::Broadcast(*root),
        Kind::Reduce { root } => Wanted::Reduce(*root),
        Kind::Gather { root } => Wanted::Gather(*root),
        Kind::Scatter { root } => Wanted::Scatter(*root),
        Kind::Custom(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_examples_can_be_loaded() {
        let files = loadable(8);
        assert!(files.len() > 50, "{}", files.len());
        let oracle = crate::oracle::Oracle::new(
            8,
            &files.iter().map(|it| it.file.clone()).collect::<Vec<_>>(),
        );
        assert_eq!(oracle.refused(), Vec::<String>::new());
    }
}
