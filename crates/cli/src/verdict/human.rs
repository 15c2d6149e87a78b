//! Verdicts for people: one line with the answer, then what it rests on.

use msccl_ir::{Algorithm, Target};
use msccl_verify::{AdditionOrders, Facts, OrderShape};

use super::{Counts, Proved, Refused, Verdict};
use crate::diagnose;
use crate::exit::Exit;
use crate::output::{Output, Paint};
use crate::size::{ByteSize, range_in_words};

/// Further faults listed.
const MOST_OTHERS: usize = 3;

/// Events of a counterexample; a chain of waits over all ranks says no more after that.
const MOST_EVENTS: usize = 24;

impl Verdict {
    /// What the command exits with.
    pub fn exit(&self) -> Exit {
        match self {
            Verdict::Proved(_) => Exit::Success,
            Verdict::Refused(_) => Exit::Refused,
        }
    }

    /// Prints it; `--quiet` leaves only the first line.
    pub fn print(&self, output: &mut Output) {
        let lines = self.lines(output);
        let mut lines = lines.into_iter();
        if let Some(answer) = lines.next() {
            output.line(answer);
        }
        lines.for_each(|line| output.detail(line));
    }

    /// The lines to print, the answer first.
    fn lines(&self, output: &Output) -> Vec<String> {
        match self {
            Verdict::Proved(proved) => proved.lines(output),
            Verdict::Refused(refused) => refused.lines(output),
        }
    }
}

impl Proved {
    fn lines(&self, output: &Output) -> Vec<String> {
        let Proved { file, verified, per_node: _, warnings: _ } = self;
        let (algorithm, target) = (verified.algorithm(), verified.target());
        let answer = output.paint(Paint::Good, "proved");
        let mut lines = vec![format!("{answer}   {file}: {}", subject(algorithm))];
        lines.push(format!("         {}", size(algorithm)));
        lines.push(format!("         {}", depth(algorithm, target, verified.facts())));
        lines.push(format!("         {}", scope(algorithm, target, verified.facts())));
        lines.extend(order(verified.facts()).map(|order| format!("         {order}")));
        lines
    }
}

/// In which order it adds, if it adds anything.
fn order(facts: &Facts) -> Option<String> {
    let order = match &facts.addition_orders {
        AdditionOrders::NoSums => return None,
        AdditionOrders::Several(count) => {
            return Some(format!(
                "adds in {count} orders or more: bits depend on the place of an element"
            ));
        }
        AdditionOrders::One(order) => order,
    };
    let text = order.short_text();
    let name = match order.shape() {
        OrderShape::Other => String::new(),
        named => format!(" ({})", named.name()),
    };
    Some(format!("adds in one order: {text}{name}"))
}

/// The algorithm and what it computes.
pub fn subject(algorithm: &Algorithm) -> String {
    let collective = &algorithm.collective;
    match algorithm.name.as_str() {
        "" => collective.to_string(),
        name => format!("{name}, {collective}"),
    }
}

/// `112 steps in 8 thread blocks over 8 links`.
pub fn size(algorithm: &Algorithm) -> String {
    let Counts { steps, thread_blocks, links, channels } = Counts::of(algorithm);
    let blocks = counted(thread_blocks as u64, "thread block");
    let links = counted(links as u64, "link");
    let channels = counted(u64::from(channels), "channel");
    let steps = counted(steps as u64, "step");
    format!("{steps} in {blocks}, {links} on {channels}")
}

fn depth(algorithm: &Algorithm, target: &Target, facts: &Facts) -> String {
    let shape = target.link(algorithm.protocol);
    let protocol = algorithm.protocol;
    let least = facts.least_link_depth;
    let depth = shape.depth;
    let enough = if least < depth { format!("; {least} would do") } else { String::new() };
    format!("no race, no deadlock on {target} {protocol} links of depth {depth}{enough}")
}

/// For which calls it holds.
fn scope(algorithm: &Algorithm, target: &Target, facts: &Facts) -> String {
    let sizes = target.rules.call_sizes(&algorithm.collective, algorithm.sizes);
    let calls = format!("{}, {}", range_in_words(sizes), algorithm.placement);
    if !facts.result_promised {
        return format!("nothing is promised about the result; everything else holds for {calls}");
    }
    let same = if facts.same_on_every_rank && algorithm.collective.reduces() {
        ", bit for bit the same on every rank"
    } else {
        ""
    };
    let counts = if facts.serves_any_count {
        String::new()
    } else {
        format!(", counts that {} divides", algorithm.collective.chunks)
    };
    format!("right result for {calls}{counts}{same}")
}

/// `1 step`, `2 steps`.
pub fn counted(count: u64, thing: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {thing}{plural}")
}

impl Refused {
    fn lines(&self, output: &Output) -> Vec<String> {
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
        } = self;
        let answer = output.paint(Paint::Bad, "refused");
        let kind = output.paint(Paint::Strong, kind);
        let mut lines = vec![format!("{answer}  {file}: {kind} (target {target})")];
        let place = at.first().and_then(|site| site.step).filter(|_| events.is_empty());
        match (excerpt.is_empty(), place) {
            (false, _) => {
                let excerpt = diagnose::painted(excerpt, |tone, text| output.paint(tone, text));
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
}

/// The first lines, and how many are missing.
fn shortened(lines: &[String], most: usize) -> impl Iterator<Item = String> {
    let kept = if lines.len() > most + 1 { most } else { lines.len() };
    let missing = lines.len() - kept;
    let rest = (missing > 0).then(|| format!("… and {missing} more"));
    lines[..kept].iter().cloned().chain(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_end_with_a_count() {
        let lines: Vec<String> = (0..5).map(|line| line.to_string()).collect();
        let check = |most, expected: &[&str]| {
            assert_eq!(shortened(&lines, most).collect::<Vec<_>>(), expected);
        };
        check(3, &["0", "1", "2", "… and 2 more"]);
        check(4, &["0", "1", "2", "3", "4"]);
    }
}
