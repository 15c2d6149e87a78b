//! What `compare` says to people.

use super::{Compared, Comparison};
use crate::loads::Busiest;
use crate::output::{Output, Paint};
use crate::size::ByteSize;
use crate::table::{Align, Table};

/// Prints times, loads, and where each algorithm is best.
pub fn print(found: &Comparison, output: &mut Output) {
    match &found.measured_on {
        Some(machine) => output.line(format_args!("measured on {machine}")),
        None => output.line(format_args!("assumes {}", found.hardware)),
    }
    output.line("");
    print_times(found, output);
    output.line("");
    print_loads(found, output);
    output.line("");
    print_best(found, output);
}

fn print_times(found: &Comparison, output: &mut Output) {
    let Comparison { hardware: _, measured_on, sizes, bounds_us, algorithms } = found;
    let mut columns = vec![("size", Align::Right)];
    columns.extend(algorithms.iter().map(|of| (of.name.as_str(), Align::Right)));
    let bounded = bounds_us.iter().any(Option::is_some);
    columns.extend(bounded.then_some(("bound", Align::Right)));
    let mut table = Table::new(&columns);
    for (at, best) in found.best().into_iter().enumerate() {
        let cell = |(number, of): (usize, &Compared)| match &of.times[at] {
            Ok(time) => {
                format!("{}{}", us(time.us), if best == Some(number) { " *" } else { "  " })
            }
            Err(_) => "-  ".to_owned(),
        };
        let cells = algorithms.iter().enumerate().map(cell);
        let bound = bounded.then(|| bounds_us[at].map_or_else(|| "-".to_owned(), us));
        table.row([sizes[at].to_string()].into_iter().chain(cells).chain(bound));
    }
    print_table(&table, output);
    let legend = match measured_on {
        Some(_) => "  µs on the slowest rank, calls in a row, results compared; * the least",
        None => "  µs from one call to the next; * the least; bound: what no schedule can beat",
    };
    output.line(legend);
    let mut named = Vec::new();
    for of in algorithms {
        let reason = of.times.iter().find_map(|time| time.as_ref().err());
        if let Some(reason) = reason.filter(|_| !named.contains(&&of.name)) {
            output.line(format_args!("  -: {reason}"));
            named.push(&of.name);
        }
    }
}

fn print_loads(found: &Comparison, output: &mut Output) {
    let columns = [
        ("algorithm", Align::Left),
        ("messages in a chain", Align::Right),
        ("thread blocks", Align::Right),
        ("busiest link of each class: its part of the bytes", Align::Left),
    ];
    let mut table = Table::new(&columns);
    for of in &found.algorithms {
        let Compared { name, times, loads, chain } = of;
        let blocks = times.iter().flatten().filter_map(|time| time.blocks);
        let blocks = match (blocks.clone().min(), blocks.max()) {
            (Some(least), Some(most)) if least == most => least.to_string(),
            (Some(least), Some(most)) => format!("{least}–{most}"),
            (None, _) | (_, None) => "-".to_owned(),
        };
        let load = |of: &Busiest| {
            let Busiest { place: _, link, share, seconds_per_byte: _ } = of;
            format!("{} {share} ({})", link.medium, found.hardware.cluster.link_name(link))
        };
        let loads: Vec<_> = loads.iter().map(load).collect();
        let chain = chain.map_or_else(|| "-".to_owned(), |chain| chain.to_string());
        table.row([name.clone(), chain, blocks, loads.join(", ")]);
    }
    print_table(&table, output);
}

/// Where each is best, and the `bytes` clauses that say so.
fn print_best(found: &Comparison, output: &mut Output) {
    for Range { algorithm, from, to } in ranges(found) {
        let name = &found.algorithms[algorithm].name;
        let clause = match (from, to) {
            (None, None) => "all sizes".to_owned(),
            (from, to) => {
                let end = |size: Option<ByteSize>| {
                    size.map(|size| size.to_string().replace(' ', "")).unwrap_or_default()
                };
                format!("bytes {}..{}", end(from), end(to))
            }
        };
        output.line(format_args!("best: {name}, {clause}"));
    }
}

/// Sizes at which an algorithm is best.
pub struct Range {
    /// Which.
    pub algorithm: usize,
    /// From this size on; from the smallest if not given.
    pub from: Option<ByteSize>,
    /// To below this size; to the largest if not given.
    pub to: Option<ByteSize>,
}

/// The ranges of sizes at which one algorithm is best, in ascending order. They end where the next
/// size belongs to another: nothing is known between.
pub fn ranges(found: &Comparison) -> Vec<Range> {
    let mut ranges: Vec<Range> = Vec::new();
    for (size, best) in found.sizes.iter().zip(found.best()) {
        let Some(algorithm) = best else { continue };
        match ranges.last_mut() {
            Some(last) if last.algorithm == algorithm => {}
            Some(last) => {
                last.to = Some(*size);
                ranges.push(Range { algorithm, from: Some(*size), to: None });
            }
            None => ranges.push(Range { algorithm, from: None, to: None }),
        }
    }
    ranges
}

fn print_table(table: &Table, output: &mut Output) {
    for (index, line) in table.lines().into_iter().enumerate() {
        let line = format!("  {line}");
        output.line(if index == 0 { output.paint(Paint::Dim, line) } else { line });
    }
}

/// A time with as many digits as say something.
fn us(us: f64) -> String {
    match us {
        small if small < 100.0 => format!("{small:.1}"),
        large => format!("{large:.0}"),
    }
}
