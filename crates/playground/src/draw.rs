//! Pictures and other products.

use msccl_interchange::xml;
use msccl_ir::{Algorithm, text};
use msccl_pages::draw::svg;
use msccl_pages::failure::{Failure, Result};
use msccl_pages::figures::{timeline_of, usual_sizes};
use msccl_pages::page::{
    PageRequest, Partial, PictureLimits, chunk_picture, html, schedule_picture,
};
use msccl_pages::size::ByteSize;
use msccl_pages::steps::RuntimeName;
use msccl_pages::study::Study;
use msccl_pages::timeline::usual_size;
use msccl_pages::verdict::{Proved, Verdict};
use msccl_simulate::timeline::svg as timeline_svg;
use msccl_syntax::{SourceMap, format as laid_out};
use serde_json::{Value, json};

use crate::request::{DialectName, Source};
use crate::source::{machine, studied};

/// Most boxes of a picture.
const MOST_BOXES: usize = 1500;

/// Most thread blocks of a timeline.
const MOST_ROWS: usize = 128;

/// What moves where.
///
/// # Errors
///
/// The file cannot be understood, or holds a finished algorithm.
pub fn chunks(source: &Source) -> Result<Value> {
    let studied = studied(source)?;
    let picture = chunk_picture(&studied.study, MOST_BOXES);
    let picture = picture.ok_or_else(|| {
        Failure::new("this file holds a finished algorithm, or is too large to be drawn")
    })?;
    Ok(drawn(&picture))
}

/// What thread blocks do.
///
/// # Errors
///
/// The file cannot be understood, or there is no schedule.
pub fn schedule(source: &Source) -> Result<Value> {
    let studied = studied(source)?;
    let algorithm = algorithm(&studied.study)?;
    let mut answer = match schedule_picture(&studied.study, MOST_BOXES) {
        Some(picture) => drawn(&picture),
        None => json!({ "note": "This schedule is too large to be drawn." }),
    };
    answer["text"] = text::print(algorithm).into();
    Ok(answer)
}

fn drawn((layers, note): &Partial) -> Value {
    json!({ "svg": svg::layers(layers), "note": note })
}

fn algorithm(study: &Study) -> Result<&Algorithm> {
    let found = study.algorithm.as_ref();
    found.ok_or_else(|| Failure::new("there is no schedule: the verdict says why"))
}

/// The proof of `study`.
///
/// # Errors
///
/// There is none.
pub fn proved(study: &Study) -> Result<&Proved> {
    match &study.verdict {
        Verdict::Proved(proved) => Ok(proved),
        Verdict::Refused(_) => {
            Err(Failure::new("there are estimates only of what is proved; this is refused"))
        }
    }
}

/// When steps run.
///
/// # Errors
///
/// The file is not proved, or does not serve such a call.
pub fn timeline(source: &Source, bytes: Option<u64>) -> Result<Value> {
    let studied = studied(source)?;
    let proved = proved(&studied.study)?;
    let size = bytes.map_or_else(|| usual_size(proved.verified.algorithm()), ByteSize);
    let mut found = timeline_of(proved, size, machine(source)?)?;
    let all = found.rows.len();
    found.rows.truncate(MOST_ROWS);
    let note = (all > MOST_ROWS).then(|| format!("{MOST_ROWS} of {all} thread blocks are shown."));
    Ok(json!({
        "svg": timeline_svg(&found), "note": note, "size": size.to_string(),
        "us": found.total_us, "how": found.service, "assumptions": found.assumptions,
    }))
}

/// The algorithm as XML, proved for the runtime that reads it.
///
/// # Errors
///
/// It is not proved for that runtime, or its XML cannot say it.
pub fn export(source: &Source, dialect: DialectName) -> Result<Value> {
    let (target, dialect) = match dialect {
        DialectName::Msccl => (RuntimeName::Msccl, xml::Dialect::Msccl),
        DialectName::Executor => (RuntimeName::Executor, xml::Dialect::Executor),
    };
    let studied = studied(&Source { target: Some(target), ..source.clone() })?;
    let proved = match &studied.study.verdict {
        Verdict::Proved(proved) => proved,
        Verdict::Refused(refused) => {
            let message = format!("refused for {}: {}", refused.target, refused.message);
            return Err(Failure::new(message));
        }
    };
    let written = xml::write(proved.verified.algorithm(), dialect);
    let written = written.map_err(|error| Failure::new(error.to_string()))?;
    Ok(json!({ "text": written }))
}

/// The program in its canonical layout.
///
/// # Errors
///
/// It cannot be parsed.
pub fn format(program: &str) -> Result<Value> {
    match laid_out(program) {
        Ok(text) => Ok(json!({ "text": text })),
        Err(diagnostics) => {
            let mut sources = SourceMap::new();
            sources.add("program", program);
            Err(Failure::diagnostics(&sources, &diagnostics))
        }
    }
}

/// The page of `msccl report`.
///
/// # Errors
///
/// The file cannot be understood.
pub fn page(source: &Source) -> Result<Value> {
    let studied = studied(source)?;
    let timeline = studied.study.algorithm.as_ref().map(usual_size).unwrap_or_default();
    let limits = PictureLimits::default();
    let request = PageRequest { machine: machine(source)?, sizes: usual_sizes(), timeline, limits };
    Ok(json!({ "html": html(&studied.study, &studied.warnings, &request) }))
}
