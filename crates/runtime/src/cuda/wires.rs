//! All wires of a rank: those within its node, in one place for all ranks, and those to other nodes.

use std::sync::Arc;

use msccl_fabric::Group;
use msccl_gpu::Context;
use msccl_proxy::Proxy;

use super::arena::Layout;
use super::capacity::{self, Common};
use super::links::{self, Links, Place, Unmade};
use super::remote::Remote;
use crate::engine::Capacity;
use crate::error::Error;

/// Everything that messages travel in.
pub(super) struct Wires {
    pub place: Place,
    /// For collectives.
    pub capacity: Capacity,
    pub links: Links,
    /// Those to ranks on other hosts, if there are any.
    pub remote: Option<Remote>,
}

/// Makes the wires.
pub(super) struct Maker<'a> {
    pub group: &'a Group,
    pub context: &'a Context,
    pub common: &'a Common,
    /// Which ranks are on this node, by rank.
    pub near: &'a [bool],
    /// What carries messages to the others.
    pub proxy: Option<Arc<Proxy>>,
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
        let Self { group, context, common, near, proxy } = self;
        let all = common.wires(place);
        let layout = Layout::new(near, all);
        let remote = proxy
            .as_ref()
            .map(|proxy| Remote::new(context, proxy.clone(), layout.clone(), group.rank()));
        let remote = links::agree(group, remote.transpose())?;
        let table = remote.as_ref().map_or(0, Remote::table);
        let links = Links::make(group, context, layout, table, place)?;
        Ok(Wires { place, capacity: capacity::for_collectives(all), links, remote })
    }
}
