//! How a plan lies on a machine.

use msccl_collective::Protocol;

/// How the trees or paths of a plan lie on a machine.
///
/// Those of different channels have thread blocks of their own, so that they move at the same time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// The most channels for the trees of a direction, or for paths.
    pub channels: u32,
    /// Copies of everything, each on its part of every chunk.
    pub instances: u32,
    /// How messages lie in memory.
    pub protocol: Protocol,
}

impl Default for Layout {
    fn default() -> Self {
        Self { channels: 16, instances: 1, protocol: Protocol::Simple }
    }
}

/// The clauses of an algorithm.
pub(crate) fn clauses(layout: &Layout) -> String {
    let Layout { channels: _, instances, protocol } = layout;
    let mut clauses = String::new();
    if *protocol != Protocol::Simple {
        clauses += &format!("protocol {protocol} ");
    }
    if *instances > 1 {
        clauses += &format!("instances {instances}");
    }
    clauses
}
