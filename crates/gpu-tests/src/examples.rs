//! The programs of `dsl-examples/` as files that a communicator loads: MSCCL XML, as a user of
//! other tools would have it.

use msccl_collective::{CollectiveKind, Placement};
use msccl_compiler::compile;
use msccl_compiler::evaluate::{Launch, NoFiles};
use msccl_interchange::xml::{self, Dialect};
use msccl_ir::{Algorithm, Target};
use msccl_registry::File;
use msccl_syntax::SourceMap;
use msccl_verify::verify;

/// Names and texts.
const EXAMPLES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/examples.rs"));

/// A file to load, and which calls it is for.
pub struct Loadable {
    /// The file.
    pub file: File,
    /// The collective.
    pub kind: CollectiveKind,
    /// Which calls it serves.
    pub placement: Placement,
}

impl Loadable {
    /// Whether a communicator can use it at all: where only the root knows its placement, an
    /// algorithm must serve both.
    pub fn can_serve(&self) -> bool {
        self.kind.root().is_none() || self.placement == Placement::Both
    }
}

/// The examples that exist for `ranks` ranks and that XML can say, in both placements.
pub fn loadable(ranks: u32) -> Vec<Loadable> {
    let placements = [Placement::InPlace, Placement::OutOfPlace];
    let all = EXAMPLES.iter().flat_map(|example| placements.map(|placement| (example, placement)));
    all.filter_map(|((name, text), placement)| {
        let algorithm = widened(algorithm(name, text, ranks, placement)?);
        let kind = CollectiveKind::of(&algorithm.collective.kind)?;
        let placement = algorithm.placement;
        let suffix = match placement {
            Placement::InPlace => "in",
            Placement::OutOfPlace => "out",
            Placement::Both => "both",
        };
        let file = File { name: format!("{name}.{suffix}.xml"), content: Ok(xml(&algorithm)?) };
        Some(Loadable { file, kind, placement })
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

/// The algorithm for both placements if it has a root and serves them as it is.
fn widened(algorithm: Algorithm) -> Algorithm {
    let both = Algorithm { placement: Placement::Both, ..algorithm.clone() };
    match algorithm.collective.root() {
        Some(_) if verify(both.clone(), &Target::native()).is_ok() => both,
        _ => algorithm,
    }
}

/// The XML in the first dialect that can say it.
fn xml(algorithm: &Algorithm) -> Option<Vec<u8>> {
    let written = Dialect::ALL.iter().find_map(|dialect| xml::write(algorithm, *dialect).ok());
    written.map(String::into_bytes)
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
