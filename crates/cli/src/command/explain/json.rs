//! What `explain` says to programs.

use msccl_collective::Collective;
use msccl_registry::Registry;
use msccl_runtime::{Alternative, ServiceSummary};
use msccl_select::CarriedSummary;
use serde::Serialize;

use super::decisions::{Choice, Decision};
use super::{Answer, Explained, Kernel, Library, Terms};
use crate::args::PlaceName;
use crate::order::AdditionOrdersJson;

/// The whole answer, for programs.
#[derive(Serialize)]
pub struct ExplainJson<'a> {
    ranks: u32,
    per_node: u32,
    device: &'static str,
    data_type: &'static str,
    reduction: &'static str,
    root: u32,
    in_place: bool,
    /// `any`, `flat` or `tree`.
    required_order: String,
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
        /// `interpreter` or `special`; none on host threads.
        kernel: Option<&'static str>,
        /// Whether the specialised kernel would serve if the cache had it.
        kernel_missing: bool,
        /// What copy engines do instead of the kernel, if they do.
        copy_engines: Option<CarriedJson<'a>>,
        alternatives: Vec<AlternativeJson<'a>>,
    },
    Table {
        decisions: Vec<DecisionJson<'a>>,
    },
}

#[derive(Serialize)]
struct CarriedJson<'a> {
    algorithm: &'a str,
    /// Whether outputs must lie in symmetric windows.
    needs_windows: bool,
    /// How many thread blocks combine; `null`, if nothing is combined.
    combining_blocks: Option<u32>,
}

#[derive(Serialize)]
struct AlternativeJson<'a> {
    algorithm: &'a str,
    loaded: bool,
    decided_by: String,
    guess: Option<String>,
    serves: bool,
    #[serde(flatten)]
    service: Option<ServiceJson>,
    reason: Option<&'a str>,
    /// `null` if it adds nothing, or was not proved.
    addition_orders: Option<AdditionOrdersJson>,
    /// By the cost model, if a machine was given.
    estimate_us: Option<f64>,
}

#[derive(Serialize)]
struct DecisionJson<'a> {
    collective: &'a str,
    from_bytes: u64,
    to_bytes: u64,
    #[serde(flatten)]
    choice: Option<ChoiceJson<'a>>,
}

#[derive(Serialize)]
struct ChoiceJson<'a> {
    algorithm: &'a str,
    loaded: bool,
    decided_by: String,
    guess: Option<String>,
    #[serde(flatten)]
    service: ServiceJson,
    /// `null` if it adds nothing.
    addition_orders: Option<AdditionOrdersJson>,
}

#[derive(Serialize)]
struct ServiceJson {
    protocol: &'static str,
    links: &'static str,
    instances: u32,
    thread_blocks: u32,
    threads: u32,
    rounds: u32,
    /// Thread blocks of all instances.
    blocks: u32,
    /// The most multiprocessors that they occupy; none on host threads.
    multiprocessors: Option<u32>,
}

/// The whole answer, for programs.
pub fn to_json<'a>(library: &'a Library, answer: &'a Answer) -> ExplainJson<'a> {
    let Terms { in_place, data_type, reduction, root } = &library.terms;
    let registry = &library.registry;
    let refused = registry.refused().iter();
    ExplainJson {
        ranks: library.ranks(),
        per_node: registry.shape().per_node,
        device: match library.place {
            PlaceName::Cuda => "cuda",
            PlaceName::Host => "host",
        },
        data_type: data_type.name(),
        reduction: reduction.name(),
        root: root.0,
        in_place: *in_place,
        required_order: library.overrides.order.to_string(),
        loaded: files(registry),
        refused: refused.map(|of| RefusedJson { file: &of.name, reason: &of.reason }).collect(),
        answer: match answer {
            Answer::Call(explained) => AnswerJson::of(explained, library),
            Answer::Table(decisions) => {
                let decisions = decisions.iter();
                let of = |decision| DecisionJson::of(decision, library);
                AnswerJson::Table { decisions: decisions.map(of).collect() }
            }
        },
    }
}

impl<'a> AnswerJson<'a> {
    fn of(explained: &'a Explained, library: &Library) -> Self {
        let Explained { collective, count, size, alternatives, kernel, carried } = explained;
        AnswerJson::Call {
            collective: collective.name(),
            bytes: size.0,
            count: *count,
            served_by: explained.served().map(|(chosen, _)| chosen.name.as_str()),
            kernel: match kernel {
                Kernel::None => None,
                Kernel::Interpreter | Kernel::NotCached => Some("interpreter"),
                Kernel::LowLatency => Some("small"),
                Kernel::Specialised => Some("special"),
            },
            kernel_missing: *kernel == Kernel::NotCached,
            copy_engines: carried.as_ref().map(CarriedJson::of),
            alternatives: alternatives
                .iter()
                .map(|one| AlternativeJson::of(one, collective, library))
                .collect(),
        }
    }
}

impl<'a> CarriedJson<'a> {
    fn of(carried: &'a CarriedSummary) -> Self {
        let CarriedSummary { algorithm, needs_windows, combining_blocks } = carried;
        let (needs_windows, combining_blocks) = (*needs_windows, *combining_blocks);
        Self { algorithm, needs_windows, combining_blocks }
    }
}

impl<'a> AlternativeJson<'a> {
    fn of(alternative: &'a Alternative, collective: &Collective, library: &Library) -> Self {
        let orders = library.addition_orders(collective, alternative);
        let Alternative { name, loaded, basis, verdict, estimate_ns } = alternative;
        Self {
            algorithm: name,
            loaded: *loaded,
            decided_by: basis.to_string(),
            guess: basis.guess(),
            serves: verdict.is_ok(),
            service: verdict.as_ref().ok().map(|service| ServiceJson::of(service, library)),
            reason: verdict.as_ref().err().map(String::as_str),
            addition_orders: orders.as_ref().and_then(AdditionOrdersJson::of),
            estimate_us: estimate_ns.map(|ns| ns as f64 / 1000.0),
        }
    }
}

impl<'a> DecisionJson<'a> {
    fn of(decision: &'a Decision, library: &Library) -> Self {
        let Decision { collective, from, to, choice } = decision;
        Self {
            collective: collective.name(),
            from_bytes: from.0,
            to_bytes: to.0,
            choice: choice.as_ref().map(|choice| ChoiceJson::of(choice, library)),
        }
    }
}

impl<'a> ChoiceJson<'a> {
    fn of(choice: &'a Choice, library: &Library) -> Self {
        let Choice { algorithm, loaded, basis, service, orders } = choice;
        let (decided_by, service) = (basis.to_string(), ServiceJson::of(service, library));
        let addition_orders = orders.as_ref().and_then(AdditionOrdersJson::of);
        let guess = basis.guess();
        Self { algorithm, loaded: *loaded, decided_by, guess, service, addition_orders }
    }
}

impl ServiceJson {
    fn of(service: &ServiceSummary, library: &Library) -> Self {
        let ServiceSummary {
            kernel: _,
            protocol,
            links,
            instances,
            thread_blocks,
            threads,
            rounds,
        } = *service;
        let (protocol, links, blocks) = (protocol.name(), links.name(), service.blocks());
        let multiprocessors = match library.place {
            PlaceName::Cuda => Some(service.multiprocessors()),
            PlaceName::Host => None,
        };
        Self { protocol, links, instances, thread_blocks, threads, rounds, blocks, multiprocessors }
    }
}

/// The files of which something serves, each once: one may have an algorithm for each placement.
fn files(registry: &Registry) -> Vec<&str> {
    let mut names: Vec<_> = registry.loaded().iter().map(|entry| entry.name.as_str()).collect();
    names.dedup();
    names
}
