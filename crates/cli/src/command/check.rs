//! `msccl check`: every mistake that can be found without running, for editors.

use serde::Serialize;

use crate::args::{CheckArgs, Format};
use crate::diagnose::{Located, Warning};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::input::Input;
use crate::output::{Output, Paint};
use crate::paint::painted;
use crate::subject;
use crate::verdict::{self, Refused, Verdict};

/// What was found in one file.
#[derive(Serialize)]
struct Findings {
    file: String,
    ok: bool,
    diagnostics: Vec<Located>,
    #[serde(skip)]
    rendered: String,
    #[serde(skip)]
    exit: Exit,
}

/// Checks every file.
pub fn check(args: &CheckArgs, output: &mut Output) -> Result<Exit> {
    let mut findings = Vec::with_capacity(args.files.len());
    for file in &args.files {
        let mut warnings = Vec::new();
        let found = look(file, args, &mut |warning| {
            output.warn(&warning);
            warnings.push(warning.into_located());
        });
        let mut found = Findings::of(file, found);
        found.diagnostics.extend(warnings);
        findings.push(found);
    }
    match args.report.format {
        Format::Json => output.json_one_or_many(&findings),
        Format::Human => findings.iter().for_each(|found| found.print(output)),
    }
    Ok(findings.iter().map(|found| found.exit).fold(Exit::Success, Exit::and))
}

fn look(file: &str, args: &CheckArgs, warn: &mut dyn FnMut(Warning)) -> Result<Verdict> {
    let loaded = subject::load(Input::read(file)?, &args.launch, args.target, warn)?;
    match verdict::judge(loaded) {
        Verdict::Proved(mut proved) => {
            std::mem::take(&mut proved.warnings).into_iter().for_each(warn);
            Ok(Verdict::Proved(proved))
        }
        refused @ Verdict::Refused(_) => Ok(refused),
    }
}

impl Findings {
    fn of(file: &str, found: Result<Verdict>) -> Self {
        let (exit, diagnostics, rendered) = match found {
            Ok(Verdict::Proved(_)) => (Exit::Success, Vec::new(), String::new()),
            Ok(Verdict::Refused(refused)) => {
                let (diagnostics, rendered) = of_refused(*refused);
                (Exit::Refused, diagnostics, rendered)
            }
            Err(Failure::Diagnostics { rendered, located }) => (Exit::Unusable, located, rendered),
            Err(Failure::Message(message)) => {
                let rendered = format!("error: {message}\n");
                (Exit::Unusable, vec![Located::of_file(file, message)], rendered)
            }
        };
        Self { file: file.to_owned(), ok: exit == Exit::Success, diagnostics, rendered, exit }
    }

    fn print(&self, output: &mut Output) {
        let Findings { file, ok, diagnostics: _, rendered, exit: _ } = self;
        if *ok {
            let answer = output.paint(Paint::Good, "ok");
            return output.detail(format_args!("{answer}  {file}"));
        }
        let text = painted(rendered, |tone, text| output.paint(tone, text));
        output.line(text);
    }
}

/// A refusal as diagnostics; one without a place in the source belongs to the file.
fn of_refused(refused: Refused) -> (Vec<Located>, String) {
    let Refused { file, kind, message, events, excerpt, mut diagnostics, others, .. } = refused;
    let message = format!("{kind}: {message}");
    if diagnostics.is_empty() {
        diagnostics.push(Located::of_file(&file, message.clone()));
    }
    if let Some(first) = diagnostics.first_mut() {
        first.hints.extend(events.iter().cloned());
    }
    let mut lines = if excerpt.is_empty() {
        vec![format!("error: {message}"), format!(" --> {file}")]
    } else {
        vec![excerpt.trim_end().to_owned()]
    };
    lines.extend(events.iter().chain(&others).map(|line| format!("    {line}")));
    (diagnostics, lines.join("\n"))
}
