//! Trees that [ForestColl](https://arxiv.org/abs/2402.06787) found, read from its XML.
//!
//! ```text
//! <Algo nchunkspernode="2">
//!   <tree root="(0, 'GPU', 0)" index="0" nchunks="1" height="1">
//!     <send src="(0, 'GPU', 0)" dst="(0, 'GPU', 1)"
//!           path="(0, 'GPU', 0),(0, 'NVSwitch', 0),(0, 'GPU', 1)"/>
//!     …
//! ```
//!
//! * Every GPU is the root of trees that carry `nchunkspernode` chunks of its block together.
//! * A tree carries `nchunks` chunks from its root to all other GPUs. Each of these has one
//!   `<send>` that gets there, in any order. `index` and `height` are not read.
//! * `path` says which switches a message passes. Its ends must be `src` and `dst`; between them
//!   nothing is read: a message takes the route of the machine, and what links carry is counted
//!   of the proved schedule.
//! * If all GPUs have the names of the machine's, they are these. If not, their ranks are in the
//!   order of names, where numbers count as numbers: node, then GPU.
//!
//! Nothing of a file is believed: trees that miss a GPU, reach one twice, or carry too many chunks
//! are refused with their place. So are files of more than 64 MiB, and blocks of more than 1 024
//! chunks.

mod trees;
mod xml;

/// What is wrong with a file, and where.
pub use msccl_topology::xml::ReadError as ForestCollError;

use crate::forest::Tree;

/// Trees of an all-gather over all GPUs of a machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ForestCollTrees {
    /// Chunks of a block.
    pub(crate) chunks: u32,
    /// By root, then by chunk.
    pub(crate) trees: Vec<Tree>,
}

impl ForestCollTrees {
    /// Reads `text`, for a machine whose GPUs have these names, by rank.
    ///
    /// # Errors
    ///
    /// The first thing that is not as it should be.
    ///
    /// ```
    /// # fn main() -> Result<(), msccl_synthesize::ForestCollError> {
    /// use msccl_synthesize::ForestCollTrees;
    ///
    /// let text = r#"<Algo nchunkspernode="1">
    ///   <tree root="0" index="0" nchunks="1" height="1"><send src="0" dst="1" path="0,1"/></tree>
    ///   <tree root="1" index="0" nchunks="1" height="1"><send src="1" dst="0" path="1,0"/></tree>
    /// </Algo>"#;
    /// ForestCollTrees::read(text, &["gpu0", "gpu1"])?;
    /// let error = ForestCollTrees::read(text, &["gpu0", "gpu1", "gpu2"]).unwrap_err();
    /// assert_eq!(error.place(), (1, 1));
    /// # Ok(())
    /// # }
    /// ```
    pub fn read(text: &str, gpus: &[&str]) -> Result<Self, ForestCollError> {
        let raw = xml::parse(text)?;
        let trees::Resolved { chunks, trees } = trees::resolve(text, &raw, gpus)?;
        Ok(Self { chunks, trees })
    }
}
