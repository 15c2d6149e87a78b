//! Trees that carry a collective.

use num_rational::Ratio;

use crate::network::Network;

/// Trees over all ranks of which each carries some chunks of its root's block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Forest {
    /// Chunks of a block; of the whole buffer, if there is one root.
    pub chunks: u32,
    /// The trees.
    pub trees: Trees,
    /// What the busiest link takes for a byte of the call, as planned.
    pub seconds_per_byte: Ratio<u128>,
}

/// Trees over all ranks, by root, then by chunk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Trees {
    /// Each by itself.
    Listed(Vec<Tree>),
    /// Those of many equal nodes.
    Nested(NestedTrees),
}

/// The trees of the block of a rank are, over nodes, those of its node, between the ranks with its
/// local rank; and then in every node those of its local rank.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NestedTrees {
    /// How many nodes.
    pub nodes: u32,
    /// Ranks of a node.
    pub per_node: u32,
    /// Over nodes, with nodes in the place of ranks.
    pub across: Vec<Tree>,
    /// In a node, with local ranks in the place of ranks.
    pub within: Vec<Tree>,
}

/// A tree over all ranks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tree {
    /// Where it begins.
    pub root: u32,
    /// The first of its chunks, within the block of the root.
    pub first_chunk: u32,
    /// How many chunks it carries.
    pub chunks: u32,
    /// From the root outwards: every edge begins at a rank that is reached before. Sums go against
    /// the edges.
    pub edges: Vec<TreeEdge>,
}

/// Two ranks of a tree that exchange messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TreeEdge {
    /// The one nearer to the root.
    pub parent: u32,
    /// The other one.
    pub child: u32,
}

impl Tree {
    /// How many edges the longest way from the root has.
    pub fn height(&self) -> u32 {
        let mut depths = vec![0; self.edges.len() + 1];
        for TreeEdge { parent, child } in &self.edges {
            depths[*child as usize] = depths[*parent as usize] + 1;
        }
        depths.into_iter().max().unwrap_or(0)
    }
}

impl Trees {
    /// How many trees are written down.
    pub fn count(&self) -> usize {
        match self {
            Trees::Listed(trees) => trees.len(),
            Trees::Nested(nested) => nested.across.len() + nested.within.len(),
        }
    }

    /// How many edges the longest way from a root has.
    pub fn height(&self) -> u32 {
        let most = |trees: &[Tree]| trees.iter().map(Tree::height).max().unwrap_or(0);
        match self {
            Trees::Listed(trees) => most(trees),
            Trees::Nested(nested) => most(&nested.across) + most(&nested.within),
        }
    }

    fn with_chunks_times(self, times: u32) -> Self {
        let cut = |tree: Tree| Tree {
            first_chunk: tree.first_chunk * times,
            chunks: tree.chunks * times,
            ..tree
        };
        let all = |trees: Vec<Tree>| trees.into_iter().map(cut).collect();
        match self {
            Trees::Listed(trees) => Trees::Listed(all(trees)),
            Trees::Nested(NestedTrees { nodes, per_node, across, within }) => {
                let (across, within) = (all(across), all(within));
                Trees::Nested(NestedTrees { nodes, per_node, across, within })
            }
        }
    }

    /// By sender, then by receiver: the chunks that go from one of `ranks` to the other.
    fn sent(&self, ranks: usize) -> Vec<u128> {
        let mut sent = vec![0_u128; ranks * ranks];
        let mut add = |from: u32, to: u32, chunks: u32| {
            sent[from as usize * ranks + to as usize] += u128::from(chunks);
        };
        match self {
            Trees::Listed(trees) => each_edge(trees, |edge, chunks| {
                add(edge.parent, edge.child, chunks);
            }),
            Trees::Nested(NestedTrees { nodes, per_node, across, within }) => {
                each_edge(across, |TreeEdge { parent, child }, chunks| {
                    for local in 0..*per_node {
                        add(parent * per_node + local, child * per_node + local, chunks);
                    }
                });
                each_edge(within, |TreeEdge { parent, child }, chunks| {
                    for node in 0..*nodes {
                        let first = node * per_node;
                        add(first + parent, first + child, chunks * nodes);
                    }
                });
            }
        }
        sent
    }
}

fn each_edge(trees: &[Tree], mut visit: impl FnMut(TreeEdge, u32)) {
    for tree in trees {
        tree.edges.iter().for_each(|edge| visit(*edge, tree.chunks));
    }
}

impl Forest {
    /// `trees` that carry `chunks` chunks of a block together, on `network`.
    pub(crate) fn new(chunks: u32, trees: Trees, network: &Network) -> Self {
        let forest = Self { chunks, trees, seconds_per_byte: Ratio::from_integer(0) };
        let seconds_per_byte = forest.seconds_per_byte_on(network);
        Self { seconds_per_byte, ..forest }
    }

    /// The forest of equal nodes of a forest over nodes and one of a node.
    pub(crate) fn nested(across: Self, within: Self, network: &Network) -> Self {
        let chunks = lcm(u128::from(across.chunks), u128::from(within.chunks)) as u32;
        let of = |forest: Self| {
            let ranks = forest.ranks();
            match forest.with_chunks(chunks).trees {
                Trees::Listed(trees) => (trees, ranks),
                Trees::Nested(_) => (Vec::new(), ranks),
            }
        };
        let ((across, nodes), (within, per_node)) = (of(across), of(within));
        let trees = Trees::Nested(NestedTrees { nodes, per_node, across, within });
        Self::new(chunks, trees, network)
    }

    /// Over how many ranks each tree is.
    fn ranks(&self) -> u32 {
        match &self.trees {
            Trees::Listed(trees) => trees.first().map_or(0, |tree| tree.edges.len() as u32 + 1),
            Trees::Nested(nested) => nested.nodes * nested.per_node,
        }
    }

    /// The same with each chunk cut into as many as make `chunks` a block, a multiple.
    pub(crate) fn with_chunks(self, chunks: u32) -> Self {
        let times = chunks / self.chunks.max(1);
        Self { chunks, trees: self.trees.with_chunks_times(times), ..self }
    }

    /// What the busiest link of `network` takes for a byte of the call.
    pub(crate) fn seconds_per_byte_on(&self, network: &Network) -> Ratio<u128> {
        let ranks = network.gpus.len();
        let chunks_of_call = match &self.trees {
            Trees::Listed(trees) => trees.iter().map(|tree| u128::from(tree.chunks)).sum(),
            Trees::Nested(_) => u128::from(self.chunks) * ranks as u128,
        };
        network.seconds_per_byte(&self.trees.sent(ranks), chunks_of_call)
    }
}

/// Whether messages lead from every root to all ranks.
pub(crate) fn is_connected(network: &Network, roots: &[usize]) -> bool {
    let mut next = vec![Vec::new(); network.gpus.len()];
    network.pairs.iter().for_each(|pair| next[pair.from].push(pair.to));
    roots.iter().all(|root| {
        let mut is_reached = vec![false; network.gpus.len()];
        let mut open = vec![*root];
        while let Some(rank) = open.pop() {
            if !std::mem::replace(&mut is_reached[rank], true) {
                open.extend(next[rank].iter().filter(|to| !is_reached[**to]));
            }
        }
        is_reached.into_iter().all(|it| it)
    })
}

/// The least number that both divide; zero if one is zero.
pub(crate) fn lcm(one: u128, other: u128) -> u128 {
    let mut rest = (one, other);
    while rest.1 != 0 {
        rest = (rest.1, rest.0 % rest.1);
    }
    one / rest.0.max(1) * other
}
