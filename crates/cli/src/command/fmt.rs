//! `msccl fmt`: the one canonical layout.

use std::io::Write;

use msccl_syntax::SourceMap;
use serde::Serialize;

use crate::args::{FmtArgs, Format};
use crate::artifact;
use crate::exit::Exit;
use crate::failure::{Failure, FailureJson, Result};
use crate::input::{Content, Input, STDIN};
use crate::output::{Output, Paint};

/// What became of one file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FormattedText {
    /// It was canonical.
    Kept,
    /// It was not; without `--check`, it is now.
    Changed,
}

/// Lays out every file; one with mistakes does not keep the others from it.
pub fn fmt(args: &FmtArgs, output: &mut Output) -> Result<Exit> {
    let mut outcomes = Vec::with_capacity(args.files.len());
    for file in &args.files {
        let outcome = lay_out(file, args.check, output);
        if args.report.format == Format::Human {
            print(file, &outcome, args.check, output);
        }
        outcomes.push((file, outcome));
    }
    if args.report.format == Format::Json {
        let objects: Vec<_> =
            outcomes.iter().map(|(file, done)| FormatObject::of(file, done)).collect();
        // The layout of standard input is on standard output.
        if !args.check && args.files.iter().any(|file| file == STDIN) {
            output.divert_reports();
        }
        output.json_one_or_many(&objects);
    }
    let exits = outcomes.iter().map(|(_, outcome)| exit(outcome, args.check));
    Ok(exits.fold(Exit::Success, Exit::and))
}

/// Lays out one file, in place unless it is standard input or only `check` is requested.
fn lay_out(file: &str, check: bool, output: &mut Output) -> Result<FormattedText> {
    let input = Input::read(file)?;
    expect_program(&input)?;
    let Input { name, text } = input;
    let mut sources = SourceMap::new();
    let id = sources.add(name, text);
    let formatted = msccl_syntax::format(sources.text(id))
        .map_err(|diagnostics| Failure::diagnostics(&sources, &diagnostics))?;
    let layout =
        if formatted == sources.text(id) { FormattedText::Kept } else { FormattedText::Changed };
    if check {
        return Ok(layout);
    }
    if file == STDIN {
        // A failure is reported at the end, by the output itself.
        let _ = output.made().write_all(formatted.as_bytes());
    } else if layout == FormattedText::Changed {
        artifact::write_text(file, &formatted)?;
    }
    Ok(layout)
}

/// Makes sure that it is a program, or at least claims to be none of the other forms.
fn expect_program(input: &Input) -> Result<()> {
    let found = match input.content()? {
        Content::Program => return Ok(()),
        Content::Xml => "MSCCL XML",
        Content::Json => "JSON",
        Content::Text => "a finished algorithm as text",
    };
    let name = &input.name;
    Err(Failure::new(format!("{name} is {found}; only programs (.msccl) are laid out")))
}

fn exit(outcome: &Result<FormattedText>, check: bool) -> Exit {
    match outcome {
        Ok(FormattedText::Changed) if check => Exit::Refused,
        Ok(FormattedText::Changed | FormattedText::Kept) => Exit::Success,
        Err(_) => Exit::Unusable,
    }
}

fn print(file: &str, outcome: &Result<FormattedText>, check: bool, output: &mut Output) {
    match outcome {
        Err(failure) => output.failure(failure),
        Ok(FormattedText::Kept) => {}
        Ok(FormattedText::Changed) if check => {
            let answer = output.paint(Paint::Bad, "not laid out");
            output.line(format_args!("{answer}  {file}: run `msccl fmt {file}`"));
        }
        Ok(FormattedText::Changed) if file == STDIN => {}
        Ok(FormattedText::Changed) => output.detail(format_args!("laid out  {file}")),
    }
}

/// What became of one file, for programs.
#[derive(Serialize)]
#[serde(untagged)]
enum FormatObject<'a> {
    Done { file: &'a str, changed: bool },
    Failure(FailureJson<'a>),
}

impl<'a> FormatObject<'a> {
    fn of(file: &'a str, outcome: &'a Result<FormattedText>) -> Self {
        match outcome {
            Ok(layout) => FormatObject::Done { file, changed: *layout == FormattedText::Changed },
            Err(failure) => FormatObject::Failure(failure.to_json(file)),
        }
    }
}
