//! Requests to a worker and its answers: one line of JSON each, always in turn.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::case::Case;
use crate::machine::Place;
use crate::piece::{Compared, Piece};
use crate::placement::Placement;
use crate::registration::Registration;

/// A request to a worker.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Request {
    /// Open the library and the device.
    Open {
        library: PathBuf,
        place: Place,
        rank: u32,
        ranks: u32,
        /// Bytes of each of the two buffers.
        capacity_bytes: u64,
        /// How they are registered.
        registration: Registration,
        /// A unique id by which ranks of several launched processes meet; ranks that have one
        /// parent share memory instead.
        meeting: Option<String>,
    },
    /// Make a unique id.
    MakeId,
    /// Join the ranks that have that unique id.
    Join { id: String },
    /// Make calls.
    Measure { case: Case, placement: Placement, method: Method },
    /// Make a call and compare its bits with those of earlier ones.
    Compare { piece: Piece, placement: Placement, method: Method },
    /// Name the candidates for such calls, as the last five columns of a tuning table have them;
    /// first the one that does serve them.
    Choices { case: Case, placement: Placement },
    /// Name what serves such calls, if the library reports it.
    Served { case: Case, placement: Placement },
    /// Let such a candidate serve every call from now on; without one, what the library chooses.
    Pin { choice: Option<String> },
    /// End the communicator.
    Leave,
}

/// How to measure.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Method {
    /// Calls, or groups of calls, that are timed.
    pub iterations: u32,
    /// Calls in a group; 1 makes calls without a group.
    pub aggregated: u32,
    /// Whom a rank waits for between calls or groups that are timed in a row.
    pub waiting: Waiting,
    /// Calls before that.
    pub warmup: u32,
    /// Calls, each on fresh data, whose result is checked.
    pub checks: u32,
    /// How often a graph of the calls is launched; 0 makes calls without a graph.
    pub graph_launches: u32,
    /// Whether every call is waited for and timed alone. Otherwise calls are issued one after the
    /// other, and all are waited for once.
    pub one_shot: bool,
}

/// Whom a rank waits for between calls that are timed in a row, as nccl-tests' `-z` has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Waiting {
    /// For none: all calls are waited for together.
    #[default]
    AtEnd,
    /// For each call, and then for the other ranks.
    EachAndRanks,
    /// For each call.
    Each,
    /// For each call, and then, while no time is taken, for the other ranks.
    EachAndRanksUntimed,
}

/// What a worker answers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    Opened {
        /// The library's version as one number.
        version: i32,
        /// Whether it says what serves calls.
        reports_what_serves: bool,
    },
    Id {
        id: String,
    },
    Joined {
        init_us: f64,
    },
    Measured(Sample),
    Compared(Compared),
    Choices {
        choices: Vec<Offer>,
    },
    Served {
        choice: Option<String>,
    },
    Pinned,
    Left {
        destroy_us: f64,
    },
    /// It could not be done.
    Failed {
        text: String,
    },
    /// The worker has ended as it should; this stands for its answer.
    Gone,
}

impl Answer {
    /// The library's version.
    pub(crate) fn version(&self) -> Option<i32> {
        if let Self::Opened { version, .. } = self { Some(*version) } else { None }
    }

    /// Whether the library says what serves calls.
    pub(crate) fn reports_what_serves(&self) -> bool {
        matches!(self, Self::Opened { reports_what_serves: true, .. })
    }

    /// The unique id.
    pub(crate) fn id(self) -> Option<String> {
        if let Self::Id { id } = self { Some(id) } else { None }
    }

    /// How long joining took.
    pub(crate) fn init_us(&self) -> Option<f64> {
        if let Self::Joined { init_us } = self { Some(*init_us) } else { None }
    }

    /// How long ending took.
    pub(crate) fn destroy_us(&self) -> Option<f64> {
        if let Self::Left { destroy_us } = self { Some(*destroy_us) } else { None }
    }

    /// The candidates for calls.
    pub(crate) fn choices(self) -> Option<Vec<Offer>> {
        if let Self::Choices { choices } = self { Some(choices) } else { None }
    }

    /// What serves calls.
    pub(crate) fn served(self) -> Option<String> {
        if let Self::Served { choice } = self { choice } else { None }
    }

    /// What was compared.
    pub(crate) fn compared(self) -> Option<Compared> {
        if let Self::Compared(compared) = self { Some(compared) } else { None }
    }

    /// What was measured.
    pub(crate) fn sample(self) -> Option<Sample> {
        if let Self::Measured(sample) = self { Some(sample) } else { None }
    }
}

/// A candidate for a call.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Offer {
    /// The candidate, as the last five columns of a tuning table.
    pub(crate) choice: String,
    /// How many thread blocks the call then has, if the library can say.
    pub(crate) blocks: Option<u32>,
}

/// What one rank measured.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Sample {
    /// Time of a call in µs: of one of many, or the median of those timed alone.
    pub time_us: f64,
    /// Where calls are timed alone, their times in µs.
    pub one_shot_us: Option<Quantiles>,
    /// How long the function takes to return in µs; not known for graphs.
    pub host_us: Option<Quantiles>,
    /// Elements of the output that are wrong, in all checks; `None` if none was made.
    pub wrong: Option<u64>,
    /// The first of them, in words.
    pub first_wrong: Option<String>,
}

/// Some of many values.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Quantiles {
    /// The smallest.
    pub min: f64,
    /// Half of them are at most as large.
    pub p50: f64,
    /// 99 of 100 are at most as large.
    pub p99: f64,
}

impl Quantiles {
    /// Those of `values`, if there are any.
    pub(crate) fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let at = |percent: usize| {
            let smaller = (values.len() * percent).div_ceil(100).saturating_sub(1);
            values.get(smaller).copied()
        };
        Some(Self { min: at(0)?, p50: at(50)?, p99: at(99)? })
    }
}

/// Bytes as hexadecimal digits.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Hexadecimal digits as bytes, if they are as many as expected.
pub(crate) fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if !text.bytes().all(|digit| digit.is_ascii_hexdigit()) || text.len() != 2 * N {
        return None;
    }
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::{ElementType, Redop};
    use crate::workload::Workload;

    #[test]
    fn requests_and_answers_are_lines_that_read_back() {
        let case = Case {
            workload: Workload::Reduce,
            element: ElementType::ALL[7],
            redop: Redop::MulSum,
            root: 3,
            count: u64::MAX,
            ranks: 8,
            offset_bytes: Some(4),
        };
        let method =
            Method { waiting: Waiting::Each, aggregated: 3, ..crate::sample_report::method() };
        let request = Request::Measure { case, placement: Placement::InPlace, method };
        let line = serde_json::to_string(&request).unwrap();
        assert!(!line.contains('\n'));
        assert_eq!(serde_json::from_str::<Request>(&line).unwrap(), request);
        let sample = Sample { time_us: 1.5, wrong: Some(0), ..Sample::default() };
        let line = serde_json::to_string(&Answer::Measured(sample.clone())).unwrap();
        assert_eq!(serde_json::from_str::<Answer>(&line).unwrap(), Answer::Measured(sample));
    }

    #[test]
    fn quantiles_are_values_that_occurred() {
        let quantiles = Quantiles::of((1..=100).rev().map(f64::from).collect());
        assert_eq!(quantiles, Some(Quantiles { min: 1.0, p50: 50.0, p99: 99.0 }));
        let one = Quantiles { min: 7.0, p50: 7.0, p99: 7.0 };
        assert_eq!(Quantiles::of(vec![7.0]), Some(one));
        assert_eq!(Quantiles::of(vec![]), None);
    }

    #[test]
    fn bytes_read_back_from_digits() {
        assert_eq!(from_hex(&to_hex(&[0, 15, 255])), Some([0, 15, 255]));
        assert_eq!(from_hex::<2>("00"), None);
        assert_eq!(from_hex::<1>("+1"), None);
        assert_eq!(from_hex::<1>("ä"), None);
    }
}
