//! Evaluation: from text to the chunk DAG.
//!
//! ```text
//! text ──load──▶ ast ──resolve──▶ resolved ──interpreter──▶ regions ──chunk::Memory──▶ ChunkDag
//!        imports      names are slots       loops run,          places of the program
//!                                           expressions too     become those of the call
//! ```
//!
//! Guarantees of a [`ChunkDag`] made here: every op lies in its buffers; operands of one op have
//! one size and overlap wholly or not at all; no op reads what nothing has written; out of place,
//! no op writes the input. Not checked here: that the result is what the collective promises
//! ([`chunk::check_promise`]), and whether hints can be honoured.
//!
//! No program makes evaluation run away: rounds of loops, elements of lists, ops, chunks and
//! nesting are bounded (`budget`), and each bound is an error with its place. One mistake does not
//! hide the next: up to twenty are reported at once, each place once.
//!
//! Absent from this module: files and paths (a [`Loader`] reads them), sends, receives, channels.

mod load;
mod standard;

mod resolve;
mod resolved;

mod head;
mod interpreter;
mod statement;

mod arithmetic;
mod builtin;
mod cluster;
mod expression;
mod loops;
mod progression;
mod questions;
mod region;
mod value;

mod budget;
mod conditions;
mod contract;
mod hints;
mod nearest;
mod origins;
mod report;
mod summary;

use std::sync::Arc;

use msccl_collective::{Placement, Protocol, SizeRange};
use msccl_syntax::{Diagnostic, FileId, SourceMap, Span};
use msccl_topology::cluster::ranks::RankTopology;

use self::head::Head;
use self::interpreter::{Interpreter, World};
use self::report::{Refused, Report};
use self::resolved::Program;
use crate::chunk::{self, ChunkDag, Memory, StatementId};

pub use builtin::{BuiltinSummary, builtins};
pub use load::{Loader, NoFiles};
pub use standard::{StandardModule, standard_module, standard_module_of, standard_modules};
pub use summary::{AlgorithmSummary, ParamSummary, algorithms, comment_before};

/// What a program is compiled for. What is `None` is left to the program.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Launch {
    /// The algorithm; else the file's last.
    pub algorithm: Option<String>,
    /// How many ranks take part.
    pub ranks: Option<u32>,
    /// How many of them are on one node; without this and a `per_node` parameter, all.
    pub per_node: Option<u32>,
    /// How they are joined; without this, as nodes of which nothing else is known.
    pub topology: Option<Arc<RankTopology>>,
    /// Values of parameters, by name; a later one overrides an earlier one.
    pub params: Vec<(String, i64)>,
    /// In place or out of place; [`Placement::Both`] is refused, since what moves differs.
    pub placement: Option<Placement>,
    /// How messages are laid out.
    pub protocol: Option<Protocol>,
    /// Message sizes served.
    pub sizes: Option<SizeRange>,
    /// Copies of the program, each on its part of every chunk.
    pub instances: Option<u32>,
    /// Who makes these copies.
    pub instances_by: InstancesBy,
    /// Threads per thread block.
    pub threads: Option<u32>,
}

/// Who makes the instances of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum InstancesBy {
    /// The compiler: chunks, ops and thread blocks are those of all instances.
    #[default]
    Compiler,
    /// Whoever executes the algorithm, which is that of one instance: a runtime makes as many as
    /// [`ChunkDag::engine_instances`] says, or as many as there is room for.
    Engine,
}

/// Evaluates an algorithm of `file` for `launch`. Imported files are added to `sources`.
///
/// # Errors
///
/// What is wrong with it, then what else was noticed: errors before warnings.
pub fn evaluate(
    sources: &mut SourceMap,
    file: FileId,
    loader: &dyn Loader,
    launch: &Launch,
) -> Result<ChunkDag, Vec<Diagnostic>> {
    let mut report = Report::default();
    let files = load::load(sources, file, loader, &mut report);
    if !report.is_empty() {
        return Err(report.into_errors());
    }
    let whole = Span { file, start: 0, end: sources.text(file).len() as u32 };
    let program = resolve::resolve(&files, whole, launch.algorithm.as_deref(), &mut report);
    let Ok(program) = program else { return Err(report.into_errors()) };
    if !report.is_empty() {
        return Err(report.into_errors());
    }
    run(&program, launch)
}

/// Runs a resolved program.
fn run(program: &Program, launch: &Launch) -> Result<ChunkDag, Vec<Diagnostic>> {
    let algorithm = &program.algorithm;
    let mut interpreter = Interpreter::new(program);
    let head = interpreter.in_frame(&algorithm.frame, |this| {
        let head = this.head(algorithm, launch)?;
        let in_place = head.placement == Placement::InPlace;
        let memory = Memory::new(head.collective.clone(), head.declared_in_place, in_place);
        this.world = World::Memory(memory);
        this.block(&algorithm.body)?;
        Ok::<Head, Refused>(head)
    });
    let Interpreter { report, world, ranks, hint_table, origins, .. } = interpreter;
    let (Ok(head), World::Memory(memory)) = (head, world) else { return Err(report.into_errors()) };
    let warnings = report.check()?;
    let (ops, scratch_chunks) = memory.finish(StatementId(0));
    let Head {
        collective,
        declared_in_place: _,
        placement,
        protocol,
        sizes,
        threads,
        instances,
        interleaved,
        instances_span,
        order_claim,
    } = head;
    let dag = ChunkDag {
        name: algorithm.name.clone(),
        per_node: ranks.map_or(collective.ranks, |ranks| ranks.per_node),
        collective,
        placement,
        protocol,
        sizes,
        threads,
        instances: 1,
        engine_instances: 1,
        interleaved,
        order_claim,
        scratch_chunks,
        ops,
        hints: hint_table.into_hints(),
        statements: origins.into_statements(),
        warnings,
    };
    if launch.instances_by == InstancesBy::Engine {
        return Ok(ChunkDag { engine_instances: instances, ..dag });
    }
    chunk::instances(dag, instances)
        .map_err(|error| vec![Diagnostic::error(instances_span, error.to_string())])
}
