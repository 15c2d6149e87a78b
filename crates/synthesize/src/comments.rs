//! What stands before a program: what it is, what links carry, and its certificate.

use std::collections::BTreeMap;

use msccl_simulate::LinkLoads;
use msccl_topology::bandwidth::Bandwidth;
use msccl_topology::cluster::{Cluster, Medium};
use num_rational::Ratio;

use crate::certificate::Certificate;
use crate::plan::{Ending, Plan};

/// The longest line.
const COLUMNS: usize = 100;

/// Most links that a line names.
const MOST_NAMED: usize = 3;

/// `program`, with comments before it. `loads` are those of the proved schedule.
pub fn annotated(
    program: &str,
    plan: &Plan,
    loads: &LinkLoads,
    certificate: &Certificate,
    cluster: &Cluster,
) -> String {
    let mut lines = title(plan);
    lines.push(String::new());
    lines.extend(speed(certificate));
    lines.push("What links carry of the S bytes of a call:".to_owned());
    lines.extend(links(loads, cluster));
    let comments = lines.iter().map(|line| format!("// {line}").trim_end().to_owned());
    let certificate = certificate.lines(cluster).into_iter();
    let all = comments.chain(std::iter::once("//".to_owned())).chain(certificate);
    let all: Vec<String> = all.chain([String::new(), program.to_owned()]).collect();
    all.join("\n")
}

fn title(plan: &Plan) -> Vec<String> {
    let Plan { kind, ranks, cluster, bound: _, chunks: _, phases: _, ending } = plan;
    let mut lines = wrapped(&format!(
        "{} over {ranks} ranks for {cluster}. Written by `msccl synthesize`: {}.",
        kind.name(),
        plan.summary()
    ));
    if *ending == Ending::TimeOver {
        lines.extend(wrapped("The time for the search was over: this is the best that it found."));
    }
    lines
}

fn speed(certificate: &Certificate) -> Vec<String> {
    let times = certificate.times_bound();
    if times == Ratio::from_integer(1) {
        return wrapped(
            "Optimal for large calls: no schedule whose messages take the routes of this machine \
             keeps its busiest link for less time.",
        );
    }
    let times = *times.numer() as f64 / *times.denom() as f64;
    wrapped(&format!(
        "Its busiest link takes {times:.4} times as long as the bound, which no schedule can beat \
         whose messages take the routes of this machine."
    ))
}

/// A line for links of one kind that carry the same.
fn links(loads: &LinkLoads, cluster: &Cluster) -> Vec<String> {
    type Alike = (Medium, Bandwidth, u64);
    let mut alike: BTreeMap<Alike, Vec<String>> = BTreeMap::new();
    for (chunks, link) in loads.chunks.iter().zip(cluster.links()).filter(|(it, _)| **it > 0) {
        let key = (link.medium, link.rate, *chunks);
        alike.entry(key).or_default().push(cluster.link_name(link));
    }
    let lines = |((medium, rate, chunks), links): (&Alike, &Vec<String>)| {
        let share = Ratio::new(*chunks, loads.chunks_of_call.max(1));
        let named = links.iter().take(MOST_NAMED).map(String::as_str).collect::<Vec<_>>();
        let more = match links.len().saturating_sub(MOST_NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let rate = rate.gb_per_s();
        wrapped(&format!("* {medium} of {rate} GB/s: {share} · S on {}{more}", named.join(", ")))
    };
    alike.iter().flat_map(lines).collect()
}

/// `text` in lines that are not too long.
pub(crate) fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let Some(line) = lines.last_mut() else { break };
        let width = line.chars().count() + 1 + word.chars().count();
        if line.is_empty() {
            line.push_str(word);
        } else if width <= COLUMNS - "// ".len() {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}
