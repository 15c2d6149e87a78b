//! Trees that are found at once, one for each root, for when there is no time for better ones.
//!
//! A tree takes one rank after the other, each by the pair of which the busiest link is least busy
//! then, by all trees so far. So links are shared, and trees may be high.

use num_rational::Ratio;

use crate::forest::{Tree, TreeEdge};
use crate::network::{Network, Pair};

/// A tree of one chunk from each of `roots`, from where messages lead to all ranks.
pub(crate) fn trees(network: &Network, roots: &[usize]) -> Vec<Tree> {
    let mut leaving = vec![Vec::new(); network.gpus.len()];
    for (at, pair) in network.pairs.iter().enumerate() {
        leaving[pair.from].push(at);
    }
    let mut growth = Growth { network, leaving, loads: vec![0; network.links.len()] };
    roots.iter().map(|root| growth.tree(*root)).collect()
}

struct Growth<'a> {
    network: &'a Network,
    /// By rank: the pairs whose messages begin there.
    leaving: Vec<Vec<usize>>,
    /// By link, in chunks.
    loads: Vec<u64>,
}

/// The pair by which a rank may be reached: the least comes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct NextEdge {
    /// What its busiest link takes then.
    time: Ratio<u64>,
    /// How far from the root it leads.
    depth: u32,
    pair: usize,
}

impl Growth<'_> {
    fn tree(&mut self, root: usize) -> Tree {
        let mut best: Vec<Option<NextEdge>> = vec![None; self.leaving.len()];
        let mut is_reached = vec![false; self.leaving.len()];
        let mut edges = Vec::with_capacity(self.leaving.len());
        is_reached[root] = true;
        self.offer(root, 1, &is_reached, &mut best);
        loop {
            let open = (0..best.len()).filter(|rank| !is_reached[*rank]);
            let Some(NextEdge { time, depth, pair }) = open.filter_map(|rank| best[rank]).min()
            else {
                break;
            };
            let Pair { from, to, route } = &self.network.pairs[pair];
            // Its links may have become busier since.
            let now = self.time_with(pair);
            if now > time {
                best[*to] = Some(NextEdge { time: now, depth, pair });
                continue;
            }
            route.iter().for_each(|link| self.loads[*link] += 1);
            is_reached[*to] = true;
            edges.push(TreeEdge { parent: *from as u32, child: *to as u32 });
            self.offer(*to, depth + 1, &is_reached, &mut best);
        }
        Tree { root: root as u32, first_chunk: 0, chunks: 1, edges }
    }

    /// Lets `from` reach others where that is better.
    fn offer(&self, from: usize, depth: u32, is_reached: &[bool], best: &mut [Option<NextEdge>]) {
        for &pair in &self.leaving[from] {
            let to = self.network.pairs[pair].to;
            if is_reached[to] {
                continue;
            }
            let old = best[to].map(|old| NextEdge { time: self.time_with(old.pair), ..old });
            let new = NextEdge { time: self.time_with(pair), depth, pair };
            best[to] = Some(old.map_or(new, |old| old.min(new)));
        }
    }

    /// What the busiest link of `pair` takes with one more chunk.
    fn time_with(&self, pair: usize) -> Ratio<u64> {
        let Network { links, pairs, .. } = self.network;
        let time = |link: &usize| Ratio::new_raw(self.loads[*link] + 1, links[*link].rate_mb_per_s);
        pairs[pair].route.iter().map(time).max().unwrap_or(Ratio::new_raw(0, 1))
    }
}
