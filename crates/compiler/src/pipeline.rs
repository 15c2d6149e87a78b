//! The pipeline on one page.

use msccl_ir::{Target, ViolationClass, validate};
use msccl_syntax::{Diagnostic, FileId, SourceMap};

use crate::chunk;
use crate::evaluate::{Launch, Loader, evaluate};
use crate::instruction;
use crate::schedule::{Schedule, interleave, schedule};

/// Everything the compiler made of a program, stage by stage.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// What moves where.
    pub chunks: chunk::ChunkDag,
    /// Who moves it.
    pub instructions: instruction::InstructionDag,
    /// Where, when, after what; and which statement requested each step.
    pub schedule: Schedule,
}

/// Compiles the program in `file` for `target`.
///
/// # Errors
///
/// Every diagnostic of the first stage that has any.
pub fn compile(
    sources: &mut SourceMap,
    file: FileId,
    loader: &dyn Loader,
    launch: &Launch,
    target: &Target,
) -> Result<Compiled, Vec<Diagnostic>> {
    let chunks = evaluate(sources, file, loader, launch)?;
    chunk::check_promise(&chunks)?;
    compile_chunks(chunks, target)
}

/// Compiles ops that are already evaluated: what [`compile`] does after the chunk DAG.
///
/// # Errors
///
/// As [`compile`], but nothing is said about the collective's promise.
pub fn compile_chunks(
    chunks: chunk::ChunkDag,
    target: &Target,
) -> Result<Compiled, Vec<Diagnostic>> {
    let instructions = instruction::lower(&chunks, target);
    let schedule = interleave(schedule(&chunks, &instructions, target)?, chunks.interleaved);
    check_limits(&chunks, &schedule, target)?;
    Ok(Compiled { chunks, instructions, schedule })
}

/// The target's limits, reported at the statement that went beyond them.
fn check_limits(
    chunks: &chunk::ChunkDag,
    schedule: &Schedule,
    target: &Target,
) -> Result<(), Vec<Diagnostic>> {
    let Err(violations) = validate(&schedule.algorithm, target) else { return Ok(()) };
    let whole = chunks.statements.first();
    let diagnostics = violations.iter().filter_map(|violation| {
        let origin = violation.at.and_then(|at| schedule.origins.of(at)).or(whole)?;
        let diagnostic = Diagnostic::error(origin.span, violation.to_string());
        Some(match violation.class {
            ViolationClass::Limits => diagnostic.hint(format!(
                "this is a limit of the {target} target; spread the work over more channels or \
                 fewer chunks, or compile for another target"
            )),
            ViolationClass::Structure => diagnostic,
        })
    });
    Err(diagnostics.collect())
}
