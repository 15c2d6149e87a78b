//! Rung 3: operands, regions and waits of every step, and the step form of the target.

use msccl_collective::{Buffer, Rank, Region, Slot, StepIndex, TbIndex};
use smallvec::SmallVec;

use super::{Report, ViolationClass};
use crate::{
    Algorithm, Place, RankProgram, Step, StepForm, StepKind, StepRef, Target, ThreadBlock, Wait,
};

/// Checks every step; link ends are known to be sound.
pub(super) fn check(algorithm: &Algorithm, target: &Target, report: &mut Report) {
    for (rank, program) in algorithm.ranks.iter().enumerate() {
        let rank = Rank::from(rank);
        let scope = StepScope { algorithm, target, rank, program };
        for (tb, block) in program.thread_blocks.iter().enumerate() {
            scope.block(TbIndex::from(tb), block, report);
        }
        if report.is_full() {
            return;
        }
    }
}

/// What a step's meaning depends on.
struct StepScope<'a> {
    algorithm: &'a Algorithm,
    target: &'a Target,
    rank: Rank,
    program: &'a RankProgram,
}

/// A step in its thread block, and where to say what is wrong with it.
struct At<'a> {
    step_ref: StepRef,
    block: &'a ThreadBlock,
    report: &'a mut Report,
}

impl At<'_> {
    fn structure(&mut self, message: impl FnOnce() -> String) {
        self.report.add(ViolationClass::Structure, Some(self.step_ref), message);
    }
}

impl StepScope<'_> {
    fn block(&self, tb: TbIndex, block: &ThreadBlock, report: &mut Report) {
        for (index, step) in block.steps.iter().enumerate() {
            let step_ref = StepRef { rank: self.rank, tb, step: StepIndex::from(index) };
            let mut at = At { step_ref, block, report };
            self.step(step, &mut at);
            match self.target.form {
                StepForm::Msccl => self.msccl_form(step, index, &mut at),
                StepForm::Native => {}
            }
        }
    }

    fn step(&self, step: &Step, at: &mut At<'_>) {
        let Step { waits, sources, destinations, count } = step;
        for &wait in waits {
            self.wait(wait, at);
        }
        if sources.is_empty() && destinations.is_empty() {
            if *count != 0 {
                at.structure(|| format!("a step that only waits has count 0, not {count}"));
            }
            return;
        }
        if sources.is_empty() || destinations.is_empty() {
            at.structure(|| {
                let lack = if sources.is_empty() { "source" } else { "destination" };
                format!("a step that moves data needs at least one {lack}")
            });
        }
        if *count == 0 {
            at.structure(|| "a step that moves data has a count of at least 1, not 0".to_owned());
        }
        let (receives, sends) = (&at.block.receives, &at.block.sends);
        one_message_per_link(sources, receives, "receive from", at);
        one_message_per_link(destinations, sends, "send to", at);
        if self.regions_in_bounds(step, at) {
            self.regions_apart(step, at);
        }
    }

    fn wait(&self, wait: Wait, at: &mut At<'_>) {
        let Wait { tb, step } = wait;
        let rank = self.rank;
        let Some(block) = self.program.thread_blocks.get(tb.index()) else {
            let blocks = self.program.thread_blocks.len();
            at.structure(|| {
                format!("waits for {wait}, but {rank} has only {blocks} thread blocks")
            });
            return;
        };
        if step.index() >= block.steps.len() {
            let steps = block.steps.len();
            at.structure(|| format!("waits for {wait}, but {rank} {tb} has only {steps} steps"));
        }
    }

    fn regions_in_bounds(&self, step: &Step, at: &mut At<'_>) -> bool {
        let mut all = true;
        for region in step.reads().chain(step.writes()) {
            let chunks = self.buffer_chunks(region.start.buffer);
            let end = u64::from(region.start.index) + u64::from(region.count);
            if end > u64::from(chunks) {
                all = false;
                at.structure(|| out_of_bounds(self.rank, region, chunks));
            }
        }
        all
    }

    fn buffer_chunks(&self, buffer: Buffer) -> u32 {
        match buffer {
            Buffer::Input | Buffer::Output => {
                self.algorithm.collective.buffer_chunks(self.rank, buffer)
            }
            Buffer::Scratch => self.program.scratch_chunks,
        }
    }

    /// No destination overlaps another, nor a source in part; all regions have the same length.
    fn regions_apart(&self, step: &Step, at: &mut At<'_>) {
        let mut written: SmallVec<[Slot; 4]> =
            step.writes().map(|region| self.memory(region.start)).collect();
        written.sort_unstable();
        let near = |low: Slot, high: Slot| {
            low.buffer == high.buffer && high.index - low.index < step.count
        };
        if let Some(pair) = written.windows(2).find(|pair| near(pair[0], pair[1])) {
            let (low, high) = (pair[0].run(step.count), pair[1].run(step.count));
            at.structure(|| format!("two destinations overlap: {low} and {high}"));
        }
        for read in step.reads() {
            let start = self.memory(read.start);
            let next = written.partition_point(|&slot| slot < start);
            let below = next.checked_sub(1).map(|before| written[before]);
            let above = written.get(next).copied().filter(|&slot| slot != start);
            let partly = below.filter(|&slot| near(slot, start));
            if let Some(slot) = partly.or(above.filter(|&slot| near(start, slot))) {
                let write = slot.run(step.count);
                at.structure(|| {
                    format!("reads {read} and writes {write}, which overlap but are not the same")
                });
            }
        }
    }

    /// The slot that stands for `slot` where several may be one memory.
    fn memory(&self, slot: Slot) -> Slot {
        if self.algorithm.placement.serves_in_place() {
            self.algorithm.collective.in_place(self.rank, slot)
        } else {
            slot
        }
    }

    /// The rules that hold for MSCCL's nine kinds only.
    fn msccl_form(&self, step: &Step, index: usize, at: &mut At<'_>) {
        let target = self.target;
        if step.kind() == StepKind::Many {
            at.structure(|| {
                format!("target {target} has no step that combines these sources and destinations")
            });
        }
        if step.waits.len() > 1 {
            let waits = step.waits.len();
            at.structure(|| {
                format!("waits for {waits} steps; a step of target {target} waits for at most one")
            });
        }
        if step.kind() == StepKind::Nop {
            nop_form(step, index, at);
        }
        for wait in &step.waits {
            if self.step_at(*wait).is_some_and(|target| target.kind() == StepKind::Nop) {
                at.structure(|| format!("waits for {wait}, which is a nop and never signals"));
            }
        }
    }

    fn step_at(&self, wait: Wait) -> Option<&Step> {
        self.program.thread_blocks.get(wait.tb.index())?.steps.get(wait.step.index())
    }
}

/// A nop lends its one wait to the next step that moves data, which must have a wait of its own.
fn nop_form(step: &Step, index: usize, at: &mut At<'_>) {
    if step.waits.is_empty() {
        at.structure(|| "a nop must wait for a step; this one waits for nothing".to_owned());
    }
    let later = at.block.steps.get(index + 1..).unwrap_or_default();
    match later.first() {
        None => at.structure(|| {
            "a nop must be followed by a step of its thread block; this one is the last".to_owned()
        }),
        Some(next) if next.waits.is_empty() && next.kind() != StepKind::Nop => {
            at.structure(|| "the step after a nop must wait for a step itself".to_owned());
        }
        Some(_) => {}
    }
}

fn one_message_per_link(places: &[Place], owned: &[Rank], verb: &str, at: &mut At<'_>) {
    let mut peers: SmallVec<[Rank; 4]> = SmallVec::new();
    for place in places {
        match *place {
            Place::Local(_) => {}
            Place::Link(peer) => peers.push(peer),
        }
    }
    for &peer in peers.iter().filter(|peer| owned.binary_search(peer).is_err()) {
        let (tb, channel) = (at.step_ref.tb, at.block.channel);
        at.structure(|| format!("{tb} does not {verb} {peer} on {channel}"));
    }
    peers.sort_unstable();
    if let Some(pair) = peers.windows(2).find(|pair| pair[0] == pair[1]) {
        let peer = pair[0];
        at.structure(|| format!("a step can {verb} {peer} once, not twice"));
    }
}

fn out_of_bounds(rank: Rank, region: Region, chunks: u32) -> String {
    let buffer = region.start.buffer.name();
    match chunks {
        0 => format!("touches {region}, but {rank} has no {buffer} buffer"),
        _ => format!("touches {region}, but the {buffer} of {rank} has {chunks} chunks"),
    }
}
