//! Which calls to make, and what they gave.

use std::time::{Duration, Instant};

use msccl_collective::{Collective, DataType, Reduction, SizeRange};
use msccl_ir::Algorithm;
use msccl_runtime::oracle::{self, Checked, CheckedCall, Executor, Report, Workers};
use msccl_verify::Verified;

use crate::args::{RunArgs, RunDevice};
use crate::size::{ByteSize, range_in_words};

/// Sizes run if none is requested: one where latency rules, one in between, one where bandwidth
/// does.
const USUAL_SIZES: [ByteSize; 3] = [ByteSize(1 << 10), ByteSize(64 << 10), ByteSize(4 << 20)];

/// Runs of each call if nothing is requested, and how long they may take together.
const USUAL_ITERATIONS: u32 = 10;
const USUAL_BUDGET: Duration = Duration::from_secs(1);

/// The calls to make.
pub struct Plan {
    /// The calls.
    pub calls: Vec<Call>,
    /// The type of every element.
    pub data_type: DataType,
    /// How contributions combine.
    pub reduction: Reduction,
    /// Whether input and output share memory.
    pub in_place: bool,
    /// Runs of each call, if that was requested.
    iterations: Option<u32>,
    workers: Workers,
    timeout: Duration,
}

/// One call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Call {
    /// Elements of one block.
    pub count: u64,
    /// Size of the larger buffer.
    pub size: ByteSize,
}

/// A call, and what it gave.
pub struct Row {
    /// The call.
    pub call: Call,
    /// What it gave, or why nothing.
    pub outcome: Result<Timing, String>,
}

/// What a call that went well gave.
#[derive(Clone, Debug)]
pub struct Timing {
    /// Shortest run, in µs.
    pub min_us: f64,
    /// Median of the runs, in µs.
    pub median_us: f64,
    /// How often the call was made.
    pub runs: usize,
    /// What each took to run, as far as is known.
    pub effort: Effort,
    /// Output elements compared with the reference.
    pub compared: usize,
}

/// What it takes to run a call, where the executor reports that.
#[derive(Clone, Copy, Default, Debug)]
pub struct Effort {
    /// How often the program ran, each time on another slice of the chunks.
    pub rounds: Option<usize>,
    /// Messages over links.
    pub messages: Option<u64>,
    /// Threads that ran it.
    pub workers: Option<usize>,
}

/// One run, without its outputs.
pub struct Run {
    /// From the start of the first thread block to the end of the last, in µs.
    pub elapsed_us: f64,
    /// What it took.
    pub effort: Effort,
    /// Output elements compared with the reference.
    pub compared: usize,
}

/// Copies of its larger buffer that each rank of a call on the host has: what it starts from, what
/// it works on, what it gave, and what is promised.
const COPIES: u64 = 4;

/// Makes sure that the system does not refuse right away what a call of `size` on `ranks` ranks
/// takes.
fn expect_memory(ranks: u32, size: ByteSize) -> Result<(), String> {
    let bytes = size.0.saturating_mul(COPIES).saturating_mul(ranks.into());
    let total_bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    Vec::<u8>::new().try_reserve_exact(total_bytes).map_err(|_| {
        let bytes = ByteSize(bytes);
        format!(
            "a call of {size} takes {bytes} on {ranks} ranks, and there is not so much memory; \
                 give a smaller --size"
        )
    })
}

/// Makes sure that the algorithm serves calls of `size`.
fn expect_served(algorithm: &Algorithm, size: ByteSize) -> Result<(), String> {
    if algorithm.sizes.contains(size.0) {
        return Ok(());
    }
    let served = range_in_words(algorithm.sizes);
    Err(format!("expected a --size that the algorithm serves ({served}), found {size}"))
}

/// Runs an algorithm.
pub trait Machine {
    /// Makes a call and compares its result with the reference.
    ///
    /// # Errors
    ///
    /// It is not served, does not end, or gives a wrong result: in words.
    fn run(&mut self, trial: &CheckedCall) -> Result<Run, String>;

    /// Whether to end, if this process thinks so when `time_is_up`.
    fn ends(&mut self, time_is_up: bool) -> bool {
        time_is_up
    }
}

impl Machine for Executor {
    fn run(&mut self, trial: &CheckedCall) -> Result<Run, String> {
        let checked = oracle::check(self, trial).map_err(|fault| fault.to_string())?;
        let Checked { report, compared } = checked;
        let Report { outputs: _, elapsed_us, messages, message_bytes: _, rounds, workers } = report;
        let (rounds, messages, workers) = (Some(rounds), Some(messages), Some(workers));
        Ok(Run { elapsed_us, effort: Effort { rounds, messages, workers }, compared })
    }
}

impl Plan {
    /// What `args` request.
    ///
    /// # Errors
    ///
    /// A call beyond the address space, or of a size that is not served, or on the host one for
    /// which there is no memory.
    pub fn of(verified: &Verified, args: &RunArgs) -> Result<Self, String> {
        let algorithm = verified.algorithm();
        let element_bytes = args.data_type.size_bytes() as u64;
        let block_bytes = blocks(&algorithm.collective).saturating_mul(element_bytes).max(1);
        let (range, chunks) = (algorithm.sizes, algorithm.collective.chunks.max(1));
        let elements = if verified.facts().serves_any_count { 1 } else { u64::from(chunks) };
        let counts: Vec<u64> = match (args.count.as_slice(), args.size.as_slice()) {
            ([], []) => usual_counts(range, Grain { block_bytes, elements })?,
            ([], sizes) => {
                let grain = Grain { block_bytes, elements };
                sizes.iter().map(|size| grain.count_of(*size, range)).collect()
            }
            (counts, _) => counts.to_vec(),
        };
        let call = |count: u64| {
            let bytes = count.checked_mul(block_bytes).filter(|&bytes| bytes <= 1 << 40);
            let size = bytes.map(ByteSize);
            size.map(|size| Call { count, size })
                .ok_or_else(|| format!("a call of {count} elements a block is larger than 1 TiB"))
        };
        let calls: Vec<Call> = counts.into_iter().map(call).collect::<Result<_, _>>()?;
        calls.iter().try_for_each(|call| expect_served(algorithm, call.size))?;
        if args.device == RunDevice::Host {
            let ranks = algorithm.collective.ranks;
            calls.iter().try_for_each(|call| expect_memory(ranks, call.size))?;
        }
        Ok(Self {
            calls,
            data_type: args.data_type,
            reduction: args.op,
            in_place: algorithm.placement.serves_in_place(),
            iterations: args.iterations,
            workers: args
                .threads
                .map_or(Workers::Available, |count| Workers::Exactly(count as usize)),
            timeout: args.timeout,
        })
    }

    fn trial(&self, call: Call, iteration: u32) -> CheckedCall {
        CheckedCall {
            data_type: self.data_type,
            reduction: self.reduction,
            count: usize::try_from(call.count).unwrap_or(usize::MAX),
            in_place: self.in_place,
            seed: u64::from(iteration),
            workers: self.workers,
            timeout: Some(self.timeout),
        }
    }
}

/// Blocks in the larger buffer of a call.
fn blocks(collective: &Collective) -> u64 {
    u64::from(collective.loop_chunks() / collective.chunks.max(1))
}

/// The steps in which calls of an algorithm grow.
#[derive(Clone, Copy)]
struct Grain {
    /// Bytes of a call of which every block has one element.
    block_bytes: u64,
    /// Of how many elements counts are multiples.
    elements: u64,
}

impl Grain {
    fn bytes(self) -> u64 {
        self.block_bytes.saturating_mul(self.elements).max(1)
    }

    /// Whether calls of so many grains are served.
    fn serves(self, range: SizeRange, grains: u64) -> bool {
        grains.checked_mul(self.bytes()).is_some_and(|bytes| range.contains(bytes))
    }

    /// The elements a block of a call of `size`: enough for it, or as many as it holds where only
    /// that is served.
    fn count_of(self, size: ByteSize, range: SizeRange) -> u64 {
        let (enough, held) = (size.0.div_ceil(self.bytes()), size.0 / self.bytes());
        let only_held = !self.serves(range, enough) && self.serves(range, held);
        self.count(if only_held { held } else { enough })
    }

    fn count(self, grains: u64) -> u64 {
        grains.saturating_mul(self.elements)
    }
}

/// The counts of [`USUAL_SIZES`] as far as the algorithm serves them; otherwise the smallest that
/// it serves, and the largest unless that is beyond them.
fn usual_counts(range: SizeRange, grain: Grain) -> Result<Vec<u64>, String> {
    let bytes = grain.bytes();
    let usual = USUAL_SIZES.iter().map(|size| size.0.div_ceil(bytes));
    let mut served: Vec<u64> = usual.filter(|grains| grain.serves(range, *grains)).collect();
    served.dedup();
    if served.is_empty() {
        // A call of nothing shows nothing.
        let first = range.min_bytes.div_ceil(bytes).max(1);
        let last = range.max_bytes.map_or(first, |max| max / bytes);
        if last < first {
            let range = range_in_words(range);
            return Err(format!(
                "calls have a multiple of {bytes} bytes, and the algorithm serves no such size: it \
                 serves {range}; give another --type"
            ));
        }
        let [.., largest] = USUAL_SIZES;
        let also_last = last > first && last.saturating_mul(bytes) <= largest.0;
        served = [first].into_iter().chain(also_last.then_some(last)).collect();
    }
    Ok(served.into_iter().map(|grains| grain.count(grains)).collect())
}

/// Makes one call as often as planned.
pub fn measure(machine: &mut dyn Machine, plan: &Plan, call: Call) -> Row {
    let started = Instant::now();
    let mut runs = Vec::new();
    for iteration in 0..plan.iterations.unwrap_or(USUAL_ITERATIONS) {
        match machine.run(&plan.trial(call, iteration)) {
            Ok(run) => runs.push(run),
            Err(fault) => return Row { call, outcome: Err(fault) },
        }
        if plan.iterations.is_none() && machine.ends(started.elapsed() > USUAL_BUDGET) {
            break;
        }
    }
    Row { call, outcome: Ok(Timing::of(&runs)) }
}

impl Timing {
    /// The summary of at least one run.
    fn of(runs: &[Run]) -> Self {
        let mut times: Vec<f64> = runs.iter().map(|run| run.elapsed_us).collect();
        times.sort_by(f64::total_cmp);
        Self {
            min_us: times.first().copied().unwrap_or(0.0),
            median_us: times.get(times.len() / 2).copied().unwrap_or(0.0),
            runs: runs.len(),
            effort: runs.last().map_or_else(Effort::default, |run| run.effort),
            compared: runs.iter().map(|run| run.compared).sum(),
        }
    }
}

impl Row {
    /// Whether every run gave the right result.
    pub fn is_right(&self) -> bool {
        self.outcome.is_ok()
    }

    /// Algorithm bandwidth of the median run in GB/s: the size of the call by its time.
    pub fn bandwidth_gb_s(&self) -> Option<f64> {
        let timing = self.outcome.as_ref().ok()?;
        (timing.median_us > 0.0).then(|| self.call.size.0 as f64 / timing.median_us / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(min_bytes: u64, max_bytes: Option<u64>, grain: [u64; 2], expected: &[u64]) {
        let range = SizeRange { min_bytes, max_bytes };
        let [block_bytes, elements] = grain;
        let counts = usual_counts(range, Grain { block_bytes, elements }).unwrap();
        assert_eq!(counts, expected, "{range:?} in steps of {elements} times {block_bytes} bytes");
        let is_served = |count: &u64| range.contains(count * block_bytes);
        assert!(counts.iter().all(is_served), "{range:?}");
    }

    #[test]
    fn usual_calls_are_served() {
        check(0, None, [4, 1], &[256, 16 << 10, 1 << 20]);
        check(2048, Some(1 << 20), [4, 1], &[16 << 10]);
        // The last size before a power of two is no whole number of floats.
        check(1 << 20, Some((2 << 20) - 1), [4, 1], &[262_144, 524_287]);
        check(1 << 20, Some((2 << 20) - 2), [8, 1], &[131_072, 262_143]);
        check(32 << 20, Some(16 << 30), [4, 1], &[8 << 20]);
        check(5 << 20, None, [4, 1], &[1_310_720]);
        check(1, Some(5), [4, 1], &[1]);
        check(1000, Some(1000), [4, 1], &[250]);
        check(0, Some(64), [12, 1], &[1, 5]);
        check(1001, Some(1007), [4, 1], &[251]);
        check(0, None, [4, 3], &[258, 16_386, 1_048_578]);
        check(1001, Some(1040), [4, 5], &[260]);
        check(2001, Some(2040), [4, 5], &[505, 510]);
        check(0, None, [8 << 20, 1], &[1]);
    }

    #[test]
    fn sizes_that_no_call_has_are_refused() {
        let refused = |min_bytes, max_bytes, block_bytes| {
            let range = SizeRange { min_bytes, max_bytes: Some(max_bytes) };
            usual_counts(range, Grain { block_bytes, elements: 1 }).unwrap_err()
        };
        assert!(
            refused(1001, 1003, 4).contains("a multiple of 4 bytes, and the algorithm serves no")
        );
        assert!(refused(0, 3, 4).contains("give another --type"));
    }

    #[test]
    fn sizes_between_are_rounded_to_what_is_served() {
        let range = SizeRange { min_bytes: 1024, max_bytes: Some(2047) };
        let grain = Grain { block_bytes: 4, elements: 1 };
        let counts = [1022, 1025, 2047].map(|size| grain.count_of(ByteSize(size), range));
        assert_eq!(counts, [256, 257, 511]);
    }
}
