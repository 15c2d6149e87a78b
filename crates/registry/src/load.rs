//! Files that somebody wants to be used.
//!
//! An algorithm that was scheduled elsewhere (XML, JSON, text form) serves the placement that it says. A program says for
//! which placement it was written, and serves the other one too where it compiles and is proved for that. Where the
//! collective has a root, only the root knows the placement of a call: there an algorithm that is proved for both at once
//! is taken, whatever it says, or else one for each placement, if both say the same over links.

use std::fmt;
use std::sync::Arc;

use msccl_collective::Placement;
use msccl_compiler::compile;
use msccl_compiler::evaluate::{Launch, NoFiles};
use msccl_interchange::{json, xml};
use msccl_ir::{Algorithm, Target, text};
use msccl_syntax::{Diagnostic, LineColumn, SourceMap};
use msccl_verify::{Refusal, Verified, verify};

use crate::{Entry, Fingerprint, Shape, traffic};

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
    /// Whether nothing is wrong with it but that it is for another number of ranks.
    pub is_for_other_ranks: bool,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Refused { name, reason, is_for_other_ranks: _ } = self;
        write!(f, "{name} is not used: {reason}")
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

/// Reads and proves `file` for communicators of `shape`: what serves, an entry for each placement that needs its own, and
/// what its author may want to know.
pub(crate) fn load(file: &File, shape: Shape) -> Result<(Vec<Entry>, Vec<Warning>), Refused> {
    let refuse = |reason: String| Refused {
        name: file.name.clone(),
        reason: reason.lines().next().unwrap_or_default().to_owned(),
        is_for_other_ranks: false,
    };
    let read = file.content.clone().and_then(|bytes| read(&file.name, &bytes, shape));
    let Read { algorithm, other, warnings } = read.map_err(refuse)?;
    let ranks = algorithm.collective.ranks;
    if ranks != shape.ranks {
        let found = shape.ranks;
        let reason = format!("it is for {ranks} ranks, and the communicator has {found}");
        return Err(Refused { is_for_other_ranks: true, ..refuse(reason) });
    }
    let verified = prove(algorithm, other).map_err(|refusal| {
        refuse(refusal.faults.first().map(ToString::to_string).unwrap_or_default())
    })?;
    let warn = |text| Warning { name: file.name.clone(), text };
    let entry = |verified: Verified| Entry {
        name: file.name.clone(),
        loaded: true,
        fingerprint: Fingerprint::of(verified.algorithm()),
        verified: Arc::new(verified),
    };
    Ok((verified.into_iter().map(entry).collect(), warnings.into_iter().map(warn).collect()))
}

/// The proof of `algorithm`, or of both placements together where the collective has a root; then that of `other`, the
/// same for the other placement, as far as it holds and is needed.
fn prove(algorithm: Algorithm, other: Option<Algorithm>) -> Result<Vec<Verified>, Box<Refusal>> {
    let target = Target::native();
    let root = algorithm.collective.root();
    if root.is_some() {
        let both = |of: &Algorithm| {
            verify(Algorithm { placement: Placement::Both, ..of.clone() }, &target).ok()
        };
        if let Some(proved) = both(&algorithm).or_else(|| other.as_ref().and_then(both)) {
            return Ok(vec![proved]);
        }
    }
    let first = verify(algorithm, &target)?;
    let second = other.and_then(|other| verify(other, &target).ok());
    let suits = |second: &Verified| root.is_none_or(|root| traffic::agree(&first, second, root));
    let second = second.filter(suits);
    Ok([Some(first), second].into_iter().flatten().collect())
}

/// What a file holds.
struct Read {
    /// The algorithm, for the placement that the file says.
    algorithm: Algorithm,
    /// The same for the other placement, where it can be had.
    other: Option<Algorithm>,
    /// What was noticed about the text that it comes from.
    warnings: Vec<String>,
}

/// The algorithm in `bytes`, whatever its form.
fn read(name: &str, bytes: &[u8], shape: Shape) -> Result<Read, String> {
    let unremarked = |algorithm| Read { algorithm, other: None, warnings: Vec::new() };
    match bytes.trim_ascii_start().first() {
        Some(b'<') => read_xml(bytes).map(unremarked),
        Some(b'{') => json::read_bytes(bytes).map(unremarked).map_err(|error| error.to_string()),
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

fn read_program(name: &str, text: &str, shape: Shape) -> Result<Read, String> {
    let mut sources = SourceMap::new();
    let file = sources.add(name, text);
    let launch =
        Launch { ranks: Some(shape.ranks), per_node: Some(shape.per_node), ..Launch::default() };
    let compiled = compile(&mut sources, file, &NoFiles, &launch, &Target::native());
    let compiled = compiled.map_err(|diagnostics| {
        diagnostics.first().map_or_else(String::new, |first| located(&sources, first))
    })?;
    let warnings = compiled.chunks.warnings.iter().map(|warning| located(&sources, warning));
    let warnings = warnings.collect();
    let algorithm = compiled.schedule.algorithm;
    let other = if algorithm.placement.serves_in_place() {
        Placement::OutOfPlace
    } else {
        Placement::InPlace
    };
    let launch = Launch { placement: Some(other), ..launch };
    let other = compile(&mut sources, file, &NoFiles, &launch, &Target::native());
    let other = other.ok().map(|compiled| compiled.schedule.algorithm);
    Ok(Read { algorithm, other, warnings })
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
