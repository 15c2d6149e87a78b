//! The report for programs: every figure of every rank.
//!
//! One object: what was run (`collective`, the first of them, `ranks`, `devices`, `method`,
//! `average`), `libraries`, and `rows`, each a call with a result per library and placement. Times
//! are in microseconds, bandwidths in gigabytes (10⁹) a second. A `spread` is `{min, mean, max,
//! per_rank}`. `ratio` is the time of the library by that of the first. `served_by` is the
//! algorithm that served the call, if the library can say, and `served_as_asked` whether it is one
//! that was requested. `registration` says how buffers were registered. `wrong` is null
//! where nothing was checked. What did not happen is left out.

use std::path::Path;

use serde::Serialize;

use crate::placement::Placement;
use crate::protocol::{Method, Quantiles};
use crate::registration::Registration;
use crate::report::{Average, LibraryReport, Measurement, Outcome, Report, Row, Served, Spread};
use crate::session::Plan;

/// What readers can rely on: the number grows when a field changes its meaning or goes.
const SCHEMA: &str = "msccl-bench/1";

/// The report, to be serialised.
#[derive(Serialize)]
pub struct ReportJson<'a> {
    schema: &'static str,
    collective: Option<&'static str>,
    ranks: u32,
    devices: Vec<String>,
    method: Method,
    average: &'static str,
    good: bool,
    libraries: Vec<LibraryJson<'a>>,
    rows: Vec<RowJson<'a>>,
}

#[derive(Serialize)]
struct LibraryJson<'a> {
    name: &'a str,
    path: &'a Path,
    version: Option<i32>,
    registration: Registration,
    #[serde(skip_serializing_if = "Option::is_none")]
    init_us: Option<SpreadJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    destroy_us: Option<SpreadJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lost: Option<&'a str>,
}

#[derive(Serialize)]
struct RowJson<'a> {
    collective: &'static str,
    bytes: u64,
    count: u64,
    #[serde(rename = "type")]
    element: &'static str,
    redop: Option<&'static str>,
    root: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset_bytes: Option<u64>,
    results: Vec<ResultJson<'a>>,
}

#[derive(Serialize)]
struct ResultJson<'a> {
    library: &'a str,
    placement: Placement,
    #[serde(flatten)]
    outcome: OutcomeJson<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum OutcomeJson<'a> {
    Refused(&'a str),
    #[serde(untagged)]
    Measured(Box<MeasuredJson<'a>>),
}

#[derive(Serialize)]
struct MeasuredJson<'a> {
    /// The algorithm that served the call, if the library can say.
    #[serde(skip_serializing_if = "Option::is_none")]
    served_by: Option<&'a str>,
    /// How: protocol, links, instances and threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "served_way")]
    served_variant: Option<&'a str>,
    /// Whether it is what was requested, if something was.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "served_as_asked")]
    served_as_requested: Option<bool>,
    time_us: f64,
    algbw_gb_s: f64,
    busbw_gb_s: f64,
    ratio: Option<f64>,
    wrong: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_wrong: Option<&'a str>,
    ranks_us: Option<SpreadJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    one_shot_us: Option<QuantilesJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    host_us: Option<QuantilesJson>,
}

#[derive(Serialize)]
struct SpreadJson {
    min: f64,
    mean: f64,
    max: f64,
    per_rank: Vec<f64>,
}

#[derive(Serialize)]
struct QuantilesJson {
    min: Option<SpreadJson>,
    p50: Option<SpreadJson>,
    p99: Option<SpreadJson>,
}

impl<'a> ReportJson<'a> {
    /// The report of `plan`, where times of ranks become one as `average` says.
    pub fn new(plan: &'a Plan, report: &'a Report, average: Average) -> Self {
        Self {
            schema: SCHEMA,
            collective: plan.cases.first().map(|case| case.workload.name()),
            ranks: plan.ranks,
            devices: (0..plan.ranks).map(|rank| plan.machine.describe(rank)).collect(),
            method: plan.method,
            average: average.name(),
            good: report.is_good() && report.is_as_requested(&plan.libraries),
            libraries: report.libraries.iter().map(LibraryJson::of).collect(),
            rows: report.rows.iter().map(|row| RowJson::of(row, plan, average)).collect(),
        }
    }
}

impl<'a> LibraryJson<'a> {
    fn of(library: &'a LibraryReport) -> Self {
        let LibraryReport {
            name,
            path,
            version,
            registration,
            reports_what_serves: _,
            init_us,
            destroy_us,
            loss,
        } = library;
        Self {
            name,
            path,
            version: *version,
            registration: *registration,
            init_us: SpreadJson::of(init_us.clone()),
            destroy_us: SpreadJson::of(destroy_us.clone()),
            lost: loss.as_deref(),
        }
    }
}

impl<'a> RowJson<'a> {
    fn of(row: &'a Row, plan: &'a Plan, average: Average) -> Self {
        let mut results = Vec::new();
        for placement in Placement::BOTH {
            for (index, outcome) in row.outcomes(placement).iter().enumerate() {
                let Some(tested) = plan.libraries.get(index) else { continue };
                let library = tested.name.as_str();
                let outcome = match outcome {
                    Outcome::Out => continue,
                    Outcome::Refused(reason) => OutcomeJson::Refused(reason),
                    Outcome::Measured(measured) => {
                        let ratio = row.ratio(placement, index, average);
                        let json = MeasuredJson::of(row, measured, ratio, average);
                        let requested = &tested.requested;
                        let as_requested = |of: &Served| requested.is_met_by(&of.algorithm);
                        let is_requested = !requested.algorithms().is_empty();
                        let served_as_requested =
                            measured.served_by.as_ref().map(as_requested).filter(|_| is_requested);
                        let measured = MeasuredJson { served_as_requested, ..json };
                        OutcomeJson::Measured(Box::new(measured))
                    }
                };
                results.push(ResultJson { library, placement, outcome });
            }
        }
        let case = &row.case;
        Self {
            collective: case.workload.name(),
            bytes: case.size_bytes(),
            count: case.count,
            element: case.element.name(),
            redop: case.redop_name(),
            root: case.root_rank(),
            offset_bytes: case.offset_bytes,
            results,
        }
    }
}

impl<'a> MeasuredJson<'a> {
    fn of(row: &Row, measured: &'a Measurement, ratio: Option<f64>, average: Average) -> Self {
        let bandwidth = measured.bandwidth(&row.case, average);
        let served = measured.served_by.as_ref();
        Self {
            served_by: served.map(|served| served.algorithm.as_str()),
            served_variant: served.map(|served| served.variant.as_str()),
            served_as_requested: None,
            time_us: measured.time_us(average),
            algbw_gb_s: bandwidth.algorithm_gb_s,
            busbw_gb_s: bandwidth.bus_gb_s,
            ratio,
            wrong: measured.wrong(),
            first_wrong: measured.first_wrong(),
            ranks_us: SpreadJson::of(measured.over_ranks(|sample| Some(sample.time_us))),
            one_shot_us: QuantilesJson::of(measured, |sample| sample.one_shot_us),
            host_us: QuantilesJson::of(measured, |sample| sample.host_us),
        }
    }
}

impl SpreadJson {
    fn of(per_rank: Vec<f64>) -> Option<Self> {
        let Spread { min, mean, max } = Spread::of(&per_rank)?;
        Some(Self { min, mean, max, per_rank })
    }
}

impl QuantilesJson {
    fn of(
        measured: &Measurement,
        quantiles: fn(&crate::protocol::Sample) -> Option<Quantiles>,
    ) -> Option<Self> {
        let over_ranks = |figure: fn(Quantiles) -> f64| {
            SpreadJson::of(measured.over_ranks(|sample| quantiles(sample).map(figure)))
        };
        let min = over_ranks(|quantiles| quantiles.min);
        min.as_ref()?;
        let (p50, p99) = (over_ranks(|it| it.p50), over_ranks(|it| it.p99));
        Some(Self { min, p50, p99 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample_report::{plan, report};

    #[test]
    fn every_figure_of_every_rank_is_there() {
        let report = report();
        let plan = plan();
        let json = ReportJson::new(&plan, &report, Average::Max);
        let json = serde_json::to_value(json).unwrap();
        assert_eq!(json["schema"], "msccl-bench/1");
        assert_eq!(json["collective"], "allreduce");
        assert_eq!(json["good"], false);
        assert_eq!(json["libraries"][0]["init_us"]["max"], 2e5);
        assert_eq!(json["libraries"][0]["registration"], "none");
        assert_eq!(json["libraries"][1]["lost"], "no answer from r1 in 120 s");
        let first = &json["rows"][0];
        assert_eq!((&first["bytes"], &first["type"]), (&8.into(), &"float".into()));
        let [ours, theirs] = [0, 1].map(|library| &first["results"][library]);
        assert_eq!((&ours["library"], &theirs["library"]), (&"msccl".into(), &"nccl".into()));
        assert_eq!((&ours["time_us"], &theirs["ratio"]), (&6.0.into(), &2.0.into()));
        assert_eq!(ours["ranks_us"]["per_rank"], serde_json::json!([2.0, 6.0]));
        assert_eq!(ours["one_shot_us"]["p99"]["max"], 60.0);
        assert_eq!(first["results"][2]["wrong"], serde_json::Value::Null);
        let second = &json["rows"][1]["results"];
        assert_eq!(second[2]["first_wrong"], "output of r1 <wrong>");
        assert_eq!(second[3]["refused"], "r0, r1: no memory");
        assert_eq!(ours["served_by"], "allreduce/one_shot");
        assert_eq!(ours["served_way"], "LL staged 1 512");
        assert!(theirs.get("served_by").is_none() && ours.get("served_as_asked").is_none());
        assert_eq!(json["rows"][2]["results"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn what_did_not_serve_as_requested_is_marked() {
        let (mut report, mut plan) = (report(), plan());
        plan.libraries[0].requested.files = vec!["/site/mine.xml".to_owned()];
        report.libraries[0].reports_what_serves = true;
        let json = serde_json::to_value(ReportJson::new(&plan, &report, Average::Max)).unwrap();
        let results = &json["rows"][0]["results"];
        assert_eq!(
            (&results[0]["served_as_asked"], &results[2]["served_as_asked"]),
            (&false.into(), &true.into())
        );
    }
}
