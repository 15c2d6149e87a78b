//! What a proof found out, in a few words.

use msccl_bounds::SwitchModel;
use msccl_collective::CollectiveKind;
use msccl_ir::Algorithm;
use msccl_simulate::link_loads;
use msccl_topology::cluster::Cluster;
use msccl_verify::{AdditionOrders, OrderShape, Verified};

/// What is known of a proved launch.
#[derive(Clone, PartialEq, Debug)]
pub struct Proof {
    /// How many ranks take part.
    pub ranks: u32,
    /// Steps of all thread blocks of all ranks.
    pub steps: usize,
    /// Thread blocks of all ranks.
    pub thread_blocks: usize,
    /// Links.
    pub links: usize,
    /// Channels.
    pub channels: u32,
    /// What the rank that sends most sends, over the larger buffer of a call.
    pub most_sent: f64,
    /// In which order it adds; `None` if it adds nothing.
    pub order: Option<String>,
    /// Whether sums are bit for bit the same on every rank.
    pub same_on_every_rank: bool,
    /// The depth of links that would do, and that of the target.
    pub link_depth: LinkDepth,
    /// The time of the busiest link over the least possible, if the machine is known.
    pub times_bound: Option<f64>,
}

/// How deep links are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkDepth {
    /// With which every call ends.
    pub least: u32,
    /// Those of the target.
    pub target: u32,
}

impl Proof {
    /// What `verified` says, on `cluster` if it is known.
    pub fn of(verified: &Verified, cluster: Option<&Cluster>) -> Self {
        let (algorithm, facts) = (verified.algorithm(), verified.facts());
        let depth = verified.target().link(algorithm.protocol).depth;
        Self {
            ranks: algorithm.collective.ranks,
            steps: algorithm.step_count(),
            thread_blocks: algorithm.thread_blocks().count(),
            links: algorithm.thread_blocks().map(|(_, _, block)| block.sends.len()).sum(),
            channels: algorithm.channel_count(),
            most_sent: most_sent(algorithm),
            order: order(&facts.addition_orders),
            same_on_every_rank: facts.same_on_every_rank && algorithm.collective.reduces(),
            link_depth: LinkDepth { least: facts.least_link_depth, target: depth },
            times_bound: cluster.and_then(|cluster| times_bound(algorithm, cluster)),
        }
    }

    /// `proved for N = 8 · 112 steps · sends ≤ 1.75 × the buffer · adds in one order: flat`.
    pub fn in_short(&self, ranks_name: &str) -> String {
        let mut parts = vec![
            format!("proved for {ranks_name} = {}", self.ranks),
            format!("{} steps", self.steps),
            format!("sends {} × the buffer", short(self.most_sent)),
        ];
        parts.extend(self.order.clone());
        parts.extend(self.times_bound.map(|times| format!("{times:.2} × the bound")));
        parts.join(" · ")
    }

    /// All of it, line by line.
    pub fn lines(&self) -> Vec<String> {
        let Self { steps, thread_blocks, links, channels, .. } = self;
        let LinkDepth { least, target } = self.link_depth;
        let same = if self.same_on_every_rank { "; the same bits on every rank" } else { "" };
        let mut lines = vec![
            format!("{steps} steps in {thread_blocks} thread blocks"),
            format!("{links} links on {channels} channels"),
            format!("no race, no deadlock on links of depth {target}; {least} would do"),
            format!("a rank sends at most {} × the buffer", short(self.most_sent)),
        ];
        lines.extend(self.order.as_ref().map(|order| format!("{order}{same}")));
        lines.extend(
            self.times_bound
                .map(|times| format!("the busiest link takes {times:.2} × the least possible")),
        );
        lines
    }
}

/// A number with at most three digits behind the point.
fn short(number: f64) -> String {
    let text = format!("{number:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// What the rank that sends most sends, over the larger buffer.
fn most_sent(algorithm: &Algorithm) -> f64 {
    let mut sent = vec![0_u64; algorithm.ranks.len()];
    for (rank, _, block) in algorithm.thread_blocks() {
        for step in &block.steps {
            sent[rank.index()] += u64::from(step.count) * step.sends().count() as u64;
        }
    }
    let most = sent.into_iter().max().unwrap_or(0);
    most as f64 / f64::from(algorithm.collective.loop_chunks().max(1))
}

fn order(orders: &AdditionOrders) -> Option<String> {
    match orders {
        AdditionOrders::NoSums => None,
        AdditionOrders::Several(count) => Some(format!("adds in {count} orders or more")),
        AdditionOrders::One(order) => Some(match order.shape() {
            OrderShape::Other => format!("adds in one order: {}", order.short_text()),
            named => format!("adds in one order: {}", named.name()),
        }),
    }
}

/// The time of the busiest link over the bound of the same collective.
fn times_bound(algorithm: &Algorithm, cluster: &Cluster) -> Option<f64> {
    const GB: u64 = 1_000_000_000;
    let collective = &algorithm.collective;
    let kind = CollectiveKind::of(&collective.kind)?;
    if cluster.gpus().count() != collective.ranks as usize {
        return None;
    }
    let (floor, _) = link_loads(algorithm, cluster).ok()?.floor_s_per_gb(cluster)?;
    let bound = msccl_bounds::bound(cluster, kind, SwitchModel::Forward).ok()?;
    Some(floor / bound.seconds(GB)).filter(|times| times.is_finite())
}
