//! A cluster as the searches see it: numbers instead of names, rates as integers.

use msccl_collective::CollectiveKind;
use msccl_topology::cluster::Cluster;

use crate::bound::BoundError;

/// Vertices that are numbered, and the links between them that carry data.
#[derive(Clone, Debug)]
pub(crate) struct Graph {
    pub vertex_count: usize,
    /// The vertices that are GPUs, by rank.
    pub gpus: Vec<usize>,
    pub arcs: Vec<Arc>,
}

/// A link with a rate above 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arc {
    pub from: usize,
    pub to: usize,
    pub rate_mb_per_s: u64,
    pub latency_ns: u32,
    /// The place of the link among those of the cluster.
    pub link: usize,
}

impl Graph {
    /// The graph of `cluster`, or why it is too small.
    pub fn new(cluster: &Cluster) -> Result<Self, BoundError> {
        let gpus: Vec<usize> = cluster.gpus().map(|gpu| gpu.index()).collect();
        if gpus.len() < 2 {
            return Err(BoundError::TooFewGpus { found: gpus.len() });
        }
        let links = cluster.links().iter().enumerate();
        let arcs = links.map(|(link, it)| Arc {
            from: it.from.index(),
            to: it.to.index(),
            rate_mb_per_s: u64::from(it.rate.mb_per_s()),
            latency_ns: it.latency_ns,
            link,
        });
        let arcs = arcs.filter(|arc| arc.rate_mb_per_s > 0).collect();
        Ok(Self { vertex_count: cluster.vertices().len(), gpus, arcs })
    }

    /// The vertex of the root of `kind`, if it has one.
    pub fn root(&self, kind: CollectiveKind) -> Result<Option<usize>, BoundError> {
        let Some(root) = kind.root() else { return Ok(None) };
        match self.gpus.get(root.0 as usize) {
            Some(vertex) => Ok(Some(*vertex)),
            None => Err(BoundError::NoSuchRoot { root, ranks: self.gpus.len() }),
        }
    }

    /// The same with every link turned round.
    pub fn reversed(&self) -> Self {
        let turn = |arc: &Arc| Arc { from: arc.to, to: arc.from, ..*arc };
        Self { arcs: self.arcs.iter().map(turn).collect(), ..self.clone() }
    }

    /// The rate of all links that leave the vertices `inside`, in MB/s.
    pub fn rate_leaving(&self, inside: &[bool]) -> u64 {
        let leaving = self.arcs.iter().filter(|arc| inside[arc.from] && !inside[arc.to]);
        leaving.map(|arc| arc.rate_mb_per_s).sum()
    }

    /// The places in [`Graph::arcs`] of the links that leave each vertex.
    pub fn arcs_by_origin(&self) -> Vec<Vec<usize>> {
        let mut by_origin = vec![Vec::new(); self.vertex_count];
        for (at, arc) in self.arcs.iter().enumerate() {
            by_origin[arc.from].push(at);
        }
        by_origin
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use msccl_topology::bandwidth::Bandwidth;
    use msccl_topology::cluster::{Medium, VertexKind};

    #[test]
    fn rates_come_back_exactly() {
        let some = (0..u32::BITS).flat_map(|bit| [1 << bit, (1 << bit) - 1, u32::MAX >> bit]);
        for rate in some.chain(0..10_000).chain([4_294_967_294]) {
            let mut cluster = Cluster::new("two GPUs");
            let [one, other] =
                [0, 1].map(|gpu| cluster.add(format!("gpu{gpu}"), VertexKind::Gpu, Some(0)));
            cluster.join(one, other, Bandwidth::from_mb_per_s(rate), 900, Medium::NvLink);
            let rates: Vec<u64> =
                Graph::new(&cluster).unwrap().arcs.iter().map(|arc| arc.rate_mb_per_s).collect();
            // What carries nothing is no arc.
            assert_eq!(rates, if rate == 0 { vec![] } else { vec![u64::from(rate); 2] });
        }
    }
}
