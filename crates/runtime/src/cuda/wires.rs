//! All wires of a rank: those within its node, in one place for all ranks, and those to other
//! nodes.

use msccl_fabric::Group;
use msccl_gpu::Context;
use msccl_select::{ArenaLocation, Capacity, CommonCapacity};

use super::arena::Layout;
use super::inter_node::{Carrier, InterNodeWires};
use super::links::{self, WireError, WireMemory};
use crate::error::Error;

/// Everything that messages travel in.
pub(super) struct CudaWires {
    pub place: ArenaLocation,
    /// For collectives.
    pub capacity: Capacity,
    pub links: WireMemory,
    /// Those to ranks on other nodes, if there are any.
    pub inter_node: Option<InterNodeWires>,
}

/// Makes the wires.
pub(super) struct WireMaker<'a> {
    pub group: &'a Group,
    pub context: &'a Context,
    pub common: &'a CommonCapacity,
    /// Which ranks are on this node, by rank.
    pub intra_node: &'a [bool],
    /// What carries messages to the others.
    pub carrier: Option<Carrier>,
}

impl WireMaker<'_> {
    /// In the memory of GPUs if possible and allowed, in host memory otherwise.
    pub fn make(&self, peer_memory: bool) -> Result<CudaWires, Error> {
        let allowed = self.group.all_gather(&[u8::from(peer_memory)])?;
        if allowed.iter().all(|said| said == &[1]) {
            match self.make_in(ArenaLocation::Device) {
                Err(WireError::Unmappable(_)) => {}
                made => return made.map_err(WireError::into_error),
            }
        }
        self.make_in(ArenaLocation::Host).map_err(WireError::into_error)
    }

    fn make_in(&self, place: ArenaLocation) -> Result<CudaWires, WireError> {
        let Self { group, context, common, intra_node, carrier } = self;
        let all = common.wires(place);
        let layout = Layout::new(intra_node, all);
        let inter_node = carrier.as_ref().map(|carrier| {
            InterNodeWires::new(context, carrier.clone(), layout.clone(), group.rank())
        });
        let inter_node = links::fail_together(group, inter_node.transpose())?;
        let table = inter_node.as_ref().map_or(0, InterNodeWires::table);
        let links = WireMemory::make(group, context, layout, table, place)?;
        Ok(CudaWires { place, capacity: all.for_collectives(), links, inter_node })
    }
}
