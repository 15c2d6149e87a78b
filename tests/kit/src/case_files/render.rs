//! A file of cases, with what was found beside each program.

use super::read::{DIAGNOSTIC, DUMP, File};
use super::{Case, Found, Outcome};

/// Columns of a line.
const WIDTH: usize = 100;

/// Where another text holds a case.
const HOLE: &str = "…";

/// The text of the file in which every expectation is what `run` finds.
pub fn file(file: &File, run: impl Fn(&Case<'_>) -> Outcome) -> String {
    let around = file.settings.get("around").and_then(|around| around.split_once(HOLE));
    let mut text = format!("{}\n", file.head);
    for program in &file.programs {
        let whole = match around {
            Some((before, after)) => {
                format!("{}\n{program}\n{}", before.trim_end(), after.trim_start())
            }
            None => program.clone(),
        };
        let mut outcome = run(&Case { text: whole, settings: &file.settings });
        if around.is_some() {
            let found = outcome.diagnostics.into_iter();
            outcome.diagnostics = found.map(Found::shifted_up).collect();
        }
        text += &format!("\n{}", case(program, &outcome));
    }
    text
}

/// A program with what was found in it.
fn case(program: &str, outcome: &Outcome) -> String {
    let mut text = String::new();
    for (number, line) in (1..).zip(program.lines()) {
        text += &format!("{line}\n");
        for found in outcome.diagnostics.iter().filter(|found| found.line == number) {
            text += &diagnostic(found);
        }
    }
    let last = program.lines().count() as u32;
    let outside = |found: &&Found| found.line == 0 || found.line > last;
    text.extend(outcome.diagnostics.iter().filter(outside).map(diagnostic));
    let dump = outcome.dump.lines().map(str::trim_end).filter(|line| !line.is_empty());
    text.extend(dump.map(|line| wrapped(DUMP, line, 1)));
    text
}

/// The lines of a diagnostic.
fn diagnostic(found: &Found) -> String {
    let Found { line, column, length, message, hints, places } = found;
    let blank = (*column as usize - 1).checked_sub(DIAGNOSTIC.len());
    let lead = match blank {
        Some(blank) => {
            let carets = "^".repeat(*length as usize);
            format!("{DIAGNOSTIC}{}{carets}", " ".repeat(blank))
        }
        None => format!("{DIAGNOSTIC} {line}:{column}"),
    };
    let fits = lead.chars().count() + 1 + message.chars().count() <= WIDTH;
    let indent = blank.filter(|blank| fits && blank + 60 < WIDTH).unwrap_or(1).max(1);
    let mut text = if fits {
        format!("{lead} {message}\n")
    } else {
        format!("{lead}\n{}", wrapped(DIAGNOSTIC, message, 1))
    };
    let hints = hints.iter().flat_map(|hint| hint.lines()).map(|hint| format!("hint: {hint}"));
    let places = places.iter().map(|at| format!("note: {}:{}: {}", at.line, at.column, at.text));
    text.extend(hints.chain(places).map(|note| wrapped(DIAGNOSTIC, &note, indent)));
    text
}

/// Lines of at most [`WIDTH`] columns, those after the first indented by two more.
fn wrapped(lead: &str, message: &str, indent: usize) -> String {
    let mut text = String::new();
    let mut line = format!("{lead}{}", " ".repeat(indent));
    let mut is_empty = true;
    for word in message.split(' ') {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            text += &format!("{line}\n");
            line = format!("{lead}{}", " ".repeat(indent + 2));
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line += word;
        is_empty = false;
    }
    text + &line + "\n"
}
