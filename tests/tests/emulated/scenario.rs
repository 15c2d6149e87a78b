//! What is run: launch after launch in the same memory, and what must be in it afterwards.

use std::path::Path;

use msccl_collective::{DataType, Kind, Protocol, Reduction};
use msccl_plan::cut::Cut;
use msccl_plan::{Alias, Plan, Program, launch};
use msccl_runtime::host::{Executor, Job, Workers};
use msccl_verify::Verified;

use super::emulator::feed;

/// One warp: every number of threads is a multiple of 32.
pub const THREADS: u64 = 32;
const SLOT_BYTES: u64 = 256;
/// Room around buffers, so that what goes astray is seen.
const MARGIN: usize = 64;

/// A small generator of numbers; the tests must not depend on luck.
pub struct Numbers(pub u64);

impl Numbers {
    /// Any number of 31 bits.
    fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }
}

/// What ranks offer in a launch.
#[derive(Clone, Copy, Debug)]
pub enum Offers {
    /// Nothing is delivered directly.
    Off,
    /// Nobody offers anything.
    None,
    /// Everybody offers everything.
    All,
    /// Every rank offers what it has to some.
    Some,
}

/// Where a rank's buffers lie in its memory.
struct Lie {
    input: usize,
    output: usize,
    input_bytes: usize,
    output_bytes: usize,
}

/// What to run: launch after launch, these algorithms in turn, all for the same ranks.
#[derive(Clone, Copy)]
pub struct Scenario<'a> {
    pub algorithms: &'a [Verified],
    pub protocol: Protocol,
    pub count: usize,
    pub instances: u32,
    pub in_place: bool,
    pub offers: &'a [Offers],
}

/// An algorithm as it is launched.
struct Prepared<'a> {
    verified: &'a Verified,
    plans: Vec<Plan>,
    cuts: Vec<Cut>,
    lies: Vec<Lie>,
}

impl Scenario<'_> {
    /// Runs it and compares; bytes of slots that were written.
    pub fn check(&self, emulator: &Path, numbers: &mut Numbers) -> Result<u64, String> {
        let prepared: Result<Vec<_>, _> =
            self.algorithms.iter().map(|verified| self.prepare(verified, numbers)).collect();
        let prepared = prepared?;
        let lies = prepared.iter().flat_map(|it| &it.lies);
        let memory_bytes = lies.map(Lie::end).max().unwrap_or(0).next_multiple_of(8);
        let launches = || self.offers.iter().zip(prepared.iter().cycle());
        let runs: Vec<_> =
            launches().map(|(_, prepared)| self.run(prepared, memory_bytes, numbers)).collect();
        let mut words = Words::default();
        self.head(&prepared, memory_bytes, &mut words);
        for rank in prepared[0].plans.iter().map(|plan| plan.program().rank.index()) {
            for prepared in &prepared {
                let plan = prepared.plans[rank].words();
                words.put([plan.len() as u64]);
                words.bytes(plan.iter().flat_map(|word| word.to_le_bytes()));
            }
            for (launch, (offers, prepared)) in launches().enumerate() {
                words.bytes(runs[launch][rank].before.iter().copied());
                words.put([(launch % self.algorithms.len()) as u64]);
                prepared.launch(rank, &mut words, *offers, numbers);
            }
        }
        compare(&feed(emulator, &words.0)?, &runs, memory_bytes)
    }

    /// What is the same for all ranks and launches.
    fn head(&self, prepared: &[Prepared<'_>], memory_bytes: usize, words: &mut Words) {
        let programs = || prepared.iter().flat_map(|it| &it.plans).map(Plan::program);
        let most = programs().flat_map(Program::link_numbers).max().map_or(1, |most| most + 1);
        let blocks = programs().map(|program| program.thread_blocks.len()).max().unwrap_or(0);
        let (ranks, instances) = (prepared[0].plans.len(), u64::from(self.instances));
        words.put([ranks as u64, u64::from(most) * instances]);
        let target = prepared[0].verified.target();
        let depth =
            if self.protocol == Protocol::Ll { target.ll.depth } else { target.simple.depth };
        words.put([u64::from(depth), SLOT_BYTES, THREADS]);
        words.put([self.offers.len() as u64, blocks as u64 * instances]);
        words.put([memory_bytes as u64, prepared.len() as u64]);
    }

    fn prepare<'a>(
        &self,
        verified: &'a Verified,
        numbers: &mut Numbers,
    ) -> Result<Prepared<'a>, String> {
        let plans = Plan::all(verified).map_err(|error| error.to_string())?;
        let cut = |plan: &Plan| self.cut(plan);
        let cuts: Option<Vec<_>> = plans.iter().map(cut).collect();
        let cuts = cuts.ok_or("the call cannot be cut")?;
        let lies = plans.iter().map(|plan| self.lie(plan.program(), numbers)).collect();
        Ok(Prepared { verified, plans, cuts, lies })
    }

    /// How buffers are cut for a rank.
    pub fn cut(&self, plan: &Plan) -> Option<Cut> {
        let (count, instances) = (self.count as u64, self.instances);
        Cut::within(plan.program(), count, 4, instances, self.protocol, SLOT_BYTES)
    }

    /// A rank's buffers at some address that suits the elements.
    fn lie(&self, program: &Program, numbers: &mut Numbers) -> Lie {
        let geometry = &program.geometry;
        let block_bytes = 4 * self.count;
        let bytes = |chunks: u32| (chunks / geometry.block_chunks) as usize * block_bytes;
        let (input_bytes, output_bytes) =
            (bytes(geometry.input_chunks), bytes(geometry.output_chunks));
        let own = program.rank.0 as usize * block_bytes;
        let first = MARGIN + 4 * numbers.below(4) as usize;
        let (input, output) = match (self.in_place, program.alias) {
            (true, Alias::Same) => (first, first),
            (true, Alias::InputInOutput) => (first + own, first),
            (true, Alias::OutputInInput) => (first, first + own),
            (true, Alias::None) | (false, _) => {
                let second = first + input_bytes + MARGIN + 4 * numbers.below(4) as usize;
                (first, second)
            }
        };
        Lie { input, output, input_bytes, output_bytes }
    }

    /// The memory of all ranks before a launch, and what it must be after.
    fn run(&self, prepared: &Prepared<'_>, bytes: usize, numbers: &mut Numbers) -> Vec<Expected> {
        let Prepared { verified, lies, .. } = prepared;
        let filled = |_| (0..bytes).map(|_| numbers.next() as u8).collect::<Vec<_>>();
        let mut before: Vec<Vec<u8>> = lies.iter().map(filled).collect();
        if matches!(verified.algorithm().collective.kind, Kind::Custom(_)) && !self.in_place {
            // Where nothing is promised nothing may be written; the executor says 0 of that.
            let outputs = lies.iter().zip(&mut before);
            outputs.for_each(|(lie, bytes)| bytes[lie.output..][..lie.output_bytes].fill(0));
        }
        let input = |(lie, bytes): (&Lie, &Vec<u8>)| bytes[lie.input..][..lie.input_bytes].to_vec();
        let report = Executor::new(verified).unwrap().run(&Job {
            data_type: DataType::I32,
            reduction: Reduction::Sum,
            count: self.count,
            in_place: self.in_place,
            inputs: lies.iter().zip(&before).map(input).collect(),
            workers: Workers::Exactly(1),
            timeout: None,
        });
        let outputs = report.unwrap().outputs;
        let expected = lies.iter().zip(before).zip(outputs).map(|((lie, before), output)| {
            let mut after: Vec<_> = before.iter().copied().map(Some).collect();
            if self.in_place && verified.facts().overwrites_input {
                after[lie.input..][..lie.input_bytes].fill(None);
            }
            let promised = verified.facts().result_promised;
            let to = after[lie.output..][..lie.output_bytes].iter_mut().zip(output);
            to.for_each(|(to, byte)| *to = promised.then_some(byte));
            Expected { before, after }
        });
        expected.collect()
    }
}

impl Prepared<'_> {
    /// What the launch of a rank is given.
    fn launch(&self, rank: usize, words: &mut Words, offers: Offers, numbers: &mut Numbers) {
        let (lie, plan) = (&self.lies[rank], &self.plans[rank]);
        let Cut { block_bytes, chunk_bytes, part_bytes, slice_bytes, .. } = self.cuts[rank];
        let Cut { rounds, instances, chunks_per_message, .. } = self.cuts[rank];
        let offered = match offers {
            Offers::Off | Offers::None => 0,
            Offers::All => u64::MAX,
            Offers::Some => numbers.next(),
        };
        let off = matches!(offers, Offers::Off);
        words.put([lie.input as u64, lie.output as u64, u64::from(!off), offered]);
        words.put([block_bytes, chunk_bytes, part_bytes, slice_bytes]);
        words.put([rounds, instances, chunks_per_message].map(u64::from));
        words.put([u64::from(launch::Launch::default().with_plan(plan).flags)]);
    }
}

/// The memory of a rank: `None` where it may hold anything.
struct Expected {
    before: Vec<u8>,
    after: Vec<Option<u8>>,
}

impl Lie {
    fn end(&self) -> usize {
        (self.input + self.input_bytes).max(self.output + self.output_bytes) + MARGIN
    }
}

#[derive(Default)]
struct Words(Vec<u8>);

impl Words {
    fn put<const N: usize>(&mut self, words: [u64; N]) {
        self.bytes(words.into_iter().flat_map(u64::to_le_bytes));
    }

    fn bytes(&mut self, bytes: impl Iterator<Item = u8>) {
        self.0.extend(bytes);
    }
}

/// Compares what the emulator said with what was expected; bytes of slots that were written.
fn compare(output: &[u8], runs: &[Vec<Expected>], memory_bytes: usize) -> Result<u64, String> {
    let ranks = runs.first().map_or(0, Vec::len);
    let of_rank = 8 + runs.len() * memory_bytes;
    assert_eq!(output.len(), ranks * of_rank);
    let mut used = 0;
    for (rank, found) in output.chunks(of_rank).enumerate() {
        let (slots, memories) = found.split_first_chunk().unwrap();
        used += u64::from_le_bytes(*slots);
        for (launch, (found, run)) in memories.chunks(memory_bytes).zip(runs).enumerate() {
            let pairs = found.iter().zip(&run[rank].after);
            let wrong =
                pairs.clone().filter(|(found, it)| it.is_some_and(|it| it != **found)).count();
            let first = pairs.clone().position(|(found, it)| it.is_some_and(|it| it != *found));
            if let Some(at) = first {
                return Err(format!("launch {launch}, r{rank}: {wrong} bytes, the first at {at}"));
            }
        }
    }
    Ok(used)
}
