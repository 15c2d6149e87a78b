//! A proof or a refusal, and how to report it.

mod json;
mod unread;
pub mod words;

use msccl_compiler::chunk::ChunkDag;
use msccl_compiler::compile_chunks;
use msccl_ir::{Algorithm, StepKind, StepRef, Target};
use msccl_registry::Entry;
use msccl_syntax::{Diagnostic, SourceMap};
use msccl_verify::{Fault, FaultKind, Refusal, Verified, verify_claim};

use crate::diagnose::{Located, Warning};
use crate::subject::{FileFault, KnownInvalid, Loaded, Provenance, Subject, XmlSource};

pub use json::VerdictJson;

/// What became of an algorithm.
pub enum Verdict {
    /// It does what it promises.
    Proved(Box<Proved>),
    /// It does not.
    Refused(Box<Refused>),
}

/// A proof, and whose.
pub struct Proved {
    /// The file.
    pub file: String,
    /// The proof.
    pub verified: Verified,
    /// One instance of the program, if it requests several.
    pub one_instance: Option<ChunkDag>,
    /// Ranks on one node, for estimates of time.
    pub per_node: u32,
    /// Mistakes of its author that are no faults.
    pub warnings: Vec<Warning>,
}

impl Proved {
    /// What a communicator makes of the file.
    pub fn entry(&self) -> Entry {
        entry(&self.file, self.verified.clone(), self.one_instance.clone())
    }
}

/// What a communicator makes of `file`, which is proved: one instance of a program, and how many it
/// requests. What holds for all instances together holds for one, since no two share a chunk.
pub fn entry(file: &str, verified: Verified, one_instance: Option<ChunkDag>) -> Entry {
    let one = one_instance.and_then(|chunks| proved_instance(&verified, chunks));
    match one {
        Some((one, instances)) => Entry::new(file, true, one).with_instances(instances),
        None => Entry::new(file, true, verified),
    }
}

/// The proof of `one` instance of what is `verified`, and how many there are.
fn proved_instance(verified: &Verified, one: ChunkDag) -> Option<(Verified, u32)> {
    let (instances, claim) = (one.engine_instances, one.order_claim.map(|claim| claim.order));
    let target = verified.target();
    let algorithm = compile_chunks(one, target).ok()?.schedule.algorithm;
    let sizes = verified.algorithm().sizes;
    let one = verify_claim(Algorithm { sizes, ..algorithm }, target, claim).ok()?;
    Some((one, instances))
}

/// A refusal, for people and for programs.
pub struct Refused {
    /// The file.
    pub file: String,
    /// What would have run it.
    pub target: Target,
    /// Which kind of fault.
    pub kind: FaultKind,
    /// What was expected and what happens instead.
    pub message: String,
    /// Where: in steps, and in the source where there is one.
    pub at: Vec<Site>,
    /// How it comes about, line by line.
    pub events: Vec<String>,
    /// The source, with carets; empty if there is none.
    pub excerpt: String,
    /// The same for editors.
    pub diagnostics: Vec<Located>,
    /// The largest call that goes well, if the fault depends on the size.
    pub sound_up_to_bytes: Option<u64>,
    /// Further faults, one line each.
    pub others: Vec<String>,
}

/// A place of a fault.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Site {
    /// The step, if it is one.
    pub step: Option<StepRef>,
    /// The place in a file, if it is known.
    pub source: Option<(String, u32, u32)>,
}

impl Site {
    /// Line and column in the file, from 1, if they are known.
    pub fn line(&self) -> Option<(u32, u32)> {
        self.source.as_ref().map(|(_, line, column)| (*line, *column))
    }
}

impl Verdict {
    /// Mistakes of the author of what is proved that are no faults.
    pub fn warnings(&self) -> &[Warning] {
        match self {
            Verdict::Proved(proved) => &proved.warnings,
            Verdict::Refused(_) => &[],
        }
    }
}

/// Asks the verifier, unless the answer is known.
pub fn judge(loaded: Loaded) -> Verdict {
    match loaded {
        Err(invalid) => Verdict::Refused(Box::new(known_invalid(*invalid))),
        Ok(Subject { file, algorithm, one_instance, per_node, provenance, target }) => {
            let claim = provenance.order_claim().map(|claim| claim.order);
            match verify_claim(algorithm, &target, claim) {
                Ok(verified) => {
                    let warnings = unread::warnings(&file, &verified, &provenance);
                    let proved = Proved { file, verified, one_instance, per_node, warnings };
                    Verdict::Proved(Box::new(proved))
                }
                Err(refusal) => {
                    Verdict::Refused(Box::new(of_refusal(file, *refusal, &provenance, target)))
                }
            }
        }
    }
}

fn known_invalid(invalid: KnownInvalid) -> Refused {
    let KnownInvalid { file, kind, fault, target } = invalid;
    let (diagnostics, excerpt) = match fault {
        FileFault::Program(sources, diagnostics) => {
            let located = diagnostics.iter().map(|one| Located::of(&sources, one)).collect();
            (located, sources.render_all(&diagnostics))
        }
        FileFault::Xml(contradictions) => {
            let located = contradictions.iter().map(|one| Located::of_xml(&file, one));
            (located.collect::<Vec<_>>(), String::new())
        }
    };
    let mut messages = diagnostics.iter().map(|one| {
        if excerpt.is_empty() {
            format!("line {}, column {}: {}", one.line, one.column, one.message)
        } else {
            one.message.clone()
        }
    });
    let message = messages.next().unwrap_or_default();
    let others = if excerpt.is_empty() { messages.collect() } else { Vec::new() };
    let at = diagnostics.iter().take(1);
    let at = at.map(|one| site(None, &one.file, one.line, one.column)).collect();
    Refused {
        file,
        target,
        kind,
        message,
        at,
        events: Vec::new(),
        excerpt,
        diagnostics,
        sound_up_to_bytes: None,
        others,
    }
}

fn site(step: Option<StepRef>, file: &str, line: u32, column: u32) -> Site {
    Site { step, source: Some((file.to_owned(), line, column)) }
}

fn of_refusal(file: String, refusal: Refusal, provenance: &Provenance, target: Target) -> Refused {
    let Refusal { algorithm, faults } = refusal;
    let mut faults = faults.into_iter();
    // The verifier promises at least one; without any there would be nothing to say.
    let principal = faults.next();
    let others = faults.map(|fault| one_line(&fault)).collect();
    let (kind, message, at, events, sound_up_to_bytes) = match principal {
        Some(Fault { kind, message, at, events, sound_up_to_bytes }) => {
            (kind, message, at, events, sound_up_to_bytes)
        }
        None => (FaultKind::Structure, String::new(), Vec::new(), Vec::new(), None),
    };
    let shown = |sources: &SourceMap, diagnostic: Option<Diagnostic>| {
        let located = diagnostic.iter().map(|one| Located::of(sources, one)).collect();
        (diagnostic.map_or_else(String::new, |one| sources.render(&one)), located)
    };
    let (excerpt, diagnostics) = match provenance {
        Provenance::Program { sources, origins, claim } => match (kind, claim) {
            (FaultKind::Order, Some(claim)) => shown(sources, Some(claim.explain(&message))),
            _ => shown(sources, origins.explain(&message, &at)),
        },
        Provenance::Xml(xml) => shown(&xml.sources, elements(xml, &message, &at)),
        Provenance::Steps => (String::new(), Vec::new()),
    };
    let from_toolkit = matches!(provenance, Provenance::Xml(_))
        && kind == FaultKind::Uninitialised
        && at.first().is_some_and(|&step| adds_another_place(&algorithm, step));
    let mut at: Vec<_> = at.into_iter().map(|step| located(step, provenance)).collect();
    if at.is_empty() {
        let places = diagnostics.iter().take(1);
        at.extend(places.map(|one: &Located| site(None, &one.file, one.line, one.column)));
    }
    let mut events: Vec<_> = events.iter().map(ToString::to_string).collect();
    events.extend(from_toolkit.then(|| TOOLKITS_OPERAND.to_owned()));
    Refused {
        file,
        target,
        kind,
        message,
        at,
        events,
        excerpt,
        diagnostics,
        sound_up_to_bytes,
        others,
    }
}

/// A further fault, without its events.
fn one_line(fault: &Fault) -> String {
    let Fault { kind, message, at, events: _, sound_up_to_bytes: _ } = fault;
    match at.first() {
        // Many messages begin with the step.
        Some(at) if !message.starts_with(&at.to_string()) => format!("{kind}: {at}: {message}"),
        _ => format!("{kind}: {message}"),
    }
}

fn located(step: StepRef, provenance: &Provenance) -> Site {
    let place = match provenance {
        Provenance::Program { sources, origins, claim: _ } => {
            origins.of(step).map(|origin| (sources, origin.span))
        }
        Provenance::Xml(xml) => xml.span(step).map(|span| (&xml.sources, span)),
        Provenance::Steps => None,
    };
    let source = place.map(|(sources, span)| {
        let place = sources.line_column(span);
        (sources.name(span.file).to_owned(), place.line, place.column)
    });
    Site { step: Some(step), source }
}

/// Most elements of XML that are shown; the events name all.
const MOST_ELEMENTS: usize = 4;

/// The elements behind the steps of a fault, the principal one with the message.
fn elements(xml: &XmlSource, message: &str, at: &[StepRef]) -> Option<Diagnostic> {
    let mut places = at.iter().filter_map(|&step| Some((step, xml.span(step)?)));
    let (step, span) = places.next()?;
    let first = Diagnostic::error(span, message).saying(step.to_string());
    let others = places.take(MOST_ELEMENTS - 1);
    Some(others.fold(first, |shown, (step, span)| shown.label(span, step.to_string())))
}

/// Said of steps that add a place other than the one they write, which only a program of the public
/// toolkit means otherwise.
const TOOLKITS_OPERAND: &str = "the public toolkit writes the peer's place into `src`, where \
                                interpreters find their own that is added: give `src` and `dst` \
                                the same place";

/// Whether a step adds a local place to its message and stores the sum elsewhere.
fn adds_another_place(algorithm: &Algorithm, step: StepRef) -> bool {
    let step = algorithm.step(step);
    let adds = matches!(step.kind(), StepKind::RecvReduceCopy | StepKind::RecvReduceCopySend);
    adds && step.reads().next() != step.writes().next()
}

/// Numbers about an algorithm that need no proof.
pub struct Counts {
    /// Steps of all thread blocks of all ranks.
    pub steps: usize,
    /// Thread blocks of all ranks.
    pub thread_blocks: usize,
    /// Links.
    pub links: usize,
    /// Channels.
    pub channels: u32,
}

impl Counts {
    /// The numbers of `algorithm`.
    pub fn of(algorithm: &Algorithm) -> Self {
        Self {
            steps: algorithm.step_count(),
            thread_blocks: algorithm.thread_blocks().count(),
            links: algorithm.thread_blocks().map(|(_, _, block)| block.sends.len()).sum(),
            channels: algorithm.channel_count(),
        }
    }
}
