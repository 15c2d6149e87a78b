//! A report for tests: two libraries, three sizes, with everything that
//! can go wrong.

use std::path::PathBuf;

use msccl_collective::DataType;

use crate::case::Case;
use crate::element::{ElementType, Redop};
use crate::library_under_test::LibraryUnderTest;
use crate::machine::Machine;
use crate::placement::Placement;
use crate::protocol::{Method, Quantiles, Sample, Waiting};
use crate::registration::Registration;
use crate::report::{LibraryReport, Measurement, Outcome, Report, Row, Served};
use crate::requested::RequestedAlgorithms;
use crate::session::Plan;
use crate::workload::Workload;

/// Out of nothing, what two ranks measured.
fn measured(time_us: f64, wrong: Option<u64>) -> Outcome {
    let sample = |time_us: f64| Sample {
        time_us,
        one_shot_us: Some(Quantiles { min: time_us / 2.0, p50: time_us, p99: time_us * 10.0 }),
        host_us: Some(Quantiles { min: 1.0, p50: 2.0, p99: 3.0 }),
        wrong,
        first_wrong: wrong.filter(|wrong| *wrong > 0).map(|_| "output of r1 <wrong>".to_owned()),
    };
    let samples = vec![sample(time_us * 0.5), sample(time_us * 1.5)];
    Outcome::Measured(Measurement { samples, served_by: None })
}

fn row(count: u64, outcomes: [[Outcome; 2]; 2]) -> Row {
    let case = Case {
        workload: Workload::AllReduce,
        element: ElementType(DataType::F32),
        redop: Redop::ALL[0],
        root: 0,
        count,
        ranks: 2,
        offset_bytes: None,
    };
    let mut row = Row::new(case, 2);
    for (placement, outcomes) in Placement::BOTH.into_iter().zip(outcomes) {
        row.outcomes_mut(placement).clone_from_slice(&outcomes);
    }
    row
}

pub(crate) fn method() -> Method {
    Method {
        iterations: 20,
        aggregated: 1,
        waiting: Waiting::AtEnd,
        warmup: 5,
        checks: 1,
        graph_launches: 0,
        one_shot: true,
    }
}

/// The report of [`plan`].
pub(crate) fn report() -> Report {
    let refused = || Outcome::Refused("r0, r1: no memory".to_owned());
    let rows = vec![
        row(
            2,
            [
                [measured(4.0, Some(0)), measured(8.0, Some(0))],
                [measured(4.5, None), measured(4.5, None)],
            ],
        ),
        row(
            256,
            [[measured(5.0, Some(0)), measured(4.0, Some(0))], [measured(5.0, Some(1)), refused()]],
        ),
        row(
            1 << 28,
            [
                [measured(12345.6, Some(0)), Outcome::Out],
                [measured(1234.56, Some(0)), Outcome::Out],
            ],
        ),
    ];
    let mut libraries = ["msccl", "nccl"].map(|name| {
        let mut library = LibraryReport::new(name, &PathBuf::from("/lib").join(name));
        library.version = Some(22809);
        library.init_us = vec![1e5, 2e5];
        library
    });
    libraries[1].loss = Some("no answer from r1 in 120 s".to_owned());
    let mut rows = rows;
    let served = |algorithm: &str| {
        let variant = "LL staged 1 512".to_owned();
        Some(Served { algorithm: algorithm.to_owned(), variant })
    };
    for (placement, algorithm) in
        Placement::BOTH.into_iter().zip(["allreduce/one_shot", "/site/mine.xml"])
    {
        if let Outcome::Measured(measured) = &mut rows[0].outcomes_mut(placement)[0] {
            measured.served_by = served(algorithm);
        }
        if let Outcome::Measured(measured) = &mut rows[1].outcomes_mut(placement)[0] {
            measured.served_by = served("allreduce/ring");
        }
    }
    Report { libraries: libraries.into(), rows, planned: 3 }
}

/// The plan of [`report`].
pub(crate) fn plan() -> Plan {
    let tested = |name: &str| LibraryUnderTest {
        name: name.to_owned(),
        path: PathBuf::from("/lib").join(name),
        environment: Vec::new(),
        registration: Registration::None,
        requested: RequestedAlgorithms::default(),
    };
    Plan {
        libraries: ["msccl", "nccl"].map(tested).into(),
        cases: report().rows.iter().map(|row| row.case).collect(),
        ranks: 2,
        machine: Machine::Host { reason: None },
        ranks_per_process: None,
        method: method(),
        repeats: 1,
        orders: 1,
        cycles: Some(1),
        timeout: std::time::Duration::from_secs(1),
        worker: (PathBuf::new(), Vec::new()),
    }
}
