//! All wires of a rank: those within its node, in one place for all ranks, and those to other nodes.

use msccl_fabric::Group;
use msccl_gpu::Context;

use super::arena::Layout;
use super::capacity::{self, Common};
use super::inter_node::{Carrier, InterNodeWires};
use super::links::{self, Links, Place, Unmade};
use crate::engine::Capacity;
use crate::error::Error;

/// Everything that messages travel in.
pub(super) struct Wires {
    pub place: Place,
    /// For collectives.
    pub capacity: Capacity,
    pub links: Links,
    /// Those to ranks on other nodes, if there are any.
    pub inter_node: Option<InterNodeWires>,
}

/// Makes the wires.
pub(super) struct Maker<'a> {
    pub group: &'a Group,
    pub context: &'a Context,
    pub common: &'a Common,
    /// Which ranks are on this node, by rank.
    pub near: &'a [bool],
    /// What carries messages to the others.
    pub carrier: Option<Carrier>,
}

impl Maker<'_> {
    /// In the memory of GPUs if possible and allowed, in host memory otherwise.
    pub fn make(&self, peer_memory: bool) -> Result<Wires, Error> {
        let allowed = self.group.all_gather(&[u8::from(peer_memory)])?;
        if allowed.iter().all(|said| said == &[1]) {
            match self.make_in(Place::Device) {
                Err(Unmade::Unmappable(_)) => {}
                made => return made.map_err(Unmade::into_error),
            }
        }
        self.make_in(Place::Host).map_err(Unmade::into_error)
    }

    fn make_in(&self, place: Place) -> Result<Wires, Unmade> {
        let Self { group, context, common, near, carrier } = self;
        let all = common.wires(place);
        let layout = Layout::new(near, all);
        let inter_node = carrier.as_ref().map(|carrier| {
            InterNodeWires::new(context, carrier.clone(), layout.clone(), group.rank())
        });
        let inter_node = links::fail_together(group, inter_node.transpose())?;
        let table = inter_node.as_ref().map_or(0, InterNodeWires::table);
        let links = Links::make(group, context, layout, table, place)?;
        Ok(Wires { place, capacity: capacity::for_collectives(all), links, inter_node })
    }
}
