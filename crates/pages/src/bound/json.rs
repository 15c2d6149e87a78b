//! Bounds and witnesses for programs. Fractions are text, `numerator/denominator`.

use msccl_bounds::{Crossing, Optimum, SwitchModel, Theorem, VertexSet, Witness};
use msccl_topology::cluster::{Cluster, ClusterLink, VertexIndex};
use serde::Serialize;

use super::{LeastTime, Limits, words};

/// Both bounds.
#[derive(Serialize)]
pub struct LimitsJson {
    collective: &'static str,
    ranks: usize,
    cluster: String,
    switches: &'static str,
    bandwidth: BandwidthJson,
    latency: LatencyJson,
}

/// The bound of large calls.
#[derive(Serialize)]
struct BandwidthJson {
    /// Exact.
    seconds_per_byte: String,
    /// Rounded.
    seconds_per_gb: f64,
    gb_per_s: f64,
    theorem: &'static str,
    witness: WitnessJson,
    witness_in_words: String,
    /// Whether it is known that schedules reach it.
    optimum: bool,
    optimum_in_words: String,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum WitnessJson {
    /// The links that leave these vertices.
    Cut(Vec<String>),
    /// The links that leave one of these groups.
    Partition(Vec<Vec<String>>),
    Lengths(Vec<LengthJson>),
    Routes {
        crossings: Vec<CrossingJson>,
        lengths: Vec<LengthJson>,
    },
}

/// A cut, if there is one group, or a partition.
#[derive(Serialize)]
struct CrossingJson {
    weight: u32,
    groups: Vec<Vec<String>>,
}

#[derive(Serialize)]
struct LengthJson {
    from: String,
    to: String,
    length: u32,
}

/// The bound of small calls.
#[derive(Serialize)]
struct LatencyJson {
    us: f64,
    way: Vec<String>,
}

/// The least time of a call.
#[derive(Serialize)]
pub struct LeastTimeJson {
    bytes: u64,
    at_least_us: f64,
    by: &'static str,
}

impl LeastTimeJson {
    /// `least` of a call of so many bytes.
    pub fn of(bytes: u64, least: LeastTime) -> Self {
        let LeastTime { us, by } = least;
        Self { bytes, at_least_us: us, by: by.name() }
    }
}

impl Limits {
    /// The object that stands for it in JSON.
    pub fn to_json(&self, cluster: &Cluster) -> LimitsJson {
        let Limits { bound, optimum, latency } = self;
        let way = self.latency_way(cluster);
        LimitsJson {
            collective: bound.kind.name(),
            ranks: cluster.gpus().count(),
            cluster: cluster.name().to_owned(),
            switches: switches_name(bound.switches),
            bandwidth: BandwidthJson {
                seconds_per_byte: bound.seconds_per_byte.to_string(),
                seconds_per_gb: bound.seconds(1_000_000_000),
                gb_per_s: bound.gb_per_s(),
                theorem: match bound.theorem() {
                    Theorem::Cut => "cut",
                    Theorem::Partition => "partition",
                    Theorem::Lengths => "lengths",
                    Theorem::Routes => "routes",
                },
                witness: witness(cluster, &bound.witness),
                witness_in_words: words::witness(cluster, bound),
                optimum: *optimum == Optimum::Reached,
                optimum_in_words: words::optimum(cluster, optimum),
            },
            latency: LatencyJson {
                us: latency.nanoseconds as f64 / 1e3,
                way: way.iter().map(|at| words::name(cluster, *at).to_owned()).collect(),
            },
        }
    }
}

fn switches_name(switches: SwitchModel) -> &'static str {
    match switches {
        SwitchModel::Forward => "forward",
        SwitchModel::Compute => "compute",
    }
}

fn witness(cluster: &Cluster, witness: &Witness) -> WitnessJson {
    let name = |at: VertexIndex| words::name(cluster, at).to_owned();
    let names = |set: &VertexSet| set.iter().map(|at| name(*at)).collect::<Vec<_>>();
    match witness {
        Witness::Cut { inside } => WitnessJson::Cut(names(inside)),
        Witness::Partition { groups } => WitnessJson::Partition(groups.iter().map(names).collect()),
        Witness::Lengths { links } => WitnessJson::Lengths(lengths(cluster, links)),
        Witness::Routes { crossings, links } => {
            let one = |Crossing { weight, groups }: &Crossing| CrossingJson {
                weight: *weight,
                groups: groups.iter().map(names).collect(),
            };
            let crossings = crossings.iter().map(one).collect();
            WitnessJson::Routes { crossings, lengths: lengths(cluster, links) }
        }
    }
}

/// Those above 0.
fn lengths(cluster: &Cluster, links: &[u32]) -> Vec<LengthJson> {
    let name = |at: VertexIndex| words::name(cluster, at).to_owned();
    let long = cluster.links().iter().zip(links).filter(|(_, length)| **length > 0);
    let one = |(link, length): (&ClusterLink, &u32)| LengthJson {
        from: name(link.from),
        to: name(link.to),
        length: *length,
    };
    long.map(one).collect()
}
