//! Algorithm files that users name.
//!
//! An algorithm that was scheduled elsewhere (XML, JSON, text form) serves the placement that it
//! says. A program says for which placement it was written, and serves the other one too where it
//! compiles and is proved for that. Where the collective has a root, only the root knows the
//! placement of a call: there an algorithm that is proved for both at once is taken, whatever it
//! says, or else one for each placement, if both say the same over links.
//!
//! Of a program that requests several instances, one is compiled and proved, as of a built-in
//! algorithm. Whoever executes it makes the others: instances share no chunk, so that what holds
//! for one holds for all.

use std::fmt;
use std::sync::Arc;

use msccl_collective::{NamedOrder, Placement};
use msccl_compiler::chunk::OrderClaim;
use msccl_compiler::compile;
use msccl_compiler::evaluate::{InstancesBy, Launch, NoFiles};
use msccl_compiler::schedule::{Origins, Schedule, SourceLines};
use msccl_interchange::{json, xml};
use msccl_ir::{Algorithm, Target, text};
use msccl_syntax::{Diagnostic, FileId, LineColumn, SourceMap};
use msccl_verify::{FaultKind, Refusal, Verified, verify_claim};

use crate::{Entry, Shape, traffic};

/// A file, read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct File {
    /// What messages call it.
    pub name: String,
    /// Its content, or why it could not be read.
    pub content: Result<Vec<u8>, String>,
}

/// A file that is not used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused {
    /// Its name.
    pub name: String,
    /// Why, in one line.
    pub reason: String,
    /// The lines of the program that are at fault, as `msccl verify` shows them; empty where none
    /// is known, and for files that are not programs.
    pub excerpt: String,
    /// Whether nothing is wrong with it but that it is for another number of ranks.
    pub is_for_other_ranks: bool,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Refused { name, reason, excerpt, is_for_other_ranks: _ } = self;
        write!(f, "{name} is not used: {reason}")?;
        if excerpt.is_empty() { Ok(()) } else { write!(f, "\n{}", excerpt.trim_end()) }
    }
}

/// What is allowed in the text of a file that is used, but hardly meant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Warning {
    /// The name of the file.
    pub name: String,
    /// Where, and what, in one line.
    pub text: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Warning { name, text } = self;
        write!(f, "{name}, {text}")
    }
}

/// Reads and proves `file` for communicators of `shape`: what serves, an entry for each placement
/// that needs its own, and what its author may want to know.
pub(crate) fn load(file: &File, shape: Shape) -> Result<(Vec<Entry>, Vec<Warning>), Refused> {
    let refuse = |Unusable { reason, excerpt }| Refused {
        name: file.name.clone(),
        reason: reason.lines().next().unwrap_or_default().to_owned(),
        excerpt,
        is_for_other_ranks: false,
    };
    let content = file.content.clone().map_err(Unusable::from);
    let read = content.and_then(|bytes| read(&file.name, &bytes, shape));
    let Read { algorithm, other, instances, warnings, program } = read.map_err(refuse)?;
    let ranks = algorithm.algorithm.collective.ranks;
    if ranks != shape.ranks {
        let found = shape.ranks;
        let reason = format!("it is for {ranks} ranks, and the communicator has {found}");
        return Err(Refused { is_for_other_ranks: true, ..refuse(reason.into()) });
    }
    let claim = program.as_ref().and_then(|program| program.claim).map(|claim| claim.order);
    let verified = prove(algorithm, other, claim);
    let verified = verified.map_err(|refusal| refuse(unproved(&refusal, program.as_ref())))?;
    let warn = |text| Warning { name: file.name.clone(), text };
    let entry = |ProvedSource { verified, lines }| {
        let entry = Entry::new(file.name.clone(), true, verified);
        entry.with_instances(instances).with_source(lines)
    };
    Ok((verified.into_iter().map(entry).collect(), warnings.into_iter().map(warn).collect()))
}

/// The proof of `algorithm`, or of both placements together where the collective has a root; then
/// that of `other`, the same for the other placement, as far as it holds and is needed. All of them
/// add in the order of the `claim`.
fn prove(
    algorithm: Scheduled,
    other: Option<Scheduled>,
    claim: Option<NamedOrder>,
) -> Result<Vec<ProvedSource>, Box<Refusal>> {
    let target = Target::native();
    let root = algorithm.algorithm.collective.root();
    let verify = |Scheduled { algorithm, lines }| {
        let verified = verify_claim(algorithm, &target, claim)?;
        Ok::<_, Box<Refusal>>(ProvedSource { verified, lines })
    };
    if root.is_some() {
        let both = |of: &Scheduled| {
            let Scheduled { algorithm, lines } = of.clone();
            let algorithm = Algorithm { placement: Placement::Both, ..algorithm };
            verify(Scheduled { algorithm, lines }).ok()
        };
        if let Some(proved) = both(&algorithm).or_else(|| other.as_ref().and_then(both)) {
            return Ok(vec![proved]);
        }
    }
    let first = verify(algorithm)?;
    let second = other.and_then(|other| verify(other).ok());
    let suits = |second: &ProvedSource| {
        let (first, second) = (&first.verified, &second.verified);
        root.is_none_or(|root| traffic::same_traffic(first, second, root))
    };
    let second = second.filter(suits);
    Ok([Some(first), second].into_iter().flatten().collect())
}

/// An algorithm, and the lines of its steps if it comes from a program.
#[derive(Clone)]
struct Scheduled {
    algorithm: Algorithm,
    lines: Option<Arc<SourceLines>>,
}

/// The same with its proof.
struct ProvedSource {
    verified: Verified,
    lines: Option<Arc<SourceLines>>,
}

/// What a file holds.
struct Read {
    /// The algorithm, for the placement that the file says.
    algorithm: Scheduled,
    /// The same for the other placement, where it can be had.
    other: Option<Scheduled>,
    /// Instances of it that are requested.
    instances: u32,
    /// What was noticed about the text that it comes from.
    warnings: Vec<String>,
    /// The program that it comes from, if it comes from one.
    program: Option<ProgramSource>,
}

/// A program, the statements behind the steps of its algorithm, and the order that it claims.
struct ProgramSource {
    sources: SourceMap,
    origins: Origins,
    claim: Option<OrderClaim>,
}

/// Why a file is not used.
struct Unusable {
    reason: String,
    /// As in [`Refused`].
    excerpt: String,
}

impl From<String> for Unusable {
    fn from(reason: String) -> Self {
        Self { reason, excerpt: String::new() }
    }
}

/// The first fault, and the statements behind it.
fn unproved(refusal: &Refusal, program: Option<&ProgramSource>) -> Unusable {
    let Some(fault) = refusal.faults.first() else { return String::new().into() };
    let excerpt = program.and_then(|ProgramSource { sources, origins, claim }| {
        let diagnostic = if fault.kind == FaultKind::Order {
            claim.map(|claim| claim.explain(&fault.message))
        } else {
            origins.explain(&fault.message, &fault.at)
        };
        Some(excerpt(sources, &diagnostic?))
    });
    Unusable { reason: fault.to_string(), excerpt: excerpt.unwrap_or_default() }
}

/// The text that a diagnostic is about, without its message.
fn excerpt(sources: &SourceMap, diagnostic: &Diagnostic) -> String {
    let rendered = sources.render(diagnostic);
    rendered.split_once('\n').map_or_else(String::new, |(_, excerpt)| excerpt.to_owned())
}

/// The algorithm in `bytes`, whatever its form.
fn read(name: &str, bytes: &[u8], shape: Shape) -> Result<Read, Unusable> {
    let unremarked = |algorithm| {
        let algorithm = Scheduled { algorithm, lines: None };
        Read { algorithm, other: None, instances: 1, warnings: Vec::new(), program: None }
    };
    match bytes.trim_ascii_start().first() {
        Some(b'<') => Ok(unremarked(read_xml(bytes)?)),
        Some(b'{') => {
            json::read_bytes(bytes).map(unremarked).map_err(|error| error.to_string().into())
        }
        _ => {
            let text = std::str::from_utf8(bytes).map_err(|_| "it is not text".to_owned())?;
            text::parse(text).map(unremarked).or_else(|_| read_program(name, text, shape))
        }
    }
}

fn read_xml(bytes: &[u8]) -> Result<Algorithm, String> {
    let read = xml::read_bytes(bytes).map_err(|error| error.to_string())?;
    match read.contradictions.first() {
        Some(contradiction) => Err(format!("structure: {contradiction}")),
        None => Ok(read.algorithm),
    }
}

fn read_program(name: &str, text: &str, shape: Shape) -> Result<Read, Unusable> {
    let mut sources = SourceMap::new();
    let file = sources.add(name, text);
    let launch = Launch {
        ranks: Some(shape.ranks),
        per_node: Some(shape.per_node),
        instances_by: InstancesBy::Engine,
        ..Launch::default()
    };
    let compiled = compile(&mut sources, file, &NoFiles, &launch, &Target::native());
    let compiled = compiled.map_err(|diagnostics| match diagnostics.first() {
        None => String::new().into(),
        Some(first) => {
            Unusable { reason: located(&sources, first), excerpt: excerpt(&sources, first) }
        }
    })?;
    let warnings = compiled.chunks.warnings.iter().map(|warning| located(&sources, warning));
    let warnings = warnings.collect();
    let (claim, instances) = (compiled.chunks.order_claim, compiled.chunks.engine_instances);
    let Schedule { algorithm, origins } = compiled.schedule;
    let other = if algorithm.placement.serves_in_place() {
        Placement::OutOfPlace
    } else {
        Placement::InPlace
    };
    let launch = Launch { placement: Some(other), ..launch };
    let other = compile(&mut sources, file, &NoFiles, &launch, &Target::native());
    let other = other.ok().map(|compiled| scheduled(compiled.schedule, &sources, file));
    let algorithm = scheduled(Schedule { algorithm, origins: origins.clone() }, &sources, file);
    let program = Some(ProgramSource { sources, origins, claim });
    Ok(Read { algorithm, other, instances, warnings, program })
}

/// What was compiled from `file`, with the lines of its steps.
fn scheduled(schedule: Schedule, sources: &SourceMap, file: FileId) -> Scheduled {
    let Schedule { algorithm, origins } = schedule;
    Scheduled { algorithm, lines: Some(Arc::new(origins.into_lines(sources, file))) }
}

/// `line 2, column 1: …`
fn located(sources: &SourceMap, diagnostic: &Diagnostic) -> String {
    let message = &diagnostic.message;
    diagnostic.labels.first().map_or_else(
        || message.clone(),
        |label| {
            let LineColumn { line, column } = sources.line_column(label.span);
            format!("line {line}, column {column}: {message}")
        },
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use msccl_collective::{Rank, StepIndex, TbIndex};
    use msccl_ir::StepRef;
    use msccl_verify::{Fault, FaultKind};

    use super::*;

    const SWAP: &str = "\
fn send(from, to) { output@to[from] = input@from }
algorithm swap(ranks N) implements allgather(chunks 1) {
    for r in 0..N, q in 0..N { send(r, q) }
}";

    /// What is shown of a fault at these steps of rank 0's first thread block.
    fn shown(steps: &[u32]) -> String {
        let read = read("swap.msccl", SWAP.as_bytes(), Shape { ranks: 2, per_node: 2 });
        let Ok(Read { algorithm, program, .. }) = read else { panic!("it compiles") };
        let at = |step: &u32| StepRef { rank: Rank(0), tb: TbIndex(0), step: StepIndex(*step) };
        let fault = Fault {
            kind: FaultKind::Race,
            message: "r0 tb0 s0 races".to_owned(),
            at: steps.iter().map(at).collect(),
            events: Vec::new(),
            sound_up_to_bytes: None,
        };
        let refusal = Refusal { algorithm: algorithm.algorithm, faults: vec![fault] };
        let Unusable { reason, excerpt } = unproved(&refusal, program.as_ref());
        assert!(reason.contains("r0 tb0 s0 races"), "{reason}");
        assert_eq!(unproved(&refusal, None).excerpt, "");
        excerpt
    }

    #[test]
    fn steps_have_the_lines_of_their_statements() {
        let file = File { name: "swap.msccl".to_owned(), content: Ok(SWAP.into()) };
        let Ok((entries, _)) = load(&file, Shape { ranks: 2, per_node: 2 }) else {
            panic!("serves")
        };
        assert_eq!(entries.len(), 2, "one for each placement");
        for entry in entries {
            let source = entry.source.unwrap();
            let algorithm = entry.verified.algorithm();
            assert_eq!(source.name, "swap.msccl");
            for (rank, tb, block) in algorithm.thread_blocks() {
                for step in (0..block.steps.len()).map(StepIndex::from) {
                    assert_eq!(source.line(StepRef { rank, tb, step }), Some(1));
                }
            }
            let beyond = StepRef { rank: Rank(9), tb: TbIndex(0), step: StepIndex(0) };
            assert_eq!(source.line(beyond), None);
        }
    }

    #[test]
    fn statements_behind_a_fault_of_the_proof_are_shown() {
        let expected = " --> swap.msccl:1:21
  |
1 | fn send(from, to) { output@to[from] = input@from }
  |                     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^ became r0 tb0 s0
...
3 |     for r in 0..N, q in 0..N { send(r, q) }
  |                                ---------- called from here
";
        assert_eq!(shown(&[0]), expected);
        assert_eq!(shown(&[]), "");
        assert_eq!(shown(&[1000]), "");
    }
}
