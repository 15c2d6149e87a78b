//! What `explain` says: tables for people, objects for programs.

use msccl_collective::Collective;
use msccl_runtime::{Alternative, Service};
use serde::Serialize;

use super::decisions::{Choice, Decision};
use super::{Answer, Explained, Library, Terms};
use crate::args::PlaceName;
use crate::output::{Output, Paint};
use crate::table::{Align, Table};
use crate::verdict::human;

/// Prints what was loaded and refused, then the answer.
pub fn print(library: &Library, answer: &Answer, output: &mut Output) {
    for refused in library.registry.refused() {
        let word = output.paint(Paint::Bad, "refused");
        output.line(format_args!("{word}  {}: {}", refused.name, refused.reason));
    }
    for entry in library.registry.loaded() {
        let word = output.paint(Paint::Good, "loaded");
        let subject = human::subject(entry.verified.algorithm());
        output.line(format_args!("{word}   {}: {subject}", entry.name));
    }
    match answer {
        Answer::Call(explained) => print_call(library, explained, output),
        Answer::Table(decisions) => print_table(library, decisions, output),
    }
}

fn print_call(library: &Library, explained: &Explained, output: &mut Output) {
    let Explained { collective, count, size, alternatives } = explained;
    let (name, terms) = (collective.name(), terms(library, Some(collective)));
    output.line(format_args!("{name} of {size} ({count} elements a block), {terms}:"));
    let chosen = explained.served().map(|(chosen, _)| chosen);
    let mut table =
        Table::new(&[("", Align::Left), ("algorithm", Align::Left), ("how, or why not", Align::Left)]);
    for alternative in alternatives {
        let word = word(alternative, chosen);
        table.row([word.to_owned(), title(&alternative.name, alternative.loaded), how(alternative)]);
    }
    let rows = [None].into_iter().chain(alternatives.iter().map(Some));
    for (line, row) in table.lines().into_iter().zip(rows) {
        let line = format!("  {line}");
        let line = match row {
            None => output.paint(Paint::Dim, line),
            Some(row) if chosen == Some(row) => output.paint(Paint::Good, line),
            Some(_) => line,
        };
        output.line(line);
    }
}

/// What becomes of an alternative.
fn word(alternative: &Alternative, chosen: Option<&Alternative>) -> &'static str {
    match &alternative.verdict {
        Ok(_) if chosen == Some(alternative) => "serves",
        Ok(_) => "could",
        Err(_) => "cannot",
    }
}

fn title(name: &str, loaded: bool) -> String {
    let note = if loaded { " (loaded)" } else { "" };
    format!("{name}{note}")
}

fn how(alternative: &Alternative) -> String {
    match &alternative.verdict {
        Ok(service) => format!("{service}, rounds: {}", service.rounds),
        Err(reason) => reason.clone(),
    }
}

/// `sum of f32, out of place, on 8 GPUs like the H200`, for one collective or for all.
fn terms(library: &Library, collective: Option<&Collective>) -> String {
    let Terms { in_place, data_type, reduction, root } = &library.terms;
    let reduction = match collective {
        Some(collective) if !collective.reduces() => String::new(),
        Some(_) | None => format!("{reduction} of "),
    };
    let root = match collective {
        Some(collective) if collective.root().is_none() => String::new(),
        Some(_) | None => format!("root {root}, "),
    };
    let placement = if *in_place { "in place" } else { "out of place" };
    let ranks = library.ranks();
    let place = match library.place {
        PlaceName::Cuda => "with a GPU like the H200 each",
        PlaceName::Host => "on host threads",
    };
    format!("{reduction}{data_type}, {root}{placement}, {} {place}", human::counted(ranks.into(), "rank"))
}

fn print_table(library: &Library, decisions: &[Decision], output: &mut Output) {
    output.line(format_args!("powers of two, {}:", terms(library, None)));
    let mut table = Table::new(&[
        ("collective", Align::Left),
        ("from", Align::Right),
        ("to", Align::Right),
        ("algorithm", Align::Left),
        ("how", Align::Left),
    ]);
    for Decision { collective, from, to, choice } in decisions {
        let (algorithm, how) = match choice {
            Some(Choice { algorithm, loaded, service }) => {
                (title(algorithm, *loaded), service.to_string())
            }
            None => ("nothing".to_owned(), String::new()),
        };
        table.row([collective.clone(), from.to_string(), to.to_string(), algorithm, how]);
    }
    for (index, line) in table.lines().into_iter().enumerate() {
        let line = format!("  {line}");
        output.line(if index == 0 { output.paint(Paint::Dim, line) } else { line });
    }
}

/// The whole answer, for programs.
#[derive(Serialize)]
pub struct ExplainJson<'a> {
    ranks: u32,
    device: &'static str,
    data_type: &'static str,
    reduction: &'static str,
    root: u32,
    in_place: bool,
    loaded: Vec<&'a str>,
    refused: Vec<RefusedJson<'a>>,
    #[serde(flatten)]
    answer: AnswerJson<'a>,
}

#[derive(Serialize)]
struct RefusedJson<'a> {
    file: &'a str,
    reason: &'a str,
}

#[derive(Serialize)]
#[serde(untagged)]
enum AnswerJson<'a> {
    Call {
        collective: &'a str,
        bytes: u64,
        count: u64,
        served_by: Option<&'a str>,
        alternatives: Vec<AlternativeJson<'a>>,
    },
    Table {
        decisions: Vec<DecisionJson<'a>>,
    },
}

#[derive(Serialize)]
struct AlternativeJson<'a> {
    algorithm: &'a str,
    loaded: bool,
    serves: bool,
    #[serde(flatten)]
    service: Option<ServiceJson>,
    reason: Option<&'a str>,
}

#[derive(Serialize)]
struct DecisionJson<'a> {
    collective: &'a str,
    from_bytes: u64,
    to_bytes: u64,
    algorithm: Option<&'a str>,
    loaded: bool,
    #[serde(flatten)]
    service: Option<ServiceJson>,
}

#[derive(Serialize)]
struct ServiceJson {
    protocol: &'static str,
    instances: u32,
    thread_blocks: u32,
    threads: u32,
    rounds: u32,
}

/// The whole answer, for programs.
pub fn to_json<'a>(library: &'a Library, answer: &'a Answer) -> ExplainJson<'a> {
    let Terms { in_place, data_type, reduction, root } = &library.terms;
    let registry = &library.registry;
    let refused = registry.refused().iter();
    ExplainJson {
        ranks: library.ranks(),
        device: match library.place {
            PlaceName::Cuda => "cuda",
            PlaceName::Host => "host",
        },
        data_type: data_type.name(),
        reduction: reduction.name(),
        root: root.0,
        in_place: *in_place,
        loaded: registry.loaded().iter().map(|entry| entry.name.as_str()).collect(),
        refused: refused.map(|of| RefusedJson { file: &of.name, reason: &of.reason }).collect(),
        answer: match answer {
            Answer::Call(explained) => AnswerJson::of(explained),
            Answer::Table(decisions) => {
                AnswerJson::Table { decisions: decisions.iter().map(DecisionJson::of).collect() }
            }
        },
    }
}

impl<'a> AnswerJson<'a> {
    fn of(explained: &'a Explained) -> Self {
        let Explained { collective, count, size, alternatives } = explained;
        AnswerJson::Call {
            collective: collective.name(),
            bytes: size.0,
            count: *count,
            served_by: explained.served().map(|(chosen, _)| chosen.name.as_str()),
            alternatives: alternatives.iter().map(AlternativeJson::of).collect(),
        }
    }
}

impl<'a> AlternativeJson<'a> {
    fn of(alternative: &'a Alternative) -> Self {
        let Alternative { name, loaded, verdict } = alternative;
        Self {
            algorithm: name,
            loaded: *loaded,
            serves: verdict.is_ok(),
            service: verdict.as_ref().ok().map(ServiceJson::of),
            reason: verdict.as_ref().err().map(String::as_str),
        }
    }
}

impl<'a> DecisionJson<'a> {
    fn of(decision: &'a Decision) -> Self {
        let Decision { collective, from, to, choice } = decision;
        let choice = choice.as_ref();
        Self {
            collective,
            from_bytes: from.0,
            to_bytes: to.0,
            algorithm: choice.map(|choice| choice.algorithm.as_str()),
            loaded: choice.is_some_and(|choice| choice.loaded),
            service: choice.map(|choice| ServiceJson::of(&choice.service)),
        }
    }
}

impl ServiceJson {
    fn of(service: &Service) -> Self {
        let Service { protocol, instances, thread_blocks, threads, rounds } = *service;
        Self { protocol: protocol.name(), instances, thread_blocks, threads, rounds }
    }
}
