//! Links of a run, which are made when they are first used.

use super::super::effective_bytes;
use super::super::parse::{Block, Transfer};
use super::super::proxy::Wire;
use super::{ELEMENT_BYTES, Fifo, Run};

impl Run<'_> {
    pub(super) fn link(&mut self, from: i64, to: i64, channel: i64) -> usize {
        let next = self.fifos.len();
        let link = *self.ends.entry((from, to, channel)).or_insert(next);
        if link == next {
            let wire = self.wire(from, to, channel);
            self.fifos.push(Fifo { wire, ..Fifo::default() });
        }
        link
    }

    /// The proxies of a link, if its ranks are on different nodes.
    pub(super) fn wire(&self, from: i64, to: i64, channel: i64) -> Option<Wire> {
        let size = i64::from(self.call.ranks_per_node.max(1));
        if from / size == to / size {
            return None;
        }
        let program = &self.programs[usize::try_from(from).ok()?];
        let blocks = program.blocks.iter();
        let of_link = blocks.filter(|block| (block.send, block.channel) == (to, channel));
        let sends = of_link.flat_map(|block| &block.transfers).filter(|it| it.kind.sends());
        let messages =
            sends.map(|transfer| (transfer.count as u64).div_ceil(self.max_count as u64));
        let (protocol, collective) = (self.protocol(), &program.collective);
        let chunk_bytes = self.call.chunk_elements * ELEMENT_BYTES;
        let effective = effective_bytes(protocol, collective);
        Some(Wire::new(protocol, collective, messages.sum(), chunk_bytes, effective))
    }

    pub(super) fn outgoing(
        &mut self,
        at: usize,
        code: &Block,
        transfer: &Transfer,
    ) -> Option<usize> {
        let rank = i64::from(self.blocks[at].rank);
        transfer.kind.sends().then(|| self.link(rank, code.send, code.channel))
    }

    pub(super) fn incoming(
        &mut self,
        at: usize,
        code: &Block,
        transfer: &Transfer,
    ) -> Option<usize> {
        let rank = i64::from(self.blocks[at].rank);
        transfer.kind.receives().then(|| self.link(code.receive, rank, code.channel))
    }
}
