//! What a model predicts for a call, as far as this crate needs it.

/// When the steps of a call run, as a model predicts it.
#[derive(Clone, PartialEq, Debug)]
pub struct Prediction {
    /// What the model assumes: the machine, and where its rates are from.
    pub assumptions: String,
    /// From one such call to the next, in µs.
    pub total_us: f64,
    /// The steps of the first instance.
    pub steps: Vec<PredictedStep>,
}

/// A step in one round, as a model predicts it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PredictedStep {
    /// The rank.
    pub rank: u32,
    /// The thread block of the plan.
    pub thread_block: u32,
    /// The step; of several that run as one, any.
    pub step: u32,
    /// The round.
    pub round: u32,
    /// Since when the thread block has nothing else to do, in µs.
    pub wait_us: f64,
    /// When it begins to move, in µs.
    pub begin_us: f64,
    /// When it ends, in µs.
    pub end_us: f64,
}

/// A prediction, beside a launch that was measured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PlacedPrediction<'a> {
    /// The position in [`Timeline::launches`](crate::timeline::Timeline::launches).
    pub launch: usize,
    /// The prediction for it.
    pub prediction: &'a Prediction,
}
