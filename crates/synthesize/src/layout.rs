//! How a plan lies on a machine.

use msccl_collective::{Protocol, SizeRange};

/// How the trees, paths or levels of a plan lie on a machine.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Layout {
    /// Over which thread blocks they are spread.
    pub spread: BlockSpread,
    /// Copies of everything, each on its part of every chunk.
    pub instances: u32,
    /// How messages lie in memory.
    pub protocol: Protocol,
    /// The calls that the program is to serve.
    pub sizes: SizeRange,
}

/// Over which thread blocks of a rank the work of an instance is spread.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BlockSpread {
    /// One does everything: no waiting for one another, which small calls would feel.
    OneBlock,
    /// Those of channels, a thread block for each peer. Different channels have thread blocks of
    /// their own, so that they move data at the same time: this is the most channels for the trees
    /// of a direction, or for paths. Each phase of levels has one channel.
    Channels(u32),
}

impl Default for Layout {
    fn default() -> Self {
        Self {
            spread: BlockSpread::Channels(16),
            instances: 1,
            protocol: Protocol::Simple,
            sizes: SizeRange::ALL,
        }
    }
}

/// The hint that puts everything on one thread block.
pub(crate) const ONE_BLOCK: &str = "on tb 0";

/// The clauses of an algorithm.
pub(crate) fn clauses(layout: &Layout) -> String {
    let Layout { spread: _, instances, protocol, sizes } = layout;
    let mut clauses = String::new();
    if *protocol != Protocol::Simple {
        clauses += &format!("protocol {protocol} ");
    }
    if *instances > 1 {
        clauses += &format!("instances {instances} ");
    }
    let SizeRange { min_bytes, max_bytes } = *sizes;
    let from = bytes(min_bytes);
    match max_bytes.and_then(|most| most.checked_add(1)) {
        None if min_bytes == 0 => {}
        None => clauses += &format!("bytes {from}.."),
        Some(end) => clauses += &format!("bytes {from}..{}", bytes(end)),
    }
    clauses
}

/// A size as programs have it.
fn bytes(size: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let unit = UNITS.into_iter().find(|(_, unit)| size > 0 && size.is_multiple_of(*unit));
    unit.map_or_else(|| size.to_string(), |(name, unit)| format!("{}{name}", size / unit))
}
