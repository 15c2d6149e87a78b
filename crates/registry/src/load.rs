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

/// Reads and proves `file` for communicators of `shape`.
pub(crate) fn load(file: &File, shape: Shape) -> Result<Entry, Refused> {
    let refuse = |reason: String| Refused {
        name: file.name.clone(),
        reason: reason.lines().next().unwrap_or_default().to_owned(),
    };
    let algorithm = file.content.clone().and_then(|bytes| read(&file.name, &bytes, shape));
    let algorithm = algorithm.map_err(refuse)?;
    let ranks = algorithm.collective.ranks;
    if ranks != shape.ranks {
        let found = shape.ranks;
        return Err(refuse(format!("it is for {ranks} ranks, and the communicator has {found}")));
    }
    let verified = prove(algorithm).map_err(|refusal| {
        refuse(refusal.faults.first().map(ToString::to_string).unwrap_or_default())
    })?;
    Ok(Entry {
        name: file.name.clone(),
        loaded: true,
        fingerprint: Fingerprint::of(verified.algorithm()),
        verified: Arc::new(verified),
    })
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

/// The algorithm in `bytes`, whatever its form.
fn read(name: &str, bytes: &[u8], shape: Shape) -> Result<Algorithm, String> {
    match bytes.trim_ascii_start().first() {
        Some(b'<') => read_xml(bytes),
        Some(b'{') => json::read_bytes(bytes).map_err(|error| error.to_string()),
        _ => {
            let text = std::str::from_utf8(bytes).map_err(|_| "it is not text".to_owned())?;
            text::parse(text).or_else(|_| read_program(name, text, shape))
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

fn read_program(name: &str, text: &str, shape: Shape) -> Result<Algorithm, String> {
    let mut sources = SourceMap::new();
    let file = sources.add(name, text);
    let launch =
        Launch { ranks: Some(shape.ranks), per_node: Some(shape.per_node), ..Launch::default() };
    let compiled = compile(&mut sources, file, &NoFiles, &launch, &Target::native());
    compiled.map(|compiled| compiled.schedule.algorithm).map_err(|diagnostics| {
        diagnostics.first().map_or_else(String::new, |first| located(&sources, first))
    })
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
