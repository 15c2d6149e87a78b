//! What a run gave: for every library, call and placement what every rank measured.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::case::Case;
use crate::library_under_test::LibraryUnderTest;
use crate::placement::Placement;
use crate::protocol::{Quantiles, Sample};
use crate::registration::Registration;
use crate::requested::RequestedAlgorithm;
use crate::workload::Bandwidth;

/// A whole run.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// The libraries, in the order of the plan.
    pub libraries: Vec<LibraryReport>,
    /// The calls, until all libraries were out.
    pub rows: Vec<Row>,
    /// How many calls were planned.
    pub planned: usize,
}

/// What is known of a library.
#[derive(Clone, PartialEq, Debug)]
pub struct LibraryReport {
    /// What reports call it.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// Its version as one number, once it is open.
    pub version: Option<i32>,
    /// How its buffers were registered.
    pub registration: Registration,
    /// Whether it says what serves calls.
    pub reports_what_serves: bool,
    /// How long each rank took to join, in µs; empty if they did not.
    pub init_us: Vec<f64>,
    /// How long each rank took to end its communicator, in µs.
    pub destroy_us: Vec<f64>,
    /// Why it is out, if it is.
    pub loss: Option<String>,
}

/// A call, and what the libraries made of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// The call.
    pub case: Case,
    out_of_place: Vec<Outcome>,
    in_place: Vec<Outcome>,
}

/// What a library made of a call.
#[derive(Clone, PartialEq, Debug)]
pub enum Outcome {
    /// It did it.
    Measured(Measurement),
    /// It would not, on any rank, and says why.
    Refused(String),
    /// It is out.
    Out,
}

/// What all ranks of a library measured, in the order of ranks; at least one.
#[derive(Clone, PartialEq, Debug)]
pub struct Measurement {
    /// What each rank measured.
    pub samples: Vec<Sample>,
    /// What served the call, if the library can say.
    pub served_by: Option<Served>,
}

/// What served a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Served {
    /// The algorithm's name; of one that was loaded, the path of its file.
    pub algorithm: String,
    /// How it ran: protocol, links, instances and threads, as a tuning table has them.
    pub variant: String,
}

/// How the times of ranks become one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Average {
    /// That of rank 0.
    First,
    /// Their mean.
    Mean,
    /// The shortest.
    Min,
    /// The longest.
    Max,
}

/// The smallest, mean and largest of a figure over all ranks.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Spread {
    /// Smallest.
    pub min: f64,
    /// Mean.
    pub mean: f64,
    /// Largest.
    pub max: f64,
}

impl LibraryReport {
    pub(crate) fn new(name: &str, path: &Path) -> Self {
        Self {
            name: name.to_owned(),
            path: path.to_owned(),
            version: None,
            registration: Registration::None,
            reports_what_serves: false,
            init_us: Vec::new(),
            destroy_us: Vec::new(),
            loss: None,
        }
    }

    /// Its version as people write it, such as `2.28.9`.
    pub fn version_name(&self) -> String {
        let Some(version) = self.version else { return "not open".to_owned() };
        // Before 2.9 the major number counted a thousand.
        let (major, rest) = if version < 10_000 {
            (version / 1000, version % 1000)
        } else {
            (version / 10_000, version % 10_000)
        };
        format!("{major}.{}.{}", rest / 100, rest % 100)
    }
}

impl Served {
    /// Reads the last five columns of a tuning table.
    pub(crate) fn parse(choice: &str) -> Option<Self> {
        let columns: Vec<&str> = choice.splitn(5, ' ').collect();
        let [variant @ .., algorithm] = &columns[..] else { return None };
        let is_whole = variant.len() == 4 && !algorithm.is_empty();
        is_whole.then(|| Self { algorithm: (*algorithm).to_owned(), variant: variant.join(" ") })
    }

    /// The algorithm's name, of a file without its folders.
    pub fn short_name(&self) -> &str {
        let is_file = [".xml", ".json", ".msccl"].iter().any(|end| self.algorithm.ends_with(end));
        let last = self.algorithm.rsplit('/').next().filter(|_| is_file);
        last.unwrap_or(&self.algorithm)
    }
}

impl Outcome {
    /// What a library made of a call that was made several times: a failure if there was
    /// any, or the median of each rank.
    pub(crate) fn median(passes: Vec<Outcome>) -> Self {
        let mut measured = Vec::new();
        for pass in passes {
            match pass {
                Outcome::Measured(measurement) => measured.push(measurement),
                Outcome::Refused(_) | Outcome::Out => return pass,
            }
        }
        Measurement::median(&measured).map_or(Outcome::Out, Outcome::Measured)
    }
}

impl Row {
    /// A row that is still empty.
    pub(crate) fn new(case: Case, libraries: usize) -> Self {
        let out = vec![Outcome::Out; libraries];
        Self { case, out_of_place: out.clone(), in_place: out }
    }

    /// What each library measured, in the order of the plan.
    pub fn outcomes(&self, placement: Placement) -> &[Outcome] {
        match placement {
            Placement::OutOfPlace => &self.out_of_place,
            Placement::InPlace => &self.in_place,
        }
    }

    pub(crate) fn outcomes_mut(&mut self, placement: Placement) -> &mut [Outcome] {
        match placement {
            Placement::OutOfPlace => &mut self.out_of_place,
            Placement::InPlace => &mut self.in_place,
        }
    }

    /// What library number `library` measured, if it did.
    pub fn cell(&self, placement: Placement, library: usize) -> Option<&Measurement> {
        match self.outcomes(placement).get(library)? {
            Outcome::Measured(measurement) => Some(measurement),
            Outcome::Refused(_) | Outcome::Out => None,
        }
    }

    /// How many times as long as the first library, library number `library` takes; more than one
    /// means that the first is faster.
    pub fn ratio(&self, placement: Placement, library: usize, average: Average) -> Option<f64> {
        let ours = self.cell(placement, 0)?.time_us(average);
        let theirs = self.cell(placement, library)?.time_us(average);
        (ours > 0.0).then_some(theirs / ours)
    }
}

impl Measurement {
    /// For each rank its sample of median time, of an even number the shorter one, with what the
    /// first of `passes` found wrong; `None` of none.
    fn median(passes: &[Measurement]) -> Option<Self> {
        let first = passes.first()?;
        let of_rank = |(rank, first): (usize, &Sample)| {
            let mut samples: Vec<_> =
                passes.iter().filter_map(|pass| pass.samples.get(rank)).collect();
            samples.sort_by(|a, b| a.time_us.total_cmp(&b.time_us));
            let middle = samples.get((samples.len().max(1) - 1) / 2).copied().unwrap_or(first);
            let Sample { time_us, one_shot_us, host_us, wrong: _, first_wrong: _ } = *middle;
            Sample { time_us, one_shot_us, host_us, ..first.clone() }
        };
        let samples = first.samples.iter().enumerate().map(of_rank).collect();
        Some(Self { samples, served_by: first.served_by.clone() })
    }

    /// The time of a call in µs.
    pub fn time_us(&self, average: Average) -> f64 {
        average.of(&self.over_ranks(|sample| Some(sample.time_us))).unwrap_or(0.0)
    }

    /// What a call achieves.
    pub fn bandwidth(&self, case: &Case, average: Average) -> Bandwidth {
        case.bandwidth(self.time_us(average))
    }

    /// Wrong elements on all ranks; `None` if no rank checked.
    pub fn wrong(&self) -> Option<u64> {
        self.samples.iter().filter_map(|sample| sample.wrong).reduce(u64::saturating_add)
    }

    /// The first wrong element of the first rank that has one, in words.
    pub fn first_wrong(&self) -> Option<&str> {
        self.samples.iter().find_map(|sample| sample.first_wrong.as_deref())
    }

    /// A figure of the times of calls timed alone, in µs.
    pub fn one_shot_us(&self, average: Average, figure: fn(&Quantiles) -> f64) -> Option<f64> {
        average.of(&self.over_ranks(|sample| sample.one_shot_us.as_ref().map(figure)))
    }

    /// A figure of the times that the function takes to return, in µs.
    pub fn host_us(&self, average: Average, figure: fn(&Quantiles) -> f64) -> Option<f64> {
        average.of(&self.over_ranks(|sample| sample.host_us.as_ref().map(figure)))
    }

    /// A figure of every rank that has it.
    pub fn over_ranks(&self, figure: impl Fn(&Sample) -> Option<f64>) -> Vec<f64> {
        self.samples.iter().filter_map(figure).collect()
    }
}

impl Average {
    /// The one of `values`, if there are any.
    pub fn of(self, values: &[f64]) -> Option<f64> {
        let spread = Spread::of(values)?;
        Some(match self {
            Self::First => *values.first()?,
            Self::Mean => spread.mean,
            Self::Min => spread.min,
            Self::Max => spread.max,
        })
    }

    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::First => "rank 0",
            Self::Mean => "mean",
            Self::Min => "min",
            Self::Max => "max",
        }
    }
}

impl FromStr for Average {
    type Err = String;

    /// Reads nccl-tests' numbers and our names.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "0" | "rank0" => Ok(Self::First),
            "1" | "avg" | "mean" => Ok(Self::Mean),
            "2" | "min" => Ok(Self::Min),
            "3" | "max" => Ok(Self::Max),
            _ => Err(format!("expected 0 (rank 0), 1 (mean), 2 (min) or 3 (max), found `{text}`")),
        }
    }
}

impl Spread {
    /// That of `values`, if there are any.
    pub fn of(values: &[f64]) -> Option<Self> {
        let (min, max) = values
            .iter()
            .fold((f64::MAX, f64::MIN), |(min, max), value| (min.min(*value), max.max(*value)));
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        (!values.is_empty()).then_some(Self { min, mean, max })
    }
}

impl Report {
    /// Wrong elements in all checks of library number `library`.
    pub fn wrong(&self, library: usize) -> u64 {
        self.measured(library).filter_map(|(_, _, cell)| cell.wrong()).sum()
    }

    /// The mean bus bandwidth of library number `library` over all rows and both placements.
    pub fn mean_bus_gb_s(&self, library: usize, average: Average) -> f64 {
        let speeds: Vec<f64> = self
            .measured(library)
            .map(|(row, _, cell)| cell.bandwidth(&row.case, average).bus_gb_s)
            .collect();
        Spread::of(&speeds).map_or(0.0, |speeds| speeds.mean)
    }

    /// Whether every library did everything and no element is wrong.
    pub fn is_good(&self) -> bool {
        let complete = self.rows.len() == self.planned;
        let kept = self.libraries.iter().all(|library| library.loss.is_none());
        let right = |library| self.wrong(library) == 0 && self.refused(library) == 0;
        complete && kept && (0..self.libraries.len()).all(right)
    }

    /// What served the calls of library number `library`, where it reports that.
    pub fn served(&self, library: usize) -> impl Iterator<Item = &str> {
        let served = self.measured(library).filter_map(|(_, _, cell)| cell.served_by.as_ref());
        served.map(|served| served.algorithm.as_str())
    }

    /// Whether library number `library` says what serves calls.
    pub fn reports_what_serves(&self, library: usize) -> bool {
        self.libraries.get(library).is_some_and(|library| library.reports_what_serves)
    }

    /// Whether everything that was requested of libraries that say what serves calls did serve
    /// some, where calls were served by algorithms at all.
    pub fn is_as_requested(&self, libraries: &[LibraryUnderTest]) -> bool {
        let reports = |library: usize| {
            self.reports_what_serves(library) && self.served(library).next().is_some()
        };
        let reporting = libraries.iter().enumerate().filter(|(library, _)| reports(*library));
        reporting.into_iter().all(|(library, tested)| {
            let is_met = |algorithm: &RequestedAlgorithm<'_>| {
                self.served(library).any(|it| algorithm.is_met_by(it))
            };
            tested.requested.algorithms().iter().all(is_met)
        })
    }

    /// How often library number `library` refused a call.
    pub fn refused(&self, library: usize) -> usize {
        let placements = self.rows.iter().flat_map(|row| Placement::BOTH.map(|at| (row, at)));
        let outcomes = placements.filter_map(|(row, at)| row.outcomes(at).get(library));
        outcomes.filter(|outcome| matches!(outcome, Outcome::Refused(_))).count()
    }

    /// Everything that library number `library` measured.
    pub fn measured(
        &self,
        library: usize,
    ) -> impl Iterator<Item = (&Row, Placement, &Measurement)> {
        self.rows.iter().flat_map(move |row| {
            let cell = move |placement| Some((row, placement, row.cell(placement, library)?));
            Placement::BOTH.into_iter().filter_map(cell)
        })
    }

    /// Ratios of library number `library`: their geometric mean, and the least of them with its
    /// row.
    pub fn ratios(&self, library: usize, average: Average) -> Option<Ratios<'_>> {
        let ratios: Vec<(f64, &Row, Placement)> = self
            .measured(library)
            .filter_map(|(row, placement, _)| {
                let ratio = row.ratio(placement, library, average)?;
                (ratio > 0.0).then_some((ratio, row, placement))
            })
            .collect();
        let logarithms: f64 = ratios.iter().map(|(ratio, ..)| ratio.ln()).sum();
        let mean = (logarithms / ratios.len() as f64).exp();
        let (worst, row, placement) = ratios.into_iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
        Some(Ratios { mean, worst, row, placement })
    }
}

/// How a library compares with the first one over a whole run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ratios<'a> {
    /// Geometric mean.
    pub mean: f64,
    /// The least.
    pub worst: f64,
    /// Where the least occurred.
    pub row: &'a Row,
    /// In which placement.
    pub placement: Placement,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample_report::report;

    #[test]
    fn ratios_say_how_much_longer_the_other_takes() {
        let report = report();
        let ratios = report.ratios(1, Average::Mean).unwrap();
        assert!((ratios.worst - 0.8).abs() < 1e-9);
        assert_eq!(ratios.row.case.count, 256);
        // 2, 1 and 0.8; what was not measured does not count.
        assert!((ratios.mean - 1.6_f64.cbrt()).abs() < 1e-9);
    }

    #[test]
    fn one_fault_of_any_kind_is_enough() {
        let good = |spoil: fn(&mut Report)| {
            let mut report = report();
            report.rows.truncate(1);
            report.planned = 1;
            report.libraries[1].loss = None;
            spoil(&mut report);
            report.is_good()
        };
        assert!(good(|_| {}));
        assert!(!good(|report| report.planned = 2));
        assert!(!good(|report| report.libraries[1].loss = Some(String::new())));
        assert!(!good(|report| {
            report.rows[0].outcomes_mut(Placement::InPlace)[1] = Outcome::Refused(String::new());
        }));
        assert!(!good(|report| {
            let Outcome::Measured(cell) = &mut report.rows[0].outcomes_mut(Placement::InPlace)[1]
            else {
                return;
            };
            cell.samples[1].wrong = Some(1);
        }));
    }

    #[test]
    fn medians_are_of_each_rank() {
        let pass = |times: [f64; 2], wrong: Option<u64>| {
            let sample = |time_us| Sample { time_us, wrong, ..Sample::default() };
            Outcome::Measured(Measurement { samples: times.map(sample).into(), served_by: None })
        };
        let [a, b, c] = [pass([3.0, 1.0], Some(7)), pass([2.0, 9.0], None), pass([9.0, 2.0], None)];
        let median = Outcome::median(vec![a.clone(), b.clone(), c]);
        assert_eq!(median, pass([3.0, 2.0], Some(7)));
        assert_eq!(Outcome::median(vec![a.clone(), b]), pass([2.0, 1.0], Some(7)));
        assert_eq!(Outcome::median(vec![a.clone()]), a);
        let refused = Outcome::Refused("no".to_owned());
        assert_eq!(Outcome::median(vec![a, refused.clone()]), refused);
        assert_eq!(Outcome::median(Vec::new()), Outcome::Out);
    }

    #[test]
    fn what_served_is_read_from_a_line_of_a_tuning_table() {
        let served = |choice: &str| Served::parse(choice).map(|it| (it.variant, it.algorithm));
        let variant = "LL staged 2 512".to_owned();
        assert_eq!(
            served("LL staged 2 512 allreduce/ring"),
            Some((variant.clone(), "allreduce/ring".to_owned()))
        );
        let file = Served::parse("LL staged 2 512 /a b/my ring.xml").unwrap();
        assert_eq!((file.variant.clone(), file.short_name()), (variant, "my ring.xml"));
        assert_eq!(
            [served(""), served("LL staged 2 512"), served("LL staged 2 512 ")],
            [None, None, None]
        );
    }

    #[test]
    fn times_of_ranks_become_one_as_requested() {
        let average = |text: &str| text.parse::<Average>().ok()?.of(&[2.0, 1.0, 6.0]);
        let all = ["0", "1", "2", "3", "max"].map(average);
        assert_eq!(all, [Some(2.0), Some(3.0), Some(1.0), Some(6.0), Some(6.0)]);
        assert_eq!(Average::Mean.of(&[]), None);
        assert!("4".parse::<Average>().is_err());
    }

    #[test]
    fn versions_read_as_people_write_them() {
        let name = |version| {
            let mut library = LibraryReport::new("a", Path::new("a"));
            library.version = version;
            library.version_name()
        };
        assert_eq!(name(Some(22809)), "2.28.9");
        assert_eq!(name(Some(2804)), "2.8.4");
        assert_eq!(name(None), "not open");
    }
}
