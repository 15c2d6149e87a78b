//! Programs: evaluated, then compiled.

use msccl_compiler::chunk::{self, check_promise};
use msccl_compiler::evaluate::{InstancesBy, Launch, Loader, evaluate};
use msccl_compiler::{Compiled, compile_chunks, instruction};
use msccl_ir::Target;
use msccl_syntax::{Diagnostic, FileId, SourceMap, condensed};
use msccl_verify::FaultKind;

use crate::diagnose::{Located, Warning};
use crate::failure::{Failure, Result};
use crate::subject::{FileFault, KnownInvalid, Loaded, Provenance, Subject};

/// A program, evaluated: before it becomes an algorithm.
pub struct Program {
    /// The file, as messages show it.
    pub file: String,
    /// Its texts.
    pub sources: SourceMap,
    /// What moves where.
    pub chunks: chunk::ChunkDag,
    /// The same of one instance, if there are several.
    pub one_instance: Option<chunk::ChunkDag>,
}

/// Evaluates the program in `file` of `sources`, which messages show as `name`. What is allowed but
/// hardly meant goes to `warn`.
///
/// # Errors
///
/// Its diagnostics, with excerpts.
pub fn evaluated(
    name: String,
    mut sources: SourceMap,
    file: FileId,
    loader: &dyn Loader,
    launch: &Launch,
    warn: &mut dyn FnMut(Warning),
) -> Result<Program> {
    match evaluate(&mut sources, file, loader, launch) {
        Ok(chunks) => {
            let located = |warning| Warning::At(Box::new(Located::of(&sources, warning)));
            chunks.warnings.iter().map(located).for_each(warn);
            let one_instance = (chunks.instances > 1)
                .then(|| Launch { instances_by: InstancesBy::Engine, ..launch.clone() })
                .and_then(|launch| evaluate(&mut sources, file, loader, &launch).ok());
            Ok(Program { file: name, sources, chunks, one_instance })
        }
        Err(diagnostics) => Err(Failure::diagnostics(&sources, &diagnostics)),
    }
}

/// Compiles what was evaluated, unless it breaks its collective's promise already.
pub fn compiled(program: Program, target: Target) -> Loaded {
    if let Err(diagnostics) = check_promise(&program.chunks) {
        return Err(invalid(
            program.file,
            FaultKind::WrongResult,
            program.sources,
            diagnostics,
            target,
        ));
    }
    stages(program, target).map(|stages| stages.subject)
}

/// Every stage of a program.
pub struct Stages {
    /// What moves where.
    pub chunks: chunk::ChunkDag,
    /// Who moves it.
    pub instructions: instruction::InstructionDag,
    /// Where, when, after what.
    pub subject: Subject,
}

/// Compiles what was evaluated, whatever it promises.
///
/// # Errors
///
/// It does not fit the target.
pub fn stages(program: Program, target: Target) -> std::result::Result<Stages, Box<KnownInvalid>> {
    let Program { file, sources, chunks, one_instance } = program;
    let target = target.on_nodes(chunks.per_node);
    match compile_chunks(chunks, &target) {
        Ok(Compiled { chunks, instructions, schedule }) => {
            let claim = chunks.order_claim;
            let provenance = Provenance::Program { sources, origins: schedule.origins, claim };
            let algorithm = schedule.algorithm;
            let per_node = chunks.per_node;
            let subject = Subject { file, algorithm, one_instance, per_node, provenance, target };
            Ok(Stages { chunks, instructions, subject })
        }
        Err(diagnostics) => Err(invalid(file, FaultKind::Limits, sources, diagnostics, target)),
    }
}

fn invalid(
    file: String,
    kind: FaultKind,
    sources: SourceMap,
    diagnostics: Vec<Diagnostic>,
    target: Target,
) -> Box<KnownInvalid> {
    let fault = FileFault::Program(sources, condensed(diagnostics));
    Box::new(KnownInvalid { file, kind, fault, target })
}
