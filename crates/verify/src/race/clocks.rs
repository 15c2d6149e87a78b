//! Which steps of a rank are known to have ended, by program order and waits on that rank alone.
//!
//! One vector clock per thread block, indexed by thread block. It is a lower bound of
//! happens-before: what it cannot order may still be ordered through other ranks.

use msccl_collective::Rank;
use msccl_machine::TbId;

use crate::program::{At, Program};

/// Most entries of all snapshots of a rank. Beyond, clocks are simply less sharp.
const MOST_SNAPSHOT_ENTRIES: usize = 1 << 26;

/// The clocks of one rank's thread blocks.
pub(super) struct Clocks {
    first_tb: u32,
    width: usize,
    /// Row by row: entry `(b, a)` is how many steps of block `a` have ended for block `b`. Empty if
    /// no step of the rank waits.
    now: Vec<u32>,
    /// Whether a block's row has any entry at all.
    joined: Vec<bool>,
    /// Position in the rank of every block's first step.
    first_step: Vec<u32>,
    /// What is kept of every step of the rank for those who wait for it.
    kept: Vec<Kept>,
    /// Rows as they stood at the end of waited-for steps.
    snapshots: Vec<u32>,
    /// The snapshot that still equals a block's row.
    current: Vec<Option<u32>>,
}

/// The clock at the end of a step, if anybody waits for it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    /// Nobody waits for this step.
    No,
    /// Somebody does; the step has not ended, or its block knew of no other.
    Awaited,
    /// The snapshot.
    Snapshot(u32),
}

impl Clocks {
    pub(super) fn new(program: &Program<'_>, rank: Rank) -> Self {
        let tbs = program.wiring.tbs_of(rank);
        let width = tbs.len();
        let mut first_step = vec![0];
        for tb in tbs.clone() {
            let steps = program.wiring.block(TbId(tb)).steps.len() as u32;
            first_step.push(first_step[first_step.len() - 1] + steps);
        }
        let mut clocks = Self {
            first_tb: tbs.start,
            width,
            now: Vec::new(),
            joined: vec![false; width],
            kept: vec![Kept::No; first_step[width] as usize],
            first_step,
            snapshots: Vec::new(),
            current: vec![None; width],
        };
        for tb in tbs.map(TbId) {
            for wait in program.wiring.block(tb).steps.iter().flat_map(|step| &step.waits) {
                let awaited = clocks.first_step[wait.tb.index()] + wait.step.0;
                clocks.kept[awaited as usize] = Kept::Awaited;
                clocks.now.resize(width * width, 0);
            }
        }
        clocks
    }

    /// A step begins: what it waits for has ended, with all that that knew.
    pub(super) fn enter(&mut self, at: At, waits: impl Iterator<Item = At>) {
        let row = self.local(at.tb);
        for wait in waits {
            let target = self.local(wait.tb);
            let entry = &mut self.now[row * self.width + target];
            if *entry > wait.step {
                continue;
            }
            *entry = wait.step + 1;
            self.joined[row] = true;
            self.current[row] = None;
            if let Kept::Snapshot(snapshot) = self.kept[self.position(wait)] {
                self.join(row, snapshot);
            }
        }
    }

    /// A step has ended.
    pub(super) fn leave(&mut self, at: At) {
        let row = self.local(at.tb);
        let position = self.position(at);
        if self.kept[position] == Kept::Awaited && self.joined[row] {
            self.kept[position] = self.snapshot(row).map_or(Kept::Awaited, Kept::Snapshot);
        }
    }

    /// Whether `earlier` has ended for what thread block `tb` does now.
    pub(super) fn ordered(&self, earlier: At, tb: TbId) -> bool {
        let entry = self.local(tb) * self.width + self.local(earlier.tb);
        earlier.tb == tb || self.now.get(entry).is_some_and(|&ended| ended > earlier.step)
    }

    fn join(&mut self, row: usize, snapshot: u32) {
        let width = self.width;
        let from = &self.snapshots[snapshot as usize * width..][..width];
        let into = &mut self.now[row * width..][..width];
        for (into, &from) in into.iter_mut().zip(from) {
            *into = from.max(*into);
        }
    }

    /// The row as a snapshot, shared while the row does not change.
    fn snapshot(&mut self, row: usize) -> Option<u32> {
        if self.current[row].is_none() && self.snapshots.len() < MOST_SNAPSHOT_ENTRIES {
            self.current[row] = Some((self.snapshots.len() / self.width) as u32);
            self.snapshots.extend_from_slice(&self.now[row * self.width..][..self.width]);
        }
        self.current[row]
    }

    fn local(&self, tb: TbId) -> usize {
        (tb.0 - self.first_tb) as usize
    }

    fn position(&self, at: At) -> usize {
        (self.first_step[self.local(at.tb)] + at.step) as usize
    }
}
