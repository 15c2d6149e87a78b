//! Measurements for tests.

use msccl_collective::DataType;

use super::data::{CandidateTimes, Data, Floor, TunePoint};
use crate::case::Case;
use crate::element::{ElementType, Redop};
use crate::placement::Placement;
use crate::workload::Workload;

/// An all-reduce over two ranks of 2 to the power `power` bytes, out of place, with a time for each
/// of `a`, `b`, `c`; 0 is not measured.
pub(super) fn point(power: u32, times_us: &[f64]) -> TunePoint {
    let case = Case {
        workload: Workload::AllReduce,
        element: ElementType(DataType::F32),
        redop: Redop::ALL[0],
        root: 0,
        count: (1 << power) / 4,
        ranks: 2,
        offset_bytes: None,
    };
    let trial = |(name, &us): (&str, &f64)| CandidateTimes {
        screening_us: Some(us * 1.5),
        rounds_us: vec![us; 3],
        checked: true,
        ..CandidateTimes::new(format!("LL staged 4 512 {name}"), Some(8))
    };
    let trials = ["a", "b", "c"].into_iter().zip(times_us).filter(|(_, us)| **us > 0.0);
    TunePoint {
        case,
        placement: Placement::OutOfPlace,
        present: Some("LL staged 4 512 b".to_owned()),
        trials: trials.map(trial).collect(),
        baseline_us: vec![4.0, 6.0, 5.0],
    }
}

/// Of 1 MiB, with a candidate `a`, `b`, … for each time and number of thread blocks; 0 is not
/// known.
pub(super) fn point_with(candidates: &[(f64, u32)]) -> TunePoint {
    let trial = |(name, &(us, blocks)): (char, &(f64, u32))| CandidateTimes {
        screening_us: Some(us),
        rounds_us: vec![us; 3],
        checked: true,
        ..CandidateTimes::new(
            format!("LL staged 4 512 {name}"),
            Some(blocks).filter(|blocks| *blocks > 0),
        )
    };
    let trials = ('a'..).zip(candidates).map(trial).collect();
    TunePoint { trials, ..point(20, &[]) }
}

/// Four sizes from 1 KiB to 8 KiB: `a` is best up to 2 KiB, then `c`.
pub(super) fn data() -> Data {
    let mut data =
        Data::new("2 × <GPU>".to_owned(), "2026-11-21".to_owned(), "msccl tune".to_owned());
    data.baseline = Some("nccl".to_owned());
    data.floor = Some(Floor { latency_us: 0.5, bus_gb_s: 10.0 });
    data.points = vec![
        point(10, &[1.0, 2.0, 3.0]),
        point(11, &[1.0, 2.0, 3.0]),
        point(12, &[3.0, 2.0, 1.0]),
        point(13, &[3.0, 2.0, 1.5]),
    ];
    data
}
