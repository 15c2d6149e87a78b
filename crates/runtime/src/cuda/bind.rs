//! Binding: a plan and the ends of its links, in the memory of the GPU.
//!
//! What was bound stays bound until the communicator ends, because a graph may hold it. How much
//! that is depends on how many algorithms serve in how many ways, not on the number of calls.

use std::collections::HashMap;
use std::sync::Arc;

use msccl_collective::Protocol;
use msccl_gpu::{CaptureModeGuard, Context, DeviceBuffer};
use msccl_plan::Direction;
use msccl_plan::launch::LinkEnd;
use msccl_registry::Fingerprint;

use super::arena::{View, Wire};
use crate::engine::{Prepared, Waiting};
use crate::error::Error;

/// What tells bound plans apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Key {
    fingerprint: Fingerprint,
    protocol: Protocol,
    instances: u32,
}

/// A plan in the memory of the GPU.
pub(super) struct Bound {
    /// Its number among those of the communicator.
    pub number: u32,
    pub prepared: Arc<Prepared>,
    pub instances: u32,
    pub words: DeviceBuffer,
    pub links: DeviceBuffer,
}

impl Bound {
    /// Thread blocks of one instance.
    pub fn blocks(&self) -> u32 {
        self.prepared.plan.program().thread_blocks.len() as u32
    }
}

/// Everything that is bound.
#[derive(Default)]
pub(super) struct Bindings {
    known: HashMap<Key, Arc<Bound>>,
    in_order: Vec<Arc<Bound>>,
}

impl Bindings {
    /// The binding of `prepared` under `protocol` with `instances` instances, made now if there is
    /// none yet. Needs no other rank, and waits for no kernel.
    pub fn bind(
        &mut self,
        context: &Context,
        view: &View,
        prepared: &Arc<Prepared>,
        protocol: Protocol,
        instances: u32,
    ) -> Result<Arc<Bound>, Error> {
        let key = Key { fingerprint: prepared.fingerprint, protocol, instances };
        if let Some(bound) = self.known.get(&key) {
            return Ok(bound.clone());
        }
        // Somebody may be capturing; what happens here has nothing to do with that.
        let _relaxed = CaptureModeGuard::relaxed(context.device().driver())?;
        let words = words_to_bytes(prepared.plan.words());
        let links = link_table(view, prepared, protocol, instances);
        let bound = Arc::new(Bound {
            number: self.in_order.len() as u32,
            prepared: prepared.clone(),
            instances,
            words: uploaded(context, &words)?,
            links: uploaded(context, &links)?,
        });
        self.known.insert(key, bound.clone());
        self.in_order.push(bound.clone());
        Ok(bound)
    }

    /// The binding of that number.
    pub fn by_number(&self, number: u32) -> Option<&Arc<Bound>> {
        self.in_order.get(number as usize)
    }
}

fn uploaded(context: &Context, bytes: &[u8]) -> Result<DeviceBuffer, Error> {
    let buffer = DeviceBuffer::new(context, bytes.len().max(16))?;
    buffer.span().write(bytes)?;
    Ok(buffer)
}

fn words_to_bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// `msccl_link_end[instances][LINK_COUNT]`.
fn link_table(view: &View, prepared: &Prepared, protocol: Protocol, instances: u32) -> Vec<u8> {
    let ends = (0..instances).flat_map(|instance| {
        prepared.wiring.ends().iter().map(move |end| {
            let wire = Wire { protocol, number: end.wire(instance, instances) };
            view.end(end.peer, end.direction == Direction::Out, wire)
        })
    });
    ends.flat_map(link_end_bytes).collect()
}

/// The bytes of a link end as `msccl_link_end` has them.
pub(super) fn link_end_bytes(end: LinkEnd) -> impl Iterator<Item = u8> {
    let LinkEnd { slots, tail, head, counter } = end;
    [slots, tail, head, counter].into_iter().flat_map(u64::to_le_bytes)
}

impl Bound {
    /// In words, what thread block `block` of the grid waits for, as its progress entry says.
    pub fn waiting(&self, block: u32, call: u64, entry: &msccl_plan::launch::Progress) -> Waiting {
        use msccl_plan::launch::{WAITING_MESSAGE, WAITING_ROOM, WAITING_SIGNAL};
        let program = self.prepared.plan.program();
        let tb = block % self.blocks().max(1);
        let of_tb = program.thread_blocks.get(tb as usize);
        let link = |number: u32| {
            let block = of_tb?;
            let ends = block.receives.iter().chain(&block.sends);
            Some((*ends.clone().nth(number as usize)?, block.channel))
        };
        let number = entry.number;
        let (peer, what) = match (entry.kind, link(entry.subject)) {
            (WAITING_MESSAGE, Some((peer, channel))) => {
                (Some(peer), format!("message {number} from {peer} on {channel}"))
            }
            (WAITING_ROOM, Some((peer, channel))) => {
                (Some(peer), format!("room for message {number} to {peer} on {channel}"))
            }
            (WAITING_SIGNAL, _) => (None, format!("tb{} s{number}", entry.subject)),
            _ => (None, "something unknown".to_owned()),
        };
        let instance = match self.instances {
            0 | 1 => String::new(),
            _ => format!(" instance {}", block / self.blocks().max(1)),
        };
        let (step, round) = (entry.step, entry.round);
        let text = format!("tb{tb}{instance} s{step} waits for {what} (round {round})");
        Waiting { call, peer, text }
    }
}
