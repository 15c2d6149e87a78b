//! The report as nccl-tests prints it, so that programs that read theirs read ours.
//!
//! Lines that begin with `#` are for people. In all others the first thirteen columns are those of
//! nccl-tests, for the first library: size, count, type, redop, root, and twice time, algorithm
//! bandwidth, bus bandwidth and wrong elements. What nccl-tests does not have stands to the right
//! of them: one-shot latencies, host times, the other libraries with their ratios, and last what
//! served the call.

use crate::case::Case;
use crate::library_under_test::LibraryUnderTest;
use crate::placement::Placement;
use crate::protocol::{Method, Quantiles};
use crate::report::{Average, Measurement, Ratios, Report, Row, Served};
use crate::requested::{RequestedAlgorithm, RequestedAlgorithms};
use crate::workload::Bandwidth;

/// Which columns there are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    names: Vec<String>,
    /// What was requested of each library.
    requested: Vec<RequestedAlgorithms>,
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
    /// The columns for `libraries`, measured as `method` says; with or without the time until the
    /// function returns.
    pub fn new(
        libraries: &[LibraryUnderTest],
        method: &Method,
        average: Average,
        with_host: bool,
    ) -> Self {
        let names: Vec<_> = libraries.iter().map(|it| it.name.clone()).collect();
        let requested = libraries.iter().map(|it| it.requested.clone()).collect();
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
            let fields: Vec<_> =
                usual.into_iter().chain(more.clone()).chain([Field::Ratio]).collect();
            groups.extend(group(library, &fields));
        }
        Self { names, requested, average, groups }
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
        headings += "  served by";
        let lines = ["#".to_owned(), labels, headings, units];
        lines.map(|line| line.trim_end().to_owned()).into()
    }

    /// Placement and, where there are several, library, as far as they fit.
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
        line += &self.served(row);
        line
    }

    /// What served the call, of every library that can say, and whether that is what was requested.
    fn served(&self, row: &Row) -> String {
        let of_library = |library: usize| {
            let [outside, inside] =
                Placement::BOTH.map(|at| row.cell(at, library)?.served_by.as_ref());
            let named = |served: &Served| {
                let is_requested =
                    self.requested.get(library).is_none_or(|it| it.is_met_by(&served.algorithm));
                let mark = if is_requested { "" } else { " (not as requested)" };
                format!("{}{mark}", served.short_name())
            };
            let text = match (outside.map(named), inside.map(named)) {
                (None, None) => return None,
                (Some(one), None) | (None, Some(one)) => one,
                (Some(one), Some(other)) if one == other => one,
                (Some(outside), Some(inside)) => format!("{outside}, in place {inside}"),
            };
            let name = self.names.get(library).filter(|_| self.names.len() > 1);
            Some(name.map_or(text.clone(), |name| format!("{name}: {text}")))
        };
        let all: Vec<_> = (0..self.names.len()).filter_map(of_library).collect();
        if all.is_empty() { String::new() } else { format!("  {}", all.join("; ")) }
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
        let speed = |library| report.mean_bus_gb_s(library, self.average);
        let mut lines = vec![
            format!("# Out of bounds values : {wrong} {verdict}"),
            format!("# Avg bus bandwidth    : {:.3}", speed(0)),
        ];
        for (library, name) in self.names.iter().enumerate() {
            lines.extend(self.unmet(report, library));
            if library > 0 {
                let ratios = self.ratios(report, library);
                lines.push(format!("# {name}: avg bus bandwidth {:.3}{ratios}", speed(library)));
            }
            let refused = report.refused(library);
            if refused > 0 {
                lines.push(format!("# {name}: FAILED in {refused} measurements"));
            }
            let loss = report.libraries.get(library).and_then(|library| library.loss.as_ref());
            lines.extend(loss.map(|loss| format!("# {name}: FAILED, and was out: {loss}")));
        }
        lines
    }

    /// What was requested of a library and did not serve, or not always.
    fn unmet(&self, report: &Report, library: usize) -> Vec<String> {
        let (Some(name), Some(requested)) = (self.names.get(library), self.requested.get(library))
        else {
            return Vec::new();
        };
        let served: Vec<&str> = report.served(library).collect();
        if served.is_empty() {
            let none = "nothing that was measured is served by an algorithm";
            let line = |algorithm: RequestedAlgorithm<'_>| {
                format!("# {name}: requested {}, and {none}", algorithm.words)
            };
            let algorithms =
                requested.algorithms().into_iter().filter(|_| report.reports_what_serves(library));
            return algorithms.map(line).collect();
        }
        let unmet = requested.algorithms().into_iter().map(|algorithm| {
            let times = served.iter().filter(|served| algorithm.is_met_by(served)).count();
            let (all, words) = (served.len(), algorithm.words);
            match times {
                0 => format!(
                    "# {name}: requested {words}, which served none of {all} measurements: FAILED"
                ),
                times if times == all => String::new(),
                times => format!(
                    "# {name}: requested {words}, which served {times} of {all} measurements"
                ),
            }
        });
        let unmet = unmet.filter(|line| !line.is_empty());
        if report.reports_what_serves(library) { unmet.collect() } else { Vec::new() }
    }

    /// How a library compares with the first.
    fn ratios(&self, report: &Report, library: usize) -> String {
        let Some(ratios) = report.ratios(library, self.average) else { return String::new() };
        let Ratios { mean, worst, row, placement } = ratios;
        let first = self.names.first().map_or("", String::as_str);
        let (bytes, element, placement) =
            (row.case.size_bytes(), row.case.element, placement.name());
        format!(
            "; takes {mean:.2} times as long as {first} in the geometric mean, at least {worst:.2} \
             ({bytes} B, {element}, {placement})"
        )
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

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::sample_report::{method, plan, report};

    fn table(libraries: usize, method: &Method, with_host: bool) -> String {
        let libraries = &plan().libraries[..libraries];
        let layout = Layout::new(libraries, method, Average::Mean, with_host);
        let (mut lines, report) = (layout.head(), report());
        lines.extend(report.rows.iter().map(|row| layout.row(row)));
        lines.extend(layout.foot(&report));
        lines.join("\n")
    }

    #[test]
    fn one_library_looks_as_in_nccl_tests() {
        let method = Method { one_shot: false, ..method() };
        assert_snapshot!(table(1, &method, false), @r"
        #
        #                                                              out-of-place                      in-place
        #       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong  served by
        #        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
                   8             2  float     sum      -1     4.00    0.00    0.00      0     4.50    0.00    0.00    N/A  allreduce/one_shot, in place mine.xml
                1024           256  float     sum      -1     5.00    0.20    0.20      0     5.00    0.20    0.20      2  allreduce/ring
          1073741824     268435456  float     sum      -1    12346   86.97   86.97      0   1234.6  869.74  869.74      0
        # Out of bounds values : 2 FAILED
        # Avg bus bandwidth    : 159.521
        ");
    }

    #[test]
    fn other_libraries_stand_to_the_right() {
        let method = Method { one_shot: false, ..method() };
        assert_snapshot!(table(2, &method, false), @r"
        #
        #                                                           msccl out-of-place                msccl in-place                nccl out-of-place                 nccl in-place
        #       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong     time   busbw #wrong   ratio     time   busbw #wrong   ratio  served by
        #        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)            (us)  (GB/s)                    (us)  (GB/s)
                   8             2  float     sum      -1     4.00    0.00    0.00      0     4.50    0.00    0.00    N/A     8.00    0.00      0    2.00     4.50    0.00    N/A    1.00  msccl: allreduce/one_shot, in place mine.xml
                1024           256  float     sum      -1     5.00    0.20    0.20      0     5.00    0.20    0.20      2     4.00    0.26      0    0.80        -       -      -       -  msccl: allreduce/ring
          1073741824     268435456  float     sum      -1    12346   86.97   86.97      0   1234.6  869.74  869.74      0        -       -      -       -        -       -      -       -
        # Out of bounds values : 2 FAILED
        # Avg bus bandwidth    : 159.521
        # nccl: avg bus bandwidth 0.086; takes 1.17 times as long as msccl in the geometric mean, at least 0.80 (1024 B, float, out-of-place)
        # nccl: FAILED in 1 measurements
        # nccl: FAILED, and was out: no answer from r1 in 120 s
        ");
    }

    #[test]
    fn latencies_and_host_times_have_columns_of_their_own() {
        assert_snapshot!(table(1, &method(), true), @r"
        #
        #                                                              out-of-place                      in-place                   out-of-place                 in-place
        #       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong      min      p99     host      min      p99     host  served by
        #        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)            (us)     (us)     (us)     (us)     (us)     (us)
                   8             2  float     sum      -1     4.00    0.00    0.00      0     4.50    0.00    0.00    N/A     2.00    40.00     2.00     2.25    45.00     2.00  allreduce/one_shot, in place mine.xml
                1024           256  float     sum      -1     5.00    0.20    0.20      0     5.00    0.20    0.20      2     2.50    50.00     2.00     2.50    50.00     2.00  allreduce/ring
          1073741824     268435456  float     sum      -1    12346   86.97   86.97      0   1234.6  869.74  869.74      0   6172.8   123456     2.00    617.3    12346     2.00
        # Out of bounds values : 2 FAILED
        # Avg bus bandwidth    : 159.521
        ");
    }

    #[test]
    fn the_first_columns_stay_the_same_whatever_follows() {
        let usual = table(1, &Method { one_shot: false, ..method() }, false);
        let long = table(2, &method(), true);
        let rows = |table: &str| -> Vec<Vec<String>> {
            let rows = table.lines().filter(|line| !line.starts_with('#'));
            let cells = |row: &str| row.split_whitespace().take(13).map(str::to_owned).collect();
            rows.map(cells).collect()
        };
        assert_eq!(rows(&usual), rows(&long));
        assert!(rows(&usual).iter().all(|row| row.len() == 13));
    }

    #[test]
    fn what_did_not_serve_as_requested_is_listed() {
        let mut libraries = plan().libraries;
        libraries[0].requested.files = vec!["/site/mine.xml".to_owned(), "/no/such.xml".to_owned()];
        let mut report = report();
        assert!(report.is_as_requested(&libraries));
        report.libraries[0].reports_what_serves = true;
        let layout = Layout::new(&libraries, &method(), Average::Mean, false);
        let row = layout.row(&report.rows[0]);
        assert!(
            row.ends_with("  msccl: allreduce/one_shot (not as requested), in place mine.xml"),
            "{row}"
        );
        let foot = layout.foot(&report);
        let requested: Vec<_> = foot.iter().filter(|line| line.contains("requested")).collect();
        assert_eq!(
            requested,
            [
                "# msccl: requested the file /site/mine.xml, which served 1 of 4 measurements",
                "# msccl: requested the file /no/such.xml, which served none of 4 measurements: \
                 FAILED",
            ]
        );
        assert!(!report.is_as_requested(&libraries));
        libraries[0].requested.files.truncate(1);
        assert!(report.is_as_requested(&libraries));
    }

    #[test]
    fn times_fit_seven_characters() {
        assert_eq!([0.0, 99.994, 100.0, 9999.9].map(time), ["0.00", "99.99", "100.0", "9999.9"]);
        assert_eq!([10_000.0, 1_234_567.8].map(time), ["10000", "1234568"]);
    }
}
