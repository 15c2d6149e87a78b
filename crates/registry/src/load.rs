//! Files that somebody wants to be used.

use std::fmt;
use std::sync::Arc;

use msccl_collective::Placement;
use msccl_compiler::compile;
use msccl_compiler::evaluate::{Launch, NoFiles};
use msccl_interchange::{json, xml};
use msccl_ir::{Algorithm, Target, text};
use msccl_syntax::{Diagnostic, LineColumn, SourceMap};
use msccl_verify::{Refusal, Verified, verify};

use crate::{Entry, Fingerprint, Shape};

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
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Refused { name, reason } = self;
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

/// Reads and proves `file` for communicators of `shape`; tells what its author may want to know.
pub(crate) fn load(file: &File, shape: Shape) -> Result<(Entry, Vec<Warning>), Refused> {
    let refuse = |reason: String| Refused {
        name: file.name.clone(),
        reason: reason.lines().next().unwrap_or_default().to_owned(),
    };
    let algorithm = file.content.clone().and_then(|bytes| read(&file.name, &bytes, shape));
    let (algorithm, warnings) = algorithm.map_err(refuse)?;
    let ranks = algorithm.collective.ranks;
    if ranks != shape.ranks {
        let found = shape.ranks;
        return Err(refuse(format!("it is for {ranks} ranks, and the communicator has {found}")));
    }
    let verified = prove(algorithm).map_err(|refusal| {
        refuse(refusal.faults.first().map(ToString::to_string).unwrap_or_default())
    })?;
    let warn = |text| Warning { name: file.name.clone(), text };
    let entry = Entry {
        name: file.name.clone(),
        loaded: true,
        fingerprint: Fingerprint::of(verified.algorithm()),
        verified: Arc::new(verified),
    };
    Ok((entry, warnings.into_iter().map(warn).collect()))
}

/// The proof of `algorithm`. Where the collective has a root, only that knows whether a call is in place, so
/// an algorithm that says less is tried for both placements first.
fn prove(algorithm: Algorithm) -> Result<Verified, Box<Refusal>> {
    let target = Target::native();
    if algorithm.collective.root().is_some() && algorithm.placement != Placement::Both {
        let both = Algorithm { placement: Placement::Both, ..algorithm.clone() };
        if let Ok(verified) = verify(both, &target) {
            return Ok(verified);
        }
    }
    verify(algorithm, &target)
}

/// An algorithm, and what was noticed about the text that it comes from.
type Read = (Algorithm, Vec<String>);

/// The algorithm in `bytes`, whatever its form.
fn read(name: &str, bytes: &[u8], shape: Shape) -> Result<Read, String> {
    let unremarked = |algorithm| (algorithm, Vec::new());
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
    Ok((compiled.schedule.algorithm, warnings.collect()))
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
