//! Who follows the calls of a communicator: a profiler plugin, and metrics.

use std::sync::Arc;

use msccl_runtime::{
    BlockSpan, CallObserver, Error, ObservedCollective, ObservedRank, ObservedTransfers,
    PlaceOfRank,
};

use crate::comm::config::Config;
use crate::metrics::{self, RankMetrics};
use crate::place;
use crate::profiler::{self, RankProfile};
use crate::requests::Requests;

/// Who follows one communicator.
pub struct Observation {
    /// For a plugin.
    pub profile: Option<Arc<RankProfile>>,
    metrics: Option<Arc<RankMetrics>>,
}

impl Observation {
    /// Of a communicator that is about to be made, as `requests` want it; nothing if nobody follows
    /// it. What they name and is not there was reported with the files.
    pub fn begin(requests: &Requests, config: &Config, at: &PlaceOfRank) -> Option<Arc<Self>> {
        let plugin = profiler::plugin(requests.profiler.as_deref()).ok().flatten();
        let (device, name) = (place::number(at), config.name.as_deref());
        let profile = plugin.map(|plugin| Arc::new(RankProfile::new(plugin, device, name)));
        let metrics = requests.metrics.as_deref().map(|file| metrics::follow(file, name));
        let is_followed = profile.is_some() || metrics.is_some();
        is_followed.then(|| Arc::new(Self { profile, metrics }))
    }
}

impl CallObserver for Observation {
    fn joined(&self, rank: &ObservedRank<'_>) {
        self.profile.iter().for_each(|profile| profile.joined(rank));
        self.metrics.iter().for_each(|metrics| metrics.joined(rank));
    }

    fn wants_blocks(&self) -> bool {
        self.profile.as_ref().is_some_and(|profile| profile.wants_blocks())
    }

    fn collective_begins(&self, call: &ObservedCollective<'_>) {
        self.profile.iter().for_each(|profile| profile.collective_begins(call));
        self.metrics.iter().for_each(|metrics| metrics.collective_begins(call));
    }

    fn transfers_begin(&self, call: &ObservedTransfers<'_>) {
        self.profile.iter().for_each(|profile| profile.transfers_begin(call));
        self.metrics.iter().for_each(|metrics| metrics.transfers_begin(call));
    }

    fn ends(&self, _number: u64, outcome: &Result<(), Error>) {
        self.metrics.iter().for_each(|metrics| metrics.ends(outcome.is_ok()));
        self.profile.iter().for_each(|profile| profile.ends());
    }

    fn block(&self, span: &BlockSpan) {
        self.profile.iter().for_each(|profile| profile.block(span));
        self.metrics.iter().for_each(|metrics| metrics.block(span));
    }
}

impl Drop for Observation {
    fn drop(&mut self) {
        if let Some(metrics) = &self.metrics {
            metrics.end();
            metrics::write_now();
        }
    }
}
