//! A launch against a prediction.

use std::collections::HashMap;

use serde::Serialize;

use super::index::Index;
use crate::predict::{PredictedStep, Prediction};
use crate::timeline::SpanRef;

/// A launch beside what a model predicts.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PredictionReport {
    /// What the model assumes.
    pub assumptions: String,
    /// From one such call to the next, by the model, in µs.
    pub predicted_us: f64,
    /// How long the shown launch takes, in µs.
    pub measured_us: f64,
    /// The mean of the absolute errors of the durations of moves, in µs.
    pub mean_move_error_us: f64,
    /// The mean of the absolute errors of the ends of steps, in µs.
    pub mean_end_error_us: f64,
    /// The first step that ends later than predicted by more than a twentieth of the call.
    pub first_deviation: Option<Deviation>,
    /// The steps of the first instance, in the order in which they should end.
    pub steps: Vec<StepError>,
}

/// A step that deviates.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Deviation {
    /// What is so, in one sentence.
    pub text: String,
    /// The step.
    #[serde(flatten)]
    pub step: StepError,
}

/// A step, as it was measured and as it was predicted; times since the rank began the launch.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct StepError {
    /// The rank.
    pub rank: u32,
    /// The thread block.
    pub thread_block: u32,
    /// The step.
    pub step: u32,
    /// The round.
    pub round: u32,
    /// The line of its program.
    pub line: Option<u32>,
    /// When it should begin to move.
    pub predicted_begin_us: f64,
    /// When it should end.
    pub predicted_end_us: f64,
    /// When it began to move.
    pub measured_begin_us: f64,
    /// When it ended.
    pub measured_end_us: f64,
}

impl StepError {
    /// How much later it ended than predicted.
    pub fn end_error_us(&self) -> f64 {
        self.measured_end_us - self.predicted_end_us
    }

    /// How long it moved.
    pub fn measured_move_us(&self) -> f64 {
        self.measured_end_us - self.measured_begin_us
    }

    /// How long it should move.
    pub fn predicted_move_us(&self) -> f64 {
        self.predicted_end_us - self.predicted_begin_us
    }

    /// How much longer it moved than predicted.
    pub fn move_error_us(&self) -> f64 {
        self.measured_move_us() - self.predicted_move_us()
    }
}

impl PredictionReport {
    /// The steps, those first whose moves differ most.
    pub(super) fn worst_moves(&self) -> Vec<&StepError> {
        let mut worst: Vec<&StepError> = self.steps.iter().collect();
        worst.sort_by(|one, other| {
            other.move_error_us().abs().total_cmp(&one.move_error_us().abs())
        });
        worst
    }
}

/// The part of a call by which a step must be late to deviate.
const PART: f64 = 0.05;

/// Compares a launch with a prediction.
pub(super) fn compare_with(
    index: &Index<'_>,
    launch: usize,
    prediction: &Prediction,
) -> PredictionReport {
    let measured = measured_steps(index, launch);
    let launch = &index.timeline.launches[launch];
    // Recordings begin with the thread blocks, predictions with the launch.
    let waits = prediction.steps.iter().map(|step| step.wait_us);
    let start_us = waits.fold(f64::MAX, f64::min);
    let error = |predicted: &PredictedStep| {
        let PredictedStep { rank, thread_block, step, round, wait_us: _, begin_us, end_us } =
            *predicted;
        let MeasuredStep { line, begin_ns, end_ns } =
            *measured.get(&(rank, thread_block, step, round))?;
        Some(StepError {
            rank,
            thread_block,
            step,
            round,
            line,
            predicted_begin_us: begin_us - start_us,
            predicted_end_us: end_us - start_us,
            measured_begin_us: begin_ns / 1000.0,
            measured_end_us: end_ns / 1000.0,
        })
    };
    let mut steps: Vec<StepError> = prediction.steps.iter().filter_map(error).collect();
    steps.sort_by(|one, other| one.predicted_end_us.total_cmp(&other.predicted_end_us));
    let mean = |of: fn(&StepError) -> f64| {
        steps.iter().map(|step| of(step).abs()).sum::<f64>() / steps.len().max(1) as f64
    };
    PredictionReport {
        assumptions: prediction.assumptions.clone(),
        predicted_us: prediction.total_us,
        measured_us: (launch.end_ns - launch.begin_ns) / 1000.0,
        mean_move_error_us: mean(StepError::move_error_us),
        mean_end_error_us: mean(StepError::end_error_us),
        first_deviation: first_deviation(&steps, prediction.total_us),
        steps,
    }
}

fn first_deviation(steps: &[StepError], total_us: f64) -> Option<Deviation> {
    let step = *steps.iter().find(|step| step.end_error_us() > PART * total_us)?;
    let StepError { rank, thread_block, step: number, round, line, .. } = step;
    let line = line.map(|line| format!(", line {line}")).unwrap_or_default();
    let text = format!(
        "step {number} of thread block {thread_block} of rank {rank} (round {round}{line}) is the \
         first to deviate: it ends {:.1} µs later than predicted; its move takes {:.1} µs instead \
         of {:.1}",
        step.end_error_us(),
        step.measured_move_us(),
        step.predicted_move_us(),
    );
    Some(Deviation { text, step })
}

/// A step of a launch: rank, thread block, step, round.
type StepKey = (u32, u32, u32, u32);

/// When a step ran, since its rank began the launch.
struct MeasuredStep {
    line: Option<u32>,
    begin_ns: f64,
    end_ns: f64,
}

/// The steps of the first instance. A step of several messages begins with the first and ends with
/// the last; several steps that run as one have one time.
fn measured_steps(index: &Index<'_>, launch: usize) -> HashMap<StepKey, MeasuredStep> {
    let timeline = index.timeline;
    let mut measured: HashMap<StepKey, MeasuredStep> = HashMap::new();
    for (rank, of_rank) in timeline.rank_launches(&timeline.launches[launch]) {
        let parts = timeline.ranks[rank].parts[of_rank.parts.clone()].iter();
        let first = parts.filter(|part| part.place.is_some_and(|place| place.instance == 0));
        for at in first.flat_map(|part| part.spans.clone()) {
            let at = SpanRef { rank: rank as u32, span: at as u32 };
            let span = timeline.span(at);
            let Some(placed) = index.placed(at).filter(|_| span.kind.is_move()) else { continue };
            let (Some(place), Some(step)) = (placed.part.place, placed.step) else { continue };
            for number in step.index..step.index.saturating_add(step.bundled.max(1)) {
                let key = (index.rank_number(rank as u32), place.thread_block, number, span.round);
                let known = measured.entry(key).or_insert(MeasuredStep {
                    line: step.line,
                    begin_ns: span.begin_ns - of_rank.begin_ns,
                    end_ns: span.end_ns - of_rank.begin_ns,
                });
                known.end_ns = known.end_ns.max(span.end_ns - of_rank.begin_ns);
            }
        }
    }
    measured
}
