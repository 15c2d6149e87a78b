//! All that was measured, to be kept and looked at again.

use msccl_interchange::json;
use serde::{Deserialize, Serialize};

use crate::case::Case;
use crate::error::Error;
use crate::placement::Placement;

/// What readers can rely on: the number grows when a field changes its meaning or goes.
const SCHEMA: &str = "msccl-tune/2";

/// The measurements of one run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Data {
    schema: String,
    /// What was measured on, for people and the table.
    pub machine: String,
    /// The day, as `2026-11-21`.
    pub date: String,
    /// The command that measured.
    pub command: String,
    /// What estimates assume, if nothing was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assumes: Option<String>,
    /// How many nodes the ranks were on.
    #[serde(default = "one")]
    pub nodes: u32,
    /// Whether calls were launched as graphs.
    pub graph: bool,
    /// What the other library is called, if one was measured.
    #[serde(rename = "rival")]
    pub baseline: Option<String>,
    /// The least time that the wires allow, if it is known.
    pub floor: Option<Floor>,
    /// Sizes and placements, by placement and then ascending.
    pub points: Vec<TunePoint>,
    /// Why our library was lost or refused to go on, and what else kept the run from being whole.
    pub failures: Vec<String>,
}

/// The least time that the wires of a machine allow: a latency, and the bytes that the busiest link
/// must carry by what a link carries.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Floor {
    /// The time of the smallest call in µs.
    pub latency_us: f64,
    /// What a link carries, in 10⁹ bytes a second; the same unit as bus bandwidth.
    pub bus_gb_s: f64,
}

/// A call of one size in one placement.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TunePoint {
    /// The call.
    pub case: Case,
    /// Whether input and output share memory.
    pub placement: Placement,
    /// What the library chooses without this run.
    pub present: Option<String>,
    /// Every candidate that was tried.
    pub trials: Vec<CandidateTimes>,
    /// The times of the other library in µs, one for each round.
    #[serde(rename = "rival_us")]
    pub baseline_us: Vec<f64>,
}

/// A candidate, and the times that were measured.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CandidateTimes {
    /// The candidate, as the last five columns of a tuning table.
    pub choice: String,
    /// The thread blocks that a call then has, if the library reports them.
    #[serde(default)]
    pub blocks: Option<u32>,
    /// The time of a call in µs at first sight.
    #[serde(rename = "glance_us")]
    pub screening_us: Option<f64>,
    /// The times of a call in µs, one for each round in which it was compared with the other good
    /// ones.
    pub rounds_us: Vec<f64>,
    /// Whether a result at this size was compared, every element of it.
    pub checked: bool,
    /// Why it is out, everywhere: wrong elements, or that it failed.
    pub fault: Option<String>,
}

fn one() -> u32 {
    1
}

impl Data {
    /// Nothing yet.
    pub(super) fn new(machine: String, date: String, command: String) -> Self {
        let schema = SCHEMA.to_owned();
        let (assumes, graph, baseline, floor) = (None, false, None, None);
        let (points, failures) = (Vec::new(), Vec::new());
        let nodes = one();
        Self {
            schema,
            machine,
            date,
            command,
            assumes,
            nodes,
            graph,
            baseline,
            floor,
            points,
            failures,
        }
    }

    /// Reads what [`Data::to_text`] wrote.
    ///
    /// # Errors
    ///
    /// It is no such text, or of another version.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let data: Self = json::parse(text)
            .map_err(|why| Error::new(format!("expected measurements of `msccl tune`: {why}")))?;
        if data.schema != SCHEMA {
            return Err(Error::new(format!("expected `{SCHEMA}`, found `{}`", data.schema)));
        }
        Ok(data)
    }

    /// As JSON.
    ///
    /// # Errors
    ///
    /// A figure cannot be written.
    pub fn to_text(&self) -> Result<String, Error> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// The placements that were measured.
    pub fn placements(&self) -> Vec<Placement> {
        let measured =
            |placement: &Placement| self.points.iter().any(|of| of.placement == *placement);
        Placement::BOTH.into_iter().filter(measured).collect()
    }

    /// The points of `placement`, sizes ascending.
    pub fn points_of(&self, placement: Placement) -> Vec<&TunePoint> {
        let mut points: Vec<_> =
            self.points.iter().filter(|point| point.placement == placement).collect();
        points.sort_by_key(|point| point.case.size_bytes());
        points
    }

    /// What is out, and why: each candidate once.
    pub fn faults(&self) -> Vec<(&str, &str)> {
        let mut faults: Vec<(&str, &str)> = Vec::new();
        for trial in self.points.iter().flat_map(|point| &point.trials) {
            let known = faults.iter().any(|(choice, _)| *choice == trial.choice);
            if let (false, Some(fault)) = (known, &trial.fault) {
                faults.push((&trial.choice, fault));
            }
        }
        faults
    }

    /// Whether everything was right and nothing is missing.
    pub fn is_good(&self) -> bool {
        let measured = self.points.iter().all(|point| !point.ranking().is_empty());
        self.failures.is_empty() && self.faults().is_empty() && measured && !self.points.is_empty()
    }
}

impl Floor {
    /// The least time of a call in µs.
    pub fn time_us(&self, case: &Case) -> f64 {
        // What a call would achieve in a microsecond says how much the busiest link must carry.
        let carried_kb = case.bandwidth(1.0).bus_gb_s;
        self.latency_us + carried_kb / self.bus_gb_s
    }
}

impl CandidateTimes {
    /// Not tried yet.
    pub(super) fn new(choice: String, blocks: Option<u32>) -> Self {
        let (screening_us, rounds_us, checked, fault) = (None, Vec::new(), false, None);
        Self { choice, blocks, screening_us, rounds_us, checked, fault }
    }

    /// The median of all rounds in µs; `None` for what is out, was not checked here, or was only
    /// looked at briefly.
    pub fn time_us(&self) -> Option<f64> {
        let qualified = self.fault.is_none() && self.checked;
        qualified.then(|| median(&self.rounds_us)).flatten()
    }

    /// How far rounds lie from their median, as a share of it: the median of the distances.
    pub fn noise(&self) -> f64 {
        let Some(middle) = median(&self.rounds_us).filter(|middle| *middle > 0.0) else {
            return 0.0;
        };
        let distances: Vec<f64> = self.rounds_us.iter().map(|us| (us - middle).abs()).collect();
        median(&distances).unwrap_or(0.0) / middle
    }
}

impl TunePoint {
    /// The time of the other library in µs.
    pub fn baseline_time_us(&self) -> Option<f64> {
        median(&self.baseline_us)
    }

    /// The trials that count, fastest first; those that are equally fast in the order of their
    /// names.
    pub fn ranking(&self) -> Vec<(&CandidateTimes, f64)> {
        let timed = self.trials.iter().filter_map(|trial| Some((trial, trial.time_us()?)));
        let mut ranking: Vec<_> = timed.collect();
        ranking.sort_by(|(a, a_us), (b, b_us)| {
            a_us.total_cmp(b_us).then_with(|| a.choice.cmp(&b.choice))
        });
        ranking
    }

    /// The trial of `choice`.
    pub fn trial(&self, choice: &str) -> Option<&CandidateTimes> {
        self.trials.iter().find(|trial| trial.choice == choice)
    }
}

/// The middle of `values`; of an even number, the mean of both in the middle.
pub(super) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = (sorted.len().checked_sub(1)? / 2, sorted.len() / 2);
    Some(f64::midpoint(*sorted.get(low)?, *sorted.get(high)?))
}

#[cfg(test)]
mod tests {
    use super::super::sample_data::{data, point};
    use super::*;

    #[test]
    fn medians_and_noise_are_of_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 100.0]), Some(3.0));
        assert_eq!(median(&[3.0, 1.0]), Some(2.0));
        let trial = |rounds_us: &[f64]| CandidateTimes {
            rounds_us: rounds_us.to_vec(),
            checked: true,
            ..CandidateTimes::new("a".to_owned(), None)
        };
        assert_eq!(trial(&[9.0, 10.0, 10.0, 12.0, 100.0]).noise(), 0.1);
        assert_eq!(trial(&[]).noise(), 0.0);
        assert_eq!(trial(&[9.0, 10.0]).time_us(), Some(9.5));
        assert_eq!(CandidateTimes { checked: false, ..trial(&[1.0]) }.time_us(), None);
        assert_eq!(CandidateTimes { fault: Some(String::new()), ..trial(&[1.0]) }.time_us(), None);
    }

    #[test]
    fn data_reads_back() {
        let data = data();
        let text = data.to_text().unwrap();
        assert_eq!(Data::parse(&text), Ok(data));
        // Measurements from before thread blocks were counted.
        let old: String = text.lines().filter(|line| !line.contains("\"blocks\"")).collect();
        assert!(Data::parse(&old).unwrap().points[0].trials[0].blocks.is_none());
        let other = text.replace("msccl-tune/2", "msccl-tune/0");
        assert!(Data::parse(&other).unwrap_err().to_string().contains("found `msccl-tune/0`"));
        assert!(
            Data::parse("{}")
                .unwrap_err()
                .to_string()
                .contains("expected a field `schema`, found none")
        );
    }

    #[test]
    fn one_fault_is_listed_once_and_spoils_the_run() {
        let mut data = data();
        assert!(data.is_good());
        for point in &mut data.points {
            point.trials[0].fault = Some("3 elements are wrong".to_owned());
        }
        assert_eq!(data.faults(), [("LL staged 4 512 a", "3 elements are wrong")]);
        assert!(!data.is_good());
    }

    #[test]
    fn floors_are_latency_and_what_the_busiest_link_carries() {
        let floor = Floor { latency_us: 5.0, bus_gb_s: 100.0 };
        // Of two ranks, all-reduce carries all bytes over the link: 1 MB at 100 GB/s is 10 µs.
        let case = Case { count: 250_000, ..point(0, &[]).case };
        assert!((floor.time_us(&case) - 15.0).abs() < 1e-9);
    }
}
