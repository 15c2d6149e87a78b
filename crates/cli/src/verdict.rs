//! Verdicts for people: one line with the answer, then what it rests on.

pub use msccl_pages::verdict::{Proved, Refused, Verdict, VerdictJson, entry, judge, words};

use words::{depth, order, scope, shortened, size, subject};

use crate::exit::Exit;
use crate::output::{Output, Paint};
use crate::paint::painted;
use crate::size::ByteSize;

/// Further faults listed.
const MOST_OTHERS: usize = 3;

/// Events of a counterexample; a chain of waits over all ranks says no more after that.
const MOST_EVENTS: usize = 24;

/// What the command exits with.
pub fn exit(verdict: &Verdict) -> Exit {
    match verdict {
        Verdict::Proved(_) => Exit::Success,
        Verdict::Refused(_) => Exit::Refused,
    }
}

/// Prints it; `--quiet` leaves only the first line.
pub fn print(verdict: &Verdict, output: &mut Output) {
    let lines = match verdict {
        Verdict::Proved(proved) => proof_lines(proved, output),
        Verdict::Refused(refused) => refusal_lines(refused, output),
    };
    let mut lines = lines.into_iter();
    if let Some(answer) = lines.next() {
        output.line(answer);
    }
    lines.for_each(|line| output.detail(line));
}

/// The lines to print, the answer first.
fn proof_lines(proved: &Proved, output: &Output) -> Vec<String> {
    let Proved { file, verified, one_instance: _, per_node: _, warnings: _ } = proved;
    let (algorithm, target) = (verified.algorithm(), verified.target());
    let answer = output.paint(Paint::Good, "proved");
    let mut lines = vec![format!("{answer}   {file}: {}", subject(algorithm))];
    lines.push(format!("         {}", size(algorithm)));
    lines.push(format!("         {}", depth(algorithm, target, verified.facts())));
    lines.push(format!("         {}", scope(algorithm, target, verified.facts())));
    lines.extend(order(verified.facts()).map(|order| format!("         {order}")));
    lines
}

/// The lines to print, the answer first.
fn refusal_lines(refused: &Refused, output: &Output) -> Vec<String> {
    let Refused {
        file,
        target,
        kind,
        message,
        at,
        events,
        excerpt,
        diagnostics: _,
        sound_up_to_bytes,
        others,
    } = refused;
    let answer = output.paint(Paint::Bad, "refused");
    let kind = output.paint(Paint::Strong, kind);
    let mut lines = vec![format!("{answer}  {file}: {kind} (target {target})")];
    let place = at.first().and_then(|site| site.step).filter(|_| events.is_empty());
    match (excerpt.is_empty(), place) {
        (false, _) => {
            let excerpt = painted(excerpt, |tone, text| output.paint(tone, text));
            lines.extend(excerpt.lines().map(str::to_owned));
        }
        (true, Some(step)) if !message.starts_with(&step.to_string()) => {
            lines.push(format!("  {step}: {message}"))
        }
        (true, _) => lines.push(format!("  {message}")),
    }
    lines.extend(shortened(events, MOST_EVENTS).map(|line| format!("    {line}")));
    if let Some(bytes) = sound_up_to_bytes {
        lines.push(format!("  calls of up to {} go well", ByteSize(*bytes)));
    }
    lines.extend(shortened(others, MOST_OTHERS).map(|other| format!("  also: {other}")));
    lines
}
