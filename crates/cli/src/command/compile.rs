//! `msccl compile`: prove, then write.

use std::io::Write;

use msccl_interchange::{json, xml};
use msccl_ir::{Algorithm, text};
use serde::Serialize;

use crate::args::{CompileArgs, Emit, Format, TargetName};
use crate::artifact;
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
    let emit = what_to_emit(args)?;
    if args.file_written().is_none() {
        output.divert_reports();
    }
    let progress = Progress::start(format!("compiling {}", args.file), output.is_quiet());
    let loaded = load(args, emit, output)?;
    if args.no_verify
        && let Ok(subject) = &loaded
    {
        output.warn(format_args!("{} is written without a proof", subject.file));
        let bytes = write(args, emit, &subject.algorithm, output)?;
        drop(progress);
        report(args, None, bytes, output);
        return Ok(Exit::Success);
    }
    progress.now(format!("proving {}", args.file));
    let could_be_written = loaded.is_ok();
    let verdict = verdict::judge(loaded);
    let bytes = match &verdict {
        Verdict::Refused(_) => None,
        Verdict::Proved(proved) => {
            progress.now(format!("writing {}", args.file_written().unwrap_or("standard output")));
            write(args, emit, proved.verified.algorithm(), output)?
        }
    };
    drop(progress);
    report(args, Some(&verdict), bytes, output);
    let human = args.report.format == Format::Human;
    if human && could_be_written && matches!(verdict, Verdict::Refused(_)) {
        output.detail("help     nothing is written; --no-verify writes it without a proof");
    }
    Ok(verdict.exit())
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
        (None, Some(_)) => {
            Err(artifact::unknown_extension(path, ".xml, .json or .txt", "--emit xml"))
        }
    }
}

fn load(args: &CompileArgs, emit: Emit, output: &mut Output) -> Result<Loaded> {
    let for_dialect = || (emit == Emit::Xml).then(|| args.dialect.target());
    let target: Option<TargetName> = args.target.or_else(for_dialect);
    let mut warn = |warning| output.warn(warning);
    subject::load(Input::read(&args.file)?, &args.launch, target, &mut warn)
}

/// Writes to the requested file and returns its size, or to standard output.
fn write(
    args: &CompileArgs,
    emit: Emit,
    algorithm: &Algorithm,
    output: &mut Output,
) -> Result<Option<u64>> {
    let Some(path) = args.file_written() else {
        let written = emit_to(args, emit, algorithm, output.made());
        return written.map(|()| None).map_err(Failure::new);
    };
    let written = artifact::write(path, |out| emit_to(args, emit, algorithm, out));
    written.map(Some).map_err(Failure::new)
}

fn emit_to(
    args: &CompileArgs,
    emit: Emit,
    algorithm: &Algorithm,
    out: &mut impl Write,
) -> std::result::Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("cannot write the algorithm: {error}");
    match emit {
        Emit::Xml => {
            xml::write_to(algorithm, args.dialect.dialect(), out).map_err(|error| failed(&error))
        }
        Emit::Json => json::write_to(algorithm, out).map_err(|error| failed(&error)),
        Emit::Text => {
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

fn report(args: &CompileArgs, verdict: Option<&Verdict>, bytes: Option<u64>, output: &mut Output) {
    let path = args.file_written();
    if args.report.format == Format::Json {
        let verdict = verdict.map(Verdict::to_json);
        return output.json(&CompileJson {
            verdict,
            output: path.filter(|_| bytes.is_some()),
            bytes,
        });
    }
    match verdict {
        // Whoever pipes the result has no use for praise.
        Some(Verdict::Proved(_)) if path.is_none() => {}
        Some(verdict) => verdict.print(output),
        None => {}
    }
    if let (Some(path), Some(bytes)) = (path, bytes) {
        output.detail(format_args!("written  {path}, {}", ByteSize(bytes)));
    }
}
