//! From a file to an algorithm: the one way that `verify`, `compile`, `run` and `show` share.
//!
//! Three things can be wrong, and they are told apart: a file cannot be read or understood
//! ([`Failure`]); it can, but the algorithm that it describes is already known to be wrong
//! ([`Doubt`]); or nothing is known yet, and [`crate::verdict`] asks the verifier.

use std::path::Path;

use msccl_collective::{Placement, SizeRange};
use msccl_compiler::chunk::{self, check_promise};
use msccl_compiler::evaluate::{Launch, algorithms, evaluate};
use msccl_compiler::schedule::Origins;
use msccl_compiler::{Compiled, compile_chunks, instruction};
use msccl_interchange::xml::Contradiction;
use msccl_interchange::{json, xml};
use msccl_ir::{Algorithm, Target, text};
use msccl_syntax::{Diagnostic, FileId, SourceMap};
use msccl_verify::FaultKind;

use crate::args::{LaunchArgs, PlacementName, TargetName};
use crate::diagnose::condensed;
use crate::failure::{Failure, Result};
use crate::input::{Content, Input};
use crate::loader::{FileSystem, canonical_name};

/// An algorithm and where it came from.
pub struct Subject {
    /// The file, as messages show it.
    pub file: String,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Where it came from.
    pub provenance: Provenance,
    /// What will run it.
    pub target: Target,
}

impl Subject {
    /// Restricts the algorithm to calls of these sizes.
    ///
    /// # Errors
    ///
    /// It serves none of them.
    pub fn narrow(&mut self, asked: SizeRange) -> Result<()> {
        let served = self.algorithm.sizes;
        let ends = [served.max_bytes, asked.max_bytes].into_iter().flatten();
        let narrowed =
            SizeRange { min_bytes: served.min_bytes.max(asked.min_bytes), max_bytes: ends.min() };
        if narrowed.max_bytes.is_some_and(|max| max < narrowed.min_bytes) {
            let message = format!("{}: asked about {asked}, but it serves {served}", self.file);
            return Err(Failure::new(message));
        }
        self.algorithm.sizes = narrowed;
        Ok(())
    }
}

/// Where an algorithm came from.
pub enum Provenance {
    /// A program: its texts, and the statement behind every step.
    Program {
        /// The texts.
        sources: SourceMap,
        /// The statement behind every step.
        origins: Origins,
    },
    /// A file of steps.
    Steps,
}

/// An algorithm known to be wrong before the verifier was asked.
pub struct Doubt {
    /// The file, as messages show it.
    pub file: String,
    /// What is wrong.
    pub kind: FaultKind,
    /// In what way.
    pub evidence: Evidence,
    /// What would have run it.
    pub target: Target,
}

/// What is wrong with an algorithm, by its own file.
pub enum Evidence {
    /// The program breaks its promise, or does not fit the target.
    Program(SourceMap, Vec<Diagnostic>),
    /// The XML contradicts itself.
    Xml(Vec<Contradiction>),
}

/// An algorithm, or why there is no point in asking the verifier.
pub type Loaded = std::result::Result<Subject, Doubt>;

/// A program, evaluated: before it becomes an algorithm.
pub struct Program {
    /// The file, as messages show it.
    pub file: String,
    /// Its texts.
    pub sources: SourceMap,
    /// What moves where.
    pub chunks: chunk::Dag,
}

/// Reads `input` and makes an algorithm of it. Warnings about the writing go to `warn`.
///
/// # Errors
///
/// The file is not what its first character claims, or options do not fit it.
pub fn load(
    input: Input,
    launch: &LaunchArgs,
    target: Option<TargetName>,
    warn: &mut dyn FnMut(String),
) -> Result<Loaded> {
    match input.content() {
        Content::Program => {
            let target = target.unwrap_or(TargetName::Native).target();
            let program = evaluated(input, launch)?;
            Ok(compiled(program, target))
        }
        Content::Xml => from_xml(input, launch, target, warn),
        Content::Json => {
            let algorithm = json::read(&input.text).map_err(|error| misread(&input, &error))?;
            from_steps(input.name, algorithm, launch, target.unwrap_or(TargetName::Native))
        }
        Content::Text => {
            let algorithm = text::parse(&input.text).map_err(|error| misread(&input, &error))?;
            from_steps(input.name, algorithm, launch, target.unwrap_or(TargetName::Native))
        }
    }
}

fn misread(input: &Input, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(format!("{}: {error}", input.name))
}

/// Evaluates the program in `input`.
///
/// # Errors
///
/// Its diagnostics, with excerpts.
pub fn evaluated(input: Input, launch: &LaunchArgs) -> Result<Program> {
    let Input { name, text } = input;
    let mut sources = SourceMap::new();
    let canonical = canonical_name(Path::new(&name));
    let file = sources.add(canonical, text);
    let launch = requested(&sources, file, launch)?;
    match evaluate(&mut sources, file, &FileSystem, &launch) {
        Ok(chunks) => Ok(Program { file: name, sources, chunks }),
        Err(diagnostics) => Err(Failure::diagnostics(&sources, &diagnostics)),
    }
}

/// What the options ask the compiler for.
///
/// # Errors
///
/// `--collective` names one that no algorithm of the file implements.
fn requested(sources: &SourceMap, file: FileId, args: &LaunchArgs) -> Result<Launch> {
    let LaunchArgs {
        define,
        ranks,
        per_node,
        algorithm,
        collective,
        instances,
        protocol,
        placement,
    } = args;
    let algorithm = match (algorithm, collective) {
        (None, Some(collective)) => Some(implementing(sources, file, collective)?),
        (named, _) => named.clone(),
    };
    Ok(Launch {
        algorithm,
        ranks: *ranks,
        per_node: *per_node,
        params: define.iter().map(|setting| (setting.name.clone(), setting.value)).collect(),
        placement: placement.map(PlacementName::placement),
        protocol: *protocol,
        sizes: None,
        instances: *instances,
        threads: None,
    })
}

/// The last algorithm of `file` that implements `collective`.
fn implementing(sources: &SourceMap, file: FileId, collective: &str) -> Result<String> {
    let found = algorithms(sources, file)
        .map_err(|diagnostics| Failure::diagnostics(sources, &diagnostics))?;
    let fitting = found.iter().rev().find(|algorithm| algorithm.collective == collective);
    fitting.map(|algorithm| algorithm.name.clone()).ok_or_else(|| {
        let mut offered: Vec<_> =
            found.iter().map(|algorithm| algorithm.collective.as_str()).collect();
        offered.dedup();
        Failure::new(format!(
            "{}: no algorithm here implements {collective}, only {}",
            sources.name(file),
            offered.join(", ")
        ))
    })
}

/// Compiles what was evaluated, unless it breaks its collective's promise already.
fn compiled(program: Program, target: Target) -> Loaded {
    if let Err(diagnostics) = check_promise(&program.chunks) {
        return Err(doubt(
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
    pub chunks: chunk::Dag,
    /// Who moves it.
    pub instructions: instruction::Dag,
    /// Where, when, after what.
    pub subject: Subject,
}

/// Compiles what was evaluated, whatever it promises.
///
/// # Errors
///
/// It does not fit the target.
pub fn stages(program: Program, target: Target) -> std::result::Result<Stages, Doubt> {
    let Program { file, sources, chunks } = program;
    match compile_chunks(chunks, &target) {
        Ok(Compiled { chunks, instructions, schedule }) => {
            let provenance = Provenance::Program { sources, origins: schedule.origins };
            let subject = Subject { file, algorithm: schedule.algorithm, provenance, target };
            Ok(Stages { chunks, instructions, subject })
        }
        Err(diagnostics) => Err(doubt(file, FaultKind::Limits, sources, diagnostics, target)),
    }
}

fn doubt(
    file: String,
    kind: FaultKind,
    sources: SourceMap,
    diagnostics: Vec<Diagnostic>,
    target: Target,
) -> Doubt {
    let evidence = Evidence::Program(sources, condensed(diagnostics));
    Doubt { file, kind, evidence, target }
}

fn from_xml(
    input: Input,
    launch: &LaunchArgs,
    target: Option<TargetName>,
    warn: &mut dyn FnMut(String),
) -> Result<Loaded> {
    let read = xml::read(&input.text).map_err(|error| misread(&input, &error))?;
    let xml::Read { algorithm, dialect: _, contradictions, warnings } = read;
    for warning in warnings {
        warn(format!("{}: {warning}", input.name));
    }
    let target = target.unwrap_or(TargetName::Msccl);
    if contradictions.is_empty() {
        return from_steps(input.name, algorithm, launch, target);
    }
    Ok(Err(Doubt {
        file: input.name,
        kind: FaultKind::Structure,
        evidence: Evidence::Xml(contradictions),
        target: target.target(),
    }))
}

fn from_steps(
    file: String,
    mut algorithm: Algorithm,
    launch: &LaunchArgs,
    target: TargetName,
) -> Result<Loaded> {
    adapt(&mut algorithm, launch).map_err(|reason| Failure::new(format!("{file}: {reason}")))?;
    let target = target.target();
    Ok(Ok(Subject { file, algorithm, provenance: Provenance::Steps, target }))
}

/// Applies the options that make sense for an algorithm that is already scheduled.
fn adapt(algorithm: &mut Algorithm, launch: &LaunchArgs) -> std::result::Result<(), String> {
    let LaunchArgs {
        define,
        ranks,
        per_node,
        algorithm: name,
        collective,
        instances,
        protocol,
        placement,
    } = launch;
    let for_programs = [
        ("--define", !define.is_empty()),
        ("--ranks", ranks.is_some_and(|ranks| ranks != algorithm.collective.ranks)),
        ("--per-node", per_node.is_some()),
        ("--algorithm", name.as_ref().is_some_and(|name| *name != algorithm.name)),
        ("--instances", instances.is_some()),
        ("--protocol", protocol.is_some_and(|protocol| protocol != algorithm.protocol)),
    ];
    if let Some((option, _)) = for_programs.into_iter().find(|(_, given)| *given) {
        return Err(format!(
            "this file holds a finished algorithm, which {option} cannot change; give it the \
             program instead"
        ));
    }
    if let Some(name) = collective {
        crate::collective::claim(&mut algorithm.collective, name)?;
    }
    match placement.map(|placement| placement.placement()) {
        None => Ok(()),
        Some(asked) if algorithm.placement == asked || algorithm.placement == Placement::Both => {
            algorithm.placement = asked;
            Ok(())
        }
        Some(asked) => Err(format!("this algorithm runs {}, not {asked}", algorithm.placement)),
    }
}
