//! The report as nccl-tests prints it, so that whatever reads theirs reads ours.
//!
//! Lines that begin with `#` are for people. In all others the first thirteen columns are those of
//! nccl-tests, for the first library: size, count, type, redop, root, and twice time, algorithm
//! bandwidth, bus bandwidth and wrong elements. What nccl-tests does not have stands to the right of
//! them: one-shot latencies, host times, and the other libraries with their ratios.

use crate::case::{Case, Placement};
use crate::protocol::{Method, Quantiles};
use crate::report::{Average, Measurement, Report, Row};
use crate::workload::Bandwidth;

/// Which columns there are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    names: Vec<String>,
    average: Average,
    groups: Vec<Group>,
}

/// Columns of one library and placement.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Group {
    library: usize,
    placement: Placement,
    fields: Vec<Field>,
}

/// A column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Field {
    Time,
    AlgorithmBandwidth,
    BusBandwidth,
    Wrong,
    /// Shortest call timed alone.
    Min,
    /// 99 of 100 calls timed alone are as fast.
    P99,
    /// Median time until the function returns.
    Host,
    /// Time by the time of the first library.
    Ratio,
}

impl Field {
    /// Heading, unit, and width with the blanks before it.
    fn heading(self) -> (&'static str, &'static str, usize) {
        match self {
            Self::Time => ("time", "(us)", 9),
            Self::AlgorithmBandwidth => ("algbw", "(GB/s)", 8),
            Self::BusBandwidth => ("busbw", "(GB/s)", 8),
            Self::Wrong => ("#wrong", "", 7),
            Self::Min => ("min", "(us)", 9),
            Self::P99 => ("p99", "(us)", 9),
            Self::Host => ("host", "(us)", 9),
            Self::Ratio => ("ratio", "", 8),
        }
    }

    fn width(self) -> usize {
        self.heading().2
    }
}

impl Layout {
    /// The columns for the libraries called `names`, measured as `method` says; with or without the
    /// time until the function returns.
    pub fn new(names: Vec<String>, method: &Method, average: Average, with_host: bool) -> Self {
        let mut more = Vec::new();
        if method.one_shot {
            more.extend([Field::Min, Field::P99]);
        }
        if with_host {
            more.push(Field::Host);
        }
        let group = |library, fields: &[Field]| {
            let fields = fields.to_vec();
            Placement::BOTH.map(|placement| Group { library, placement, fields: fields.clone() })
        };
        let usual = [Field::Time, Field::AlgorithmBandwidth, Field::BusBandwidth, Field::Wrong];
        let mut groups: Vec<Group> = group(0, &usual).into();
        if !more.is_empty() {
            groups.extend(group(0, &more));
        }
        for library in 1..names.len() {
            let usual = [Field::Time, Field::BusBandwidth, Field::Wrong];
            let fields: Vec<_> = usual.into_iter().chain(more.clone()).chain([Field::Ratio]).collect();
            groups.extend(group(library, &fields));
        }
        Self { names, average, groups }
    }

    /// The lines above the rows.
    pub fn head(&self) -> Vec<String> {
        let key = |words: [&str; 5]| {
            let [size, count, element, redop, root] = words;
            format!("# {size:>10}  {count:>12}  {element:>8}  {redop:>6}  {root:>6}")
        };
        let mut labels = key([""; 5]);
        let mut headings = key(["size", "count", "type", "redop", "root"]);
        let mut units = key(["(B)", "(elements)", "", "", ""]);
        for group in &self.groups {
            let width = group.fields.iter().map(|field| field.width()).sum::<usize>() - 2;
            labels += &format!("  {:^width$}", self.label(group, width));
            for field in &group.fields {
                let (heading, unit, width) = field.heading();
                headings += &format!("{heading:>width$}");
                units += &format!("{unit:>width$}");
            }
        }
        let lines = ["#".to_owned(), labels, headings, units];
        lines.map(|line| line.trim_end().to_owned()).into()
    }

    /// Placement and, where there are several, library, as far as there is room.
    fn label(&self, group: &Group, width: usize) -> String {
        let placement = group.placement.name();
        let name = self.names.get(group.library).map_or("", String::as_str);
        let full = format!("{name} {placement}");
        if self.names.len() > 1 && full.len() <= width { full } else { fitting(placement, width) }
    }

    /// The line of a row.
    pub fn row(&self, row: &Row) -> String {
        let case = &row.case;
        let Case { workload: _, element, count, .. } = case;
        let root = case.root_rank().map_or(-1, i64::from);
        let redop = case.redop_name().unwrap_or("none");
        let size = case.size_bytes();
        let mut line = format!("{size:>12}  {count:>12}  {element:>8}  {redop:>6}  {root:>6}");
        for group in &self.groups {
            let cell = row.cell(group.placement, group.library);
            for field in &group.fields {
                let width = field.width();
                let text = cell.and_then(|cell| self.text(*field, group, row, cell));
                line += &format!("{:>width$}", text.unwrap_or_else(|| "-".to_owned()));
            }
        }
        line
    }

    fn text(&self, field: Field, group: &Group, row: &Row, cell: &Measurement) -> Option<String> {
        let average = self.average;
        let Bandwidth { algorithm_gb_s, bus_gb_s } = cell.bandwidth(&row.case, average);
        let one_shot = |figure: fn(&Quantiles) -> f64| cell.one_shot_us(average, figure).map(time);
        match field {
            Field::Time => Some(time(cell.time_us(average))),
            Field::AlgorithmBandwidth => Some(format!("{algorithm_gb_s:.2}")),
            Field::BusBandwidth => Some(format!("{bus_gb_s:.2}")),
            Field::Wrong => Some(cell.wrong().map_or("N/A".to_owned(), |wrong| wrong.to_string())),
            Field::Min => one_shot(|times| times.min),
            Field::P99 => one_shot(|times| times.p99),
            Field::Host => cell.host_us(average, |times| times.p50).map(time),
            Field::Ratio => {
                let ratio = row.ratio(group.placement, group.library, average)?;
                Some(format!("{ratio:.2}"))
            }
        }
    }

    /// The lines below the rows.
    pub fn foot(&self, report: &Report) -> Vec<String> {
        let wrong: u64 = (0..self.names.len()).map(|library| report.wrong(library)).sum();
        let verdict = if wrong == 0 { "OK" } else { "FAILED" };
        let mut lines = vec![format!("# Out of bounds values : {wrong} {verdict}")];
        let speed = |library| report.mean_bus_gb_s(library, self.average);
        lines.push(format!("# Avg bus bandwidth    : {:.3}", speed(0)));
        let first = self.names.first().map_or("", String::as_str);
        for (library, name) in self.names.iter().enumerate().skip(1) {
            let ratios = report.ratios(library, self.average).map(|ratios| {
                let (mean, worst, case) = (ratios.mean, ratios.worst, ratios.row.case);
                let (bytes, element) = (case.size_bytes(), case.element);
                let placement = ratios.placement.name();
                format!(
                    "; takes {mean:.2} times as long as {first} in the geometric mean, at least \
                     {worst:.2} ({bytes} B, {element}, {placement})"
                )
            });
            let ratios = ratios.unwrap_or_default();
            lines.push(format!("# {name}: avg bus bandwidth {:.3}{ratios}", speed(library)));
        }
        lines
    }
}

/// As much of `text` as `width` characters hold.
fn fitting(text: &str, width: usize) -> String {
    text.chars().take(width).collect()
}

/// Microseconds with as many decimals as seven characters hold.
fn time(us: f64) -> String {
    match us {
        us if us >= 10_000.0 => format!("{us:.0}"),
        us if us >= 100.0 => format!("{us:.1}"),
        us => format!("{us:.2}"),
    }
}
