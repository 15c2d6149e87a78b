//! What `explain` says to people.

use std::collections::BTreeSet;

use msccl_runtime::{Alternative, PreferenceReason, ServiceSummary};
use msccl_select::CarriedSummary;
use msccl_verify::AdditionOrders;

use super::decisions::{Choice, Decision};
use super::{Answer, Explained, Kernel, Library, Terms};
use crate::args::PlaceName;
use crate::order;
use crate::output::{Output, Paint};
use crate::table::{Align, Table};
use crate::verdict::words::{counted, subject};

/// Prints what was loaded and refused, then the answer.
pub fn print(library: &Library, answer: &Answer, output: &mut Output) {
    for refused in library.registry.refused() {
        let word = output.paint(Paint::Bad, "refused");
        output.line(format_args!("{word}  {}: {}", refused.name, refused.reason));
    }
    for entry in library.registry.loaded() {
        let word = output.paint(Paint::Good, "loaded");
        let subject = subject(entry.verified.algorithm());
        output.line(format_args!("{word}   {}: {subject}", entry.name));
    }
    let reduces = match answer {
        Answer::Call(explained) => explained.collective.reduces(),
        Answer::Table(decisions) => any_reduces(decisions),
    };
    if let Some(order) = library.required_order().filter(|_| reduces) {
        output.line(format_args!("order    {order}"));
    }
    match answer {
        Answer::Call(explained) => print_call(library, explained, output),
        Answer::Table(decisions) => print_table(library, decisions, output),
    }
}

fn print_call(library: &Library, explained: &Explained, output: &mut Output) {
    let Explained { collective, count, size, alternatives: _, kernel, carried } = explained;
    let terms = terms(library, collective.reduces(), collective.root().is_some());
    let elements = counted(*count, "element");
    output.line(format_args!("{} of {size}, {elements} a block: {terms}", collective.name()));
    let served = explained.served();
    let chosen = served.map(|(chosen, _)| chosen);
    print_alternatives(library, explained, chosen, output);
    if let Some((_, service)) = served.filter(|_| library.place == PlaceName::Cuda) {
        output.line(device_share(&service));
    }
    if chosen.is_none() {
        output.line(output.paint(Paint::Warn, "  nothing serves such a call"));
    }
    print_kernel(*kernel, output);
    if let Some(carried) = carried {
        output.line(carried_line(carried));
    }
    if let Some(hardware) = &library.hardware {
        output.line(format_args!("  times by estimate on {hardware}"));
    }
    print_guesses(chosen.map(|chosen| &chosen.basis), output);
}

/// Where copy engines take the place of a kernel, and for what.
fn carried_line(carried: &CarriedSummary) -> String {
    let CarriedSummary { algorithm, needs_windows, combining_blocks } = carried;
    let place = match needs_windows {
        true => "  where its outputs lie in symmetric windows, copy engines",
        false => "  copy engines",
    };
    match combining_blocks {
        None => format!("{place} carry it instead: {algorithm}"),
        Some(blocks) => {
            let blocks = counted((*blocks).into(), "thread block");
            format!("{place} make its exchange instead, and {blocks} combine: {algorithm}")
        }
    }
}

/// What a call takes of a GPU.
fn device_share(service: &ServiceSummary) -> String {
    let blocks = counted(service.blocks().into(), "thread block");
    let most = counted(service.multiprocessors().into(), "multiprocessor");
    format!("  takes {blocks} of {} threads on r0, so at most {most}", service.threads)
}

/// Says what kind of kernel serves a call.
fn print_kernel(kernel: Kernel, output: &mut Output) {
    match kernel {
        Kernel::None => {}
        Kernel::Interpreter => output.line("  run by the interpreter"),
        Kernel::LowLatency => output.line("  run by a low-latency kernel"),
        Kernel::Specialised => {
            output.line("  run by a specialised kernel, which is in the cache for sm_90");
        }
        Kernel::NotCached => output.line(
            "  run by the interpreter; the cache has no specialised kernel for sm_90; \
             `msccl specialise` would put one there",
        ),
    }
}

/// Prints a line for each alternative, of which the `chosen` one stands out.
fn print_alternatives(
    library: &Library,
    explained: &Explained,
    chosen: Option<&Alternative>,
    output: &mut Output,
) {
    let Explained { collective, alternatives, .. } = explained;
    let order_column = collective.reduces().then_some(("order", Align::Left));
    let columns = [("", Align::Left), ("algorithm", Align::Left), ("decided by", Align::Left)];
    let columns = columns.into_iter().chain(order_column);
    let columns: Vec<_> = columns.chain([("how, or why not", Align::Left)]).collect();
    let mut table = Table::new(&columns);
    for alternative in alternatives {
        let word = word(alternative, chosen).to_owned();
        let name = title(&alternative.name, alternative.loaded);
        let order = order_column
            .map(|_| order_cell(library.addition_orders(collective, alternative).as_ref()));
        let cells = [word, name, alternative.basis.to_string()].into_iter().chain(order);
        table.row(cells.chain([how(alternative)]));
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

/// What the column says of an order that may not be known.
fn order_cell(orders: Option<&AdditionOrders>) -> String {
    orders.map_or_else(|| "-".to_owned(), order::cell)
}

fn any_reduces(decisions: &[Decision]) -> bool {
    decisions.iter().any(|decision| decision.collective.reduces())
}

/// Says of what was decided without a measurement that it was.
fn print_guesses<'a>(
    decided_by: impl IntoIterator<Item = &'a PreferenceReason>,
    output: &mut Output,
) {
    let guesses: BTreeSet<String> =
        decided_by.into_iter().filter_map(PreferenceReason::guess).collect();
    for guess in guesses {
        let text = format!("  a guess: {guess}; `msccl tune` measures");
        output.line(output.paint(Paint::Dim, text));
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
    let time = alternative.estimate_ns.map(|ns| format!("; {:.1} µs", ns as f64 / 1000.0));
    match &alternative.verdict {
        Ok(service) => {
            format!("{service}, rounds: {}{}", service.rounds, time.unwrap_or_default())
        }
        Err(reason) => reason.clone(),
    }
}

/// `sum of f32, out of place, 16 ranks on 2 nodes with a GPU like the H200 each`.
fn terms(library: &Library, reduces: bool, rooted: bool) -> String {
    let Terms { in_place, data_type, reduction, root } = &library.terms;
    let reduction = if reduces { format!("{reduction} of ") } else { String::new() };
    let root = if rooted { format!(", root {root}") } else { String::new() };
    let placement = if *in_place { "in place" } else { "out of place" };
    let shape = library.registry.shape();
    let nodes = match shape.nodes() {
        1 => String::new(),
        nodes => format!(" on {nodes} nodes"),
    };
    let ranks = counted(shape.ranks.into(), "rank") + &nodes;
    let place = match library.place {
        PlaceName::Cuda => "with a GPU like the H200 each",
        PlaceName::Host => "on host threads",
    };
    format!("{reduction}{data_type}{root}, {placement}, {ranks} {place}")
}

fn print_table(library: &Library, decisions: &[Decision], output: &mut Output) {
    let reduces = any_reduces(decisions);
    let rooted = decisions.iter().any(|decision| decision.collective.root().is_some());
    output.line(format_args!("powers of two: {}", terms(library, reduces, rooted)));
    let sms = if library.place == PlaceName::Cuda { "SMs" } else { "" };
    let columns = [
        ("collective", Align::Left),
        ("from", Align::Right),
        ("to", Align::Right),
        ("algorithm", Align::Left),
        ("decided by", Align::Left),
    ];
    let order_column = reduces.then_some(("order", Align::Left));
    let rest = [("how", Align::Left), (sms, Align::Right)];
    let columns = columns.into_iter().chain(order_column).chain(rest);
    let mut table = Table::new(&columns.collect::<Vec<_>>());
    for decision in decisions {
        let Cells { call, algorithm, basis, order, how, most } = Cells::of(decision, library);
        let cells = call.into_iter().chain([algorithm, basis]).chain(reduces.then_some(order));
        table.row(cells.chain([how, most]));
    }
    for (index, line) in table.lines().into_iter().enumerate() {
        let line = format!("  {line}");
        output.line(if index == 0 { output.paint(Paint::Dim, line) } else { line });
    }
    let choices = decisions.iter().filter_map(|decision| decision.choice.as_ref());
    print_guesses(choices.map(|choice| &choice.basis), output);
}

/// What serves a range of sizes, in the columns of the table.
#[derive(Default)]
struct Cells {
    /// Collective and sizes.
    call: [String; 3],
    algorithm: String,
    basis: String,
    order: String,
    how: String,
    most: String,
}

impl Cells {
    fn of(decision: &Decision, library: &Library) -> Self {
        let Decision { collective, from, to, choice } = decision;
        let call = [collective.name().to_owned(), from.to_string(), to.to_string()];
        let Some(Choice { algorithm, loaded, basis, service, orders }) = choice else {
            return Self { call, algorithm: "nothing".to_owned(), ..Self::default() };
        };
        let basis = match basis {
            PreferenceReason::Loaded
            | PreferenceReason::Guess
            | PreferenceReason::Row { .. }
            | PreferenceReason::Slower { .. }
            | PreferenceReason::Fallback => basis.to_string(),
        };
        let most = match library.place {
            PlaceName::Cuda => format!("≤ {}", service.multiprocessors()),
            PlaceName::Host => String::new(),
        };
        let (algorithm, how) = (title(algorithm, *loaded), service.to_string());
        Self { call, algorithm, basis, order: order_cell(orders.as_ref()), how, most }
    }
}
