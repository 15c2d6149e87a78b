//! Loads for programs. Fractions are text, `numerator/denominator`.

use serde::Serialize;

use super::{Busiest, Loads};
use crate::bound::json::LimitsJson;
use crate::bound::words;

/// Loads as JSON.
#[derive(Serialize)]
pub struct LoadsJson {
    cluster: String,
    busiest: Vec<BusiestJson>,
    /// What the busiest of all takes; `null` if nothing is sent.
    seconds_per_byte: Option<String>,
    /// The same, rounded.
    seconds_per_gb: Option<f64>,
    /// That over the bound, rounded.
    times_bound: Option<f64>,
    bound: Option<LimitsJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    no_bound: Option<String>,
}

/// The busiest link of a medium.
#[derive(Serialize)]
struct BusiestJson {
    medium: &'static str,
    from: String,
    to: String,
    gb_per_s: f64,
    /// Of the bytes of a call.
    share: String,
    /// What no schedule puts less than on the busiest of these links.
    #[serde(skip_serializing_if = "Option::is_none")]
    least_share: Option<String>,
    seconds_per_byte: String,
}

impl Loads<'_> {
    /// The object that stands for them in JSON.
    pub fn to_json(&self) -> LoadsJson {
        let Loads { cluster, counted: _, classes, limits, warnings: _ } = self;
        let floor = classes.first().map(|busiest| busiest.seconds_per_byte);
        LoadsJson {
            cluster: cluster.name().to_owned(),
            busiest: classes.iter().map(|busiest| self.busiest_json(busiest)).collect(),
            seconds_per_byte: floor.map(|it| it.to_string()),
            seconds_per_gb: floor.map(|it| words::to_f64(it * 1_000_000_000)),
            times_bound: self.times_bound().map(words::to_f64),
            bound: limits.as_ref().ok().map(|limits| limits.to_json(cluster)),
            no_bound: limits.as_ref().err().cloned(),
        }
    }

    fn busiest_json(&self, busiest: &Busiest) -> BusiestJson {
        let Busiest { place: _, link, share, seconds_per_byte } = busiest;
        let name = |at| words::name(self.cluster, at).to_owned();
        BusiestJson {
            medium: link.medium.name(),
            from: name(link.from),
            to: name(link.to),
            gb_per_s: link.rate.gb_per_s(),
            share: share.to_string(),
            least_share: self.least_share(busiest).map(|it| it.to_string()),
            seconds_per_byte: seconds_per_byte.to_string(),
        }
    }
}
