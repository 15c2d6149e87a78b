//! `msccl doctor`: what will work here, what will be slow, and why.
//!
//! [`sources`] is where facts come from, and what tests replace; [`facts`] collects them,
//! [`libraries`] looks for files as a loader does. `msccl_doctor` judges.

mod facts;
mod libraries;
mod machine;
mod python;
mod sources;

#[cfg(test)]
mod tests;

use msccl_doctor::{Facts, Finding, Severity, examine};
use serde::Serialize;

use crate::args::{DoctorArgs, Format};
use crate::exit::Exit;
use crate::failure::Result;
use crate::output::{Output, Paint};
use machine::ThisMachine;

/// Looks at this machine.
pub fn doctor(args: &DoctorArgs, output: &mut Output) -> Result<Exit> {
    let DoctorArgs { python, pid, report } = args;
    let facts = facts::collect(&ThisMachine { python: python.clone() }, *pid);
    let findings = examine(&facts);
    match report.format {
        Format::Human => print(&findings, output),
        Format::Json => output.json(&ReportJson::of(&facts, &findings)),
    }
    Ok(exit(&findings))
}

fn exit(findings: &[Finding]) -> Exit {
    let fails = findings.iter().any(|finding| finding.severity == Severity::Fails);
    if fails { Exit::Refused } else { Exit::Success }
}

fn print(findings: &[Finding], output: &mut Output) {
    for Finding { severity, topic: _, message, advice } in findings {
        let paint = match severity {
            Severity::Good => Paint::Good,
            Severity::Note => Paint::Dim,
            Severity::Slow => Paint::Warn,
            Severity::Fails => Paint::Bad,
        };
        let head = output.paint(paint, format_args!("{:<5}", severity.name()));
        let mut lines = wrapped(message, WIDTH).into_iter();
        output.line(format_args!("{head}  {}", lines.next().unwrap_or_default()));
        lines.for_each(|line| output.line(format_args!("       {line}")));
        for (at, line) in advice.iter().flat_map(|text| wrapped(text, WIDTH - 4)).enumerate() {
            let arrow = if at == 0 { "to do: " } else { "" };
            output.detail(format_args!("       {arrow:>7}{line}"));
        }
    }
    output.detail("");
    output.detail(summary(findings));
}

/// Columns for words.
const WIDTH: usize = 92;

fn summary(findings: &[Finding]) -> String {
    let count = |severity| findings.iter().filter(|it| it.severity == severity).count();
    match (count(Severity::Fails), count(Severity::Slow)) {
        (0, 0) => "nothing fails, and nothing is slow".to_owned(),
        (fails, slow) => format!("{fails} of {} fail, {slow} are slow", findings.len()),
    }
}

/// `text` in lines of at most `columns`.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let Some(line) = lines.last_mut() else { continue };
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= columns {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// What was found, for programs.
#[derive(Serialize)]
struct ReportJson<'a> {
    fails: usize,
    slow: usize,
    findings: &'a [Finding],
    facts: &'a Facts,
}

impl<'a> ReportJson<'a> {
    fn of(facts: &'a Facts, findings: &'a [Finding]) -> Self {
        let count = |severity| findings.iter().filter(|it| it.severity == severity).count();
        let (fails, slow) = (count(Severity::Fails), count(Severity::Slow));
        Self { fails, slow, findings, facts }
    }
}
