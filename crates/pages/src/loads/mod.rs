//! What a proved schedule puts on the links of a machine, beside what no schedule can do without.

mod json;
mod warnings;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use msccl_bounds::SwitchModel;
use msccl_collective::CollectiveKind;
use msccl_ir::Algorithm;
use msccl_simulate::{LinkLoads, link_loads, warnings as link_warnings};
use msccl_topology::cluster::{Cluster, ClusterLink, Medium};
use num_rational::Ratio;

use crate::bound::counted::counted_links;
use crate::bound::{Limits, title, words};
use crate::failure::{Failure, Result};

pub use json::LoadsJson;
pub use warnings::MachineWarning;

/// Bytes in a megabyte, in which the rates of a cluster are given.
const BYTES_PER_MB: u128 = 1_000_000;

/// The loads of an algorithm on a cluster, and the bound for its collective there.
pub struct Loads<'a> {
    /// The machine.
    pub cluster: &'a Cluster,
    /// Of every link.
    pub counted: LinkLoads,
    /// Of each medium that carries something, its busiest link; the slowest first.
    pub classes: Vec<Busiest>,
    /// What no schedule of the same collective can beat, or why there is no bound.
    pub limits: std::result::Result<Limits, String>,
    /// What its author may not mean.
    pub warnings: Vec<MachineWarning>,
}

/// The link of a medium that takes longest to carry what is put on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Busiest {
    /// Its place among the links of the cluster.
    pub place: usize,
    /// The link.
    pub link: ClusterLink,
    /// What it carries, of the bytes of a call.
    pub share: Ratio<u128>,
    /// How long that takes for each byte of a call.
    pub seconds_per_byte: Ratio<u128>,
}

impl<'a> Loads<'a> {
    /// Counts what each link of `cluster` carries, and asks for the bound.
    ///
    /// # Errors
    ///
    /// The cluster has too few GPUs, or does not join two that exchange messages.
    pub fn of(file: &str, algorithm: &Algorithm, cluster: &'a Cluster) -> Result<Self> {
        let loads = link_loads(algorithm, cluster)
            .map_err(|error| Failure::new(format!("{file} on {}: {error}", title(cluster))))?;
        let limits = limits(algorithm, cluster);
        let counted = limits.as_ref().ok();
        let counted = counted.and_then(|it| counted_links(cluster, &it.bound.witness));
        // Of links that are equally busy, one that the bound is about says most.
        let counts = |link: usize| counted.as_ref().is_some_and(|counted| counted[link]);
        let mut classes =
            busiest_of_media(&loads, cluster, |it| (counts(it.place), Reverse(it.place)));
        classes.sort_by_key(|busiest| Reverse(busiest.seconds_per_byte));
        let warnings = link_warnings::warnings(algorithm, cluster, &loads);
        let warnings = warnings.iter().map(|it| MachineWarning::of(cluster, it)).collect();
        Ok(Self { cluster, counted: loads, classes, limits, warnings })
    }

    /// What every link carries.
    pub fn counted(&self) -> &LinkLoads {
        &self.counted
    }

    /// How long the busiest link takes, over the bound.
    fn times_bound(&self) -> Option<Ratio<u128>> {
        let limits = self.limits.as_ref().ok()?;
        Some(self.classes.first()?.seconds_per_byte / limits.bound.seconds_per_byte)
    }

    /// How far from the bound the busiest link is.
    pub fn in_words(&self) -> Vec<String> {
        let Some(busiest) = self.classes.first() else { return Vec::new() };
        let Busiest { place: _, link, share, seconds_per_byte } = busiest;
        let link_name = self.link_name(link);
        let carries = format!("{link_name} carries {}", words::share(*share));
        let floor = words::seconds_per_gb(*seconds_per_byte);
        let limits = match &self.limits {
            Ok(limits) => limits,
            Err(why) => return vec![format!("{carries}: at least {floor}"), why.clone()],
        };
        let short = words::witness_in_short(self.cluster, &limits.bound);
        let compared = match (self.times_bound(), self.least_share(busiest)) {
            (Some(times), _) if times == 1.into() => {
                format!("{carries}; no schedule can do with less ({short})")
            }
            (_, Some(least)) => {
                let least = words::share(least);
                format!("{carries}; no schedule can do with less than {least} ({short})")
            }
            (_, None) => carries,
        };
        let times = self.times_bound().map_or(0.0, words::to_f64);
        vec![compared, format!("at least {floor}, {times:.2} times the bound")]
    }

    /// `gpu0 > gpu1`
    pub fn link_name(&self, link: &ClusterLink) -> String {
        let [from, to] = [link.from, link.to].map(|end| words::name(self.cluster, end));
        format!("{from} > {to}")
    }

    /// What every schedule puts at least on one of the links that the bound counts, if `busiest` is
    /// one of them and all have one rate.
    fn least_share(&self, busiest: &Busiest) -> Option<Ratio<u128>> {
        let Busiest { place, link, share: _, seconds_per_byte: _ } = busiest;
        let limits = self.limits.as_ref().ok()?;
        let counted = counted_links(self.cluster, &limits.bound.witness)?;
        let mut others = self.cluster.links().iter().zip(&counted).filter(|(_, counts)| **counts);
        let alike = counted[*place] && others.all(|(other, _)| other.rate == link.rate);
        alike.then(|| limits.bound.seconds_per_byte * mega(link))
    }
}

/// The rate of a link in bytes a second.
fn mega(link: &ClusterLink) -> u128 {
    u128::from(link.rate.mb_per_s()) * BYTES_PER_MB
}

/// Of each medium that carries something, its busiest link; of equally busy ones that with the
/// greatest `rank`.
pub fn busiest_of_media<R: Ord>(
    loads: &LinkLoads,
    cluster: &Cluster,
    rank: impl Fn(&Busiest) -> R,
) -> Vec<Busiest> {
    let mut media: BTreeMap<Medium, Busiest> = BTreeMap::new();
    for busy in busy_links(loads, cluster) {
        let key = |it: &Busiest| (it.seconds_per_byte, rank(it));
        let most = media.entry(busy.link.medium).or_insert(busy);
        if key(&busy) > key(most) {
            *most = busy;
        }
    }
    media.into_values().collect()
}

/// The links that carry something. A link without a rate carries nothing, or never ends.
fn busy_links(loads: &LinkLoads, cluster: &Cluster) -> impl Iterator<Item = Busiest> {
    let LinkLoads { chunks, chunks_of_call } = loads;
    let all = chunks.iter().zip(cluster.links()).enumerate();
    let busy = all.filter(|(_, (chunks, link))| **chunks > 0 && mega(link) > 0);
    busy.map(|(place, (chunks, link))| {
        let share = Ratio::new(u128::from(*chunks), u128::from((*chunks_of_call).max(1)));
        Busiest { place, link: *link, share, seconds_per_byte: share / mega(link) }
    })
}

/// The limits, or why there are none.
fn limits(algorithm: &Algorithm, cluster: &Cluster) -> std::result::Result<Limits, String> {
    let collective = &algorithm.collective;
    let Some(kind) = CollectiveKind::of(&collective.kind) else {
        return Err(format!("no bound: {} is a collective of its own", collective.name()));
    };
    let (ranks, gpus) = (collective.ranks as usize, cluster.gpus().count());
    if ranks != gpus {
        return Err(format!("no bound: it would be for {gpus} ranks, as many as there are GPUs"));
    }
    Limits::of(cluster, kind, SwitchModel::Forward).map_err(|failure| failure.to_string())
}
