//! `msccl compile`: prove, then write.

use std::io::Write;

use msccl_interchange::{json, xml};
use msccl_ir::{Algorithm, Target, text};
use serde::Serialize;

use crate::args::{CompileArgs, Emit, Format, TargetName};
use crate::artifact;
use crate::command::traces::{TraceSet, Written};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::input::Input;
use crate::output::Output;
use crate::progress::Progress;
use crate::size::ByteSize;
use crate::subject::{self, Loaded};
use crate::verdict::{self, Verdict, VerdictJson};

/// Writes the algorithm of the file, unless it is refused.
pub fn compile(args: &CompileArgs, output: &mut Output) -> Result<Exit> {
    let product = Product::of(args)?;
    if args.file_written().is_none() {
        output.divert_reports();
    }
    let progress = Progress::start(format!("compiling {}", args.file), output.is_quiet());
    let loaded = load(args, &product, output)?;
    if args.no_verify
        && let Ok(subject) = &loaded
    {
        output.warn(format_args!("{} is written without a proof", subject.file));
        let written = write(args, &product, &subject.algorithm, &subject.target, output)?;
        drop(progress);
        report(args, None, written, output);
        return Ok(Exit::Success);
    }
    progress.now(format!("proving {}", args.file));
    let could_be_written = loaded.is_ok();
    let verdict = verdict::judge(loaded);
    let written = match &verdict {
        Verdict::Refused(_) => None,
        Verdict::Proved(proved) => {
            progress.now(format!("writing {}", args.file_written().unwrap_or("standard output")));
            let algorithm = proved.verified.algorithm();
            write(args, &product, algorithm, proved.verified.target(), output)?
        }
    };
    drop(progress);
    report(args, Some(&verdict), written, output);
    let human = args.report.format == Format::Human;
    if human && could_be_written && matches!(verdict, Verdict::Refused(_)) {
        output.detail("help     nothing is written; --no-verify writes it without a proof");
    }
    Ok(verdict::exit(&verdict))
}

/// What is to be written.
enum Product<'a> {
    /// The algorithm, as one file or on standard output.
    Algorithm(Form),
    /// Traces, each in a file of its own.
    Traces(TraceSet<'a>),
}

/// A form of the algorithm.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Xml,
    Json,
    Text,
}

impl<'a> Product<'a> {
    fn of(args: &'a CompileArgs) -> Result<Self> {
        let form = match what_to_emit(args)? {
            Emit::Xml => Form::Xml,
            Emit::Json => Form::Json,
            Emit::Text => Form::Text,
            Emit::Chakra => return TraceSet::of(args).map(Self::Traces),
        };
        if args.size.is_some() || args.tb_rate.is_some() {
            let text = "--size and --tb-rate are for traces; say --emit chakra, or leave them out";
            return Err(Failure::new(text));
        }
        Ok(Self::Algorithm(form))
    }
}

/// What is requested, by an option or by the name of the file to write.
fn what_to_emit(args: &CompileArgs) -> Result<Emit> {
    let Some(path) = args.file_written() else { return Ok(args.emit.unwrap_or(Emit::Xml)) };
    artifact::expect_other_than(&args.file, path)?;
    match (args.emit, artifact::extension(path).as_deref()) {
        (Some(emit), _) => Ok(emit),
        (None, Some("xml") | None) => Ok(Emit::Xml),
        (None, Some("json")) => Ok(Emit::Json),
        (None, Some("txt" | "text" | "ir")) => Ok(Emit::Text),
        (None, Some("et")) => Ok(Emit::Chakra),
        (None, Some(_)) => {
            Err(artifact::unknown_extension(path, ".xml, .json, .txt or .et", "--emit xml"))
        }
    }
}

fn load(args: &CompileArgs, product: &Product<'_>, output: &mut Output) -> Result<Loaded> {
    let of_dialect: Option<TargetName> = match product {
        Product::Algorithm(Form::Xml) => Some(args.dialect.target()),
        Product::Algorithm(Form::Json | Form::Text) | Product::Traces(_) => None,
    };
    let target = args.target.or(of_dialect);
    let mut warn = |warning| output.warn(warning);
    subject::load(Input::read(&args.file)?, &args.launch, target, &mut warn)
}

/// Writes to the requested file, or files, and says so, or to standard output.
fn write(
    args: &CompileArgs,
    product: &Product<'_>,
    algorithm: &Algorithm,
    target: &Target,
    output: &mut Output,
) -> Result<Option<Written>> {
    let form = match product {
        Product::Traces(traces) => return traces.write(algorithm, target).map(Some),
        Product::Algorithm(form) => *form,
    };
    let Some(path) = args.file_written() else {
        let written = write_to(args, form, algorithm, output.made());
        return written.map(|()| None).map_err(Failure::new);
    };
    let written = artifact::write(path, |out| write_to(args, form, algorithm, out));
    let written = written.map(|bytes| Written { names: path.to_owned(), bytes });
    written.map(Some).map_err(Failure::new)
}

fn write_to(
    args: &CompileArgs,
    form: Form,
    algorithm: &Algorithm,
    out: &mut impl Write,
) -> std::result::Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("cannot write the algorithm: {error}");
    match form {
        Form::Xml => {
            xml::write_to(algorithm, args.dialect.dialect(), out).map_err(|error| failed(&error))
        }
        Form::Json => json::write_to(algorithm, out).map_err(|error| failed(&error)),
        Form::Text => {
            out.write_all(text::print(algorithm).as_bytes()).map_err(|error| failed(&error))
        }
    }
}

/// What was proved and written, for programs.
#[derive(Serialize)]
struct CompileJson<'a> {
    #[serde(flatten)]
    verdict: Option<VerdictJson<'a>>,
    output: Option<&'a str>,
    bytes: Option<u64>,
}

fn report(
    args: &CompileArgs,
    verdict: Option<&Verdict>,
    written: Option<Written>,
    output: &mut Output,
) {
    let path = args.file_written();
    if args.report.format == Format::Json {
        let verdict = verdict.map(Verdict::to_json);
        return output.json(&CompileJson {
            verdict,
            output: path.filter(|_| written.is_some()),
            bytes: written.map(|written| written.bytes),
        });
    }
    match verdict {
        // Whoever pipes the result has no use for praise.
        Some(Verdict::Proved(_)) if path.is_none() => {}
        Some(verdict) => verdict::print(verdict, output),
        None => {}
    }
    if let Some(Written { names, bytes }) = written {
        output.detail(format_args!("written  {names}, {}", ByteSize(bytes)));
    }
}
