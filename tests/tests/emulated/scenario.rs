//! Launches, one after another in the same memory: what is run, and how it is given to the
//! emulator.

use std::path::Path;

use msccl_collective::{DataType, Kind, Protocol, Reduction};
use msccl_plan::cut::Cut;
use msccl_plan::launch;
use msccl_plan::{Alias, Alignment, LowLatency, LowLatencyPlan, OperandPlacement, Plan, Program};
use msccl_runtime::oracle::{Executor, OracleCall, Workers};
use msccl_testkit::Numbers;
use msccl_trace::record::Record;
use msccl_verify::Verified;

use crate::emulator::feed;
use crate::memory::{Expected, Lie, Words, compare, of_rank, split_records};

/// The fewest that a block has under protocol Simple.
pub const THREADS: u64 = 96;
pub const SLOT_BYTES: u64 = 256;
/// Slots in which a thread has several packets.
pub const LARGE_SLOT_BYTES: u64 = 4096;
pub const SIMPLE: Protocol = Protocol::Simple;
/// The kernel for ranks that offer nothing, as the emulator counts.
const PUSH_ONLY: u64 = 4;
/// Room around buffers, so that what goes astray is seen.
pub const MARGIN: usize = 64;

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
    /// Nobody offers anything, nor does it in the next launch.
    Never,
}

/// What to run: launch after launch, these algorithms in turn, all for the same ranks.
#[derive(Clone, Copy)]
pub struct Scenario<'a> {
    pub algorithms: &'a [Verified],
    pub protocol: Protocol,
    pub data_type: DataType,
    pub reduction: Reduction,
    pub slot_bytes: u64,
    pub count: usize,
    pub instances: u32,
    pub in_place: bool,
    /// How far behind a multiple of 16 bytes buffers begin; each anywhere that suits the elements
    /// if nothing is said.
    pub offset: Option<usize>,
    pub offers: &'a [Offers],
    /// What follows from it befalls the ranks; 0: nothing does, and every launch must be done.
    pub failure: u64,
}

/// What came of a scenario.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// Bytes of slots that were written.
    pub used: u64,
    /// Launches that were done.
    pub done: usize,
}

/// What the emulator has said, and what it must have said.
struct Played {
    output: Vec<u8>,
    /// By launch and rank.
    runs: Vec<Vec<Expected>>,
    memory_bytes: usize,
    /// Thread blocks of the largest launch.
    blocks: usize,
}

/// An algorithm as it is launched.
pub struct Prepared<'a> {
    pub verified: &'a Verified,
    pub plans: Vec<Plan>,
    pub cuts: Vec<Cut>,
    pub lies: Vec<Lie>,
}

impl Scenario<'_> {
    /// What most tests have in common.
    pub const USUAL: Scenario<'static> = Scenario {
        algorithms: &[],
        protocol: SIMPLE,
        data_type: DataType::I32,
        reduction: Reduction::Sum,
        slot_bytes: SLOT_BYTES,
        count: 205,
        instances: 1,
        in_place: false,
        offset: None,
        offers: &[],
        failure: 0,
    };

    /// Runs it and compares; bytes of slots that were written.
    pub fn check(&self, emulator: &Path, numbers: &mut Numbers) -> Result<u64, String> {
        self.play(emulator, numbers).map(|outcome| outcome.used)
    }

    /// Runs it and compares what was done.
    pub fn play(&self, emulator: &Path, numbers: &mut Numbers) -> Result<Outcome, String> {
        let Played { output, runs, memory_bytes, blocks: _ } = self.run_all(emulator, numbers)?;
        self.judge(&output, &runs, memory_bytes)
    }

    /// Runs it on an emulator with records, and compares; the records by rank and thread block.
    pub fn record(
        &self,
        emulator: &Path,
        numbers: &mut Numbers,
    ) -> Result<Vec<Vec<Vec<Record>>>, String> {
        let Played { output, runs, memory_bytes, blocks } = self.run_all(emulator, numbers)?;
        let (output, records) = split_records(&output, of_rank(&runs, memory_bytes), blocks);
        self.judge(&output, &runs, memory_bytes)?;
        Ok(records)
    }

    /// Compares what was done, which is all unless something fails.
    fn judge(
        &self,
        output: &[u8],
        runs: &[Vec<Expected>],
        memory_bytes: usize,
    ) -> Result<Outcome, String> {
        let outcome = compare(output, runs, memory_bytes)?;
        let all: usize = runs.iter().map(Vec::len).sum();
        if self.failure == 0 && outcome.done != all {
            return Err(format!("{} of {all} launches were done", outcome.done));
        }
        Ok(outcome)
    }

    /// Runs it.
    fn run_all(&self, emulator: &Path, numbers: &mut Numbers) -> Result<Played, String> {
        let prepared: Result<Vec<_>, _> =
            self.algorithms.iter().map(|verified| self.prepare(verified, numbers)).collect();
        let prepared = prepared?;
        let memory_bytes = memory_bytes(&prepared);
        let launches = || self.offers.iter().zip(prepared.iter().cycle());
        let runs: Vec<_> =
            launches().map(|(_, prepared)| self.run(prepared, memory_bytes, numbers)).collect();

        let mut words = Words::default();
        let blocks = self.begin(&mut words, &prepared, memory_bytes);
        for rank in prepared[0].plans.iter().map(|plan| plan.program().rank.index()) {
            for prepared in &prepared {
                prepared.put_plan(rank, &mut words);
            }
            for (launch, (offers, prepared)) in launches().enumerate() {
                words.bytes(runs[launch][rank].before.iter().copied());
                words.put([(launch % self.algorithms.len()) as u64]);
                prepared.launch((rank, launch), self, &mut words, *offers, numbers);
            }
        }
        let output = feed(emulator, &words.0)?;
        Ok(Played { output, runs, memory_bytes, blocks })
    }

    /// What comes before the ranks; thread blocks of the largest launch.
    pub fn begin(
        &self,
        words: &mut Words,
        prepared: &[Prepared<'_>],
        memory_bytes: usize,
    ) -> usize {
        let programs = || prepared.iter().flat_map(|it| &it.plans).map(Plan::program);
        let most = programs().flat_map(Program::link_numbers).max().map_or(1, |most| most + 1);
        let blocks = programs().map(|program| program.thread_blocks.len()).max().unwrap_or(0);
        let (ranks, instances) = (prepared[0].plans.len(), u64::from(self.instances));
        let blocks = blocks * self.instances as usize;
        words.put([ranks as u64, u64::from(most) * instances]);
        let depth = prepared[0].verified.target().link(self.protocol).depth;
        words.put([u64::from(depth), self.slot_bytes, THREADS]);
        words.put([self.offers.len(), blocks].map(|word| word as u64));
        let combined = programs().any(combines);
        let data_type = if combined { self.data_type } else { self.carried() };
        let number = DataType::ALL.iter().position(|of| *of == data_type).unwrap();
        words.put([memory_bytes, prepared.len(), number].map(|word| word as u64));
        words.put([self.failure]);
        blocks
    }

    pub fn prepare<'a>(
        &self,
        verified: &'a Verified,
        numbers: &mut Numbers,
    ) -> Result<Prepared<'a>, String> {
        let plans = Plan::all(verified).map_err(|error| error.to_string())?;
        self.prepare_plans(verified, plans, numbers)
    }

    /// The same with these `plans` of it.
    pub fn prepare_plans<'a>(
        &self,
        verified: &'a Verified,
        plans: Vec<Plan>,
        numbers: &mut Numbers,
    ) -> Result<Prepared<'a>, String> {
        let cut = |plan: &Plan| self.cut(plan);
        let cuts: Option<Vec<_>> = plans.iter().map(cut).collect();
        let cuts = cuts.ok_or("the call cannot be cut")?;
        let lies = plans.iter().map(|plan| self.lie(plan.program(), numbers)).collect();
        Ok(Prepared { verified, plans, cuts, lies })
    }

    pub fn cut(&self, plan: &Plan) -> Option<Cut> {
        let (count, element) = (self.count as u64, self.element() as u64);
        let (protocol, slot_bytes) = (self.protocol, self.slot_bytes);
        Cut::within(plan.program(), count, element, self.instances, protocol, slot_bytes)
    }

    /// Bytes of an element.
    pub fn element(&self) -> usize {
        self.data_type.size_bytes()
    }

    /// The type of kernels for algorithms that combine nothing.
    pub fn carried(&self) -> DataType {
        if self.data_type.is_float() { self.data_type } else { CARRIED }
    }

    /// What special kernels of `plan` are told.
    pub fn launched(&self, plan: &Plan, ranks: u32) -> launch::Launch {
        let [reduction, divisor] = self.reducing(plan.program());
        let usual = launch::Launch::default().with_plan(plan);
        let launch = launch::Launch { ranks, reduction, divisor, ..usual };
        launch.with_cut(&self.cut(plan).unwrap())
    }

    /// What a launch of `program` is told: number of the reduction, and contributions to an
    /// average.
    pub fn reducing(&self, program: &Program) -> [u32; 2] {
        let of = program.average.map_or(0, |average| average.of);
        match self.reduction {
            Reduction::Avg if self.data_type.is_float() => [launch::REDUCTION_AVERAGE, of],
            Reduction::Avg => [launch::REDUCTION_SUM, of],
            Reduction::Sum => [launch::REDUCTION_SUM, 0],
            other => panic!("no {other} here"),
        }
    }

    /// Puts the largest number and the least one here and there.
    pub fn put_extremes(&self, bytes: &mut [u8], numbers: &mut Numbers) {
        let [largest, least] = match self.data_type {
            DataType::F16 => [0x7bff, 1],
            DataType::Bf16 => [0x7f7f, 1],
            DataType::F32 => [0x7f7f_ffff, 1],
            DataType::F64 => [0x7fef_ffff_ffff_ffff, 1],
            DataType::F8E4M3 => [0x7e, 1],
            DataType::F8E5M2 => [0x7b, 1],
            _ => return,
        };
        for element in bytes.chunks_exact_mut(self.element()) {
            let bits: u64 = match numbers.below(4) {
                0 => largest,
                1 => least,
                _ => continue,
            };
            let sign = if numbers.below(2) == 0 { 0x80 } else { 0 };
            element.copy_from_slice(&bits.to_le_bytes()[..self.element()]);
            element[self.element() - 1] |= sign;
        }
    }

    /// A rank's buffers.
    pub fn lie(&self, program: &Program, numbers: &mut Numbers) -> Lie {
        let geometry = &program.geometry;
        let block_bytes = self.element() * self.count;
        let bytes = |chunks: u32| (chunks / geometry.block_chunks) as usize * block_bytes;
        let (input_bytes, output_bytes) =
            (bytes(geometry.input_chunks), bytes(geometry.output_chunks));
        let own = program.rank.0 as usize * block_bytes;
        let mut anywhere = || self.element() * numbers.below(16 / self.element() as u64) as usize;
        let mut shift = || self.offset.unwrap_or_else(&mut anywhere);
        let first = MARGIN + shift();
        let (input, output) = match (self.in_place, program.alias) {
            (true, Alias::Same) => (first, first),
            (true, Alias::InputInOutput) => (first + own, first),
            (true, Alias::OutputInInput) => (first, first + own),
            (true, Alias::None) | (false, _) => {
                let second = (first + input_bytes).next_multiple_of(MARGIN) + MARGIN + shift();
                (first, second)
            }
        };
        Lie { input, output, input_bytes, output_bytes }
    }

    /// The memory of all ranks before a launch, and what it must be after.
    pub fn run(
        &self,
        prepared: &Prepared<'_>,
        bytes: usize,
        numbers: &mut Numbers,
    ) -> Vec<Expected> {
        let Prepared { verified, lies, .. } = prepared;
        // Floats that are finite, and whose sums are.
        let used = if self.data_type.is_float() { 0xbf } else { 0xff };
        let filled = |_| (0..bytes).map(|_| numbers.next() as u8 & used).collect::<Vec<_>>();
        let mut before: Vec<Vec<u8>> = lies.iter().map(filled).collect();
        if self.reduction == Reduction::Avg {
            for (lie, bytes) in lies.iter().zip(&mut before) {
                self.put_extremes(&mut bytes[lie.input..][..lie.input_bytes], numbers);
            }
        }
        if matches!(verified.algorithm().collective.kind, Kind::Custom(_)) && !self.in_place {
            // Where nothing is promised nothing may be written; the executor says 0 of that.
            let outputs = lies.iter().zip(&mut before);
            outputs.for_each(|(lie, bytes)| bytes[lie.output..][..lie.output_bytes].fill(0));
        }
        let input = |(lie, bytes): (&Lie, &Vec<u8>)| bytes[lie.input..][..lie.input_bytes].to_vec();
        let report = Executor::new(verified).unwrap().run(&OracleCall {
            data_type: self.data_type,
            reduction: self.reduction,
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

/// Bytes of memory with room for the buffers of any rank.
pub fn memory_bytes(prepared: &[Prepared<'_>]) -> usize {
    let lies = prepared.iter().flat_map(|it| &it.lies);
    lies.map(Lie::end).max().unwrap_or(0).next_multiple_of(8)
}

impl Prepared<'_> {
    /// The plan of a rank.
    pub fn put_plan(&self, rank: usize, words: &mut Words) {
        let plan = self.plans[rank].words();
        words.put([plan.len() as u64]);
        words.bytes(plan.iter().flat_map(|word| word.to_le_bytes()));
    }

    /// What launch number `number` of a rank is given.
    pub fn launch(
        &self,
        (rank, number): (usize, usize),
        scenario: &Scenario<'_>,
        words: &mut Words,
        offers: Offers,
        numbers: &mut Numbers,
    ) {
        let (lie, plan) = (&self.lies[rank], &self.plans[rank]);
        let Cut { block_bytes, chunk_bytes, part_bytes, slice_bytes, .. } = self.cuts[rank];
        let Cut { rounds, instances, chunks_per_message, .. } = self.cuts[rank];
        let offered = match offers {
            Offers::Off | Offers::None | Offers::Never => 0,
            Offers::All => u64::MAX,
            Offers::Some => numbers.next(),
        };
        let off = matches!(offers, Offers::Off);
        words.put([lie.input as u64, lie.output as u64, u64::from(!off), offered]);
        words.put([block_bytes, chunk_bytes, part_bytes, slice_bytes]);
        words.put([rounds, instances, chunks_per_message].map(u64::from));
        words.put([u64::from(launch::Launch::default().with_plan(plan).flags)]);
        words.put(scenario.reducing(plan.program()).map(u64::from));
        words.put([match (self.kind((rank, number), scenario.protocol), offers) {
            (0, Offers::Never) => PUSH_ONLY,
            (kind, _) => kind,
        }]);
    }

    /// What runs a launch, as the emulator counts. A kernel for small calls every other launch of a
    /// rank, and of the ranks every other one begins with it.
    pub fn kind(&self, (rank, number): (usize, usize), protocol: Protocol) -> u64 {
        let Lie { input, output, .. } = self.lies[rank];
        let (plan, cut) = (&self.plans[rank], &self.cuts[rank]);
        let small = self.small(rank, protocol).filter(|_| (number + rank).is_multiple_of(2));
        match small {
            None => {
                let launch = launch_of((plan, cut), (input, output));
                u64::from(launch.alignment(OperandPlacement::of(plan)) != Alignment::Full16)
            }
            Some(LowLatency::Aligned) => 2,
            Some(LowLatency::Unaligned) => 3,
        }
    }

    /// Which kernel for small calls can run the launches of a rank.
    pub fn small(&self, rank: usize, protocol: Protocol) -> Option<LowLatency> {
        let Lie { input, output, .. } = self.lies[rank];
        let depth = self.verified.target().link(protocol).depth;
        small((&self.plans[rank], &self.cuts[rank]), (protocol, depth), (input, output))
    }
}

/// The type of kernels for algorithms that combine nothing, whatever they move.
pub const CARRIED: DataType = DataType::U64;

/// Whether some step of a rank combines what it reads.
pub fn combines(program: &Program) -> bool {
    let steps = program.thread_blocks.iter().flat_map(|block| &block.steps);
    steps.into_iter().any(|step| step.sources.len() > 1)
}

/// Which kernel for small calls can run a call of buffers that lie at `input` and `output`, cut so.
pub fn small(
    (plan, cut): (&Plan, &Cut),
    (protocol, link_depth): (Protocol, u32),
    (input, output): (usize, usize),
) -> Option<LowLatency> {
    let launch = launch::Launch { link_depth, ..launch_of((plan, cut), (input, output)) };
    launch.low_latency(LowLatencyPlan::of(plan)?, protocol, THREADS as u32)
}

/// A call of buffers that lie at `input` and `output`, cut so.
pub fn launch_of((plan, cut): (&Plan, &Cut), (input, output): (usize, usize)) -> launch::Launch {
    let (input, output) = (input as u64, output as u64);
    let launch = launch::Launch { input, output, ..launch::Launch::default() };
    launch.with_plan(plan).with_cut(cut)
}
